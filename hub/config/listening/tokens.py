"""The keys of `listen.tokens`: bearer tokens, each of one user or program, and when each ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final, Self, TypeAlias

from pydantic import BeforeValidator, model_validator

from hub.config.fields import FieldError, Part, PrincipalName, Secret, Sha256
from hub.protocol.bearer import token_hash

SOON: Final = timedelta(days=7)
"""How long before its end a token is worth a warning."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EXAMPLES: Final = "Write a date (2027-01-31: the end of that day in UTC), or 2027-01-31T18:00:00Z."


def _end(value: object) -> datetime:
    """Return when a token ends. YAML and TOML make dates and times of texts without quotes."""
    found = _parsed(value) if isinstance(value, str) else value
    try:
        if isinstance(found, datetime):  # is a date, too
            return _with_zone(found).astimezone(UTC)
        if isinstance(found, date):
            return datetime.combine(found, time(), UTC) + timedelta(days=1)
    except OverflowError:
        fix = "Write another year; a token without this key never ends."
        raise FieldError("is too far away", fix) from None
    if value is None:
        fix = "Write a date, or take the key out: then the token never ends."
        raise FieldError("has no value", fix)
    raise FieldError("must be a date, or a time with its zone", _EXAMPLES)


def _parsed(text: str) -> object:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        raise FieldError("has a date or a time that does not exist", "Correct it.") from None
    return text


def _with_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        fix = "Write the zone after it, as in 2027-01-31T18:00:00Z or 2027-01-31T18:00:00+01:00."
        raise FieldError("has a time without a zone", fix)
    return moment


# The check is around `None`, too: a key that was left empty must not mean "never".
TokenEnd: TypeAlias = Annotated[datetime | None, BeforeValidator(_end, json_schema_input_type=str)]
"""When a token ends, in UTC."""


class NamedToken(Part):
    """A bearer token of one user or program: itself, or its hash. `expires` None: it never ends."""

    name: PrincipalName
    token: Secret | None = None
    sha256: Sha256 | None = None
    expires: TokenEnd = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.token is None) == (self.sha256 is None):
            what = "needs exactly one of token and sha256"
            raise FieldError(what, "Write what `roots-hub token new NAME` prints.")
        return self

    @property
    def hash(self) -> str:
        """The token's SHA-256, in hex."""
        return self.sha256 or token_hash(
            "" if self.token is None else self.token.get_secret_value()
        )

    def near_end(self, now: datetime) -> str | None:
        """Return that it has ended or does so soon, as a part of a sentence; else None."""
        if self.expires is None or self.expires - now > SOON:
            return None
        at = f"{self.expires:%Y-%m-%d %H:%M} UTC"
        if now < self.expires:
            return f"the token of {self.name} ends within {SOON.days} days ({at})"
        return f"the token of {self.name} has ended ({at}): it lets nobody in"


def distinct(tokens: tuple[NamedToken, ...]) -> tuple[NamedToken, ...]:
    """Return tokens of which no two have the same name or are the same.

    Raises: FieldError if two do.
    """
    names: dict[str, str] = {}
    for one in tokens:
        if one.name in names.values():
            raise FieldError(f"the name {one.name} stands twice", "Take one of the two out.")
        same = names.setdefault(one.hash, one.name)
        if same != one.name:
            fix = f"Make another one for {one.name}: roots-hub token new {one.name}"
            raise FieldError(f"{same} and {one.name} have the same token", fix)
    return tokens
