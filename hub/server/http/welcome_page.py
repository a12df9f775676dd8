"""The page for people who open the endpoint in a browser: what it is, and how a client connects.

It is shown without a token, which a browser's address bar cannot send: it has nothing that is
secret. Its frame is that of all pages.
"""

from __future__ import annotations

import json
from html import escape
from typing import Final

from starlette.types import Scope

from hub.server.http.access import ProxiedTo, RequestHeaders
from hub.values import JsonObject

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
