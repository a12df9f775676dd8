"""Clients that register themselves (RFC 7591): their redirect URIs and their name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from msgspec import Struct

from hub.protocol.host_names import is_loopback
from hub.server.http.oauth_proxy.errors import OAuthError

MOST_URIS: Final = 10
MOST_CHARACTERS: Final = 1000
"""Of one redirect URI."""
_LONGEST_NAME: Final = 80
_NO_APP: Final = frozenset(
    {"about", "blob", "data", "file", "filesystem", "ftp", "javascript", "mailto", "vbscript"}
    | {"view-source", "ws", "wss"}
)
"""Schemes that no app has for its own (RFC 8252, 7.1): browsers and systems use them."""
_CHARACTERS: Final = re.compile(r"[!#-&(-;=?-\[\]_a-z~]+")
"""What a URI is made of (RFC 3986, 2), but for `'`. Browsers take `\\` for `/`."""
_AUTHORITY: Final = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)
"""A host that everybody reads alike: `urlsplit` finds one in texts where browsers find another."""


class ProxiedClient(Struct, frozen=True):
    """A client: where its users are sent back to, and what it calls itself."""

    redirect_uris: tuple[str, ...]
    name: str
    issued: float

    def takes(self, uri: str) -> bool:
        """Return whether users may be sent there: one of its URIs, letter by letter.

        Of a loopback address the port may be another one (RFC 8252, 7.3).
        """
        if _objection(uri):
            return False  # a port must not hide what nobody could have registered
        registered = {_without_port(one) for one in self.redirect_uris} - {None}
        return uri in self.redirect_uris or _without_port(uri) in registered


def client_in(body: Mapping[str, Any], now: float) -> ProxiedClient:
    """Return the client that a registration request describes.

    Raises: OAuthError.
    """
    uris = body.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(cast("list[object]", uris)) <= MOST_URIS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris must be 1 to {MOST_URIS} URIs")
    for one in cast("list[object]", uris):
        _check_redirect_uri(one)
    name = body.get("client_name")
    shown = name if isinstance(name, str) else ""
    plain = "".join(one for one in shown if one.isprintable()).strip()[:_LONGEST_NAME]
    return ProxiedClient(tuple(cast("list[str]", uris)), plain, now)


def _check_redirect_uri(uri: object) -> None:
    why = _objection(uri) if isinstance(uri, str) else "is no redirect URI"
    if why:
        raise OAuthError("invalid_redirect_uri", f"{str(uri)[:100]!r} {why}")


def _objection(uri: str) -> str:
    """Return why users may not be sent to a URI; empty if they may."""
    if not 0 < len(uri) <= MOST_CHARACTERS:
        return f"has more than {MOST_CHARACTERS} characters, or none"
    if not _CHARACTERS.fullmatch(uri):
        return "has characters that no URI has"
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
        _ = parts.port  # a ValueError if it is none
    except ValueError:
        return "is no URI"
    if "#" in uri or "@" in parts.netloc:
        return "has a fragment or a user"
    if parts.scheme in {"http", "https"}:
        is_host = bool(_AUTHORITY.fullmatch(parts.netloc))
        is_safe = is_host and (parts.scheme == "https" or is_loopback(host))
        return "" if is_safe else "must begin with https:// and a host"
    # Apps have a slash there (RFC 8252, 7.1); what else stands there may be a command.
    is_apps = parts.scheme not in _NO_APP and uri.startswith("/", len(parts.scheme) + 1)
    return "" if parts.scheme and is_apps else "has no scheme of an app"


def _without_port(uri: str) -> str | None:
    """Return a loopback URI without its port; None for any other."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return None
    if parts.scheme != "http" or not is_loopback(host) or "@" in parts.netloc:
        return None
    return parts._replace(netloc=host).geturl()


def registered(client_id: str, client: ProxiedClient) -> dict[str, Any]:
    """Return the answer to a registration (RFC 7591, 3.2.1)."""
    return {
        "client_id": client_id,
        "client_id_issued_at": int(client.issued),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    }
