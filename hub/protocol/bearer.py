"""Bearer tokens in the Authorization header (RFC 6750), and their hashes."""

from __future__ import annotations

import hashlib


def bearer_in(authorization: str | None) -> bytes | None:
    """Return the token in an Authorization header, as the bytes that came; None: it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" \t").encode("latin-1") if scheme.lower() == "bearer" else None


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
