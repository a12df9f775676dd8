"""Opens connections to remote children, over the transport that the operator chose.

Imported only when a remote child is opened, because it loads the HTTP client.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from msgspec.structs import replace

from hub.children.link import ChildConnection
from hub.children.remote.http_client import Endpoint
from hub.children.remote.paced_network import paced_transport
from hub.children.remote.sse import SseLink
from hub.children.remote.streamable_http import HttpLink
from hub.errors import ChildError
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.jsonrpc.rated_log import ChildLog
from hub.logins.access_tokens import AccessTokens
from hub.logins.login_files import LoginFiles
from hub.secrets.reading import SecretReader
from hub.specs import RemoteLogin, RemoteTarget

CLOSE_GRACE = 2.0
"""Seconds that ending a session may take."""


@asynccontextmanager
async def open_remote(  # noqa: PLR0913 - what a connection is made of
    server: str,
    target: RemoteTarget,
    log: ChildLog,
    *,
    secrets: SecretReader,
    for_commands: Mapping[str, str],
    logins: LoginFiles | None,
) -> AsyncGenerator[ChildConnection]:
    """Connect to a remote child, with the secrets in its headers as they are now.

    `for_commands` is the environment of commands that print secrets. A server with a login has its
    tokens from `logins`.

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
