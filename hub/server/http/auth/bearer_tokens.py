"""The bearer tokens that let clients in over HTTP, each with the principal that it stands for.

The hub keeps their SHA-256 hashes alone. Tokens have to be random: a hash of what can be guessed
can be guessed as well.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from hub.protocol.bearer import token_hash

UNNAMED: Final = "token"
"""The principal of all clients with the one token that has no name."""


class BearerTokens:
    """One token without a name, and `named` ones: their hashes (SHA-256, in hex) by their names."""

    def __init__(self, token: str | None = None, named: Mapping[str, str] | None = None) -> None:
        unnamed = {UNNAMED: token_hash(token)} if token else {}
        hashes = {**unnamed, **(named or {})}
        self._hashes = {name: bytes.fromhex(one) for name, one in hashes.items()}

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def principal_of(self, token: bytes) -> str | None:
        """Return the principal that a token stands for; None if it is none of these."""
        sent, found = hashlib.sha256(token).digest(), None
        for name, expected in self._hashes.items():  # all of them: the time tells nothing
            if hmac.compare_digest(sent, expected):
                found = name
        return found

    def ended_by(self, later: BearerTokens) -> frozenset[str]:
        """Return the principals of which a token that counts here does not count in `later`."""
        return frozenset(
            name for name, one in self._hashes.items() if later._hashes.get(name) != one
        )

    def has(self, principal: str) -> bool:
        """Return whether there is a token of this principal."""
        return principal in self._hashes
