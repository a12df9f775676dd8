"""Serves one client over this process' standard streams."""

from __future__ import annotations

import sys

import anyio

from hub.core.protocol import INVALID_REQUEST
from hub.edge.server import Front, OpenFront
from hub.runtime import wire
from hub.runtime.peer import GoneError, Outlet
from hub.runtime.pipes import Lines, open_lines, open_outlet
from hub.runtime.wire import WireError

LAST_ANSWERS = 10.0
"""Seconds that requests under way may still take when the client has closed its end but reads on."""


async def serve_stdio(open_front: OpenFront) -> None:
    """Serve the client on stdin and stdout until it closes stdin.

    What was asked before is still answered, for `LAST_ANSWERS` seconds at most and while the client reads.
    """
    outlet = await open_outlet(sys.stdout.buffer)
    lines = await open_lines(sys.stdin.buffer)
    async with anyio.create_task_group() as tasks:
        front = open_front(outlet, tasks, "stdio")
        try:
            await _read(lines, outlet, front)
            with anyio.move_on_after(LAST_ANSWERS):
                while front.peer.busy and not outlet.gone:
                    await anyio.sleep(0.02)
        finally:
            front.close()
        tasks.cancel_scope.cancel()


async def _read(lines: Lines, outlet: Outlet, front: Front) -> None:
    while True:
        try:
            line = await lines.next()
        except GoneError:
            return
        try:
            if line is None:
                raise WireError(
                    INVALID_REQUEST, f"Message larger than {wire.MAX_MESSAGE_BYTES} bytes"
                )
            message = wire.parse_client(line)
        except WireError as exc:
            await outlet.send(exc.failure())
            continue
        await front.peer.receive(message)
        # A pipe reaches the client at any time; before its handshake is over this does nothing.
        front.session.roots.reachable()
