"""The shape of hub.yaml. Every mapping rejects keys it does not know; times are in seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, StringConstraints

from hub.catalog.names import NamesMode
from hub.catalog.search import Expose
from hub.config.fields import (
    Count,
    Flag,
    Name,
    Network,
    Origin,
    PathText,
    Patterns,
    Port,
    Seconds,
    SecondsOrZero,
    Secret,
    path_alone,
)
from hub.config.server_models import Guard, GuardKey, Part, RemoteServer, Server, StdioServer
from hub.errors import ConfigError
from hub.guard.policy import Access
from hub.launch.plan import LaunchTemplate, mentions_roots


class Listen(Part):
    """Where `--http` serves."""

    host: Annotated[str, StringConstraints(min_length=1)] = "127.0.0.1"
    port: Port = 8765
    path: Annotated[str, StringConstraints(pattern="^/")] = "/mcp"
    token: Secret | None = None
    poll_after: SecondsOrZero = 0
    origins: tuple[Origin, ...] = ()
    trusted_proxies: tuple[Network, ...] = ()


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
    instructions: str | None = None
    max_children: Count = 64
    max_children_per_session: Count | None = None
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
        ConfigError: there is no server; or one child for all clients cannot have the roots of each.
    """
    if not config.servers:
        raise ConfigError("servers: no servers", "Add one, with a command or a url.")
    for name, server in config.servers.items():
        if isinstance(server, StdioServer) and server.share == "all":
            _check_shared(name, server.template(name))


def _check_shared(name: str, template: LaunchTemplate) -> None:
    if mentions_roots(template):
        raise ConfigError(
            f"servers.{name}.share: all clients cannot share a child that is launched with roots",
            "Use share: roots, or take the roots out (placeholders; or roots.args: none).",
        )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of hub.yaml, for editors."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **HubConfig.model_json_schema(), "title": "roots-hub config"}
