from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from msgspec import Raw

from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, InternalError, LostError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import Failure, Notification, Payload, Request, Response, lost
from hub.jsonrpc.peer import CANCEL_GRACE, LAST_GRACE, Asked, Peer, Serve
from hub.jsonrpc.requests import MAX_ASKED, MAX_UNSENT, UNSAID, Progress
from hub.protocol.constants import INTERNAL_ERROR
from hub.values import Json, JsonObject
from tests.kit.fakes import RecordingOutlet, Signals
from tests.kit.loops import all_tasks_blocked, virtual_time


async def echo(asked: Asked) -> Payload:
    return {"echo": asked.request.params}


class Somebody:
    """On whose behalf a request is made."""

    def __init__(self, progress: Progress | None = None, reason: str = UNSAID) -> None:
        self.progress = progress
        self.reason = reason


class PeerTalk:
    """A peer whose other side is the test."""

    def __init__(self, tasks: anyio.abc.TaskGroup, serve: Serve) -> None:
        self.outlet = RecordingOutlet()
        self.tasks = tasks
        self.notifications: list[Notification] = []
        self.peer = Peer(
            self.outlet,
            serve=serve,
            notified=self._notified,
            tasks=tasks,
        )
        self.results: list[object] = []
        self.signals = Signals()

    async def _notified(self, notification: Notification) -> None:
        self.notifications.append(notification)

    async def ask(
        self,
        method: str = "m",
        request_owner: Somebody | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as Peer.request
    ) -> None:
        """Ask, and keep what came of it."""
        try:
            self.results.append(
                await self.peer.request(
                    method, {"x": 1}, timeout=timeout, request_owner=request_owner
                )
            )
        except (RpcError, SilentError, GoneError) as exc:
            self.results.append(exc)
        self.signals.moved()

    async def outcome(self) -> object:
        await self.signals.until(lambda: bool(self.results))
        return self.results[0]

    async def cancel(self, id_: int | str) -> None:
        await self.peer.receive(Notification("notifications/cancelled", {"requestId": id_}))


@asynccontextmanager
async def talking(serve: Serve = echo) -> AsyncGenerator[PeerTalk]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            yield PeerTalk(tasks, serve)
            tasks.cancel_scope.cancel()


async def test_an_answer_finds_its_question_whatever_the_order() -> None:
    asked: list[Request] = []
    async with talking() as talk:
        results: dict[int, Payload] = {}

        async def one(number: int) -> None:
            results[number] = await talk.peer.request("m", {"n": number}, timeout=5)

        async with anyio.create_task_group() as tasks:
            for number in range(64):
                tasks.start_soon(one, number)
            asked += [await talk.outlet.next_request() for _ in range(64)]
            for request in reversed(asked):
                await talk.peer.receive(Response(request.id, {"for": request.params["n"]}))
    assert results == {number: {"for": number} for number in range(64)}
    assert len({request.id for request in asked}) == 64


async def test_an_error_comes_back_whole() -> None:
    error = Raw(b'{"code":-32001,"message":"no","data":{"n":1e400},"more":1}')
    async with talking() as talk:
        talk.tasks.start_soon(talk.ask)
        request = await talk.outlet.next_request()
        await talk.peer.receive(Failure(request.id, error))
        failed = await talk.outcome()
    assert isinstance(failed, RpcError)
    assert (failed.code, str(failed), failed.error) == (-32001, "no", error)


@pytest.mark.parametrize(
    ("answered", "code", "message"),
    [
        ({"code": "EACCES", "message": "no"}, INTERNAL_ERROR, "no"),
        ({"code": -5, "data": 1}, -5, "error"),
        ({"code": True, "message": None}, INTERNAL_ERROR, "error"),
        ({}, INTERNAL_ERROR, "error"),
    ],
)
def test_an_error_that_is_not_well_made_goes_on_inside_one_that_is(
    answered: JsonObject, code: int, message: str
) -> None:
    failed = RpcError.received(answered)
    assert (failed.code, str(failed)) == (code, message)
    assert failed.error == {"code": code, "message": message, "data": answered}


@pytest.mark.parametrize(
    "error", [b'"boom"', b"null", b"[1]", b'{"data":%b%b}' % (b"[" * 10**5, b"]" * 10**5)]
)
def test_an_error_that_cannot_be_read_is_one_that_says_so(error: bytes) -> None:
    failed = RpcError.received(Raw(error))
    assert failed.code == INTERNAL_ERROR
    assert str(failed).startswith("the error that was answered cannot be read: ")
    assert failed.error == {"code": INTERNAL_ERROR, "message": str(failed)}


@pytest.mark.parametrize("code", [-5, "EACCES"])
def test_an_error_of_any_length_is_passed_on_whole_and_named_in_short(code: Json) -> None:
    answered: JsonObject = {"code": code, "message": "E" * 1_000_000}
    failed = RpcError.received(answered)
    assert len(str(failed)) < 1100
    assert answered in (failed.error, messages.as_object(failed.error).get("data"))


@pytest.mark.parametrize(
    "data", [b"[" * 500 + b"]" * 500, b'"' + b"\\ud800" * 3 + b'"', b"[" + b"[]," * 300_000 + b"0]"]
)
def test_an_error_is_passed_on_whatever_its_data_is(data: bytes) -> None:
    answered = Raw(b'{"code":-5,"message":"no","data":%b}' % data)
    failed = RpcError.received(answered)
    assert (failed.code, str(failed), failed.error) == (-5, "no", answered)
    assert failed.data == {}


def test_the_data_of_an_error_is_an_object() -> None:
    assert RpcError.received(Raw(b'{"code":-5,"message":"","data":{"a":1}}')).data == {"a": 1}
    assert RpcError(-5, "", [1]).data == {}
    assert RpcError(-5, "").data == {}


def test_an_error_of_our_own_has_data_only_if_there_is_some() -> None:
    assert RpcError(-1, "no").error == {"code": -1, "message": "no"}
    assert RpcError(-1, "no", {"a": 1}).error == {"code": -1, "message": "no", "data": {"a": 1}}


async def test_who_gives_no_answer_in_time_is_told_that_it_is_not_waited_for() -> None:
    async with talking() as talk:
        await talk.ask(timeout=0.001)
        failed = await talk.outcome()
        request, cancelled = talk.outlet.messages
    assert isinstance(failed, SilentError)
    assert str(failed) == "no answer within 0.001 s"
    assert isinstance(request, Request)
    assert cancelled == Notification(
        "notifications/cancelled", {"requestId": request.id, "reason": "timed out"}
    )


async def test_a_handshake_that_is_not_answered_is_not_cancelled() -> None:
    async with talking() as talk:
        await talk.ask("initialize", timeout=0.001)
        assert isinstance(await talk.outcome(), SilentError)
        assert [line["method"] for line in talk.outlet.lines] == ["initialize"]


async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    async with talking() as talk:
        await talk.ask(timeout=0.001)
        request = await talk.outlet.next_request()
        await talk.peer.receive(Response(request.id, {}))
        await talk.peer.receive(Response("never asked", {}))
        await talk.peer.receive(Failure(None, {"code": -32700, "message": "?"}))
        assert len(talk.results) == 1


async def test_only_the_first_of_two_answers_counts() -> None:
    async with talking() as talk:
        talk.tasks.start_soon(talk.ask)
        request = await talk.outlet.next_request()
        await talk.peer.receive(Response(request.id, {"first": True}))
        await talk.peer.receive(Response(request.id, {"first": False}))
        assert await talk.outcome() == {"first": True}


@pytest.mark.parametrize(
    ("request_owner", "reason"),
    [(None, "cancelled by the caller"), (Somebody(reason="enough"), "enough")],
)
async def test_a_cancelled_caller_is_a_cancelled_request(
    request_owner: Somebody | None, reason: str
) -> None:
    async with talking() as talk:
        scope = anyio.CancelScope()

        async def ask() -> None:
            with scope:
                await talk.ask(request_owner=request_owner)

        talk.tasks.start_soon(ask)
        request = await talk.outlet.next_request()
        scope.cancel()
        cancelled = await talk.outlet.next()
    assert isinstance(cancelled, Notification)
    assert cancelled.params == {"requestId": request.id, "reason": reason}


async def test_what_comes_after_a_cancellation_comes_after_what_it_has_told_others() -> None:
    """A server withdraws its question, and then answers: so does the client hear of both."""
    async with talking() as client:

        async def question(_: Asked) -> Payload:
            return await client.peer.request("elicitation/create", {}, timeout=5)

        async with talking(question) as server:
            await server.peer.receive(Request(5, "elicitation/create", {}))
            asked = await client.outlet.next_request()
            await server.cancel(5)
            told = client.outlet.messages[1:]
    assert told == [
        Notification("notifications/cancelled", {"requestId": asked.id, "reason": UNSAID})
    ]


@virtual_time
async def test_nobody_waits_long_to_tell_a_cancellation() -> None:
    async with talking() as talk:
        talk.outlet.stuck, began = True, anyio.current_time()
        await talk.ask(timeout=1)
        assert isinstance(await talk.outcome(), SilentError)
        assert round(anyio.current_time() - began, 3) == 1 + CANCEL_GRACE
        talk.outlet.stuck, talk.outlet.gone = False, True
        await talk.ask(timeout=0.001)
        assert isinstance(talk.results[1], GoneError)


@virtual_time
@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_connection_that_ends_waits_less_to_tell_a_cancellation(is_begun: bool) -> None:
    began = anyio.current_time()
    async with talking() as talk, anyio.create_task_group() as tasks:
        tasks.start_soon(talk.ask)
        await talk.outlet.next_request()
        talk.outlet.stuck = True
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            if is_begun:
                await all_tasks_blocked()
            talk.peer.hurry()
    assert talk.results == [], "it was cancelled, and told so to nobody"
    assert round(anyio.current_time() - began, 3) == LAST_GRACE


async def test_a_cancellation_that_nobody_reads_is_dropped() -> None:
    async with talking() as talk:
        scope = anyio.CancelScope()

        async def ask() -> None:
            with scope:
                await talk.ask()

        talk.tasks.start_soon(ask)
        await talk.outlet.next_request()
        talk.outlet.gone = True
        scope.cancel()
    assert talk.results == []


async def test_a_request_through_another_outlet_is_cancelled_there() -> None:
    async with talking() as talk:
        other = RecordingOutlet()
        with pytest.raises(SilentError):
            await talk.peer.request("roots/list", {}, timeout=0.001, outlet=other)
        assert [line["method"] for line in other.lines] == ["roots/list", "notifications/cancelled"]
        assert talk.outlet.messages == []


async def test_progress_goes_to_the_request_that_it_belongs_to() -> None:
    async with talking() as talk:
        reports: list[Payload] = []

        async def progress(params: Payload) -> None:
            reports.append(params)

        async def ask() -> None:
            await talk.peer.request(
                "m", {"_meta": {"a": 1}}, timeout=5, request_owner=Somebody(progress)
            )
            ended.set()

        ended = anyio.Event()
        talk.tasks.start_soon(ask)
        request = await talk.outlet.next_request()
        assert request.params == {"_meta": {"a": 1, "progressToken": request.id}}
        report = Raw(b'{"progressToken":%d,"progress":1e400}' % int(request.id))
        await talk.peer.receive(Notification("notifications/progress", report))
        for token in (b"99", b'"x"', b"null", b"[1]"):
            other = Raw(b'{"progressToken":%b}' % token)
            await talk.peer.receive(Notification("notifications/progress", other))
        await talk.peer.receive(Response(request.id, {}))
        await ended.wait()
        await talk.peer.receive(Notification("notifications/progress", report))
    assert reports == [report]
    assert talk.notifications == []


async def test_progress_that_nobody_wants_is_dropped() -> None:
    async with talking() as talk:
        talk.tasks.start_soon(talk.ask)
        request = await talk.outlet.next_request()
        assert request.params == {"x": 1}
        await talk.peer.receive(
            Notification("notifications/progress", {"progressToken": request.id})
        )
        await talk.peer.receive(Response(request.id, {}))
        assert await talk.outcome() == {}


async def test_a_question_is_answered_by_what_serves_it() -> None:
    async with talking() as talk:
        await talk.peer.receive(Request("q", "m", {"a": 1}))
        assert await talk.outlet.next() == Response("q", {"echo": {"a": 1}})


async def test_a_question_is_answered_where_it_came_from() -> None:
    async with talking() as talk:
        other = RecordingOutlet()
        talk.peer.take(Request("q", "m", {}), other)
        assert await other.next() == Response("q", {"echo": {}})
        assert talk.outlet.messages == []


async def test_an_error_of_what_serves_is_the_answer() -> None:
    async def refuse(asked: Asked) -> Payload:
        raise RpcError(-32601, f"no {asked.request.method}")

    async with talking(refuse) as talk:
        await talk.peer.receive(Request(5, "m", {}))
        assert await talk.outlet.next() == Failure(5, {"code": -32601, "message": "no m"})


async def test_what_cannot_be_read_within_an_answer_is_an_error_too() -> None:
    async def unreadable(asked: Asked) -> Payload:
        raise WireError(-32600, "Expected a JSON object")

    async with talking(unreadable) as talk:
        await talk.peer.receive(Request(5, "m", {}))
        said: JsonObject = {"code": -32600, "message": "Expected a JSON object"}
        assert await talk.outlet.next() == Failure(5, said)


async def test_what_nobody_foresaw_within_an_answer_ends_no_connection() -> None:
    async def break_down(_: Asked) -> Payload:
        raise LookupError("/home/secret")

    async with talking(break_down) as talk:
        await talk.peer.receive(Request(5, "m", {}))
        assert await talk.outlet.next() == Failure(5, InternalError().error)


class SlowService:
    """Serves until it is told to; remembers what was cancelled."""

    def __init__(self) -> None:
        self.begun: list[Asked] = []
        self.cancelled: list[Asked] = []
        self.finish = anyio.Event()
        self.signals = Signals()

    async def serve(self, asked: Asked) -> Payload:
        self.begun.append(asked)
        self.signals.moved()
        try:
            await self.finish.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(asked)
            self.signals.moved()
            raise
        return {}

    async def until_begun(self, count: int = 1) -> None:
        await self.signals.until(lambda: len(self.begun) >= count)


async def test_a_question_that_its_asker_cancels_gets_no_answer() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request("a", "m", {}))
        await talk.peer.receive(Request("b", "m", {}))
        await slow.until_begun(2)
        await talk.cancel("a")
        await slow.signals.until(lambda: len(slow.cancelled) == 1)
        assert slow.cancelled[0].request.id == "a"
        slow.finish.set()
        await talk.peer.backlog.idle()
        assert talk.outlet.messages == [Response("b", {})]


@pytest.mark.parametrize("id_", ["unknown", 7])
async def test_a_cancellation_of_nothing_does_nothing(id_: int | str) -> None:
    async with talking() as talk:
        await talk.cancel(id_)
        others: list[JsonObject] = [{}, {"requestId": None}, {"requestId": [1]}]
        for params in others:
            await talk.peer.receive(Notification("notifications/cancelled", params))
    assert talk.notifications == []


async def test_what_is_answered_knows_why_it_is_taken_back() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request("a", "m", {}))
        await slow.until_begun()
        params: JsonObject = {"requestId": "a", "reason": "enough"}
        await talk.peer.receive(Notification("notifications/cancelled", params))
        await slow.signals.until(lambda: bool(slow.cancelled))
        assert slow.cancelled[0].reason == "enough"


async def test_the_handshake_cannot_be_cancelled() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request(1, "initialize", {}))
        await slow.until_begun()
        await talk.cancel(1)
        slow.finish.set()
        assert await talk.outlet.next() == Response(1, {})


async def test_a_question_whose_id_is_taken_is_refused_and_does_not_disturb_the_first() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request(1, "first", {}))
        with pytest.raises(WireError) as caught:
            await talk.peer.receive(Request(1, "second", {}))
        assert caught.value.id == 1
        await slow.until_begun()
        slow.finish.set()
        await talk.peer.backlog.idle()
        assert talk.outlet.messages == [Response(1, {})]
        await talk.peer.receive(Request(1, "again", {}))
        await talk.peer.backlog.idle()
        assert len(talk.outlet.messages) == 2


async def test_idle_waits_for_the_last_answer() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.backlog.idle()
        await talk.peer.receive(Request(1, "m", {}))
        await slow.until_begun()
        slow.finish.set()
        await talk.peer.backlog.idle()
        assert len(talk.outlet.messages) == 1


async def test_an_answer_that_nobody_reads_is_dropped() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request(1, "m", {}))
        await slow.until_begun()
        talk.outlet.gone = True
        slow.finish.set()
        await talk.peer.backlog.idle()
        talk.outlet.gone = False
        await talk.peer.receive(Request(2, "m", {}))
        await talk.peer.backlog.idle()
        assert talk.outlet.messages == [Response(2, {})]


async def test_a_notification_that_nobody_reads_is_dropped() -> None:
    async with talking() as talk:
        await talk.peer.notify("notifications/message", {"level": "info"})
        talk.outlet.gone = True
        await talk.peer.notify("notifications/message", {"level": "info"})
        assert len(talk.outlet.messages) == 1


async def test_notifications_arrive_in_order() -> None:
    async with talking() as talk:
        sent = [Notification(f"n{number}", {}) for number in range(20)]
        for notification in sent:
            await talk.peer.receive(notification)
    assert talk.notifications == sent


async def test_the_end_of_a_conversation_ends_everything_in_it() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        await talk.peer.receive(Request(1, "m", {}))
        await slow.until_begun()
        talk.tasks.start_soon(talk.ask)
        await talk.outlet.next_request()
        talk.peer.close("exited with code 3")
        talk.peer.close("a second reason")
        await talk.peer.backlog.idle()
        failed = await talk.outcome()
        assert isinstance(failed, GoneError)
        assert str(failed) == "exited with code 3"
        assert len(slow.cancelled) == 1
        with pytest.raises(GoneError, match="exited with code 3"):
            await talk.peer.request("m", {}, timeout=None)
        assert len(talk.outlet.messages) == 1


async def test_no_more_requests_are_under_way_than_there_may_be() -> None:
    slow = SlowService()
    async with talking(slow.serve) as talk:
        for id_ in range(MAX_ASKED):
            await talk.peer.receive(Request(id_, "slow", {}))
        with pytest.raises(WireError, match=f"Over {MAX_ASKED} requests are in progress") as caught:
            await talk.peer.receive(Request("more", "slow", {}))
        assert caught.value.id == "more"


async def test_who_leaves_its_answers_unread_is_not_read_any_more() -> None:
    async with talking() as talk:
        talk.outlet.stuck = True

        async def flood() -> None:
            for id_ in range(1000):
                await talk.peer.receive(Request(id_, "echo", {}))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            await all_tasks_blocked()
            assert MAX_UNSENT <= len(talk.outlet.messages) < MAX_UNSENT + 5
            talk.peer.close("enough")
            await all_tasks_blocked()
            tasks.cancel_scope.cancel()


async def test_an_answer_that_was_lost_is_told_from_an_error_of_the_other_side() -> None:
    async with talking() as talk:
        talk.tasks.start_soon(talk.ask)
        asked = await talk.outlet.next_request()
        await talk.peer.receive(lost(asked.id, "it broke"))
        found = await talk.outcome()
        assert isinstance(found, LostError)
        assert str(found) == "it broke"
