"""The stdio transport: serves one client over this process's stdin and stdout."""

from __future__ import annotations

import asyncio  # noqa: TID251 - its pipes carry lines without worker threads
import os
import stat
import sys
from contextlib import suppress
from typing import BinaryIO

import anyio
import anyio.to_thread
import structlog

from hub.jsonrpc import messages, parsing
from hub.jsonrpc.errors import GoneError, InternalError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.lines import Lines, TruncatedLine
from hub.jsonrpc.messages import Failure, Message, Request, Response
from hub.jsonrpc.parsing import asked_by
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.pipes import FileOutlet, Flow, PipeOutlet, TerminalOutlet
from hub.jsonrpc.requests import LIGHT, Answer
from hub.protocol.constants import CALLS, INVALID_REQUEST
from hub.server.connection import ClientConnection, ConnectionFactory
from hub.system.tasks import IndependentTasks
from hub.values import STDIO

LAST_ANSWERS = 10.0
"""Seconds for the last answers to a script, which sends requests without waiting for answers."""
READ_CHUNK = 256 * 1024
HURRIED_ANSWERS = 0.3
"""Seconds for the last answers to a client that waited for answers, and has closed stdin."""

log = structlog.stdlib.get_logger(__name__)


async def serve_stdio(
    open_connection: ConnectionFactory,
    *,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    last_answers: float = LAST_ANSWERS,
    hurried_answers: float = HURRIED_ANSWERS,
) -> None:
    """Serve the client on stdin and stdout until it closes stdin.

    Requests under way are still answered while the client reads: for `last_answers` seconds at most
    after a script, for `hurried_answers` after any other client, which waits for the hub to end.
    """
    outlet = await open_outlet(stdout or sys.stdout.buffer)
    lines = await open_lines(stdin or sys.stdin.buffer)
    await serve_lines(
        open_connection, lines, outlet, last_answers=last_answers, hurried_answers=hurried_answers
    )


def _can_be_watched(file: BinaryIO) -> bool:
    """Return whether a selector can watch `file`: not a regular file and not /dev/null."""
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


async def open_outlet(file: BinaryIO) -> PipeOutlet | FileOutlet:
    """Return an outlet that writes messages to `file`."""
    if not _can_be_watched(file):
        return FileOutlet(file)
    if file.isatty() or os.path.samestat(os.fstat(file.fileno()), os.fstat(0)):
        return TerminalOutlet(file)
    transport, flow = await asyncio.get_running_loop().connect_write_pipe(Flow, file)
    return PipeOutlet(transport, flow)


async def open_lines(file: BinaryIO) -> Lines:
    """Return the lines of `file`; a file that no selector can watch is first read to its end."""
    if _can_be_watched(file):
        _, lines = await asyncio.get_running_loop().connect_read_pipe(Lines, file)
        return lines
    lines = Lines()
    while chunk := await anyio.to_thread.run_sync(file.read, READ_CHUNK):
        lines.data_received(chunk)
    lines.eof_received()
    return lines


async def serve_lines(
    open_connection: ConnectionFactory,
    lines: Lines,
    outlet: PipeOutlet | FileOutlet,
    *,
    last_answers: float = LAST_ANSWERS,
    hurried_answers: float = HURRIED_ANSWERS,
) -> None:
    """Serve the client that writes `lines` and reads `outlet`, as `serve_stdio` does."""
    async with anyio.create_task_group() as tasks:
        connection = open_connection(outlet, IndependentTasks(tasks), STDIO)
        calls = _Calls(connection, outlet)
        lines.taker = calls.take
        try:
            is_script = await _read(lines, outlet, connection)
            if is_script is None:
                is_script = not calls.has_conversed
            connection.modern.end_listening()
            with anyio.move_on_after(last_answers if is_script else hurried_answers):
                await _until_answered(connection, outlet)
                await outlet.close()
        finally:
            connection.close()
        tasks.cancel_scope.cancel()


class _Calls:
    """Takes calls from stdin without a task where their routes are cached; answers them on stdout.

    What the client answers goes to who waits for it.

    `has_conversed`: when the second call came, the first one was answered.
    """

    def __init__(self, connection: ClientConnection, outlet: PipeOutlet | FileOutlet) -> None:
        self._connection = connection
        self.outlet = outlet
        self.has_conversed = False
        self._taken = 0

    def take(self, line: bytes) -> bool:
        """Take `line` if it is a call that can be taken now, or an answer that is awaited.

        Returns whether it was taken.
        """
        try:
            message = parsing.parse_client(line)
        except WireError:
            return False
        if not isinstance(message, Request):
            is_answer = isinstance(message, Response | Failure)
            return is_answer and self._connection.peer.pending.settle(message)
        if message.method not in CALLS:
            return False
        try:
            return self._take_call(message, len(line))
        except Exception:
            # Raised from here, it would end the client's connection.
            log.exception("request failed", method=message.method)
            failure = Failure(message.id, InternalError().error)
            self._connection.dispatcher.tasks.start_soon(self.deliver, failure)
            return True

    def _take_call(self, request: Request, size: int) -> bool:
        connection = self._connection
        backlog = connection.peer.backlog
        self._taken += 1
        if self._taken == 2:  # noqa: PLR2004 - the first call that can have waited for an answer
            self.has_conversed = backlog.is_idle
        if connection.dispatcher.take(request, connection.route_for(request), self) is None:
            if not backlog.accepts(request.id):
                return False
            self.resolve_again(request)
        if size > LIGHT:
            backlog.add_size(request.id, size)
        return True

    def give(self, answer: Answer) -> bool:
        return answer is None or self.outlet.post(answer)

    async def deliver(self, answer: Response | Failure) -> None:
        await self._connection.peer.answer_later(answer, self.outlet)

    def resolve_again(self, request: Request) -> None:
        self._connection.peer.take(request, self.outlet)


async def _read(lines: Lines, outlet: Outlet, connection: ClientConnection) -> bool | None:
    """Receive messages until stdin ends; return whether the client is a script.

    A script: more lines, or the end, were there when the first one was read. None: `_Calls` took
    all lines.
    """
    is_script: bool | None = None
    while True:
        try:
            line = await lines.next()
        except GoneError:
            return is_script
        if is_script is None:
            is_script = lines.has_more
        try:
            message = _parsed(line)
            await connection.peer.receive(message)
        except WireError as exc:
            with suppress(GoneError):
                await outlet.send(messages.failure_of(exc))
            continue
        if isinstance(message, Request):
            connection.peer.backlog.add_size(message.id, len(line))
        # Over a pipe the client can be asked at any time. Before its handshake this does nothing.
        connection.session.roots.reachable()


def _parsed(line: bytes) -> Message:
    if isinstance(line, TruncatedLine):
        said = f"Message larger than {messages.MAX_MESSAGE_BYTES} bytes"
        raise WireError(INVALID_REQUEST, said, asked_by(line))
    return parsing.parse_client(line)


async def _until_answered(connection: ClientConnection, outlet: PipeOutlet | FileOutlet) -> None:
    """Return once all requests are answered, or nobody reads stdout any more."""
    async with anyio.create_task_group() as tasks:

        async def give_up() -> None:
            await outlet.lost()
            tasks.cancel_scope.cancel()

        tasks.start_soon(give_up)
        await connection.peer.backlog.idle()
        tasks.cancel_scope.cancel()
