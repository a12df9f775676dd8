"""What servers get of the environment, what they miss of it, and what identifies a launch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from hub.config.models import HubConfig, Server, StdioServer
from hub.config.operator_roots import PathContext
from hub.launch.environments import (
    Inherits,
    inherited,
    is_withheld,
    mentioned,
    stable,
    without_hubs_own,
)
from hub.launch.plan import LaunchTemplate, plan
from hub.launch.templates import CommandSecret, Template
from hub.protocol.http_headers import token_hash
from hub.roots.roots import EMPTY
from hub.specs import RemoteTarget, ServerSpec

_SOCKETS: Final = frozenset({"SSH_AUTH_SOCK"})
"""Variables with another value at each login, whatever the account."""
_UNMARKED: Final = re.compile(r"(?<!\$)(?:\{(roots?)\}|\$(roots?)\b)")
"""A placeholder for roots without its `$` or its braces."""


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


class Inheritance:
    """What the servers of a config inherit here, found out once for each value of `environment`.

    By default servers of a shared hub inherit no others than the user's sessions have in common.
    """

    def __init__(self, config: HubConfig, place: PathContext) -> None:
        self._environment, self._flavour = place.environment, place.flavour
        self._offered = offered(config, place.environment)
        self._common = stable(self._offered, place.flavour) if place.is_shared else self._offered
        self._found: dict[Inherits, tuple[dict[str, str], dict[str, str]]] = {}

    def of(self, server: Server) -> tuple[dict[str, str], dict[str, str]]:
        """Return what a server's process inherits, and what of that may decide what it lists.

        A server behind a URL has no process.
        """
        if not isinstance(server, StdioServer):
            return {}, {}
        choice = server.environment
        if choice not in self._found:
            base = self._common if choice in {"default", "minimal"} else self._offered
            found = inherited(base, choice, self._flavour)
            self._found[choice] = found, self._deciding(found, choice)
        return self._found[choice]

    def of_commands(self, server: Server) -> dict[str, str]:
        """Return what commands inherit that print a server's secrets; {} if it has none."""
        texts = server.secret_texts.values()
        has_any = any(isinstance(one, CommandSecret) for text in texts for one in text.references)
        return self._common if has_any else {}

    def _deciding(self, inherits: Mapping[str, str], choice: Inherits) -> dict[str, str]:
        """Return those that do not differ between two terminals of one user, or are named."""
        named = choice if isinstance(choice, tuple) else ()
        same = stable(inherits, self._flavour).keys() - _SOCKETS
        return {
            name: value
            for name, value in inherits.items()
            if name in same
            or any(fnmatchcase(name, glob) for glob in named)
            or (is_withheld(name, value) and name not in _SOCKETS)
        }

    def fingerprints(self, name: str, server: Server) -> tuple[str, str]:
        """Return digests of what a running child depends on, and of what decides what it lists.

        The first is for all but its roots. Two configs, or two clients' environments, that give a
        server the same may share its children. Of a secret that the config refers to the digests
        have the reference, not the value.
        """
        inherits, deciding = self.of(server)
        for_commands = self.of_commands(server)
        written = _written(name, server, self._environment)
        return (
            _digest(written, sorted(inherits.items()), sorted(for_commands.items())),
            _digest(written, sorted(deciding.items())),
        )


def _written(name: str, server: Server, environment: Mapping[str, str]) -> list[object]:
    """Return what the config says of a launch, with its variables filled in."""
    said: list[object] = [server.era, server.roots.answer]
    if isinstance(server, StdioServer):
        launched = plan(server.template(name), EMPTY, environment)
        said += [launched.argv, launched.env, launched.cwd, server.confine.model_dump()]
        secrets = dict(launched.secrets)
    else:
        plain = {key: text.plain for key, text in server.headers.items() if text.plain is not None}
        said += [server.url, sorted(plain.items()), server.transport]
        said += [server.auth is not None, server.auth is not None and server.auth.shared]
        secrets = {key: text for key, text in server.headers.items() if text.plain is None}
    return [*said, sorted((key, text.digested) for key, text in secrets.items())]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def missed_by(servers: Iterable[ServerSpec], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that a server misses, and each misspelt placeholder."""
    for spec in servers:
        for what, fix in missed(spec, environment):
            yield f"servers.{spec.name}: {what}: {fix}"


def missed(spec: ServerSpec, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return for each variable of `environment` that a server misses what is wrong, and a remedy.

    A variable that its process inherits, or that the config sets or fills in, is not missed.
    So are placeholders for roots that are passed on as they are. For a remote server: each `$NAME`
    in its URL or headers that is sent literally.
    """
    if isinstance(spec.target, RemoteTarget):
        texts = (spec.target.url, *spec.target.headers.values())
        # URL and headers may hold secrets: show only names that are set in the environment.
        return [
            (f"${name} is sent literally, not replaced", f"write ${{{name}}}")
            for name in mentioned(texts, environment, {})
            if name in environment
            and any(f"${name}" in text or f"${{{name}}}" in text for text in texts)
        ]
    choice = spec.environment
    shown = choice if isinstance(choice, str) else f"[{', '.join(choice)}]"
    given = {*spec.inherits, *dict(spec.target.env)}
    return [
        (
            f"uses {name}, which its process does not inherit (environment: {shown})",
            f'write env: {{{name}: "${{{name}}}"}}',
        )
        for name in mentioned(_texts(spec.target), environment, given)
    ] + _unmarked(spec.target)


def _unmarked(template: LaunchTemplate) -> list[tuple[str, str]]:
    """Return what looks like a placeholder for roots and is none. It may be meant, so it runs."""
    texts = (*_texts(template), *_plain(filter(None, [template.cwd])))
    found = (one for text in texts for one in _UNMARKED.finditer(text))
    meant = {one[0]: one[1] or one[2] for one in found}
    return [
        (f"{written} is passed on as it is", f"if the client's roots are meant, write ${{{name}}}")
        for written, name in meant.items()
    ]


def _texts(template: LaunchTemplate) -> tuple[str, ...]:
    """Return the command, arguments and `env` values of a server, without filled placeholders."""
    texts = (template.command, *template.args, *(value for _, value in template.env))
    return tuple(_plain(texts))


def _plain(texts: Iterable[Template]) -> Iterator[str]:
    """Yield each text without its placeholders."""
    filled = (text.filled(lambda _: "", ()) for text in texts if not text.spreads)
    return ("".join(part for part in one.parts if isinstance(part, str)) for one in filled)
