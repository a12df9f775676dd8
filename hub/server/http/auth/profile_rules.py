"""Which profiles of the config a client has, by its token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field

from hub.server.http.auth.admission import Admission


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
