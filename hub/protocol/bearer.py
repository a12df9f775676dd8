"""Bearer tokens in the Authorization header (RFC 6750), and their hashes."""

from __future__ import annotations

import hashlib
import re
from typing import Final

NOT_SENDABLE: Final = "begins or ends with a blank, or has a character that is not shown"
"""What is wrong with a token that no request can have."""
_SENDABLE: Final = re.compile(r"(?! )[^\x00-\x08\x0a-\x1f\x7f]+(?<! )", re.ASCII)


def bearer_in(authorization: str | None) -> bytes | None:
    """Return the token in an Authorization header, as the bytes that came; None: it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip(" \t").encode("latin-1") if scheme.lower() == "bearer" else None


def is_sendable(token: str) -> bool:
    """Return whether an Authorization header can bring a token as it is."""
    return _SENDABLE.fullmatch(token) is not None and token.strip("\t") == token


def token_hash(token: str) -> str:
    """Return the SHA-256 of a token, in hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
