"""Opens connections to remote children, over the transport that the operator chose.

The HTTP client parses all that one read has brought before other tasks have a turn. A child that
sends chunks of one byte, or interim responses without end, so takes the whole loop. Data of many
lines is therefore handed over in portions, and the time for each counts as the child's. A body in
few chunks has few lines and costs nothing here: responses are bounded by the hub's requests.

Imported only when a remote child is opened, because it loads the HTTP client.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - tells when the loop turns, which anyio does not
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpcore2
import httpx2
from msgspec.structs import replace

from hub.children.link import ChildConnection
from hub.children.process.process_tree import ProcessSupervisor
from hub.children.remote.http_client import Endpoint
from hub.children.remote.sse import SseLink
from hub.children.remote.streamable_http import HttpLink
from hub.errors import ChildError
from hub.jsonrpc.lines import end_of_lines
from hub.jsonrpc.peer_conduct import LoopShare, PeerConduct
from hub.jsonrpc.rated_log import ChildLog
from hub.logins.access_tokens import AccessTokens
from hub.logins.login_files import LoginFiles
from hub.secrets.reading import SecretReader
from hub.specs import RemoteLogin, RemoteTarget
from hub.system.connecting import HostLookups, HttpTransport, LookingUpBackend


@asynccontextmanager
async def open_remote(  # noqa: PLR0913 - what a connection is made of
    server: str,
    target: RemoteTarget,
    log: ChildLog,
    *,
    secrets: SecretReader,
    for_commands: Mapping[str, str],
    logins: LoginFiles | None,
    supervisor: ProcessSupervisor,
) -> AsyncGenerator[ChildConnection]:
    """Connect to a remote child, with the secrets in its headers as they are now.

    `for_commands` is the environment of commands that print secrets. A server with a login has its
    tokens from `logins`. Its session has as long to end as a process of `supervisor` to exit.

    Raises: ChildError if that fails. Over streamable HTTP only the first message shows a failure.
    """
    if target.secrets:
        at = f"servers.{server}.headers"
        found = await secrets.values(at, target.secrets, for_commands)
        target = replace(target, headers={**target.headers, **found})
    tokens = await _tokens(server, target, logins)
    conduct = PeerConduct(server, log)
    async with paced_transport(conduct.pace) as transport:
        endpoint = Endpoint(target, transport, conduct, tokens)
        async with anyio.create_task_group() as tasks:
            if target.transport == "sse":
                link = SseLink(endpoint, tasks)
                await tasks.start(link.listen)
                yield link
                tasks.cancel_scope.cancel()
                return
            link = HttpLink(endpoint, tasks, falls_back=target.transport == "auto")
            try:
                yield link
            finally:
                tasks.cancel_scope.cancel()
                graces = supervisor.graces
                with anyio.CancelScope(shield=True):
                    await supervisor.shutdown.until(link.leave, graces.eof, graces.eof_at_end)


async def _tokens(
    server: str, target: RemoteTarget, logins: LoginFiles | None
) -> AccessTokens | None:
    """Return the tokens of a login, the first one asked for. Raises: ChildError without one."""
    login = target.login
    if login is None:
        return None
    if logins is None:
        raise ChildError("its login cannot be read: there is no state directory")
    tokens = AccessTokens(server, target.url, logins, time.time, remedy=_remedy(login))
    await tokens.current()
    return tokens


def _remedy(login: RemoteLogin) -> str | None:
    """Return what a principal does to log in; None for this machine's user."""
    if not login.owner:
        return None
    if login.page is None:
        return "its user cannot show who it is (the operator sets listen.auth.issuers[].pages)"
    return f"open {login.page} in a browser, and log in there"


KEEP_ALIVE = 4.0
"""Seconds that an unused connection is kept; many servers close it after five."""
IDLE_CONNECTIONS = 32
QUIET, PROBES_APART, PROBES = 60, 15, 4
"""Seconds until a silent connection is probed, seconds between probes, and how many may fail."""
USUAL_LINES = 32
"""Lines in one read up to which it is not counted: the head of a response has fewer."""
LINES_AT_ONCE = 16
"""Lines that are handed over at once."""


def paced_transport(pace: LoopShare) -> HttpTransport:
    """Return the HTTP client of one child: a paced connection for each call in flight."""
    limits = httpx2.Limits(max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=KEEP_ALIVE)
    return HttpTransport(PacedBackend(pace), limits, _probed())


class PacedBackend(LookingUpBackend):
    """Opens paced connections of one child."""

    def __init__(self, pace: LoopShare) -> None:
        super().__init__(HostLookups())
        self._pace = pace

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return PacedStream(await super().connect_tcp(*args, **kwargs), self._pace)


class PacedStream(httpcore2.AsyncNetworkStream):
    """One connection; its reader is given data of many lines in portions, at the child's pace."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, pace: LoopShare) -> None:
        self._stream = stream
        self._pace = pace
        self._unread = b""
        self._began: float | None = None

    async def read(
        self,
        max_bytes: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's signature
    ) -> bytes:
        self._worked()
        if not self._unread:
            data = await self._stream.read(max_bytes, timeout)
            if data.count(b"\n") <= USUAL_LINES:
                return data
            self._unread = data
        rest = self._pace.rest()
        if rest is not None:
            await anyio.sleep(rest)
        end = end_of_lines(self._unread, 0, LINES_AT_ONCE)
        portion, self._unread = self._unread[:end], self._unread[end:]
        self._began = self._pace.clock()
        # The reader may wait for something else than more data: that costs the loop no time.
        asyncio.get_running_loop().call_soon(self._worked)
        return portion

    def _worked(self) -> None:
        """Count the work on a portion, which ends at the next read or when the loop turns."""
        if self._began is not None:
            began, self._began = self._began, None
            self._pace.spend(self._pace.clock() - began)

    async def write(self, *args: Any, **kwargs: Any) -> None:
        await self._stream.write(*args, **kwargs)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return PacedStream(await self._stream.start_tls(*args, **kwargs), self._pace)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable" and self._unread:
            return True
        return self._stream.get_extra_info(info)


def _probed() -> list[tuple[int, int, int]]:
    """Return the socket options that end a connection whose other side has vanished."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    # macOS calls TCP_KEEPIDLE TCP_KEEPALIVE; older versions of Windows lack these options.
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), QUIET),
        (("TCP_KEEPINTVL",), PROBES_APART),
        (("TCP_KEEPCNT",), PROBES),
    ):
        known = [getattr(socket, name) for name in names if hasattr(socket, name)]
        options += [(socket.IPPROTO_TCP, option, value) for option in known[:1]]
    return options
