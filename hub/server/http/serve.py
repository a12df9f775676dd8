"""Runs the HTTP endpoint in uvicorn until the hub ends."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the HTTP server takes its protocols
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Literal, cast

import anyio
import structlog
import uvicorn

from hub.server.http.app import HttpServer
from hub.server.http.bounds.connections import MOST_FILES, Connections, Limits
from hub.system.shutdown import Shutdown
from hub.system.this_process import most_files

LAST_ANSWERS, LAST_BYTES = 0.5, 0.7
"""Seconds at the hub's end for requests to be answered, and then for responses to be read."""
_STUCK = 5
"""Seconds after which uvicorn cancels what is left, which it calls an error."""
_TICK = 1.0
"""Seconds after which responses have another date."""
_LOOK_AGAIN = 0.02
"""Seconds between two checks whether requests are in progress, while the hub ends."""
_AT_ONCE = 32
"""How many connections are accepted at once, before the open connections get their turn again."""
_BACKLOG = 1024
"""How many connections may wait to be accepted."""

log = structlog.stdlib.get_logger(__name__)


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the hub and calls `ready` once it serves."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._is_ending = anyio.Event()
        self.servers = []

    def end(self) -> None:
        """Accept no more connections, and return from `serve` once all that are open are closed."""
        self.should_exit = True
        self._is_ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)
        if self.started:
            self._ready()

    async def main_loop(self) -> None:
        """Keep the date of responses, until the end; uvicorn would look ten times a second."""
        while not await self.on_tick(0):
            with anyio.move_on_after(_TICK):
                await self._is_ending.wait()

    def stop_accepting(self) -> None:
        """Accept no connection any more; those that are open stay so.

        Who connects is refused, or waits for the next process that has the same socket.
        """
        for listening in self.servers:
            listening.close()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signals: the hub handles them."""
        yield


async def serve_http(  # noqa: PLR0913 - what is served, where, and how it ends
    app: HttpServer,
    listener: socket.socket,
    *,
    drain: float = 0,
    last_answers: float = LAST_ANSWERS,
    ready: Callable[[], None],
    shutdown: Shutdown,
) -> None:
    """Serve clients on `listener` until `shutdown` begins; call `ready` once requests are accepted.

    At shutdown no session is opened any more, and requests in progress get `drain` seconds.
    """
    # Connections inherit it. Without it a small response waits for the ACK of the previous one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = _config(app, Limits.of_files(most_files(MOST_FILES)))
    server = _Server(config, ready)
    async with anyio.create_task_group() as tasks:
        await tasks.start(app.run)
        tasks.start_soon(_stop, server, app, shutdown, drain, last_answers)
        await server.serve([listener])
        tasks.cancel_scope.cancel()


def _config(app: HttpServer, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_parser(app, limits),
        ws="none",
        interface="asgi3",
        proxy_headers=False,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=_AT_ONCE,
        timeout_keep_alive=int(limits.idle),
        timeout_graceful_shutdown=_STUCK,
    )


def _parser(app: HttpServer, limits: Limits) -> type[asyncio.Protocol] | Literal["h11"]:
    try:
        from hub.server.http.uvicorn_protocol import DirectHttp  # noqa: PLC0415 - httptools is not everywhere
    except ImportError:
        log.warning(
            "httptools cannot be imported: connections are bound neither in number nor in time",
            next="Let nobody else reach the hub, or install httptools.",
        )
        return "h11"  # h11 limits the size of heads itself
    connections = Connections(limits, app.log, app.proxies)
    app.bodies.make_room = connections.drop_slow_body
    made = partial(DirectHttp, acceptor=app.acceptor, connections=connections)
    return cast("type[asyncio.Protocol]", made)


async def _stop(
    server: _Server, app: HttpServer, shutdown: Shutdown, drain: float, last_answers: float
) -> None:
    """At shutdown let requests in progress end, then end the streams, then what is left.

    Requests in progress have `drain` seconds, and `last_answers` more once the streams have ended;
    none when pressed. After half of `drain` no connection is accepted, and no request is begun:
    else some would always be in progress where many clients call, and would be given up. Who does
    not read what is left within `LAST_BYTES` seconds does not get it.
    """
    await shutdown.begun.wait()
    app.drain()
    if drain and app.is_busy:
        log.info("ending: waits for requests in progress", at_most=drain)
    await _drain(app, shutdown, drain / 2)
    app.refuse_requests()
    server.stop_accepting()
    await _drain(app, shutdown, drain / 2)
    server.end()
    app.end_streams()
    with anyio.move_on_after(last_answers):
        await shutdown.pressed.wait()
    app.end_answers()
    await anyio.sleep(LAST_BYTES)
    for connection in list(server.server_state.connections):
        connection.transport.abort()


async def _drain(app: HttpServer, shutdown: Shutdown, most: float) -> None:
    """Return once no request is in progress, when pressed, or after `most` seconds."""
    with anyio.move_on_after(most):
        while app.is_busy and not shutdown.pressed.is_set():
            with anyio.move_on_after(_LOOK_AGAIN):
                await shutdown.pressed.wait()
