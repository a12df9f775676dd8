"""The shape of hub.yaml. Every mapping rejects keys it does not know; times are in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from hub.core.errors import ConfigError
from hub.core.launch import LaunchTemplate, mentions_roots
from hub.core.names import NamesMode
from hub.core.policy import Access
from hub.core.search import Expose
from hub.edge.fields import (
    Count,
    Flag,
    Name,
    PathText,
    Patterns,
    Port,
    Seconds,
    SecondsOrZero,
    Secret,
    path_alone,
)
from hub.edge.server_config import Guard, GuardKey, Part, RemoteServer, Server, StdioServer

NOT_YET: Final[Mapping[str, tuple[object, ...]]] = {
    "guard.on_refused": ("refuse",),
    "guard.rewrite": ("verbatim",),
    "servers.*.guard.on_refused": ("refuse",),
    "servers.*.guard.rewrite": ("verbatim",),
}
"""Keys of which not every value does something yet, with those that do.

Only what would be less safe than the operator wrote if it were accepted and did nothing. Whoever
builds the behaviour deletes the entry.
"""


class Listen(Part):
    """Where `--http` serves."""

    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern="^/")] = "/mcp"
    token: Secret | None = None


class FallbackRoot(Part):
    """A root that stands in for those of clients without any."""

    path: PathText
    name: str | None = None


FallbackKey: TypeAlias = Annotated[
    FallbackRoot, BeforeValidator(path_alone, json_schema_input_type=str | FallbackRoot)
]


class AccessAt(Part):
    """What tools may do at and below a path."""

    path: PathText
    access: Access


class Roots(Part):
    """What holds for the roots of all clients."""

    fallback: tuple[FallbackKey, ...] = ()
    ceiling: tuple[PathText, ...] = ()
    detect: Flag = False
    when_missing: Literal["allow", "deny"] = "allow"
    when_empty: Literal["allow", "deny"] = "deny"
    strict: Flag = False
    timeout: Seconds = 10
    debounce: SecondsOrZero = 0.25
    reuse: SecondsOrZero = 0
    deny: Patterns = ()
    allow_unsafe: Flag = False
    access: tuple[AccessAt, ...] = ()


class Audit(Part):
    """Where the audit log goes."""

    file: PathText


class HubConfig(Part):
    """A whole config."""

    version: Literal[1]
    listen: Listen = Listen()
    roots: Roots = Roots()
    guard: GuardKey = Guard()
    names: NamesMode = "auto"
    expose: Expose = "tools"
    max_children: Count = 64
    audit: Audit | None = None
    servers: dict[Name, Server] = Field(default_factory=dict[str, StdioServer | RemoteServer])

    def guard_of(self, server: str) -> Guard:
        """Return what holds for one server: its own keys, and the hub's for the others."""
        own = self.servers[server].guard
        said = {} if own is None else {key: getattr(own, key) for key in own.model_fields_set}
        return self.guard.model_copy(update=said)


def check(config: HubConfig) -> None:
    """Refuse what no single value shows to be wrong.

    Raises:
        ConfigError: there is no server; one child for all clients cannot have the roots of each;
            or a value's behaviour does not exist yet.
    """
    if not config.servers:
        raise ConfigError("servers: no servers", "Add one, with a command or a url.")
    for key, available in NOT_YET.items():
        for where, value in _values(config, "", key.split(".")):
            if value not in available:
                raise _not_yet(where, value, available)
    for name, server in config.servers.items():
        if isinstance(server, StdioServer) and server.share == "all":
            _check_shared(name, server.template(name))


def _check_shared(name: str, template: LaunchTemplate) -> None:
    if mentions_roots(template):
        raise ConfigError(
            f"servers.{name}.share: all clients cannot share a child that is launched with roots",
            "Use share: roots, or take the roots out (placeholders; or roots.args: none).",
        )


def _values(part: Any, where: str, keys: list[str]) -> Iterator[tuple[str, object]]:
    if not keys:
        yield where, part
    elif keys[0] == "*":
        for key, value in part.items():
            yield from _values(value, f"{where}.{key}", keys[1:])
    elif hasattr(part, keys[0]):
        at = f"{where}.{keys[0]}".removeprefix(".")
        yield from _values(getattr(part, keys[0]), at, keys[1:])


def _not_yet(where: str, value: object, available: tuple[object, ...]) -> ConfigError:
    what = f"{where}: {value}" if isinstance(value, str | int) else where
    instead = " or ".join(str(one) for one in available if one is not None)
    fix = f"Use {instead}." if instead else "Leave it out."
    return ConfigError(f"{what} is not available in this version", fix)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of hub.yaml, for editors."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **HubConfig.model_json_schema(), "title": "roots-hub config"}
