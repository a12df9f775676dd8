from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Generator

import anyio
import anyio.lowlevel
import pytest

from hub.attach.frames import is_stream_socket
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.lines import Lines
from hub.jsonrpc.messages import Notification
from hub.jsonrpc.pipes import Flow, PipeOutlet
from hub.server.attached.client_streams import SharedSocket, SharedSocketReader, SharedSocketWriter


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    """Yield the client's end and the hub's; the hub closes its own by its number."""
    client, hub = socket.socketpair()
    yield client, hub
    client.close()


async def test_lines_come_and_the_end_is_noticed(pair: tuple[socket.socket, socket.socket]) -> None:
    client, hub = pair
    lines = Lines()
    SharedSocketReader(SharedSocket(hub.detach()), lines)
    client.sendall(b'{"a":1}\n{"b":2}\n')
    with anyio.fail_after(20):
        assert await lines.next() == b'{"a":1}'
        assert await lines.next() == b'{"b":2}'
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(GoneError):
            await lines.next()
    await anyio.lowlevel.checkpoint()
    assert client.recv(1) == b""


async def test_a_socket_that_blocks_holds_nothing_up(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, hub = pair
    flow, number = Flow(), hub.detach()
    kept = os.dup(number)
    writer = SharedSocketWriter(SharedSocket(number), flow)
    outlet = PipeOutlet(writer, flow)
    # Whoever else has it open makes it block: for all that have it open.
    os.set_blocking(kept, True)
    message = Notification("notifications/message", {"data": "x" * 100_000})
    sent = 0
    while outlet.post(message):
        os.set_blocking(kept, True)
        sent += 1
    assert sent > 1
    with anyio.move_on_after(0.01):
        await outlet.send(message)
    got = b""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outlet.close)
            client.setblocking(False)
            while True:
                await anyio.wait_readable(client)
                os.set_blocking(kept, True) if not flow.is_lost else None
                chunk = client.recv(1_000_000)
                got += chunk
                if got.count(b"\n") == sent:
                    break
    os.close(kept)
    assert flow.is_lost


async def test_flags_are_as_they_were_afterwards(pair: tuple[socket.socket, socket.socket]) -> None:
    _, hub = pair
    kept = os.dup(hub.fileno())
    before = fcntl.fcntl(kept, fcntl.F_GETFL)
    reader = SharedSocketReader(SharedSocket(hub.detach()), Lines())
    await anyio.lowlevel.checkpoint()
    reader.close()
    await anyio.sleep(0.01)
    assert fcntl.fcntl(kept, fcntl.F_GETFL) == before
    os.close(kept)


async def test_a_client_that_is_gone_is_noticed_by_writing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    client, hub = pair
    flow = Flow()
    outlet = PipeOutlet(SharedSocketWriter(SharedSocket(hub.detach()), flow), flow)
    client.close()
    outlet.post(Notification("notifications/message", {}))
    with anyio.fail_after(20):
        await outlet.lost()
    with pytest.raises(GoneError):
        await outlet.send(Notification("notifications/message", {}))


def test_only_stream_sockets_of_this_machine_count() -> None:
    reading, writing = os.pipe()
    before = os.dup(reading)
    os.close(before)
    assert not is_stream_socket(reading)
    with socket.socket(socket.AF_INET) as other, socket.socket(socket.AF_UNIX) as ours:
        assert not is_stream_socket(other.fileno())
        assert is_stream_socket(ours.fileno())
    again = os.dup(reading)
    assert again == before, "a descriptor was left open"
    os.close(again)
    os.close(reading)
    os.close(writing)
