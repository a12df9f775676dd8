"""The socket of a shared hub: serve attached clients and answer inquiries until nobody needs it."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Protocol

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from hub.attach.frames import ACKNOWLEDGED, ANSWER, REFUSED, json_frame
from hub.attach.runtime_directory import HubPlace
from hub.errors import ConfigError, HubError
from hub.jsonrpc.rated_log import RatedLog
from hub.server.attached.admission import (
    Greeting,
    NotAdmittedError,
    NotServedError,
    greeting,
    must_be_a_client,
)
from hub.server.attached.client_streams import ClientStreams, LifelineEnd, relay_to
from hub.server.connection import ConnectionFactory
from hub.server.stdio import serve_lines
from hub.system.shutdown import Shutdown
from hub.values import Json, JsonObject

BACKLOG: Final = 1024
FIRST_CLIENT: Final = 10.0
"""Seconds that a new hub waits for its first client at least, however short `linger` is."""
_CONFIG_CODE: Final = 3
_NONE_FREE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_REST: Final = 0.05
_LAST_LOOK: Final = 1.0
_CHUNK: Final = 65536

log = structlog.stdlib.get_logger(__name__)


class TakenOver(Protocol):
    """What a hub took over of its changed config. `error`: nothing, and why."""

    @property
    def error(self) -> str | None: ...

    def lines(self) -> Sequence[str]:
        """Return it for people."""
        ...


class SharedHub(Protocol):
    """What the socket needs of a hub."""

    def client(
        self, environment: Mapping[str, str], directory: str, given: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[ConnectionFactory]:
        """Return what opens the connection of a client with this environment and directory.

        Raises: ConfigError or StartError if it cannot be served with these.
        """
        ...

    async def reload(self) -> TakenOver:
        """Take the config over as it is now."""
        ...

    def status(self) -> JsonObject:
        """Return the sessions and the children."""
        ...


class HubFacts(Struct, frozen=True):
    """What `status` says of a hub beside its sessions and children."""

    version: str
    serves: str
    log: str | None
    began: float
    memory: Callable[[], int | None]

    def to_json(self) -> JsonObject:
        return {
            "pid": os.getpid(),
            "version": self.version,
            "serves": self.serves,
            "log": self.log,
            "uptime": time.monotonic() - self.began,
            "memory": self.memory(),
        }


class AttachServer:
    """Serves the clients that attach to one hub.

    `linger` returns for how many seconds the hub goes on without clients; None: it ends otherwise.
    `takes_clients` False: it only answers inquiries.
    """

    def __init__(  # noqa: PLR0913 - each is a part of the hub, or of its place
        self,
        hub: SharedHub,
        place: HubPlace,
        facts: HubFacts,
        shutdown: Shutdown,
        *,
        linger: Callable[[], float] | None,
        takes_clients: bool = True,
    ) -> None:
        self._hub = hub
        self._place = place
        self._facts = facts
        self._shutdown = shutdown
        self._linger = linger
        self._takes_clients = takes_clients
        self._secret = ""
        self._clients: dict[int, JsonObject] = {}
        self._numbers = 0
        self._moved = anyio.Event()
        self._had_client = self._is_retired = False
        self._spare = -1
        self._turned_down = RatedLog({})  # a server may try to attach all the time

    async def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until the shutdown begins, or nobody has been attached for so long.

        The caller holds the hub's lock. When this returns, the socket is gone, so that another hub
        can start while this one ends its servers. Raises: OSError if the socket cannot be made.
        """
        listener = self._listener()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._accept, listener, tasks)
                if self._linger is not None:
                    tasks.start_soon(self._until_unused, self._linger)
                ready()
                await self._shutdown.begun.wait()
                self._place.remove("sock")
                tasks.cancel_scope.cancel()
        finally:
            listener.close()
            self._close_spare()
            self._place.remove("sock")

    def _listener(self) -> socket.socket:
        self._secret = self._place.make_secret()
        self._place.remove("sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.setblocking(False)
            listener.bind(self._place.address)
            self._place.protect_socket()
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener

    async def _until_unused(self, linger: Callable[[], float]) -> None:
        while not self._shutdown.begun.is_set():
            moved = self._moved
            if self._clients:
                await moved.wait()
                continue
            patience = 0.0 if self._is_retired else linger()
            if not self._had_client and not self._is_retired:
                patience = max(patience, FIRST_CLIENT)
            with anyio.move_on_after(patience):
                await moved.wait()
                continue
            log.info("no client: the hub ends", after=patience)
            self._shutdown.begin()

    def _move(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def _accept(self, listener: socket.socket, tasks: TaskGroup) -> None:
        """Accept connections until cancelled, then close the socket.

        Nobody else may close it: libuv aborts the process where a socket that it watches is closed.
        """
        with listener:
            while True:
                self._keep_spare()
                await anyio.wait_readable(listener)
                try:
                    connection, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):  # it has gone already
                    continue
                except OSError as exc:
                    if exc.errno not in _NONE_FREE:
                        raise
                    self._turn_away(listener)
                    await anyio.sleep(_REST)
                    continue
                connection.setblocking(False)
                tasks.start_soon(self._meet, connection)

    def _turn_away(self, listener: socket.socket) -> None:
        """Close the next connection, for which no descriptor is free: its client then knows."""
        log.error("a client was turned away: no descriptor is free. Raise `ulimit -n`")
        self._close_spare()
        with suppress(OSError):
            listener.accept()[0].close()
        self._keep_spare()

    def _keep_spare(self) -> None:
        """Hold a descriptor open that can be closed for a connection, if one is free."""
        if self._spare < 0:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    def _close_spare(self) -> None:
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)

    async def _meet(self, connection: socket.socket) -> None:
        """Serve one connection; whatever goes wrong with it stays with it."""
        with connection:
            try:
                pid = must_be_a_client(connection)
                said = await greeting(connection, pid, self._secret, self._facts.version)
                if said.kind == "attach":
                    await self._attach(connection, said)
                else:
                    await self._answer(connection, said.kind)
            except NotAdmittedError as exc:
                self._turned_down.warning("nobody was served", why=str(exc))
            except NotServedError as exc:
                await self._turn_down(connection, exc)
            except HubError as exc:  # it cannot be served with its environment and directory
                code = _CONFIG_CODE if isinstance(exc, ConfigError) else 1
                await self._turn_down(connection, NotServedError(str(exc), code=code))
            except Exception:
                log.exception("a client was not served")

    async def _turn_down(self, connection: socket.socket, why: NotServedError) -> None:
        """Tell a client why it is not served, and wait a little until it has read that.

        Its hello may still be on the way: closed with unread data, the connection would only break.
        """
        self._turned_down.warning("a client was not served", why=str(why))
        refusal = {"why": str(why), "alone": why.alone, "code": why.code}
        with suppress(OSError), anyio.move_on_after(_LAST_LOOK):
            connection.send(json_frame(REFUSED, refusal))
            connection.shutdown(socket.SHUT_WR)
            while True:
                await anyio.wait_readable(connection)
                with suppress(BlockingIOError):
                    if not connection.recv(_CHUNK):
                        return

    # Attached clients

    async def _attach(self, connection: socket.socket, client: Greeting) -> None:
        streams = ClientStreams()
        self._numbers += 1
        number = self._numbers
        self._clients[number] = {"pid": client.pid, "directory": client.directory}
        self._had_client = True
        self._move()
        try:
            streams.take(*client.descriptors)
            if not self._takes_clients:
                raise NotServedError("this hub serves its own clients only", alone=True)
            opened = self._hub.client(client.environment, client.directory, client.roots)
            async with opened as factory:
                lifeline = LifelineEnd(connection)
                if await self._agreed(connection, lifeline):
                    await self._serve_until_end(factory, client, streams, lifeline)
        finally:
            del self._clients[number]
            self._move()
            streams.close()

    async def _agreed(self, connection: socket.socket, lifeline: LifelineEnd) -> bool:
        """Acknowledge, and return whether the client waits for this hub still."""
        try:
            connection.send(json_frame(ACKNOWLEDGED, {"pid": os.getpid(), "log": self._facts.log}))
        except OSError:
            return False
        return await lifeline.goes_on()

    async def _serve_until_end(
        self,
        factory: ConnectionFactory,
        client: Greeting,
        streams: ClientStreams,
        lifeline: LifelineEnd,
    ) -> None:
        """Serve until the client closes stdin, its process ends, or the hub does."""
        relay_to(lifeline)
        log.info("attached", pid=client.pid, directory=client.directory, log=self._facts.log)
        code = 0
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_after, lifeline, tasks)
                lines, outlet = await streams.lines(), await streams.outlet()
                await serve_lines(factory, lines, outlet)
                tasks.cancel_scope.cancel()
        except Exception:
            code = 1
            log.exception("an attached client's session failed", pid=client.pid)
        finally:
            streams.close()
            log.info("detached", pid=client.pid)
            await lifeline.end(code)

    # Inquiries

    async def _answer(self, connection: socket.socket, kind: str) -> None:
        if kind == "status":
            await _send(connection, self._status())
        elif kind == "reload":
            report = await self._hub.reload()
            lines: list[Json] = [*report.lines()]
            await _send(connection, {"ok": report.error is None, "lines": lines})
        elif kind == "retire":
            self._is_retired = True
            self._move()
            await _send(connection, {})
        else:
            await _send(connection, {"pid": os.getpid()})
            log.info("asked to stop")
            self._shutdown.begin()
            # Open until the process ends: that is how the one that asked knows.
            os.dup(connection.fileno())

    def _status(self) -> JsonObject:
        attached: list[Json] = [*self._clients.values()]
        # The clients of a hub that nobody can attach to are its own: they are not known here.
        clients = attached if self._takes_clients else None
        return {**self._facts.to_json(), "clients": clients, **self._hub.status()}


async def _cancel_after(lifeline: LifelineEnd, tasks: TaskGroup) -> None:
    await lifeline.ended()
    tasks.cancel_scope.cancel()


async def _send(connection: socket.socket, content: JsonObject) -> None:
    rest = memoryview(json_frame(ANSWER, content))
    while rest:
        await anyio.wait_writable(connection)
        with suppress(BlockingIOError):
            rest = rest[connection.send(rest) :]
