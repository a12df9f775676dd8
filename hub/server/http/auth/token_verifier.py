"""Verifies the tokens of issuers, and remembers for a while who sends which."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hub.server.http.auth.admission import (
    SKEW,
    Admission,
    GrantedScopes,
    InvalidTokenError,
    ProtectedResource,
    TokenRejection,
    invalid,
    scopes_in,
)
from hub.server.http.auth.introspection import COUNTS, STREAMS_END, OpaqueTokens
from hub.server.http.auth.issuer_metadata import IssuerUnavailableError, KeySet
from hub.server.http.auth.signed_tokens import SignedTokens, has_signed_form

MOST_CHARACTERS: Final = 16_384
RECHECK: Final = 60.0
"""Seconds after which a signed token is verified again: its key may be gone."""
KEPT: Final = 10_000
"""How many verified tokens are remembered; at this number all are forgotten."""


Upkeep: TypeAlias = Callable[[], Coroutine[None, None, None]]
"""Keeps something in order until it is cancelled; two of the same thing are equal."""


OwnTokens: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Returns the claims of a token that the hub has given; None if it looks like another's.

Raises: InvalidTokenError.
"""


class _Kept(Struct, frozen=True):
    """A verified token's admission; it holds while `keys`, if any, have so many `changes`."""

    admission: Admission
    keys: KeySet | None = None
    changes: int = 0


class TokenVerifier:
    """Verifies tokens for a resource; `clock` gives seconds since 1970.

    A signed token counts without another look for `RECHECK` seconds at most, while its issuer's
    keys do not change; an opaque one, if there is somebody to ask about them, for `COUNTS` seconds.
    Neither counts for longer than it lasts, nor does one that the hub gives itself.
    """

    def __init__(
        self,
        resource: ProtectedResource,
        signed: SignedTokens,
        clock: Callable[[], float],
        opaque: OpaqueTokens | None = None,
        own: OwnTokens | None = None,
    ) -> None:
        self.resource = resource
        self._signed = signed
        self._clock = clock
        self._opaque = opaque
        self._own = own
        self._kept: dict[bytes, _Kept] = {}

    def known(self, token: bytes) -> Admission | None:
        """Return who sends a token that was verified lately; None if it has to be verified."""
        admission = self._remembered(token)
        return None if admission is None or self._missing(admission) else admission

    def has_let_in(self, token: bytes) -> bool:
        """Return whether a token was valid when it was last verified."""
        return _digest(token) in self._kept

    def _remembered(self, token: bytes) -> Admission | None:
        kept = self._kept.get(_digest(token))
        if kept is None or (kept.keys is not None and kept.changes != kept.keys.changes):
            return None
        return kept.admission if kept.admission.counts_at(self._clock) else None

    def _missing(self, admission: Admission) -> list[str]:
        """Return which of the scopes that every token needs this one lacks."""
        granted = admission.granted or frozenset()
        return [scope for scope in self.resource.scopes if scope not in granted]

    async def verify(self, token: bytes) -> Admission | TokenRejection:
        """Return who sends a token, or why it lets nobody in."""
        admission = self._remembered(token)
        if admission is None:
            try:
                kept = await self._verified(token)
            except InvalidTokenError as exc:
                self._kept.pop(_digest(token), None)
                return invalid(str(exc))
            except IssuerUnavailableError:
                text = "The token's issuer cannot be asked now; try again later"
                return TokenRejection(503, "", text)
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[_digest(token)] = kept
            admission = kept.admission
        missing = self._missing(admission)
        if missing:
            text = f"The token lacks the scope {' '.join(missing)}"
            return TokenRejection(403, "insufficient_scope", text)
        return admission

    async def _verified(self, token: bytes) -> _Kept:
        if len(token) > MOST_CHARACTERS:
            raise InvalidTokenError(f"it has over {MOST_CHARACTERS} characters")
        text = token.decode("latin-1")
        own = None if self._own is None else self._own(text)
        if own is not None:
            return _Kept(self._admission(own, counts=RECHECK, skew=0))
        if self._opaque is not None and not has_signed_form(text):
            claims = await self._opaque.verified(text)
            return _Kept(self._admission(claims, counts=COUNTS, streams_end=STREAMS_END))
        found = await self._signed.verified(text)
        return _Kept(self._admission(found.claims, counts=RECHECK), found.keys, found.changes)

    def _admission(
        self,
        claims: Mapping[str, Any],
        *,
        counts: float,
        streams_end: float = float("inf"),
        skew: float = SKEW,
    ) -> Admission:
        now = self._clock()
        ends = float(claims.get("exp", float("inf"))) + skew
        principal = f"{claims['iss']} {claims['sub']}"
        return Admission(
            principal,
            min(ends, now + counts),
            min(ends, now + streams_end),
            claims,
            scopes=GrantedScopes(frozenset(scopes_in(claims)), self.resource),
        )

    def trusts(self, principal: str) -> bool:
        """Return whether a principal is of an issuer whose tokens are taken."""
        issuer, blank, _ = principal.partition(" ")
        return bool(blank) and issuer in self._signed.issuers

    @property
    def changes(self) -> int:
        """How often the keys of its issuers have changed."""
        return sum([keys.changes for keys in self._signed.key_sets])

    @property
    def upkeep(self) -> list[Upkeep]:
        """What keeps the keys of all issuers fresh, and the connections to them."""
        asking = [] if self._opaque is None else [self._opaque.endpoint.serve]
        return [*(keys.keep_fresh for keys in self._signed.key_sets), *asking]


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
