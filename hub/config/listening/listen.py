"""The keys of `listen`, but for `auth`; what others may reach needs a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, SecretStr, StringConstraints, model_validator

from hub.config.fields import (
    FieldError,
    HostName,
    Network,
    Origin,
    Part,
    Port,
    PrincipalName,
    ReplicaName,
    ResultBytes,
    SealingKey,
    SecondsOrZero,
    Secret,
    Sha256,
    is_unread,
)
from hub.config.listening.auth import Auth
from hub.config.listening.limits import PrincipalLimits
from hub.errors import ConfigError
from hub.protocol.bearer import token_hash
from hub.protocol.host_names import is_loopback


class NamedToken(Part):
    """A bearer token of one user or program: itself, or its hash."""

    name: PrincipalName
    token: Secret | None = None
    sha256: Sha256 | None = None

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


def _distinct(tokens: tuple[NamedToken, ...]) -> tuple[NamedToken, ...]:
    names: dict[str, str] = {}
    for one in tokens:
        if one.name in names.values():
            raise FieldError(f"the name {one.name} stands twice", "Take one of the two out.")
        same = names.setdefault(one.hash, one.name)
        if same != one.name:
            fix = f"Make another one for {one.name}: roots-hub token new {one.name}"
            raise FieldError(f"{same} and {one.name} have the same token", fix)
    return tokens


class Listen(Part):
    """Where `--http` serves."""

    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern="^/")] = "/mcp"
    token: Secret | None = None
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
        f"listen.{key}: {whose}, and there is no token",
        f"Set the variable HUB_TOKEN, listen.token or listen.tokens, or take listen.{key} out.",
    )
