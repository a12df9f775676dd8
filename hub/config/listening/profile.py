"""The keys of one profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hub.config.fields import AccessAt, FieldError, Flag, Part, PathText, Patterns, mode_alone
from hub.config.listening.auth import ClaimValues, SafeAddress
from hub.config.listening.listen import PrincipalLimits
from hub.guard.policy import DenyPatterns

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ONLY_TIGHTENS: Final = "A profile only takes away: write the strictest value, or take the key out."


class ClientMatch(Part):
    """Clients that have a profile: by a token of the config, or by what an issuer says of them.

    Of several keys all must fit, of several values one.
    """

    tokens: tuple[str, ...] = ()
    issuer: SafeAddress | None = None
    groups: tuple[str, ...] = ()
    claims: dict[str, ClaimValues] = Field(default_factory=dict[str, ClaimValues])

    @model_validator(mode="after")
    def _fits_somebody(self) -> Self:
        by_issuer = bool(self.issuer or self.groups or self.claims)
        if by_issuer == bool(self.tokens):
            what = "has tokens and claims" if by_issuer else "fits nobody"
            fix = (
                "A token of the config has no claims: write two entries, `- tokens: ...` and "
                "`- groups: ...`."
                if by_issuer
                else "Write tokens, groups, claims or issuer; without `match` all clients fit."
            )
            raise FieldError(what, fix)
        return self

    @property
    def wanted_claims(self) -> dict[str, frozenset[str]]:
        """The values that will do for each claim; `groups` is one of them."""
        wanted = {
            name: frozenset({value} if isinstance(value, str) else value)
            for name, value in self.claims.items()
        }
        if self.groups:
            asked = frozenset(self.groups)
            wanted["groups"] = wanted.get("groups", asked) & asked
        return wanted


def _one_or_more(value: object) -> object:
    return [cast("object", value)] if isinstance(value, Mapping) else value


def _somebody(matches: tuple[ClientMatch, ...]) -> tuple[ClientMatch, ...]:
    if not matches:
        raise FieldError("is an empty list", "Name a client, or take the key out: then all fit.")
    return matches


Matches: TypeAlias = Annotated[
    tuple[ClientMatch, ...],
    AfterValidator(_somebody),
    BeforeValidator(_one_or_more, json_schema_input_type=ClientMatch | tuple[ClientMatch, ...]),
]


def _nothing_back(lines: tuple[str, ...]) -> tuple[str, ...]:
    back = next((line for line in lines if DenyPatterns((line,)).brings_back), None)
    if back is not None:
        raise FieldError(f"{back} would allow something", "A profile only takes away.")
    return lines


class ProfileTools(Part):
    """Which of its servers' tools a profile has: globs on their own names, or `SERVER/TOOL`."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()


class ProfileRoots(Part):
    """What holds for the roots of a profile's clients, beside what holds for all."""

    ceiling: tuple[PathText, ...] = ()
    access: tuple[AccessAt, ...] = ()
    deny: Annotated[Patterns, AfterValidator(_nothing_back)] = ()


class ProfileGuard(Part):
    """What is stricter for a profile's clients than for others."""

    mode: Literal["enforce"] | None = None
    on_refused: Literal["refuse"] | None = None
    symlinks: Literal["deny"] | None = None
    refuse_options: Flag = False


def _strictest(value: object) -> object:
    """Return the value of `guard`. Raises: FieldError for a bare mode that would loosen."""
    found = mode_alone(value)
    guard = cast("Mapping[str, object]", found) if isinstance(found, Mapping) else None
    if guard is not None and guard.get("mode") in {"off", "report"}:
        raise FieldError("would allow something", _ONLY_TIGHTENS)
    return cast("object", found)


ProfileGuardKey: TypeAlias = Annotated[
    ProfileGuard,
    BeforeValidator(_strictest, json_schema_input_type=Literal["enforce"] | ProfileGuard),
]


def _in_url(name: str) -> str:
    if not _NAME.fullmatch(name):
        what = f"{name!r} cannot be the name of a profile"
        raise FieldError(what, "Take up to 64 letters, digits, `.`, `_` and `-`: it is in a URL.")
    return name


ProfileName: TypeAlias = Annotated[str, AfterValidator(_in_url)]
"""A part of the profile's URL."""


class Profile(Part):
    """What some clients over HTTP get of this config. Without `match`: any of them."""

    match: Matches | None = None
    servers: tuple[str, ...] = ("*",)
    tools: ProfileTools = ProfileTools()
    roots: ProfileRoots = ProfileRoots()
    guard: ProfileGuardKey = ProfileGuard()
    limits: PrincipalLimits = PrincipalLimits()
