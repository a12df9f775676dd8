"""The environment variables that servers inherit, by the config, and what identifies a launch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import Final

from hub.config.models import HubConfig, Server, StdioServer
from hub.config.operator_roots import PathContext
from hub.launch.environments import inherited, is_withheld, stable, without_hubs_own
from hub.launch.plan import plan
from hub.launch.secret_references import CommandSecret
from hub.paths.resolve import Flavour
from hub.protocol.bearer import token_hash
from hub.roots.roots import EMPTY

_SOCKETS: Final = frozenset({"SSH_AUTH_SOCK"})
"""Variables with another value at each login, whatever the account."""


def offered(config: HubConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what servers may inherit at most: all but the hub's own secrets and settings."""
    listen = config.listen
    secrets = {one.get_secret_value() for one in listen.secrets}
    hashes = {one.hash for one in listen.tokens}
    return {
        key: value
        for key, value in without_hubs_own(environment).items()
        if value not in secrets and not (hashes and token_hash(value) in hashes)
    }


def inherited_by(server: Server, config: HubConfig, place: PathContext) -> dict[str, str]:
    """Return the variables that a server's process inherits; a server behind a URL has none.

    By default a server of a shared hub inherits no others than the user's sessions have in common.
    """
    if not isinstance(server, StdioServer):
        return {}
    base = offered(config, place.environment)
    if place.is_shared and server.environment == "default":
        return stable(base, place.flavour)
    if place.is_shared and server.environment == "minimal":
        return inherited(stable(base, place.flavour), "minimal", place.flavour)
    return inherited(base, server.environment, place.flavour)


def deciding(server: Server, inherits: Mapping[str, str], flavour: Flavour) -> dict[str, str]:
    """Return those variables of `inherits` that may decide what a server lists.

    What differs between two terminals of one user does not, unless the server's config names it.
    """
    if not isinstance(server, StdioServer):
        return {}
    named = server.environment if isinstance(server.environment, tuple) else ()
    same = stable(inherits, flavour).keys() - _SOCKETS
    return {
        name: value
        for name, value in inherits.items()
        if name in same
        or any(fnmatchcase(name, glob) for glob in named)
        or (is_withheld(name, value) and name not in _SOCKETS)
    }


def offered_to_commands(server: Server, config: HubConfig, place: PathContext) -> dict[str, str]:
    """Return the variables that commands get which print a server's secrets; {} if it has none.

    In a shared hub these are no others than the user's sessions have in common.
    """
    texts = server.env.values() if isinstance(server, StdioServer) else server.headers.values()
    if not any(isinstance(one, CommandSecret) for text in texts for one in text.references):
        return {}
    base = offered(config, place.environment)
    return stable(base, place.flavour) if place.is_shared else base


def fingerprint_of(
    name: str,
    server: Server,
    inherits: Mapping[str, str],
    environment: Mapping[str, str],
    for_commands: Mapping[str, str] | None = None,
) -> str:
    """Return a digest of what a running child depends on, but for its roots.

    Two configs, or two clients' environments, that give a server the same may share its children.
    Of a secret that the config refers to the digest has the reference, not the value.
    """
    depends_on: list[object] = [server.era, server.roots.answer]
    if isinstance(server, StdioServer):
        launched = plan(server.template(name), EMPTY, environment)
        depends_on += [launched.argv, launched.env, launched.cwd]
        depends_on += [sorted(inherits.items()), server.confine.model_dump()]
        secrets = dict(launched.secrets)
    else:
        plain = {key: text.plain for key, text in server.headers.items() if text.plain is not None}
        depends_on += [server.url, sorted(plain.items()), server.transport]
        secrets = {key: text for key, text in server.headers.items() if text.plain is None}
        if server.auth is not None:
            depends_on += [["auth", server.auth.shared]]
    if secrets:
        depends_on += [
            [(key, text.identity) for key, text in sorted(secrets.items(), key=itemgetter(0))]
        ]
        depends_on += [sorted((for_commands or {}).items())]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()
