"""Opens connections to remote children, over the transport that the operator chose.

Imported only when a remote child is opened, because it loads the HTTP client.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
import httpx2
from msgspec.structs import replace

from hub.children.link import ChildConnection
from hub.children.remote.http_client import Endpoint
from hub.children.remote.paced_network import PacedBackend
from hub.children.remote.sse import SseLink
from hub.children.remote.streamable_http import HttpLink
from hub.errors import ChildError
from hub.jsonrpc.loop_share import LoopShare
from hub.jsonrpc.rated_log import ChildLog
from hub.logins.access_tokens import AccessTokens
from hub.logins.login_files import LoginFiles
from hub.secrets.reading import SecretReader
from hub.specs import RemoteLogin, RemoteTarget
from hub.system.connecting import HttpTransport

CLOSE_GRACE = 2.0
"""Seconds that ending a session may take."""
KEEP_ALIVE = 4.0
"""Seconds that an unused connection is kept; many servers close it after five."""
IDLE_CONNECTIONS = 32
QUIET, PROBES_APART, PROBES = 60, 15, 4
"""Seconds until a silent connection is probed, seconds between probes, and how many may fail."""


@asynccontextmanager
async def open_remote(  # noqa: PLR0913 - what a connection is made of
    server: str,
    target: RemoteTarget,
    log: ChildLog | None = None,
    *,
    secrets: SecretReader | None = None,
    for_commands: Mapping[str, str] | None = None,
    logins: LoginFiles | None = None,
) -> AsyncGenerator[ChildConnection]:
    """Connect to a remote child, with the secrets in its headers as they are now.

    `for_commands` is the environment of commands that print secrets. A server with a login has its
    tokens from `logins`.

    Raises: ChildError if that fails. Over streamable HTTP only the first message shows a failure.
    """
    if target.secrets:
        reader, at = secrets or SecretReader(), f"servers.{server}.headers"
        found = await reader.values(at, target.secrets, for_commands or {})
        target = replace(target, headers={**target.headers, **found})
    tokens = await _tokens(server, target, logins)
    pace, log = LoopShare(), log or ChildLog(server)
    async with _client(pace) as transport:
        endpoint = Endpoint(target, transport, tokens, pace, log)
        if target.transport == "sse":
            async with anyio.create_task_group() as tasks:
                link = SseLink(server, endpoint, tasks, log)
                await tasks.start(link.listen)
                yield link
                tasks.cancel_scope.cancel()
        else:
            async with anyio.create_task_group() as tasks:
                falls_back = target.transport == "auto"
                link = HttpLink(server, endpoint, tasks, log, falls_back=falls_back)
                try:
                    yield link
                finally:
                    tasks.cancel_scope.cancel()
                    with anyio.move_on_after(CLOSE_GRACE, shield=True):
                        await link.leave()


async def _tokens(
    server: str, target: RemoteTarget, logins: LoginFiles | None
) -> AccessTokens | None:
    """Return the tokens for a server with a login, after getting the first one.

    Raises: ChildError if nobody is logged in.
    """
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


def _client(pace: LoopShare) -> HttpTransport:
    """Return the HTTP client of one child; it has a connection for each call in flight."""
    limits = httpx2.Limits(max_keepalive_connections=IDLE_CONNECTIONS, keepalive_expiry=KEEP_ALIVE)
    return HttpTransport(PacedBackend(pace), limits, _probed())


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
