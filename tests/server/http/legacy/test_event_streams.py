from __future__ import annotations

import anyio

from hub.jsonrpc.messages import Notification
from hub.server.http.legacy.event_store import EventId, EventStore
from hub.server.http.legacy.event_streams import EventStream, StreamConnection
from hub.server.http.responses import PING_EVERY
from tests.kit.asgi import Connection
from tests.kit.fakes import FakeClock
from tests.kit.loops import all_tasks_blocked, in_time, virtual_time

TOLD = Notification("notifications/message", {"level": "info"})


def new_stream(connection: Connection | None = None) -> EventStream:
    carrier = None if connection is None else StreamConnection(connection.send)
    return EventStream(EventStore(FakeClock()).journal(), 3, carrier)


async def test_an_event_says_its_stream_and_its_number() -> None:
    connection = Connection()
    stream = new_stream(connection)
    await stream.put(TOLD)
    assert connection.sent[0]["body"].startswith(b"id: 3-1\r\nevent: message\r\ndata: {")
    assert stream.knows(EventId(3, 1))
    assert not stream.knows(EventId(3, 2))


async def test_a_comment_has_no_id() -> None:
    connection = Connection()
    stream = new_stream(connection)
    await stream.comment()
    assert connection.sent[0]["body"] == b": ping\r\n\r\n"
    assert not stream.is_resumable


async def test_without_a_connection_events_are_kept_alone() -> None:
    stream, connection = new_stream(), Connection()
    await stream.put(TOLD)
    await stream.comment()
    carrier = await stream.attach(connection.send, EventId(3, 0))
    assert stream.carrier is carrier
    assert connection.ids == ["3-1"]


async def test_of_two_who_come_at_once_one_carries_the_stream_and_the_other_ends() -> None:
    stream, first, second = new_stream(Connection()), Connection(), Connection()
    await stream.put(TOLD)
    first.accepts = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.attach, first.send, EventId(3, 0))
            await all_tasks_blocked()
            tasks.start_soon(stream.attach, second.send, EventId(3, 0))
            await all_tasks_blocked()
            first.accepts.set()
    carrying, ended = (first, second) if not first.is_over else (second, first)
    assert ended.is_over
    await stream.put(TOLD)
    assert carrying.ids == ["3-1", "3-2"]


async def test_a_stream_that_is_over_is_told_to_its_end() -> None:
    stream, connection = new_stream(), Connection()
    await stream.put(TOLD)
    stream.end()
    carrier = await stream.attach(connection.send, EventId(3, 0))
    await stream.hold(carrier, connection.receive)
    assert (connection.ids, connection.is_over) == (["3-1"], True)


async def test_a_connection_is_held_for_so_long_at_most() -> None:
    stream, connection = new_stream(), Connection()
    carrier = await stream.attach(connection.send, None)
    with anyio.fail_after(20):
        await stream.hold(carrier, connection.receive, at_most=0.001)
    assert connection.is_over
    assert stream.carrier is None


async def test_a_response_to_nobody_is_not_completed() -> None:
    stream, connection = new_stream(), Connection()
    carrier = await stream.attach(connection.send, None)
    connection.disconnect()
    with anyio.fail_after(20):
        await stream.hold(carrier, connection.receive)
    assert not connection.is_over
    assert stream.carrier is None


@virtual_time
async def test_a_response_that_nobody_reads_is_given_up() -> None:
    connection = Connection()
    carrier = StreamConnection(connection.send)
    connection.accepts = anyio.Event()
    with in_time():
        await carrier.hang_up()
        await carrier.hang_up()
    assert connection.sent == []


async def test_a_carrier_that_has_ended_carries_nothing() -> None:
    connection = Connection()
    carrier = StreamConnection(connection.send)
    carrier.cut()
    await carrier.write(b"x")
    await carrier.keep_alive()
    assert connection.sent == []


@virtual_time
async def test_a_comment_beside_an_event_that_is_not_read_leaves_both_to_be_cut() -> None:
    old, new = Connection(), Connection()
    stream = new_stream()
    carrier = await stream.attach(old.send, None)
    old.accepts = anyio.Event()
    with in_time():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.put, TOLD)
            await all_tasks_blocked()
            tasks.start_soon(carrier.keep_alive)
            await anyio.sleep(PING_EVERY)  # the comment is due
            await all_tasks_blocked()
            await stream.attach(new.send, EventId(3, 0))
    assert new.ids == ["3-1"]
