from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from structlog.testing import capture_logs

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Lost, Notification, Request, Response, as_object
from hub.jsonrpc.requests import AwaitedRequest
from hub.server.http.legacy.event_store import EventId, EventStore
from hub.server.http.legacy.event_streams import TOO_LATE
from hub.server.http.legacy.http_session import OPEN_AFTER, ResumableResponse, ResumableStreams
from tests.kit.asgi import Connection
from tests.kit.fakes import FakeClock
from tests.kit.loops import all_tasks_blocked, in_time, virtual_time

TOLD = Notification("notifications/message", {"level": "info"})
ANSWER = Response(7, {"x": 1})


def new_streams(*, primed: bool = True, poll_after: float = 0) -> ResumableStreams:
    return ResumableStreams(EventStore(FakeClock()).journal(), poll_after, primed)


def told(number: int) -> Notification:
    return Notification(f"n{number}", {})


class Coming:
    """A client that comes back with the id of an event."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.was_known: bool | None = None
        self.done = anyio.Event()

    async def serve(self, streams: ResumableStreams, after: EventId) -> None:
        connection = self.connection
        self.was_known = await streams.resume(after, connection.send, connection.receive)
        self.done.set()

    async def served(self) -> Connection:
        with anyio.fail_after(20):
            await self.done.wait()
        return self.connection


@asynccontextmanager
async def come_back(streams: ResumableStreams, after: EventId) -> AsyncGenerator[Coming]:
    coming = Coming()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(coming.serve, streams, after)
        await all_tasks_blocked()
        yield coming
        tasks.cancel_scope.cancel()


class PostedRequest:
    """A request, its response and the two tasks that go with it."""

    def __init__(self, streams: ResumableStreams, tasks: TaskGroup) -> None:
        self.connection = Connection()
        self.response = ResumableResponse(self.connection.send, streams)
        self.is_lost = anyio.Event()
        self._tasks = tasks

    async def disconnect(self) -> None:
        self._tasks.start_soon(self._lose)
        await all_tasks_blocked()

    async def _lose(self) -> None:
        await self.response.lost()
        self.is_lost.set()


@asynccontextmanager
async def posting(streams: ResumableStreams) -> AsyncGenerator[PostedRequest]:
    async with anyio.create_task_group() as tasks:
        yield PostedRequest(streams, tasks)
        tasks.cancel_scope.cancel()


# While the client stays


async def test_an_answer_that_comes_first_is_plain_json_and_not_kept() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.finish(ANSWER, status=201)
        assert (post.connection.status, post.connection.is_stream) == (201, False)
        assert post.connection.json["result"] == {"x": 1}
    async with come_back(streams, EventId(1, 0)) as coming:
        await coming.served()
        assert coming.was_known is False


async def test_the_events_of_a_stream_have_ids_that_say_which_stream_it_is() -> None:
    streams = new_streams()
    async with posting(streams) as one, posting(streams) as other:
        await one.response.send(told(1))
        await other.response.send(told(2))
        await one.response.finish(ANSWER)
        assert one.connection.ids == ["1-0", "1-1", "1-2"]
        assert other.connection.ids == ["2-0", "2-1"]
        assert one.connection.is_over
        assert b"retry: 1000\r\n" in one.connection.body


async def test_a_stream_that_is_given_up_before_it_begins_is_none() -> None:
    streams = new_streams()
    async with posting(streams) as one, posting(streams) as other:
        one.connection.accepts = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.response.ping)
            await all_tasks_blocked()
            tasks.cancel_scope.cancel()
        one.connection.accepts.set()
        await one.response.finish(ANSWER)
        assert not one.connection.is_stream
        await other.response.send(told(1))
        assert other.connection.ids == ["1-0", "1-1"]


async def test_an_older_client_gets_no_event_without_data() -> None:
    async with posting(new_streams(primed=False)) as post:
        await post.response.ping()
        await post.response.send(TOLD)
        assert post.connection.ids == ["1-1"]
        assert b"retry" not in post.connection.body


async def test_a_stream_can_be_begun_before_there_is_anything_to_send() -> None:
    async with posting(new_streams()) as post:
        await post.response.begin()
        assert post.connection.is_stream
        await post.response.finish(ANSWER)
        assert [one["result"] for one in post.connection.events] == [{"x": 1}]


async def test_a_response_that_has_begun_without_an_event_is_answered_as_a_stream() -> None:
    async with posting(new_streams()) as post:
        await post.response.open()
        assert (post.connection.is_stream, post.connection.body) == (True, b"")
        await post.response.open()
        await post.response.finish(ANSWER)
        assert [one["result"] for one in post.connection.events] == [{"x": 1}]
        assert (post.connection.ids, post.connection.is_over) == ([], True)
        await post.response.open()
    async with posting(new_streams()) as post:
        await post.response.open()
        await post.response.send(TOLD)
        await post.response.finish(ANSWER)
        assert post.connection.ids == ["1-0", "1-1", "1-2"]


@virtual_time
async def test_a_response_begins_once_its_client_has_not_answered_for_a_while() -> None:
    streams, asking = new_streams(), list[bool]()
    streams.is_asking = lambda: bool(asking)
    async with posting(streams) as post, anyio.create_task_group() as tasks:
        tasks.start_soon(post.response.tend)
        await all_tasks_blocked()
        streams.note_question()  # one that has been answered by now
        await anyio.sleep(2 * OPEN_AFTER)
        assert post.connection.sent == []
        asking.append(True)
        streams.note_question()
        await post.connection.signals.until(lambda: post.connection.sent != [])
        assert (post.connection.is_stream, post.connection.body) == (True, b"")
        tasks.cancel_scope.cancel()


async def test_a_cancelled_request_gets_a_stream_that_just_ends() -> None:
    async with posting(new_streams()) as post:
        await post.response.finish(None)
        assert (post.connection.is_stream, post.connection.body) == (True, b"")
        assert post.connection.is_over


@virtual_time
async def test_after_the_end_nothing_is_sent() -> None:
    async with posting(new_streams()) as post:
        await post.response.finish(ANSWER)
        await post.response.finish(ANSWER)
        for late in (post.response.ping(), post.response.send(TOLD)):
            with pytest.raises(GoneError):
                await late
        await post.response.tend()
        assert len(post.connection.sent) == 2


# The client goes and comes back


async def test_a_client_that_goes_without_an_id_is_lost_at_once() -> None:
    for primed, begun in ((False, "no"), (False, "pinged"), (True, "no"), (True, "open")):
        async with posting(new_streams(primed=primed)) as post:
            if begun == "pinged":
                await post.response.ping()
            elif begun == "open":
                await post.response.open()
            await post.disconnect()
            assert post.is_lost.is_set()
            with pytest.raises(GoneError):
                await post.response.send(TOLD)
            await post.response.finish(ANSWER)
            assert post.connection.events == []


async def test_what_comes_while_the_client_is_away_waits_for_it() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.send(told(1))
        await post.disconnect()
        assert not post.is_lost.is_set()
        await post.response.send(told(2))
        async with come_back(streams, EventId(1, 1)) as coming:
            await post.response.send(told(3))
            await post.response.finish(ANSWER)
            connection = await coming.served()
        assert connection.ids == ["1-2", "1-2", "1-3", "1-4"]
        assert connection.events[-1]["result"] == {"x": 1}
        assert (connection.is_stream, connection.is_over) == (True, True)
        assert not post.connection.is_over


async def test_an_answer_that_came_meanwhile_is_kept_for_the_client() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.begin()
        await post.disconnect()
        await post.response.finish(Failure(7, {"code": -1, "message": "no"}))
    for _ in range(2):
        async with come_back(streams, EventId(1, 0)) as coming:
            connection = await coming.served()
            assert [one["error"]["code"] for one in connection.events] == [-1]
            assert connection.is_over


async def test_of_what_is_stored_no_more_the_rest_and_the_answer_come_and_the_log_says_so() -> None:
    streams = ResumableStreams(EventStore(FakeClock(), max_session_events=3).journal(), 0, True)
    with capture_logs() as logs:
        async with posting(streams) as post:
            await post.response.begin()
            await post.disconnect()
            for number in range(1, 6):
                await post.response.send(told(number))
            async with come_back(streams, EventId(1, 1)) as coming:
                assert coming.connection.ids == ["1-3", "1-4", "1-5", "1-5"]
                await post.response.finish(ANSWER)
                assert (await coming.served()).events[-1]["result"] == {"x": 1}
        async with come_back(streams, EventId(1, 1)) as coming:
            assert (await coming.served()).ids == ["1-4", "1-5", "1-6"]
        async with come_back(streams, EventId(1, 3)) as coming:
            assert (await coming.served()).ids == ["1-4", "1-5", "1-6"]
    assert [(one["after"], one["lost"]) for one in logs] == [("1-1", 1), ("1-1", 2)]


async def asked_of(streams: ResumableStreams, post: PostedRequest, id_: int) -> AwaitedRequest:
    """Ask the client something, and return what waits for its answer."""
    waiting = AwaitedRequest(None)
    streams.journal.pending[id_] = waiting
    await post.response.send(Request(id_, "elicitation/create", {}))
    return waiting


async def test_a_question_that_is_stored_no_more_is_not_waited_for() -> None:
    streams = ResumableStreams(EventStore(FakeClock(), max_session_events=3).journal(), 0, True)
    async with posting(streams) as post:
        seen = await asked_of(streams, post, 1)
        await post.disconnect()
        lost = await asked_of(streams, post, 2)
        stored = await asked_of(streams, post, 3)
        for number in range(2):
            await post.response.send(told(number))
        assert not lost.done.is_set()
        async with come_back(streams, EventId(1, 1)) as coming:
            assert coming.connection.ids == ["1-3", "1-4", "1-5", "1-5"]
            assert lost.done.is_set()
            assert isinstance(lost.answer, Lost)
            assert as_object(lost.answer.error)["message"] == TOO_LATE
            assert not seen.done.is_set()
            assert not stored.done.is_set()


async def test_who_has_everything_is_told_so() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.begin()
        await post.response.finish(ANSWER)
    async with come_back(streams, EventId(1, 1)) as coming:
        assert (await coming.served()).status == 204
        assert coming.was_known


@pytest.mark.parametrize("unknown", [EventId(1, 2), EventId(2, 0), EventId(9, 1)])
async def test_an_event_that_was_never_sent_is_unknown(unknown: EventId) -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.send(TOLD)
        async with come_back(streams, unknown) as coming:
            assert (await coming.served()).sent == []
            assert coming.was_known is False
        await post.response.finish(ANSWER)
        assert len(post.connection.events) == 2


@virtual_time
async def test_who_stays_away_too_long_is_lost() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.begin()
        await post.disconnect()
        assert not post.is_lost.is_set()
        with in_time():
            await post.is_lost.wait()
        with pytest.raises(GoneError):
            await post.response.send(TOLD)
        await post.response.finish(ANSWER)
    async with come_back(streams, EventId(1, 0)) as coming:
        await coming.served()
        assert coming.was_known is False


async def test_a_client_can_go_and_come_back_again_and_again() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.begin()
        await post.disconnect()
        for number in (1, 2):
            async with come_back(streams, EventId(1, number - 1)) as coming:
                await post.response.send(told(number))
                await coming.connection.heard(1)
                coming.connection.disconnect()
                await coming.served()
                assert not post.is_lost.is_set()
        async with come_back(streams, EventId(1, 2)) as coming:
            await post.response.finish(ANSWER)
            assert (await coming.served()).ids == ["1-2", "1-3"]


async def test_who_comes_back_takes_the_place_of_a_connection_that_does_not_read() -> None:
    streams = new_streams()
    async with posting(streams) as post, anyio.create_task_group() as tasks:
        await post.response.begin()
        post.connection.accepts = anyio.Event()
        tasks.start_soon(post.response.send, told(1))
        await all_tasks_blocked()
        event_stream_gives_up = post.connection.accepts
        async with come_back(streams, EventId(1, 0)) as coming:
            event_stream_gives_up.set()
            await post.response.finish(ANSWER)
            assert (await coming.served()).ids == ["1-1", "1-1", "1-2"]
        assert post.connection.is_over
        assert post.connection.events == []


# The hub lets the client go


async def test_a_client_that_waits_long_is_let_go_to_come_back() -> None:
    streams = new_streams(poll_after=0.001)
    async with posting(streams) as post:
        with anyio.fail_after(20):
            await post.response.tend()
        assert (post.connection.ids, post.connection.is_over) == (["1-0"], True)
        async with come_back(streams, EventId(1, 0)) as coming:
            again = await coming.served()
            assert (again.ids, again.events, again.is_over) == (["1-0"], [], True)
        await post.response.finish(ANSWER)
        assert len(post.connection.events) == 0
    async with come_back(streams, EventId(1, 0)) as coming:
        assert len((await coming.served()).events) == 1


@virtual_time
async def test_a_client_that_does_not_know_how_to_come_back_is_not_let_go() -> None:
    async with posting(new_streams(primed=False, poll_after=0.001)) as post:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post.response.tend)
            await post.connection.signals.until(lambda: len(post.connection.sent) > 3)
            tasks.cancel_scope.cancel()
        assert not post.connection.is_over


@virtual_time
async def test_a_long_silence_is_filled_where_the_client_listens() -> None:
    streams = new_streams()
    async with posting(streams) as post:
        await post.response.begin()
        await post.disconnect()
        begun = len(post.connection.sent)
        async with come_back(streams, EventId(1, 0)) as coming:
            await coming.connection.signals.until(lambda: len(coming.connection.sent) > 3)
            await post.response.ping()
        assert len(post.connection.sent) == begun
