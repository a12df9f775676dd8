"""All that lets clients in: the tokens of the config, and those that issuers have signed.

Of the tokens of the config the hub keeps the SHA-256 hashes alone. They have to be random: a hash
of what can be guessed can be guessed as well.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hub.protocol.http_headers import bearer_in, token_hash
from hub.server.http.auth.admission import (
    NO_TOKEN_SENT,
    Admission,
    TokenRejection,
    Unverified,
    invalid,
)
from hub.values import LOCAL, UNNAMED

if TYPE_CHECKING:
    from hub.server.http.auth.admission import ProtectedResource
    from hub.server.http.auth.token_verifier import TokenVerifier, Upkeep


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
        self.ends = dict(ends or {})

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

    def let_in(self, principal: str, now: float) -> bool:
        """Return whether there is a token of this principal that has not ended."""
        return principal in self._hashes and self.ends.get(principal, math.inf) > now


TOKEN_ENDED: Final = invalid("it has ended")
TOKEN_UNKNOWN: Final = invalid("it is not known here")


class Untrusted(Struct, frozen=True):
    """The principals of which a token of an issuer counted, and none does any more."""

    before: TokenVerifier
    verifier: TokenVerifier | None

    def __contains__(self, principal: object) -> bool:
        if not isinstance(principal, str) or not self.before.trusts(principal):
            return False
        return self.verifier is None or not self.verifier.trusts(principal)


class Credentials:
    """Tokens of the config, and maybe a verifier of issuers' tokens; both may be others later.

    Without either all clients are let in, as the principal `local`. `clock` gives seconds since
    1970.
    """

    def __init__(
        self,
        tokens: BearerTokens,
        verifier: TokenVerifier | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = tokens
        self._verifier = verifier
        self._clock = clock
        self._over: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.tokens) or self._verifier is not None

    @property
    def resource(self) -> ProtectedResource | None:
        """What clients are told about tokens of issuers; None if none are taken."""
        return None if self._verifier is None else self._verifier.resource

    def follow(self, tokens: BearerTokens) -> frozenset[str]:
        """Take these tokens from now on; return the principals of which a token has ended."""
        was_open = not self
        ended, self.tokens = self.tokens.ended_by(tokens), tokens
        return frozenset({LOCAL}) if was_open and self else ended

    def trust(self, verifier: TokenVerifier | None) -> Container[str]:
        """Take the tokens that this verifier takes from now on; return whose do not count now."""
        was_open, before = not self, self._verifier
        self._verifier = verifier
        if before is None:
            return frozenset({LOCAL}) if was_open and self else frozenset[str]()
        return Untrusted(before, verifier)

    def lapsed(self) -> frozenset[str]:
        """Return the principals whose token of the config has ended since the last question."""
        before, now = self._over, self._clock()
        self._over = frozenset(name for name, end in self.tokens.ends.items() if end <= now)
        return self._over - before

    def until_next_end(self) -> float | None:
        """Return the seconds until `lapsed` has something to say; None if it never will.

        A token that ended just now, and has not been told of, is not passed over.
        """
        ends = [end for name, end in self.tokens.ends.items() if name not in self._over]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def know(self, principal: str) -> bool:
        """Return whether some request can be of a principal: with a token of its own, or none."""
        if self._verifier is not None and self._verifier.trusts(principal):
            return True
        return self.tokens.let_in(principal, self._clock()) or (principal == LOCAL and not self)

    def look_at(self, authorization: str | None) -> Admission | TokenRejection | Unverified:
        """Return who sends a request with this Authorization header, as far as is known now."""
        if not self:
            return Admission(LOCAL)
        token = bearer_in(authorization)
        if not token:
            return NO_TOKEN_SENT
        principal = self.tokens.principal_of(token)
        if principal is not None:
            return self._named(principal)
        if self._verifier is None:
            return TOKEN_UNKNOWN
        known = self._verifier.known(token)
        return known or Unverified(token, self._verifier.has_let_in(token))

    def _named(self, principal: str) -> Admission | TokenRejection:
        end = self.tokens.ends.get(principal)
        if end is None:
            return Admission(principal)
        # Whoever sends the token may know why it is refused: guesses do not get here.
        return TOKEN_ENDED if end <= self._clock() else Admission(principal, end, end)

    async def verified(self, unverified: Unverified) -> Admission | TokenRejection:
        """Return who sends a request with an issuer's token, or why it is refused."""
        while (verifier := self._verifier) is not None:
            found = await verifier.verify(unverified.token)
            if verifier is self._verifier:  # else it was verified by what does not count any more
                return found
        return TOKEN_UNKNOWN

    @property
    def changes(self) -> int:
        """How often the keys of issuers have changed."""
        return 0 if self._verifier is None else self._verifier.changes

    @property
    def upkeep(self) -> list[Upkeep]:
        """What keeps all that is known of issuers fresh."""
        return [] if self._verifier is None else self._verifier.upkeep
