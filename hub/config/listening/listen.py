"""The keys of `listen`: address, tokens, limits. What others may reach needs a token.

`auth` has a file of its own; `limits` may also be in a profile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from ipaddress import ip_network
from typing import Annotated, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from hub.config.fields import (
    URL_PATH,
    Count,
    FieldError,
    Part,
    Port,
    ResultBytes,
    SecondsOrZero,
    Secret,
    is_unread,
    like,
    read_by,
)
from hub.config.listening.auth import Auth
from hub.errors import ConfigError
from hub.protocol.http_headers import (
    NOT_SENDABLE,
    host_name,
    is_loopback,
    is_sendable,
    origin_in,
    token_hash,
)
from hub.usage.principals import UsageLimits
from hub.values import LOCAL, STDIO, UNNAMED

SOON: Final = timedelta(days=7)
"""How long before its end a token is worth a warning."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EXAMPLES: Final = "Write a date (2027-01-31: the end of that day in UTC), or 2027-01-31T18:00:00Z."

MIN_KEY: Final = 32
"""Characters of a key at least: nobody may guess it from what it has sealed."""
_LEAST_TOKEN: Final = 16
GUESSABLE: Final = f"is easy to guess: take {_LEAST_TOKEN} random characters or more"
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_RESERVED: Final = frozenset({LOCAL, STDIO, UNNAMED})
"""The principals of clients without a token of their own."""


def _sealing_key(value: object, secret: ValidatorFunctionWrapHandler) -> SecretStr:
    key: SecretStr = secret(value)
    if len(key.get_secret_value()) < MIN_KEY and not is_unread(key):
        fix = "Write 32 characters or more, as `openssl rand -hex 32` prints them."
        is_outside = isinstance(value, str) and "${" in value
        raise FieldError("is too short for a key", fix, is_outside=is_outside)
    return key


def _principal(text: str) -> str:
    if not _PRINCIPAL.fullmatch(text):
        what = "must be a name of up to 64 letters, digits, `.`, `_`, `@` and `-`"
        raise FieldError(what, "Write one such as ci or anna@example.com.")
    if text in _RESERVED:
        what = "is the name of clients without a token of their own"
        raise FieldError(what, "Choose another name.")
    return text


def _network(text: str) -> str:
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        fix = "Write one such as 10.0.0.5 or 10.0.0.0/8."
        raise FieldError("must be an address or a network", fix) from None


SealingKey: TypeAlias = Annotated[Secret, WrapValidator(_sealing_key)]
ReplicaName: TypeAlias = Annotated[
    str,
    read_by(
        like("[a-z0-9-]{1,32}"),
        "must be the short name of a replica",
        "Write 1 to 32 lower-case letters, digits and -, as in a or eu-1.",
    ),
]
"""What the ids of a replica's sessions begin with; a proxy tells replicas by it."""
PrincipalName: TypeAlias = Annotated[str, AfterValidator(_principal)]
"""What a client is called in the audit log; what it has, nobody else gets."""
Sha256: TypeAlias = Annotated[
    str,
    read_by(
        like("[0-9a-fA-F]{64}"),
        "must be a SHA-256 hash",
        "Write the 64 hexadecimal digits that `roots-hub token new NAME` prints.",
    ),
    AfterValidator(str.lower),
]
Origin: TypeAlias = Annotated[
    str,
    read_by(
        origin_in,
        "must be the origin of a page",
        "Write scheme, host and port alone, as in http://localhost:6274.",
    ),
]
HostName: TypeAlias = Annotated[
    str,
    read_by(
        host_name,
        "must be a host name",
        "Write one such as hub.example.com, without scheme, port, path or wildcard.",
    ),
]
Host: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1),
    read_by(
        host_name,
        "is no host name and no address",
        "Write one such as 127.0.0.1, without scheme and port.",
    ),
]
Network: TypeAlias = Annotated[str, AfterValidator(_network)]


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


def _sendable(token: SecretStr) -> SecretStr:
    if not (is_unread(token) or is_sendable(token.get_secret_value())):
        raise FieldError(NOT_SENDABLE, "Take it out: no request can have it.")
    return token


Token: TypeAlias = Annotated[Secret, AfterValidator(_sendable)]


class NamedToken(Part):
    """A bearer token of one user or program: itself, or its hash. `expires` None: it never ends."""

    name: PrincipalName
    token: Token | None = None
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


def _distinct(tokens: tuple[NamedToken, ...]) -> tuple[NamedToken, ...]:
    """Return tokens of which no two have the same name or are the same.

    Raises: FieldError if two do.
    """
    names: dict[str, str] = {}
    for one in tokens:
        if one.name in names.values():
            raise FieldError(f"the name {one.name} is there twice", "Take one of the two out.")
        same = names.setdefault(one.hash, one.name)
        if same != one.name:
            fix = f"Make another one for {one.name}: roots-hub token new {one.name}"
            raise FieldError(f"{same} and {one.name} have the same token", fix)
    return tokens


Rate: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class PrincipalLimits(Part):
    """Limits that hold for each principal on its own, however many sessions it has."""

    calls_per_second: Rate | None = None
    calls_per_minute: Count | None = None
    burst: Count | None = None
    in_flight: Count | None = None
    sessions: Count | None = None
    children: Count | None = None
    bytes_per_minute: Count | None = None

    @model_validator(mode="after")
    def _has_a_rate(self) -> Self:
        if self.burst is not None and self.calls_per_second is None:
            what = "burst has no effect without calls_per_second"
            raise FieldError(what, "Set calls_per_second, or take burst out.")
        return self

    def values(self, profile: str | None = None) -> UsageLimits | None:
        """Return them as they are used, those of a profile or of `listen`; None if none is set."""
        said = self.model_dump(exclude_none=True)
        key = "listen.limits" if profile is None else f"profiles.{profile}.limits"
        return UsageLimits(key=key, profile=profile, **said) if said else None


class Listen(Part):
    """Where `--http` serves."""

    host: Host = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern=URL_PATH)] = "/mcp"
    token: Token | None = None
    tokens: Annotated[tuple[NamedToken, ...], AfterValidator(_distinct)] = ()
    keys: tuple[SealingKey, ...] = ()
    replica: ReplicaName | None = None
    adopt: tuple[ReplicaName, ...] = ()
    poll_after: SecondsOrZero = 0
    names: tuple[HostName, ...] = ()
    origins: tuple[Origin, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()
    max_result: ResultBytes | None = None
    auth: Auth | None = None
    limits: PrincipalLimits = PrincipalLimits()

    @property
    def is_guarded(self) -> bool:
        """Whether clients need a token by this config alone."""
        return self.token is not None or bool(self.tokens) or self.auth is not None

    @property
    def secrets(self) -> tuple[SecretStr, ...]:
        """The tokens and keys that are in the config itself."""
        tokens = (self.token, *(one.token for one in self.tokens))
        of_auth = () if self.auth is None else self.auth.secrets
        return (*(one for one in tokens if one is not None), *self.keys, *of_auth)


def is_guessable(token: str) -> bool:
    """Return whether a token of clients is so short or uniform that it can be guessed."""
    return len(token) < _LEAST_TOKEN or len({*token}) < _LEAST_TOKEN // 2


def has_unread(listen: Listen) -> bool:
    """Return whether commands or the keyring were not asked for a secret of `listen`."""
    return any(map(is_unread, listen.secrets))


def check_access(listen: Listen, environment: Mapping[str, str]) -> None:
    """Check that a hub which others can reach through a proxy has a token.

    Raises:
        ConfigError: it has a public name, or a proxy, and no token.
    """
    if listen.is_guarded or environment.get("HUB_TOKEN"):
        return
    public = next((name for name in listen.names if not is_loopback(name)), None)
    if public is not None:
        key, whose = "names", f"others can reach the hub as {public}"
    elif listen.trusted_proxies:
        key, whose = "trusted_proxies", "others can reach the hub through a proxy"
    else:
        return
    raise ConfigError(
        f"listen.{key}",
        f"{whose}, and there is no token",
        f"Set the variable HUB_TOKEN, listen.token or listen.tokens, or take listen.{key} out.",
    )
