"""The keys of `listen`; some have files of their own. What others may reach needs a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, SecretStr, StringConstraints

from hub.config.fields import (
    HostName,
    Network,
    Origin,
    Part,
    Port,
    ReplicaName,
    ResultBytes,
    SealingKey,
    SecondsOrZero,
    Secret,
    is_unread,
)
from hub.config.listening.auth import Auth
from hub.config.listening.limits import PrincipalLimits
from hub.config.listening.tokens import NamedToken, distinct
from hub.errors import ConfigError
from hub.protocol.host_names import is_loopback


class Listen(Part):
    """Where `--http` serves."""

    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern="^/")] = "/mcp"
    token: Secret | None = None
    tokens: Annotated[tuple[NamedToken, ...], AfterValidator(distinct)] = ()
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
