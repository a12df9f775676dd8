"""What anybody may ask of the endpoint without a token: metadata, logins, a page, preflights.

The page is for people who open the endpoint in a browser, whose address bar sends no token: it says
how a client connects, and nothing secret. Its frame is that of all pages.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from html import escape
from typing import Final

from starlette.types import Receive, Scope, Send

from hub.server.http.access import AccessCheck, ProxiedTo, Refusal, RequestHeaders
from hub.server.http.auth.admission import ProtectedResource
from hub.server.http.request_heads import HeaderChecks
from hub.server.http.responses import not_allowed, permission, respond
from hub.values import JsonObject


class OpenRequests:
    """Answers requests that need no token, at `path` and beside it; Host and Origin are checked.

    `refuse` answers with a refusal, and notes the address.
    """

    def __init__(
        self,
        gatekeeper: AccessCheck,
        checks: HeaderChecks,
        path: str,
        refuse: Callable[[str, Refusal, Send], Awaitable[None]],
    ) -> None:
        self._gatekeeper = gatekeeper
        self._checks = checks
        self._path = path
        self._refuse = refuse

    async def serve(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send
    ) -> bool:
        """Answer what anybody may ask; return whether it was such a request."""
        resource, logins, path = self._gatekeeper.resource, self._gatekeeper.logins, scope["path"]
        if resource is not None and resource.has_metadata_at(path, self._path):
            answer = partial(self._tell_of, resource, scope, send)
        elif logins is not None and logins.has(path):
            address = self._checks.client(scope, headers)
            answer = partial(logins, scope, headers, address, receive, send)
        elif self._is_for_page(scope, headers):
            answer = partial(self._show_page, scope, headers, send)
        else:
            return False
        refusal = self._checks.place_refusal(scope, headers)
        if refusal is not None:
            await self._refuse(self._checks.client(scope, headers), refusal, send)
        else:
            await answer()
        return True

    async def permit(self, scope: Scope, headers: RequestHeaders, send: Send) -> None:
        """Answer a CORS preflight, which carries no token; the request after it does."""
        resource, logins, path = self._gatekeeper.resource, self._gatekeeper.logins, scope["path"]
        is_told = resource is not None and resource.has_metadata_at(path, self._path)
        is_login = logins is not None and logins.has(path)
        elsewhere = None if is_told or is_login else self._checks.elsewhere(scope)
        refusal = self._checks.place_refusal(scope, headers) or elsewhere
        if refusal is not None:
            await self._refuse(self._checks.client(scope, headers), refusal, send)
        else:
            await respond(send, 204, b"", permission(headers))

    async def _tell_of(self, resource: ProtectedResource, scope: Scope, send: Send) -> None:
        """Tell whose tokens the hub takes."""
        if scope["method"] not in {"GET", "HEAD"}:
            await not_allowed(send, "GET, HEAD")
        else:
            await respond(send, 200, resource.metadata, {"cache-control": "max-age=300"})

    def _is_for_page(self, scope: Scope, headers: RequestHeaders) -> bool:
        is_here = scope["path"] == "/" or self._checks.elsewhere(scope) is None
        return is_here and is_browser(scope, headers)

    async def _show_page(self, scope: Scope, headers: RequestHeaders, send: Send) -> None:
        """Tell a person who opened the endpoint in a browser what it is for."""
        proxied = self._checks.proxied(scope, headers)
        needs_token = self._gatekeeper.needs_token
        shown = page(headers, proxied, self._path, needs_token=needs_token)
        await respond(send, 200, shown, PAGE_HEADERS)


PAGE_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}
_FRAME: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>roots-hub</title>
<h1>roots-hub</h1>
{content}</html>
"""
_WELCOME: Final = """\
<p>This is an endpoint of the Model Context Protocol (MCP): for MCP clients, not for browsers.</p>
<p>To use it, add this to your client's config:</p>
<pre>{config}</pre>
"""
_ON_TOKENS: Final = """<p>Clients need a token. Ask whoever runs this hub for it.
Put it into the environment variable HUB_TOKEN.</p>
"""


def is_browser(scope: Scope, headers: RequestHeaders) -> bool:
    """Return whether a person opens this address in a browser, as opposed to a client's request."""
    accept = headers.accept.lower()
    asks_for_page = "text/html" in accept and "text/event-stream" not in accept
    is_client = headers.get("mcp-session-id") or headers.get("mcp-protocol-version")
    return scope["method"] in {"GET", "HEAD"} and asks_for_page and not is_client


def client_config(url: str, *, needs_token: bool) -> str:
    """Return the JSON that a client's config needs for the hub at this URL."""
    entry: JsonObject = {"type": "http", "url": url}
    if needs_token:
        entry["headers"] = {"Authorization": "Bearer ${HUB_TOKEN}"}
    return json.dumps({"mcpServers": {"roots-hub": entry}}, indent=2)


def page(headers: RequestHeaders, proxied: ProxiedTo, path: str, *, needs_token: bool) -> bytes:
    """Return the page, with the URL that the browser came to."""
    url = f"{proxied.scheme or 'http'}://{proxied.host or headers.get('host') or 'localhost'}{path}"
    config = escape(client_config(url, needs_token=needs_token))
    return framed(_WELCOME.format(config=config) + (_ON_TOKENS if needs_token else ""))


def framed(content: str) -> bytes:
    """Return the page of the hub with this HTML."""
    return _FRAME.format(content=content).encode()
