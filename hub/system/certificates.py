"""The certificate authorities that this machine trusts, for all HTTP clients of the hub."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2


@cache
def trusted() -> ssl.SSLContext:
    """Return the TLS context of all clients, made once: to read the certificates holds the loop."""
    return httpx2.create_ssl_context()
