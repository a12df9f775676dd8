"""The OAuth proxy over HTTP: metadata, registration, the pages of a login, the token endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final, cast
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from hub.jsonrpc.errors import GoneError
from hub.protocol.http_headers import is_loopback
from hub.server.http.access import RequestHeaders
from hub.server.http.auth.token_verifier import Upkeep
from hub.server.http.bounds.failed_logins import FailedLogins
from hub.server.http.oauth_proxy.browsers import (
    HEADERS,
    BrowserCookie,
    body_of,
    form_of,
    query_of,
    send_on,
    text_page,
)
from hub.server.http.oauth_proxy.errors import OAuthError, RefusedGrantError, refusals_counted
from hub.server.http.oauth_proxy.proxy import ConsentQuestion, OAuthProxy
from hub.server.http.open_requests import framed
from hub.server.http.responses import not_allowed, respond

_METADATA: Final = "/.well-known/oauth-authorization-server"
_NO_STORE: Final = {"cache-control": "no-store"}
_QUESTION: Final = """<p><strong>{name}</strong> wants to use this hub as you: {resource}</p>
{scopes}<p>You would be sent back to <strong>{place}</strong>. The name is what the program says of
itself; go on only if you have just begun this login there.</p>
<form method="post">
<input type="hidden" name="ticket" value="{ticket}">
<button name="answer" value="allow">Go on and log in</button>
<button name="answer" value="deny">Refuse</button>
</form>
"""
_SCOPES: Final = """<p>It asks for: <strong>{names}</strong></p>
"""


class OAuthEndpoints:
    """Serves what clients and browsers ask of the proxy, at the endpoint `path` of the hub.

    A proxy in front of the hub may have changed the path: that of the public URL counts as well.
    Codes and refresh tokens are asked about at the provider, with the hub's own secret: so an
    address has to wait from which the provider has refused too many. What the hub refuses by itself
    does not count: many clients may share an address.
    """

    def __init__(self, proxy: OAuthProxy, path: str) -> None:
        self._proxy = proxy
        self._refused_grants = FailedLogins()
        url = urlsplit(proxy.resource.url)
        self._paths = tuple(dict.fromkeys((url.path.rstrip("/"), path.rstrip("/"))))
        self._cookie = BrowserCookie(is_safe=url.scheme == "https")

    def has(self, path: str) -> bool:
        """Return whether a request to this path is for the proxy."""
        return self._step_at(path) is not None

    @property
    def upkeep(self) -> list[Upkeep]:
        """What keeps the connections to the identity provider."""
        return [self._proxy.provider.serve]

    def _step_at(self, path: str) -> str | None:
        if path.rstrip("/") in {_METADATA, *(f"{_METADATA}{one}" for one in self._paths)}:
            return "metadata"
        for one in self._paths:
            step = path.removeprefix(f"{one}/oauth/")
            if step != path and step in _METHODS and step != "metadata":
                return step
        return None

    async def __call__(
        self, scope: Scope, headers: RequestHeaders, address: str, receive: Receive, send: Send
    ) -> None:
        """Serve a request for one of the proxy's paths."""
        step = self._step_at(scope["path"]) or ""
        if scope["method"] not in _METHODS[step].split(", "):
            await not_allowed(send, _METHODS[step])
            return
        try:
            if step == "token":
                form = await form_of(receive)
                async with refusals_counted(self._refused_grants, address, RefusedGrantError):
                    tokens = await self._proxy.tokens(form)
                await _tell(send, 200, tokens)
            else:
                await self._served(step, scope, headers, receive, send)
        except GoneError:
            return
        except OAuthError as exc:
            if step in {"authorize", "callback"}:  # people see it
                more = {**HEADERS, **exc.headers}
                await respond(send, exc.status, text_page(str(exc)), more)
            else:
                said = {"error": exc.code, "error_description": str(exc)}
                await _tell(send, exc.status, said, exc.headers)

    async def _served(
        self, step: str, scope: Scope, headers: RequestHeaders, receive: Receive, send: Send
    ) -> None:
        match step:
            case "metadata":
                await _tell(send, 200, self._proxy.metadata)
            case "register":
                await _tell(send, 201, self._proxy.register(_object(await body_of(receive))))
            case "authorize" if scope["method"] == "POST":
                form = await form_of(receive)
                allowed = form.get("answer") == "allow"
                ticket, browser = form.get("ticket", ""), self._cookie.of(headers)
                place = await self._proxy.answered(ticket, browser, is_allowed=allowed)
                await send_on(send, place)
            case "authorize":
                await self._ask(query_of(scope), headers, send)
            case _:
                back = await self._proxy.came_back(query_of(scope), self._cookie.of(headers))
                await send_on(send, back)

    async def _ask(self, query: Mapping[str, str], headers: RequestHeaders, send: Send) -> None:
        """Show the question, in a browser that is known again by a cookie."""
        browser, more = self._cookie.of_or_new(headers)
        question = self._proxy.begin(query, browser)
        shown = consent_page(question, self._proxy.resource.url)
        await respond(send, 200, shown, {**HEADERS, **more})


_METHODS: Final = {
    "metadata": "GET, HEAD",
    "register": "POST",
    "authorize": "GET, POST",
    "callback": "GET",
    "token": "POST",
}


async def _tell(
    send: Send, status: int, said: dict[str, Any], more: Mapping[str, str] | None = None
) -> None:
    """Answer a client."""
    await respond(send, status, said, {**_NO_STORE, **(more or {})})


def _object(body: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise OAuthError("invalid_client_metadata", "the body must be a JSON object")
    return cast("dict[str, Any]", found)


def consent_page(question: ConsentQuestion, resource: str) -> bytes:
    """Return the page with a question."""
    name = question.client.name or "A program without a name"
    content = _QUESTION.format(
        name=escape(name),
        resource=escape(resource),
        place=escape(_place(question.redirect_uri)),
        scopes=_SCOPES.format(names=escape(", ".join(question.scopes))) if question.scopes else "",
        ticket=escape(question.ticket),
    )
    return framed(content)


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return "a program on this computer"
    if parts.scheme == "https":
        return parts.netloc
    return f"the program for {parts.scheme}: addresses"
