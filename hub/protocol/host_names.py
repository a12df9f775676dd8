"""Host names: those in the `Host` header, and those that only this machine can use."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_MAX: Final = 253
"""Characters that a name in DNS may have."""
_PORT: Final = len(":65535")


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
    """Return the name in a Host header, in lower case and without port; None if it has none.

    What is longer than a name and a port can be has none.
    """
    return None if len(host) > _MAX + _PORT else _name_in(host)


@lru_cache
def _name_in(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
