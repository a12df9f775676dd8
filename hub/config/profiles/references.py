"""Whether what a config wants of clients can be: servers, tokens and scopes that are there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from hub.config.models import HubConfig
from hub.config.source.places import Path
from hub.config.suggestions import likely_key
from hub.errors import ConfigError, Fault

UNNAMED = "token"
"""What the token without a name is called."""


def check_profiles(config: HubConfig) -> None:
    """Check that each server and token that a profile names is in the config.

    Raises: ConfigError.
    """
    faults = [*_faults(config)]
    if faults:
        raise ConfigError.of(faults)


def check_scopes(config: HubConfig) -> None:
    """Check that servers and tools need scopes only where some token can have them.

    Raises: ConfigError.
    """
    if config.listen.auth is not None:
        return
    what = "there is no listen.auth, and no other tokens have scopes"
    fix = "Write the issuers of tokens there, or take the key out."
    faults = [config.fault(at, what, fix) for at, _ in config.particular_scopes()]
    if faults:
        raise ConfigError.of(faults)


def _faults(config: HubConfig) -> Iterator[Fault]:
    servers = [*config.servers, *(one.name for one in config.left_out)]
    tokens = [UNNAMED, *(one.name for one in config.listen.tokens)]
    for at, glob in _named_servers(config):
        if not any(fnmatchcase(one, glob) for one in servers):
            yield _unknown(config, at, "server", glob, servers)
    for at, token in _named_tokens(config):
        if token not in tokens:
            yield _unknown(config, at, "token", token, tokens)


def _named_servers(config: HubConfig) -> Iterator[tuple[Path, str]]:
    for name, profile in config.profiles.items():
        for index, glob in enumerate(profile.servers):
            yield ("profiles", name, "servers", index), glob
        for key, globs in (("allow", profile.tools.allow), ("deny", profile.tools.deny)):
            for index, glob in enumerate(globs):
                if "/" in glob:
                    yield ("profiles", name, "tools", key, index), glob.partition("/")[0]


def _named_tokens(config: HubConfig) -> Iterator[tuple[Path, str]]:
    for name, profile in config.profiles.items():
        for match, one in enumerate(profile.match or ()):
            for index, token in enumerate(one.tokens):
                yield ("profiles", name, "match", match, "tokens", index), token


def _unknown(config: HubConfig, at: Path, what: str, name: str, known: Collection[str]) -> Fault:
    meant = likely_key(name, known)
    fix = f"Write `{meant}`." if meant else f"There are {', '.join(known) or 'none'}."
    return config.fault(at, f"there is no {what} {name}", fix)
