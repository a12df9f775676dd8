"""The result of looking at a token: who sent the request, or why it is refused.

And which profiles of the config a client has, by its token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import anyio
from msgspec import Struct, field

from hub.values import identity_of


class Challenger(Protocol):
    """Tells clients which token they need."""

    def step_up(self, needed: Sequence[str]) -> str:
        """Return the WWW-Authenticate header for a token that lacks one of the scopes `needed`."""
        ...


class GrantedScopes(Struct, frozen=True):
    """The scopes of an issuer's token, and who tells its client how to get more."""

    names: frozenset[str]
    resource: Challenger


class Admission(Struct, frozen=True):
    """A request that is let in, and the principal it comes from.

    Times are in seconds since 1970: from `recheck` on its token has to be looked at again, at
    `expires` the token ends. None: never. `claims` are what an issuer says of the client; None if
    it has no token of one. `profile` is the profile of the config that it is served by; None where
    the config has none. `scopes`: those of its token; None for a token that has no scopes, which is
    refused nothing for want of one.
    """

    principal: str
    recheck: float | None = None
    expires: float | None = None
    claims: Mapping[str, Any] | None = None
    profile: str | None = None
    scopes: GrantedScopes | None = None

    @property
    def granted(self) -> frozenset[str] | None:
        """The scopes of its token; None if it has none that count."""
        return None if self.scopes is None else self.scopes.names

    @property
    def identity(self) -> str:
        """The key of what belongs to the client: nobody else gets it."""
        return identity_of(self.principal, self.profile)

    def counts_at(self, clock: Callable[[], float]) -> bool:
        """Return whether its token need not be looked at again yet."""
        return self.recheck is None or clock() < self.recheck

    async def when_expired(self, end: Callable[[], None]) -> None:
        """Call `end` once the token has ended; return at once if it never does."""
        if self.expires is not None:
            await anyio.sleep(max(0.0, self.expires - time.time()))
            end()


class Unverified(Struct, frozen=True):
    """A request with a token of an issuer that has to be verified first."""

    token: bytes

    def __repr__(self) -> str:
        return "Unverified()"


class TokenRejection(Struct, frozen=True):
    """Why a token lets nobody in: the HTTP status, the error of RFC 6750, and a sentence.

    401 `invalid_token`; 403 `insufficient_scope`; 503 if the issuer cannot be asked now; 401
    without an error where there is no token.
    """

    status: int
    error: str
    text: str


NO_TOKEN_SENT = TokenRejection(401, "", "A valid bearer token is needed")


def invalid(why: str) -> TokenRejection:
    """Return the rejection of a token that is not valid."""
    return TokenRejection(401, "invalid_token", f"The token is not valid: {why}")


class ProfileMatch(Struct, frozen=True):
    """What a client needs for a profile: all of it, and of several values one.

    Either one of the `tokens` of the config, by name, or a signed token: of this `issuer` (None:
    any that the hub trusts), with one of the values for each of the `claims`.
    """

    tokens: frozenset[str] = frozenset()
    issuer: str | None = None
    claims: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def covers(self, admission: Admission) -> bool:
        """Return whether a client that was let in has what is needed."""
        said = admission.claims
        if said is None or self.tokens:
            return said is None and admission.principal in self.tokens
        if self.issuer not in {None, said.get("iss")}:
            return False
        return all(
            not values.isdisjoint(texts_in(said.get(name))) for name, values in self.claims.items()
        )

    def may_cover(self, principal: str) -> bool:
        """Return whether a client of this principal may have what is needed, by some claims."""
        issuer, blank, _subject = principal.partition(" ")
        if not blank:
            return principal in self.tokens
        return not self.tokens and self.issuer in {None, issuer}


class ProfileRules(Struct, frozen=True):
    """The matches of each profile, in the config's order; None: every client has it.

    Without profiles (False) clients have all that the config says.
    """

    matches: Mapping[str, tuple[ProfileMatch, ...] | None] = field(
        default_factory=dict[str, tuple[ProfileMatch, ...] | None]
    )

    def __bool__(self) -> bool:
        return bool(self.matches)

    def of(self, admission: Admission) -> list[str]:
        """Return the profiles of a client; at the endpoint's own URL the first counts."""
        return [
            name
            for name, matches in self.matches.items()
            if matches is None or any(one.covers(admission) for one in matches)
        ]

    def possible(self, principal: str) -> list[str]:
        """Return the profiles that a principal may have; which claims it has is not known."""
        return [
            name
            for name, matches in self.matches.items()
            if matches is None or any(one.may_cover(principal) for one in matches)
        ]


def texts_in(value: object) -> list[str]:
    """Return the texts of a claim: one, or a list of them."""
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]
