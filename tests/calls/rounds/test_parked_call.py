from __future__ import annotations

import anyio
import pytest
from hub.calls.rounds.parked_call import ParkedCall

from hub.calls.caller import ClientCaller
from hub.children.clients import InputNeededError
from hub.jsonrpc.messages import Message, Notification
from hub.jsonrpc.peer import RpcError
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.protocol.input_requests import ELICITATION
from hub.protocol.request_state import NO_RETRY, ChildInputRound
from hub.sessions.client import Client
from hub.values import JsonObject, ServerName
from tests.kit.fakes import RecordingOutlet
from tests.kit.rigs import FakeClient, Rig, remote, rig

FILES = remote("files")
FORMS: JsonObject = {"elicitation": {}}


def modern(at: Rig) -> FakeClient:
    client = at.client()
    client.session.greeted(Client("modern", "2026-07-28", FORMS, {}))
    return client


def parked(client: FakeClient, token: str | None = None) -> ParkedCall:
    return ParkedCall(
        ClientCaller(client.session, client.outlet, token), lambda _: None, anyio.CancelScope()
    )


async def test_a_question_after_the_end_or_of_an_unwilling_client_is_refused() -> None:
    async with rig({}, {}) as at:
        call = parked(modern(at))
        with pytest.raises(RpcError) as caught:
            await call.ask("sampling/createMessage", {})
        assert caught.value.code == METHOD_NOT_FOUND
        call.end({})
        call.end({"n": "too late"})
        with pytest.raises(RpcError, match="the call is over"):
            await call.ask(ELICITATION, {})
        assert await call.turn(call.first) == {}


async def test_a_client_that_takes_forms_alone_is_said_to_take_no_urls() -> None:
    async with rig({}, {}) as at:
        with pytest.raises(RpcError, match="does not support elicitation/create in URL mode"):
            await parked(modern(at)).ask(ELICITATION, {"mode": "url", "url": "https://x"})


async def test_an_error_of_the_call_is_the_requests() -> None:
    async with rig({}, {}) as at:
        call = parked(modern(at))
        call.end(RpcError(-1, "no"))
        with pytest.raises(RpcError, match="no"):
            await call.turn(call.first)


async def test_what_is_told_between_two_rounds_goes_out_with_the_next() -> None:
    async with rig({}, {}) as at:
        call = parked(modern(at), "token")
        with anyio.move_on_after(0):
            await call.turn(call.first)
        assert not call.is_present
        assert call.progress is not None
        await call.progress({"progress": 1})
        listener, outlet = at.client(), RecordingOutlet()
        await call.tell(FILES, Notification("notifications/message", {"data": 1}))
        call.end({})
        await call.turn(ClientCaller(listener.session, outlet, None))
        assert [line["params"] for line in outlet.lines] == [{"data": 1}]


async def test_a_call_that_was_given_up_is_not_kept_for_a_retry() -> None:
    async with rig({}, {}) as at:
        call = parked(modern(at))
        call.end({})
        call.give_up("enough")
        assert call.reason == "enough"
        assert call.fetched.is_set()


async def test_what_is_on_its_way_from_the_round_before_comes_first() -> None:
    async with rig({}, {}) as at:
        client, first = modern(at), RecordingOutlet()
        caller = ClientCaller(client.session, first, "token", tasks=at.tasks)
        call = ParkedCall(caller, lambda _: None, anyio.CancelScope())
        first.stuck = True
        await caller.report({"progress": 1})
        call.end({})
        second = ClientCaller(client.session, RecordingOutlet(), "token")
        with anyio.move_on_after(0.01) as scope:
            await call.turn(second)
        assert scope.cancelled_caught


async def test_a_call_speaks_for_the_client_that_made_it() -> None:
    async with rig({}, {}) as at:
        client = modern(at)
        call = parked(client)
        assert call.session == client.session.key
        assert call.party == client.session.party
        assert call.retry is NO_RETRY
        assert call.progress is None
        await call.flush()
        call.done()
        with pytest.raises(InputNeededError) as caught:
            await call.inputs(FILES, {}, ChildInputRound(ServerName("files"), (), {}, "s"))
        assert caught.value.state.child is not None


async def test_nothing_is_told_in_a_round_after_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.calls.rounds.parked_call.GATHER", 0)
    logged = Notification("notifications/message", {"level": "info", "data": 1})
    read = anyio.Event()
    async with rig({}, {}) as at:
        client = modern(at)
        client.session.notifier.log_level = "info"

        class Slow(RecordingOutlet):
            async def send(self, message: Message) -> None:
                await read.wait()
                await super().send(message)
                if len(self.messages) == 1:
                    # The child speaks on before who waits for what it has said so far goes on.
                    at.tasks.start_soon(call.tell, FILES, logged)
                    at.tasks.start_soon(report, 2)

        first = Slow()
        caller = ClientCaller(client.session, first, "token", tasks=at.tasks)
        call = ParkedCall(caller, lambda _: None, anyio.CancelScope())

        async def report(done: int) -> None:
            assert call.progress is not None
            await call.progress({"progress": done})

        await report(1)

        async def ask() -> None:
            with pytest.raises(RpcError, match="did not answer in time"):
                await call.ask(ELICITATION, {})

        async def turn() -> None:
            with pytest.raises(InputNeededError):
                await call.turn(call.first)

        at.tasks.start_soon(ask)
        async with anyio.create_task_group() as rounds:
            rounds.start_soon(turn)
            await anyio.wait_all_tasks_blocked()
            read.set()
        await anyio.wait_all_tasks_blocked()
        assert [line["params"]["progress"] for line in first.lines] == [1]
        call.end({})
        second = RecordingOutlet()
        await call.turn(ClientCaller(client.session, second, None, tasks=at.tasks))
        assert second.messages == [logged]
