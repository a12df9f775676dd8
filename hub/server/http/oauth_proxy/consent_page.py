"""The page that asks a person whether a client may use the hub, and the pages for errors."""

from __future__ import annotations

from html import escape
from typing import Final
from urllib.parse import urlsplit

from hub.protocol.host_names import is_loopback
from hub.server.http.oauth_proxy.proxy import ConsentQuestion
from hub.server.http.welcome_page import PAGE_HEADERS, framed

HEADERS: Final = {
    **PAGE_HEADERS,
    # With no referrer at all a browser sends `Origin: null` with the answer.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
}
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


def text_page(text: str) -> bytes:
    """Return a page with a text, such as why a login cannot go on."""
    return framed(f"<p>{escape(text)}</p>\n")


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return "a program on this computer"
    if parts.scheme == "https":
        return parts.netloc
    return f"the program for {parts.scheme}: addresses"
