"""The bearer tokens that let clients in over HTTP, each with the principal that it stands for.

The hub keeps their SHA-256 hashes alone. Tokens have to be random: a hash of what can be guessed
can be guessed as well.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Mapping

from hub.protocol.http_headers import token_hash
from hub.values import UNNAMED


class BearerTokens:
    """One token without a name, and `named` ones: their hashes (SHA-256, in hex) by their names.

    `ends` are the times at which tokens end, by their names; the others never do. Times are in
    seconds since 1970. Tokens that have ended are still tokens: nobody is let in without one.
    """

    def __init__(
        self,
        token: str | None = None,
        named: Mapping[str, str] | None = None,
        ends: Mapping[str, float] | None = None,
    ) -> None:
        unnamed = {UNNAMED: token_hash(token)} if token else {}
        hashes = {**unnamed, **(named or {})}
        self._hashes = {name: bytes.fromhex(one) for name, one in hashes.items()}
        self._ends = dict(ends or {})

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def principal_of(self, token: bytes) -> str | None:
        """Return the principal that a token stands for, ended or not; None if it is none."""
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

    def end_of(self, principal: str) -> float | None:
        """Return when the token of a principal ends; None if it never does."""
        return self._ends.get(principal)

    def over_at(self, now: float) -> frozenset[str]:
        """Return the principals whose token has ended."""
        return frozenset(name for name, end in self._ends.items() if end <= now)

    def next_end(self, over: frozenset[str]) -> float | None:
        """Return when the next token ends but for those in `over`; None if no further one does."""
        return min((end for name, end in self._ends.items() if name not in over), default=None)

    def let_in(self, principal: str, now: float) -> bool:
        """Return whether there is a token of this principal that has not ended."""
        return principal in self._hashes and self._ends.get(principal, math.inf) > now
