"""What browsers send to the hub (queries, forms, their cookie), and pages that they are shown."""

from __future__ import annotations

import secrets
from html import escape
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from hub.server.http.access import Refusal, RequestHeaders
from hub.server.http.bounds.bodies import BodyLimit
from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.open_requests import PAGE_HEADERS, framed
from hub.server.http.responses import read_body, respond

HEADERS: Final = {
    **PAGE_HEADERS,
    # With no referrer at all a browser sends `Origin: null` with the answer.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}
"""Of pages with a form."""
MOST_BYTES: Final = 64 * 1024
"""Of the body of a request."""
_MOST_FIELDS: Final = 50
_COOKIE: Final = 43
"""Characters of a cookie's value: 32 random bytes."""


class BrowserCookie:
    """The cookie by which a browser is known again; `is_safe`: over https alone."""

    def __init__(self, *, is_safe: bool) -> None:
        # With this prefix no other host of the domain can set it.
        self._name = "__Host-roots-hub-login" if is_safe else "roots-hub-login"
        self._attributes = f"; Path=/; HttpOnly; SameSite=Lax{'; Secure' if is_safe else ''}"

    def of(self, headers: RequestHeaders) -> str:
        """Return by what a browser is known again; empty if it is not."""
        for one in (headers.get("cookie") or "").split(";"):
            name, _, value = one.strip().partition("=")
            if name == self._name and len(value) == _COOKIE:
                return value
        return ""

    def of_or_new(self, headers: RequestHeaders) -> tuple[str, dict[str, str]]:
        """Return the same for a browser that is to be known again, and headers of the answer."""
        known = self.of(headers)
        if known:
            return known, {}
        made = secrets.token_urlsafe(32)
        return made, {"set-cookie": f"{self._name}={made}{self._attributes}"}


def query_of(scope: Scope) -> dict[str, str]:
    """Return the fields of an address. Raises: OAuthError as `fields_in` does."""
    return fields_in(scope["query_string"].decode("latin-1"))


def fields_in(text: str) -> dict[str, str]:
    """Return form fields; a field may stand only once, an empty one is left out (RFC 6749, 3.1).

    Raises: OAuthError.
    """
    try:
        pairs = parse_qsl(text, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise OAuthError("invalid_request", "there are too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise OAuthError("invalid_request", "a field stands more than once")
    return fields


async def body_of(receive: Receive) -> bytes:
    """Return a request's body. Raises: OAuthError if it is too long; GoneError."""
    body = await read_body(receive, BodyLimit(2 * MOST_BYTES).load())  # a fair part is half
    if isinstance(body, Refusal):
        raise OAuthError("invalid_request", f"the body has over {MOST_BYTES} bytes")
    return body


async def form_of(receive: Receive) -> dict[str, str]:
    """Return the fields of a form that was sent. Raises: OAuthError, GoneError."""
    return fields_in((await body_of(receive)).decode("latin-1"))


def text_page(text: str) -> bytes:
    """Return a page with a text, such as why a login cannot go on."""
    return framed(f"<p>{escape(text)}</p>\n")


async def send_on(send: Send, url: str) -> None:
    """Send a browser on; after a form's POST it goes on with GET (RFC 9110, 15.4.4)."""
    await respond(send, 303, b"", {**HEADERS, "location": url})
