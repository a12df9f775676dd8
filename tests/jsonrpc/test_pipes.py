import asyncio  # noqa: TID251 - a pipe's transport
import io
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from structlog.testing import capture_logs

from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Notification, Response, to_bytes
from hub.jsonrpc.pipes import WRITE_HIGH_WATER, FileOutlet, Flow, PipeOutlet, turn
from hub.server.stdio import open_lines, open_outlet
from tests.kit.loops import BOTH, all_tasks_blocked


@pytest.fixture(params=BOTH)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


MESSAGE = Response(1, {"text": "ü"})
LINE = to_bytes(MESSAGE) + b"\n"


class Pipe:
    """A real pipe of the system, closed at both ends when the test is over."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.reader: BinaryIO = os.fdopen(read, "rb", 0)
        self.writer: BinaryIO = os.fdopen(write, "wb", 0)


@asynccontextmanager
async def pipe() -> AsyncGenerator[Pipe]:
    made = Pipe()
    with anyio.fail_after(20):
        try:
            yield made
        finally:
            made.reader.close()
            made.writer.close()
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def writing(made: Pipe) -> AsyncGenerator[PipeOutlet]:
    outlet = await open_outlet(made.writer)
    assert isinstance(outlet, PipeOutlet)
    try:
        yield outlet
    finally:
        made.reader.close()
        await outlet.lost()


async def test_lines_come_out_of_a_pipe_until_it_ends() -> None:
    async with pipe() as made:
        lines = await open_lines(made.reader)
        os.write(made.writer.fileno(), b'{"a":1}\n\n{"b"')
        assert await lines.next() == b'{"a":1}'
        os.write(made.writer.fileno(), b":2}\n")
        assert await lines.next() == b'{"b":2}'
        made.writer.close()
        with pytest.raises(GoneError):
            await lines.next()
        with pytest.raises(GoneError):
            await lines.next()
        lines.close()


async def test_reading_stops_when_it_is_closed() -> None:
    async with pipe() as made:
        lines = await open_lines(made.reader)
        lines.close()
        with pytest.raises(GoneError):
            await lines.next()


async def test_a_reader_that_is_too_slow_lets_the_pipe_fill_and_gets_every_line() -> None:
    count = 20_000
    read: list[bytes] = []
    text = b"".join(b'{"n":%d}\n' % number for number in range(count))

    async with pipe() as made:
        lines = await open_lines(made.reader)

        def write() -> None:
            view = memoryview(text)
            while view:
                view = view[os.write(made.writer.fileno(), view) :]
            made.writer.close()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, write)
            read += [await lines.next() for _ in range(count)]
        assert read == text.splitlines()
        with pytest.raises(GoneError):
            await lines.next()
        lines.close()


@pytest.mark.parametrize("content", [b"1\n2\n", b"1\n2"])
async def test_a_regular_file_is_read_to_its_end(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "requests"
    path.write_bytes(content)
    with path.open("rb") as file, anyio.fail_after(20):
        lines = await open_lines(file)
        assert [await lines.next(), await lines.next()] == [b"1", b"2"]
        with pytest.raises(GoneError):
            await lines.next()
        lines.close()


async def test_messages_go_into_a_pipe_a_line_each() -> None:
    async with pipe() as made, writing(made) as outlet:
        assert not outlet.gone
        await outlet.send(MESSAGE)
        assert os.read(made.reader.fileno(), 1000) == LINE


async def test_a_pipe_that_is_not_read_makes_its_writer_wait() -> None:
    async with pipe() as made, writing(made) as outlet:
        big = Notification("n", {"text": "x" * (WRITE_HIGH_WATER + 500_000)})
        sent, read = anyio.Event(), bytearray()

        async def send() -> None:
            await outlet.send(big)
            sent.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await all_tasks_blocked()
            assert not sent.is_set()
            while not read.endswith(b"\n"):
                read += await anyio.to_thread.run_sync(os.read, made.reader.fileno(), 65536)
            await sent.wait()
        assert bytes(read) == to_bytes(big) + b"\n"


async def test_of_many_writers_that_wait_no_more_write_than_the_pipe_takes() -> None:
    large = Notification("n", {"text": "x" * (WRITE_HIGH_WATER // 4)})
    size, writers = len(to_bytes(large)) + 1, 20
    async with pipe() as made:
        transport, flow = await asyncio.get_running_loop().connect_write_pipe(Flow, made.writer)
        outlet, read, most = PipeOutlet(transport, flow), 0, 0
        async with anyio.create_task_group() as tasks:
            for _ in range(writers):
                tasks.start_soon(outlet.send, large)
            await all_tasks_blocked()
            while read < writers * size:
                most = max(most, transport.get_write_buffer_size())
                read += len(await anyio.to_thread.run_sync(os.read, made.reader.fileno(), 65536))
        assert most <= WRITE_HIGH_WATER + size
        made.reader.close()
        await outlet.lost()


async def test_a_pipe_without_a_reader_is_closed() -> None:
    async with pipe() as made, writing(made) as outlet:
        made.reader.close()
        await outlet.lost()
        assert outlet.gone
        with pytest.raises(GoneError):
            await outlet.send(MESSAGE)


async def test_a_writer_that_waits_learns_that_its_reader_is_gone() -> None:
    async with pipe() as made, writing(made) as outlet:
        failed = anyio.Event()

        async def send() -> None:
            with pytest.raises(GoneError):
                await outlet.send(Notification("n", {"text": "x" * (WRITE_HIGH_WATER * 2)}))
            failed.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await all_tasks_blocked()
            made.reader.close()
            await failed.wait()


async def test_a_flow_is_free_until_it_is_paused() -> None:
    flow = Flow()
    with anyio.fail_after(20):
        await flow.drained()
        flow.pause_writing()
        with anyio.move_on_after(0.001) as waited:
            await flow.drained()
        assert waited.cancelled_caught
        flow.resume_writing()
        await flow.drained()
        assert not flow.is_lost
        flow.connection_lost(None)
        await flow.lost()
        with pytest.raises(GoneError):
            await flow.drained()


async def test_messages_go_into_a_regular_file_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    with path.open("wb") as file:
        outlet = await open_outlet(file)
        assert isinstance(outlet, FileOutlet)
        await outlet.send(MESSAGE)
        await outlet.send(MESSAGE)
        assert path.read_bytes() == LINE * 2, "each line is there at once"


async def test_a_file_is_not_lost_while_it_can_be_written() -> None:
    outlet = FileOutlet(io.BytesIO())
    await outlet.send(MESSAGE)
    with anyio.move_on_after(0.001) as waited:
        await outlet.lost()
    assert waited.cancelled_caught


FULL = Path("/dev/full")


def on_a_full_disk() -> BinaryIO:
    return FULL.open("wb", buffering=0)


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a full disk at hand")
async def test_a_file_on_a_full_disk_is_lost_and_said_to_be_once() -> None:
    with on_a_full_disk() as file, capture_logs() as logs:
        outlet = await open_outlet(file)
        assert not cast("FileOutlet", outlet).post(MESSAGE)
        with anyio.fail_after(20):
            await outlet.lost()
        with pytest.raises(GoneError):
            await outlet.send(MESSAGE)
    assert [(line["log_level"], line["reason"]) for line in logs] == [
        ("warning", "No space left on device")
    ]


async def test_a_pipe_that_is_closed_has_everything_that_was_written() -> None:
    async with pipe() as made:
        outlet = await open_outlet(made.writer)
        await outlet.send(MESSAGE)
        await outlet.close()
        assert os.read(made.reader.fileno(), 1000) == LINE
        with pytest.raises(GoneError):
            await outlet.send(MESSAGE)


async def test_a_pipe_that_is_closed_has_what_was_written_in_the_same_turn() -> None:
    async with pipe() as made:
        outlet = await open_outlet(made.writer)
        assert isinstance(outlet, PipeOutlet)
        turn.share()
        assert [outlet.post(MESSAGE) for _ in range(3)] == [True] * 3
        await outlet.close()
        assert os.read(made.reader.fileno(), 1000) == 3 * LINE


async def test_a_file_needs_no_closing(tmp_path: Path) -> None:
    with (tmp_path / "answers").open("wb") as file:
        outlet = await open_outlet(file)
        await outlet.close()
        await outlet.send(MESSAGE)
    assert (tmp_path / "answers").read_bytes() == LINE


async def test_a_message_is_posted_only_while_the_pipe_takes_it() -> None:
    async with pipe() as made, writing(made) as outlet:
        assert outlet.post(MESSAGE)
        assert outlet.post(MESSAGE)
        await anyio.lowlevel.checkpoint()
        assert os.read(made.reader.fileno(), 1000) == LINE + LINE
        big = Notification("n", {"text": "x" * (WRITE_HIGH_WATER + 500_000)})
        assert outlet.post(big)
        assert not outlet.post(MESSAGE), "it is large, and was written at once"


async def test_nothing_is_posted_into_a_pipe_that_is_closed() -> None:
    async with pipe() as made, writing(made) as outlet:
        made.reader.close()
        await outlet.lost()
        assert not outlet.post(MESSAGE)
