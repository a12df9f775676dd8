"""Serves one client over this process' standard streams."""

from __future__ import annotations

import sys
from contextlib import suppress

import anyio

from hub.jsonrpc import messages
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.lines import Lines, TruncatedLine
from hub.jsonrpc.messages import Failure, Message, Request, Response, asked_by
from hub.jsonrpc.outgoing import Answer
from hub.jsonrpc.peer import GoneError, Outlet
from hub.jsonrpc.pipes import FileOutlet, PipeOutlet, open_lines, open_outlet
from hub.protocol.constants import INVALID_REQUEST
from hub.server.connection import ClientConnection, ConnectionFactory

LAST_ANSWERS = 10.0
"""Seconds that the answers to a script may take, which asks on without waiting for any."""
HURRIED_ANSWERS = 0.3
"""Seconds that answers may take to a client that conversed, and has closed its end."""


async def serve_stdio(open_connection: ConnectionFactory) -> None:
    """Serve the client on stdin and stdout until it closes stdin.

    What was asked before is still answered while the client reads, for `LAST_ANSWERS` seconds at
    most; for `HURRIED_ANSWERS` if this was a conversation, whose client waits for the hub to end.
    """
    outlet = await open_outlet(sys.stdout.buffer)
    lines = await open_lines(sys.stdin.buffer)
    async with anyio.create_task_group() as tasks:
        connection = open_connection(outlet, tasks, "stdio")
        calls = _Calls(connection, outlet)
        lines.taker = calls.take
        try:
            is_script = await _read(lines, outlet, connection)
            if is_script is None:
                is_script = not calls.has_conversed
            connection.end_listening()
            with anyio.move_on_after(LAST_ANSWERS if is_script else HURRIED_ANSWERS):
                await _until_answered(connection, outlet)
                await outlet.close()
        finally:
            connection.close()
        tasks.cancel_scope.cancel()


class _Calls:
    """Takes the calls out of what the client sends, and answers them in the same pipe.

    `has_conversed`: the client made its second call when the first was answered.
    """

    def __init__(self, connection: ClientConnection, outlet: PipeOutlet | FileOutlet) -> None:
        self._front = connection
        self.outlet = outlet
        self.has_conversed = False
        self._taken = 0

    def take(self, line: bytes) -> bool:
        """Take a line if it is a call that can be taken now."""
        try:
            request = messages.parse_client(line)
        except WireError:
            return False
        if not isinstance(request, Request) or request.method != "tools/call":
            return False
        self._taken += 1
        if self._taken == 2:  # noqa: PLR2004 - the first that can have waited for another
            self.has_conversed = self._front.peer.backlog.is_idle
        if self._front.dispatcher.take(request, self._front.route_for(request), self) is None:
            if not self._front.peer.backlog.accepts(request.id):
                return False
            self.detour(request)
        self._front.peer.backlog.add_size(request.id, len(line))
        return True

    def give(self, answer: Answer) -> bool:
        return answer is None or self.outlet.post(answer)

    async def deliver(self, answer: Response | Failure) -> None:
        await self._front.peer.answer_later(answer, self.outlet)

    def detour(self, request: Request) -> None:
        self._front.peer.take(request, self.outlet)


async def _read(lines: Lines, outlet: Outlet, connection: ClientConnection) -> bool | None:
    """Take what the client sends, to its end; return whether it asked on without an answer.

    None: it sent nothing but calls that were taken before.
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
        # A pipe reaches the client at any time; before its handshake is over this does nothing.
        connection.session.roots.reachable()


def _parsed(line: bytes) -> Message:
    if isinstance(line, TruncatedLine):
        said = f"Message larger than {messages.MAX_MESSAGE_BYTES} bytes"
        raise WireError(INVALID_REQUEST, said, asked_by(line))
    return messages.parse_client(line)


async def _until_answered(connection: ClientConnection, outlet: PipeOutlet | FileOutlet) -> None:
    """Return once everything is answered, or nobody reads any more."""
    async with anyio.create_task_group() as tasks:

        async def give_up() -> None:
            await outlet.lost()
            tasks.cancel_scope.cancel()

        tasks.start_soon(give_up)
        await connection.peer.backlog.idle()
        tasks.cancel_scope.cancel()
