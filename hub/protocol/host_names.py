"""Host names, and origins of web pages (RFC 6454): what `Host` and `Origin` headers name."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX: Final = 253
"""Characters that a name in DNS may have."""
_WITH_PORT: Final = re.compile(r"(\[[^\[\]:]*:[^\[\]]*\]|[^\[\]:]+)(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Return whether an address, or the name `localhost`, can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read or change what a URL gives.

    That is https, or http to this machine.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    )


def host_name(text: str) -> str | None:
    """Return a host name or an address in normal form, without port; None if it is neither."""
    lowered = text.lower()
    try:
        return str(ipaddress.ip_address(lowered.strip("[]")))
    except ValueError:
        return lowered if len(lowered) <= _MAX and _NAME.fullmatch(lowered) else None


def name_in(host: str) -> str | None:
    """Return the name in a Host header in normal form, without port; None if it has none."""
    found = _WITH_PORT.fullmatch(host)
    return None if found is None else host_name(found[1])


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
