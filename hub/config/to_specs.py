"""Convert a `HubConfig` to checked `ServerSpec`s, one per server."""

from __future__ import annotations

from msgspec.structs import replace

from hub.catalog.merge import Offer, ToolText
from hub.config.models import HubConfig, Server, StdioServer
from hub.config.operator_roots import PathContext
from hub.errors import ConfigError, RootError
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.launch.plan import argv_directories, known_filesystem_server, known_to_keep_nothing
from hub.paths.resolve import PathError, parts_of, resolve
from hub.roots.roots import RootSet, root_set
from hub.specs import ConfineSetting, RemoteTarget, ServerSpec, Share, Target
from hub.values import ServerName


def server_specs(config: HubConfig, place: PathContext) -> dict[ServerName, ServerSpec]:
    """Return the specs of the configured servers, in the config's order.

    Raises: ConfigError if a path or pattern in the config is not usable.
    """
    rules = _access_rules(config, place)
    return {
        ServerName(name): _spec(
            ServerName(name), server, _policy(config, name, server, rules, place), place
        )
        for name, server in config.servers.items()
    }


def _spec(name: ServerName, server: Server, policy: Policy, place: PathContext) -> ServerSpec:
    directories, ceiling = _own_directories(server, name, place)
    return ServerSpec(
        name=name,
        target=_target(name, server),
        policy=policy,
        tool_policies=_tool_policies(server, policy),
        ceiling=ceiling,
        directories=directories,
        offer=_offer(server),
        answer_roots=server.roots.answer and server.share != "all",
        describe_roots=server.describe_roots,
        confine=_confine(server),
        environment=server.environment if isinstance(server, StdioServer) else "default",
        share=_share(name, server),
        eager={"auto": None, "lazy": False, "eager": True}[server.start],
        era=server.era,
        start_timeout=server.start_timeout,
        timeout=server.timeout,
        concurrency=server.concurrency,
        idle_stop=server.idle_stop,
    )


def _target(name: ServerName, server: Server) -> Target:
    if isinstance(server, StdioServer):
        return server.template(name)
    headers = {name: value.get_secret_value() for name, value in server.headers.items()}
    return RemoteTarget(server.url, headers, server.transport)


def _share(name: ServerName, server: Server) -> Share:
    """Return who may share the server's children, with what is known of its command."""
    if server.share == "auto" and isinstance(server, StdioServer):
        return "roots" if known_to_keep_nothing(server.template(name)) else "auto"
    return server.share


def _confine(server: Server) -> ConfineSetting:
    if not isinstance(server, StdioServer):
        return ConfineSetting()
    asked = server.confine
    return ConfineSetting(asked.mode, asked.read, asked.write, asked.allow, asked.abi)


def _own_directories(
    server: Server, name: str, place: PathContext
) -> tuple[tuple[str, ...], RootSet | None]:
    """Return the directories in a filesystem server's arguments, and the same as its ceiling.

    The ceiling is None if there are none or if the client's roots replace them.
    """
    if not isinstance(server, StdioServer):
        return (), None
    template = server.template(name)
    if not known_filesystem_server(template):
        return (), None
    found = argv_directories(template, place.environment, lambda path: _is_directory(path, place))
    if server.roots.args == "replace" or not found:
        return found, None
    try:
        return found, root_set([place.root(path) for path in found])
    except RootError as exc:
        raise ConfigError(
            f"servers.{name}.args: {exc}",
            "Name directories that exist and are safe to share, or set roots.allow_unsafe.",
        ) from exc


def _is_directory(path: str, place: PathContext) -> bool:
    try:
        found = place.links.entry(
            resolve(path, cwd=place.directory, links=place.links, flavour=place.flavour)
        )
    except PathError:
        return False
    return found is not None and found.kind == "directory"


def _policy(
    config: HubConfig, name: str, server: Server, rules: tuple[AccessRule, ...], place: PathContext
) -> Policy:
    guard = config.guard_of(name)
    try:
        deny = DenyPatterns(tuple(config.roots.deny))
    except ValueError as exc:
        raise ConfigError(f"roots.deny: {exc}", "Patterns are written as in .gitignore.") from exc
    return Policy(
        mode=Mode(guard.mode),
        access=rules,
        deny=deny,
        unsafe=place.unsafe,
        symlinks=guard.symlinks,
        rewrite=guard.rewrite,
        refuse_options=guard.refuse_options,
        on_refused=guard.on_refused,
        paths="local" if isinstance(server, StdioServer) else server.paths,
        own=place.own,
    )


def _access_rules(config: HubConfig, place: PathContext) -> tuple[AccessRule, ...]:
    rules: list[AccessRule] = []
    for index, entry in enumerate(config.roots.access):
        try:
            found = resolve(
                entry.path, cwd=place.directory, links=place.links, flavour=place.flavour
            )
        except PathError as exc:
            where = f"roots.access[{index}].path: {entry.path}: {exc}"
            raise ConfigError(where, "Name a path that the hub may read.") from exc
        rules.append(AccessRule(parts_of(found, place.flavour), entry.access))
    return tuple(rules)


def _tool_policies(server: Server, policy: Policy) -> dict[str, ToolPolicy]:
    policies: dict[str, ToolPolicy] = {}
    for tool, override in server.tools.overrides.items():
        own = policy if override.guard is None else replace(policy, mode=Mode(override.guard))
        policies[tool] = ToolPolicy(own, override.arguments, override.access)
    return policies


def _offer(server: Server) -> Offer:
    texts = {
        tool: ToolText(override.title, override.description)
        for tool, override in server.tools.overrides.items()
        if override.title is not None or override.description is not None
    }
    return Offer(server.tools.allow, server.tools.deny, texts)
