from __future__ import annotations

import anyio
import pytest
from msgspec import Raw

from hub.calls.caller import ClientCaller
from hub.children.clients import InputNeededError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, as_object
from hub.protocol.input_requests import ELICITATION, ELICITED, SAMPLING, ChildInputRound
from hub.sessions.client import Client
from hub.values import JsonObject, ServerName
from tests.kit.fakes import RecordingOutlet, failure
from tests.kit.loops import virtual_time
from tests.kit.rigs import Rig, RigClient, remote, rig

FILES = remote("files")
LOG = Notification("notifications/message", {"level": "info", "data": 1})
BOTH: JsonObject = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
ROUND = ChildInputRound(ServerName("files"), (), {}, "s")
URL: JsonObject = {"mode": "url", "message": "Go", "url": "https://example.com"}


def caller_of(client: RigClient, token: str | None = None) -> ClientCaller:
    return ClientCaller(client.session, client.outlet, token, client.rig.tasks)


def modern(at: Rig) -> RigClient:
    client = at.client()
    client.session.greeted(Client("modern", "2026-07-28", BOTH, {}))
    return client


async def test_what_a_child_tells_during_a_call_goes_out_through_that_call() -> None:
    async with rig({}, {}) as at:
        client, response = at.client(), RecordingOutlet()
        caller = ClientCaller(client.session, response, None, at.tasks)
        assert caller.has_told_all
        await caller.tell(FILES, LOG)
        assert not caller.has_told_all
        await caller.flush()
        assert caller.has_told_all
        assert response.messages == [LOG]
        assert client.outlet.messages == []
        assert caller.session == client.session.key


async def test_reports_reach_the_client_under_its_own_token() -> None:
    async with rig({}, {}) as at:
        response = RecordingOutlet()
        caller = ClientCaller(at.client().session, response, "mine", at.tasks)
        assert caller.progress is not None
        await caller.progress(Raw(b'{"progressToken":7,"progress":1}'))
        await caller.flush()
        assert response.messages == [
            Notification("notifications/progress", {"progressToken": "mine", "progress": 1})
        ]


async def test_a_client_without_a_token_wants_no_reports() -> None:
    async with rig({}, {}) as at:
        caller = ClientCaller(at.client().session, RecordingOutlet(), None, at.tasks)
        assert caller.progress is None
        await caller.flush()


async def test_a_childs_question_is_answered_by_the_client_of_the_call() -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.answers["sampling/createMessage"] = {"role": "assistant"}
        caller = ClientCaller(client.session, client.outlet, None, at.tasks)
        assert as_object(await caller.ask("sampling/createMessage", {})) == {"role": "assistant"}


async def test_a_client_of_the_handshake_era_is_asked_one_thing_after_the_other() -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities=BOTH)
        client.answers = {SAMPLING: {"role": "assistant"}, ELICITATION: {"action": "accept"}}
        caller = caller_of(client)
        wanted: dict[str, JsonObject] = {
            "a": {"method": SAMPLING, "params": {"x": 1}},
            "b": {"method": ELICITATION, "params": URL},
            "c": {"method": ELICITATION, "params": {"message": "m"}},
        }
        assert await caller.inputs(FILES, wanted, ROUND) == {
            "a": {"role": "assistant"},
            "b": {"action": "accept"},
            "c": {"action": "accept"},
        }
        asked = [line["params"] for line in client.outlet.lines if line["method"] == ELICITATION]
        caller.done()
        caller.done()
        await caller.flush()
        (done,) = client.outlet.notified(ELICITED)
        assert done.params == {"elicitationId": asked[0]["elicitationId"]}
        assert "elicitationId" not in asked[1]


async def test_a_client_that_answers_with_an_error_or_cannot_be_asked_ends_the_call() -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.answers[SAMPLING] = failure(-1, "the user said no")
        for method, why in ((SAMPLING, "the user said no"), (ELICITATION, "does not support")):
            with pytest.raises(RpcError, match=why):
                await caller_of(client).inputs(FILES, {"a": {"method": method}}, ROUND)


@virtual_time
async def test_a_child_that_asks_for_nothing_is_called_again_after_a_pause() -> None:
    pauses: list[float] = []
    async with rig({}, {}) as at:
        caller = caller_of(at.client())
        for _ in range(8):
            began = anyio.current_time()
            assert await caller.inputs(FILES, {}, ROUND) == {}
            pauses.append(round(anyio.current_time() - began, 6))
    assert pauses == [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_a_modern_client_is_asked_by_the_result_and_told_of_no_end() -> None:
    async with rig({}, {}) as at:
        client = modern(at)
        caller = caller_of(client)
        caller.consented = "yes"
        wanted: dict[str, JsonObject] = {"a": {"method": SAMPLING}}
        for requests in (wanted, {}):
            with pytest.raises(InputNeededError) as caught:
                await caller.inputs(FILES, requests, ROUND)
            assert caught.value.requests == requests
            assert caught.value.state.child is ROUND
            assert caught.value.state.consented == "yes"
        caller.done()
        await anyio.lowlevel.checkpoint()
        assert client.outlet.messages == []
