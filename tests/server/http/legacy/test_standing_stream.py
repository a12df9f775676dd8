from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.types import Message
from structlog.testing import capture_logs

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Notification, Request, Response
from hub.jsonrpc.requests import AwaitedRequest
from hub.protocol.constants import LIST_CHANGED
from hub.server.http.legacy.event_store import MAX_AGE, EventId, EventStore
from hub.server.http.legacy.event_streams import WAITING_NOTIFICATIONS, NotificationStream
from tests.kit.asgi import Connection
from tests.kit.fakes import FakeClock
from tests.kit.loops import all_tasks_blocked, virtual_time

TOLD = Notification("notifications/message", {"level": "info"})


def new_standing() -> NotificationStream:
    return NotificationStream(EventStore(FakeClock()).journal())


class Held:
    def __init__(
        self,
        notification_stream: NotificationStream,
        connection: Connection,
        *,
        primed: bool = False,
        after: EventId | None = None,
    ) -> None:
        self.notification_stream = notification_stream
        self.connection = connection
        self.primed = primed
        self.after = after
        self.opened = 0
        self.served = anyio.Event()

    async def serve(self) -> None:
        await self.notification_stream.serve(
            self.connection.send,
            self.connection.receive,
            self._open,
            primed=self.primed,
            after=self.after,
        )
        self.served.set()

    def _open(self) -> None:
        self.opened += 1

    async def until_served(self) -> None:
        with anyio.fail_after(20):
            await self.served.wait()


@asynccontextmanager
async def held(
    notification_stream: NotificationStream, *, primed: bool = False, after: EventId | None = None
) -> AsyncGenerator[Held]:
    connection = Connection()
    async with anyio.create_task_group() as tasks:
        stream = Held(notification_stream, connection, primed=primed, after=after)
        tasks.start_soon(stream.serve)
        await connection.signals.until(lambda: len(connection.sent) >= 2)
        yield stream
        tasks.cancel_scope.cancel()


async def test_a_stream_begins_at_once_and_then_carries() -> None:
    notification_stream = new_standing()
    assert not notification_stream.is_open
    async with held(notification_stream) as stream:
        assert (stream.connection.status, stream.connection.is_stream) == (200, True)
        assert stream.connection.body == b": ping\r\n\r\n"
        assert notification_stream.is_open
        assert stream.opened == 1
        await notification_stream.send(Request(1, "roots/list", {}))
        (asked,) = await stream.connection.heard(1)
        assert asked["method"] == "roots/list"


async def test_notifications_wait_for_a_stream_and_requests_do_not() -> None:
    notification_stream = new_standing()
    await notification_stream.send(Notification("first", {}))
    await notification_stream.send(Notification("second", {}))
    with pytest.raises(GoneError):
        await notification_stream.send(Request(1, "roots/list", {}))
    async with held(notification_stream) as stream:
        events = await stream.connection.heard(2)
        assert [one["method"] for one in events] == ["first", "second"]


async def test_a_stream_is_claimed_before_the_client_reads_it() -> None:
    notification_stream, connection = new_standing(), Connection()
    connection.accepts = anyio.Event()
    async with anyio.create_task_group() as tasks:
        stream = Held(notification_stream, connection)
        tasks.start_soon(stream.serve)
        await all_tasks_blocked()
        assert notification_stream.is_open
        assert (connection.sent, stream.opened) == ([], 0)
        with pytest.raises(GoneError):
            await notification_stream.send(Request(1, "roots/list", {}))
        tasks.cancel_scope.cancel()
    assert not notification_stream.is_open


class Interrupting(Connection):
    """While this client takes what waited for it, there is more to be told."""

    def __init__(self, notification_stream: NotificationStream) -> None:
        super().__init__()
        self._standing = notification_stream

    async def send(self, message: Message) -> None:
        await all_tasks_blocked()
        await super().send(message)
        for number in (1, 2):
            if f'"n{number}"'.encode() in message.get("body", b""):
                await self._standing.send(Notification(f"n{number + 2}", {}))


async def test_what_is_told_while_a_stream_opens_goes_out_in_order() -> None:
    notification_stream = new_standing()
    for number in (1, 2):
        await notification_stream.send(Notification(f"n{number}", {}))
    connection = Interrupting(notification_stream)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Held(notification_stream, connection).serve)
        events = await connection.heard(4)
        assert [one["method"] for one in events] == ["n1", "n2", "n3", "n4"]
        tasks.cancel_scope.cancel()


async def test_of_too_many_that_wait_the_oldest_are_dropped() -> None:
    notification_stream = new_standing()
    for number in range(WAITING_NOTIFICATIONS + 2):
        await notification_stream.send(Notification(f"n{number}", {}))
    with capture_logs() as logged:
        async with held(notification_stream) as stream:
            # What was dropped can have said that a list has changed.
            events = await stream.connection.heard(len(LIST_CHANGED) + WAITING_NOTIFICATIONS)
    methods = [one["method"] for one in events]
    assert methods[: len(LIST_CHANGED)] == [*LIST_CHANGED]
    assert methods[len(LIST_CHANGED)] == "n2"
    assert methods[-1] == f"n{WAITING_NOTIFICATIONS + 1}"
    assert [one["lost"] for one in logged if "too many" in one["event"]] == [2]
    async with held(notification_stream) as stream:
        await notification_stream.send(TOLD)
        (told,) = await stream.connection.heard(1)
        assert told["method"] == TOLD.method


async def test_of_large_notifications_fewer_wait() -> None:
    notification_stream = new_standing()
    for number in range(20):
        await notification_stream.send(Notification(f"n{number}", {"data": "x" * 1_000_000}))
    async with held(notification_stream) as stream:
        events = await stream.connection.heard(len(LIST_CHANGED) + 4)
    assert [one["method"] for one in events][-4:] == ["n16", "n17", "n18", "n19"]


async def test_a_session_that_ends_ends_its_stream() -> None:
    notification_stream = new_standing()
    async with held(notification_stream) as stream:
        notification_stream.end()
        await stream.until_served()
        assert stream.connection.is_over
        assert not notification_stream.is_open
    with pytest.raises(GoneError):
        await notification_stream.send(TOLD)


async def test_a_client_that_disconnects_can_come_back() -> None:
    notification_stream = new_standing()
    async with held(notification_stream) as stream:
        stream.connection.disconnect()
        await stream.until_served()
        assert not stream.connection.is_over
        assert not notification_stream.is_open
    await notification_stream.send(TOLD)
    async with held(notification_stream) as stream:
        await stream.connection.heard(1)
        assert stream.opened == 1


@virtual_time
async def test_a_silent_stream_is_kept_alive() -> None:
    async with held(new_standing()) as stream:
        await stream.connection.signals.until(lambda: len(stream.connection.sent) >= 4)
        assert set(stream.connection.body.split(b"\r\n\r\n")) == {b": ping", b""}


# A client that comes back


async def test_who_opens_the_stream_anew_is_asked_again_what_it_has_not_answered() -> None:
    journal = EventStore(FakeClock()).journal()
    notification_stream = NotificationStream(journal)
    for number in (1, 2):
        journal.pending[number] = AwaitedRequest(None)
    async with held(notification_stream) as stream:
        for number in (1, 2):
            await notification_stream.send(Request(number, "elicitation/create", {"at": number}))
        await notification_stream.send(TOLD)
        await stream.connection.heard(3)
        stream.connection.disconnect()
        await stream.until_served()
    journal.pending.settle(Response(1, {}))
    await notification_stream.send(Notification("n1", {}))
    for opened in range(2):
        async with held(notification_stream) as stream:
            events = await stream.connection.heard(2 - opened)
            assert events[0] == {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "elicitation/create",
                "params": {"at": 2},
            }
            assert [one["method"] for one in events[1:]] == ["n1"] * (1 - opened)
    async with held(notification_stream, after=EventId(0, 6)) as stream:
        await notification_stream.send(TOLD)
        (told,) = await stream.connection.heard(1)
        assert told["method"] == TOLD.method


async def test_what_a_client_did_not_get_it_gets_when_it_comes_back() -> None:
    notification_stream = new_standing()
    async with held(notification_stream) as stream:
        for number in (1, 2, 3):
            await notification_stream.send(Notification(f"n{number}", {}))
        await stream.connection.heard(3)
        assert stream.connection.ids == ["0-1", "0-2", "0-3"]
        stream.connection.disconnect()
        await stream.until_served()
    await notification_stream.send(Notification("n4", {}))
    async with held(notification_stream, after=EventId(0, 1)) as stream:
        events = await stream.connection.heard(3)
        assert [one["method"] for one in events] == ["n2", "n3", "n4"]
        assert stream.connection.ids == ["0-2", "0-3", "0-4"]


async def test_a_client_that_lost_events_is_told_to_list_again() -> None:
    clock = FakeClock()
    notification_stream = NotificationStream(EventStore(clock).journal())
    async with held(notification_stream) as stream:
        for name in ("n1", "n2"):
            await notification_stream.send(Notification(name, {}))
        await stream.connection.heard(2)
        clock.advance(MAX_AGE + 1)
    async with held(notification_stream, after=EventId(0, 1)) as stream:
        events = await stream.connection.heard(3)
        assert [one["method"] for one in events] == list(LIST_CHANGED)
    async with held(notification_stream, after=EventId(0, 5)) as stream:
        await notification_stream.send(Notification("n3", {}))
        assert await stream.connection.heard(1)
        assert stream.connection.ids == ["0-6"]


async def test_a_client_can_come_back_that_got_nothing_but_the_beginning() -> None:
    notification_stream = new_standing()
    async with held(notification_stream, primed=True) as stream:
        assert stream.connection.ids == ["0-0"]
        assert b"retry: " in stream.connection.body
        assert notification_stream.knows(EventId(0, 0))
        assert not notification_stream.knows(EventId(0, 1))
        stream.connection.disconnect()
        await stream.until_served()
    async with held(notification_stream, primed=True, after=EventId(0, 0)) as stream:
        await notification_stream.send(TOLD)
        await stream.connection.heard(1)
        assert stream.connection.ids == ["0-0", "0-1"]


async def test_without_any_event_there_is_none_to_come_back_from() -> None:
    notification_stream = new_standing()
    async with held(notification_stream):
        assert not notification_stream.knows(EventId(0, 0))


async def test_who_comes_back_takes_the_place_of_a_connection_that_seems_to_be_there() -> None:
    notification_stream = new_standing()
    async with held(notification_stream) as old:
        await notification_stream.send(Notification("n1", {}))
        async with held(notification_stream, after=EventId(0, 0)) as new:
            await old.until_served()
            await all_tasks_blocked()
            assert old.connection.is_over
            assert notification_stream.is_open
            assert new.opened == 1
            await notification_stream.send(Request(1, "roots/list", {}))
            events = await new.connection.heard(2)
            assert [one["method"] for one in events] == ["n1", "roots/list"]
            assert len(old.connection.events) == 1
    assert not notification_stream.is_open
