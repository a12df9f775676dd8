"""`Origin` header of browsers: normalise and compare origins of web pages (RFC 6454)."""

from __future__ import annotations

import re
from typing import Final

_ORIGIN: Final = re.compile(
    r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::([0-9]{1,5}))?"
)
_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}


def origin_in(text: str) -> str | None:
    """Return an origin in normal form (lower case, no default port); None if it is not valid."""
    found = _ORIGIN.fullmatch(text.strip().lower())
    if found is None:
        return None
    scheme, host, port = found.groups()
    return f"{scheme}://{host}" + (f":{port}" if port and port != _PORTS.get(scheme) else "")


def is_own(origin: str, host: str, scheme: str | None = None) -> bool:
    """Return whether `origin` is that of the server in the Host header; `scheme` None: any."""
    said = origin.partition("://")[0]
    known = {"http", "https"} if scheme is None else {scheme}
    return said in known and origin_in(f"{said}://{host}") == origin
