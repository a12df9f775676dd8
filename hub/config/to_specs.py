"""Convert a `HubConfig` to checked `ServerSpec`s, and narrow them for the clients of a profile."""

from __future__ import annotations

import ntpath
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import structlog
from msgspec import Struct
from msgspec.structs import replace

from hub.catalog.merge import Offer, ToolText
from hub.config.fields import AccessAt
from hub.config.inheritance import Inheritance
from hub.config.listening.auth import united
from hub.config.listening.profile import Profile
from hub.config.models import FaultAt, HubConfig, RemoteAuth, Server, StdioServer
from hub.config.operator_roots import PathContext, ceiling_of
from hub.config.source.places import Path
from hub.errors import ConfigError, Fault, RootError
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.launch.plan import argv_directories, known_filesystem_server, known_to_keep_nothing
from hub.paths.resolve import PathError, parts_of
from hub.roots.effective import OperatorRoots
from hub.roots.roots import RootSet, root_set
from hub.sessions.services import Configured
from hub.specs import (
    ConfineSetting,
    LeftOut,
    NeededScopes,
    RemoteLogin,
    RemoteTarget,
    ServerSpec,
    Share,
    Target,
)
from hub.values import ServerName

log = structlog.stdlib.get_logger(__name__)


class UsableServers(Struct, frozen=True):
    """The specs of the servers that can be used, and those that are left out."""

    specs: dict[ServerName, ServerSpec]
    left_out: tuple[LeftOut, ...]


def usable_servers(config: HubConfig, place: PathContext) -> UsableServers:
    """Return the configured servers, in the config's order.

    A filesystem server with a directory in its arguments that may not be shared is left out.

    Raises: ConfigError if a path in the config is not usable, or if no server is.
    """
    rules = access_rules(config.roots.access, ("roots", "access"), place, config.fault)
    inheritance = Inheritance(config, place)
    specs: dict[ServerName, ServerSpec] = {}
    left_out = [*config.left_out]
    for key, server in config.servers.items():
        name, policy = ServerName(key), _policy(config, key, server, rules, place)
        try:
            specs[name] = _spec(config, name, policy, place, inheritance)
        except _UnsafeDirectoryError as exc:
            left_out.append(LeftOut(name, (exc.fault,)))
    if left_out and not specs:
        raise ConfigError.of([fault for one in left_out for fault in one.faults])
    return UsableServers(specs, tuple(left_out))


class _UnsafeDirectoryError(Exception):
    """A directory in a filesystem server's arguments may not be shared."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.said)
        self.fault = fault


def _spec(
    config: HubConfig,
    name: ServerName,
    policy: Policy,
    place: PathContext,
    inheritance: Inheritance,
) -> ServerSpec:
    server = config.servers[name]
    directories, ceiling = _own_directories(config, name, place)
    inherits, _ = inheritance.of(server)
    fingerprint, catalog_id = inheritance.fingerprints(name, server)
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
        inherits=inherits,
        for_commands=inheritance.of_commands(server),
        fingerprint=fingerprint,
        catalog_id=catalog_id,
        share=_share(name, server, place),
        eager={"auto": None, "lazy": False, "eager": True}[server.start],
        era=server.era,
        start_timeout=server.start_timeout,
        timeout=server.timeout,
        concurrency=server.concurrency,
        idle_stop=server.idle_stop,
        scopes=_scopes(config, server),
    )


def _target(name: ServerName, server: Server) -> Target:
    if isinstance(server, StdioServer):
        return server.template(name)
    plain = {key: text.plain for key, text in server.headers.items() if text.plain is not None}
    secrets = {key: text for key, text in server.headers.items() if text.plain is None}
    return RemoteTarget(server.url, plain, server.transport, secrets, _login(server.auth))


def _login(auth: RemoteAuth | None) -> RemoteLogin | None:
    if auth is None:
        return None
    return RemoteLogin(
        auth.shared,
        auth.keep == "keyring",
        auth.client_id,
        auth.client_secret,
        auth.client_metadata,
        auth.issuer,
        auth.scopes,
        auth.redirect_port,
    )


def _scopes(config: HubConfig, server: Server) -> NeededScopes:
    """Return all scopes that are needed for what a server offers, the general ones first."""
    general = () if config.listen.auth is None else config.listen.auth.scopes
    own = server.scopes
    tools = {
        tool: united(general, own, override.scopes)
        for tool, override in server.tools.overrides.items()
        if override.scopes
    }
    return NeededScopes(united(general, own) if own else (), tools)


def _share(name: ServerName, server: Server, place: PathContext) -> Share:
    """Return who may share the server's children, with what is known of its command."""
    if place.is_shared and isinstance(server, StdioServer) and server.environment == "all":
        return "session"  # nobody else has the same environment
    if server.share == "auto" and isinstance(server, StdioServer):
        return "roots" if known_to_keep_nothing(server.template(name)) else "auto"
    return server.share


def _confine(server: Server) -> ConfineSetting:
    if not isinstance(server, StdioServer):
        return ConfineSetting()
    asked = server.confine
    return ConfineSetting(asked.mode, asked.read, asked.write, asked.allow, asked.abi)


def _own_directories(
    config: HubConfig, name: ServerName, place: PathContext
) -> tuple[tuple[str, ...], RootSet | None]:
    """Return the directories in a filesystem server's arguments, and the same as its ceiling.

    The ceiling is None if there are none, if the client's roots replace them, or if one of them has
    all files (`/`): then the client's roots decide.

    Raises: _UnsafeDirectoryError if one may not be shared.
    """
    server = config.servers[name]
    if not isinstance(server, StdioServer):
        return (), None
    template = server.template(name)
    if not known_filesystem_server(template):
        return (), None
    found = argv_directories(template, place.environment, lambda path: _is_directory(path, place))
    if server.roots.args == "replace" or not found:
        return found, None
    if any(_has_all_files(path, place) for path in found):
        return found, None
    try:
        return found, root_set([place.root(path) for path in found])
    except RootError:
        raise _UnsafeDirectoryError(_unsafe(config, name, server, place)) from None


def _unsafe(config: HubConfig, name: ServerName, server: StdioServer, place: PathContext) -> Fault:
    """Return the fault of the first directory in the arguments that may not be shared."""
    template = server.template(name)
    for index, argument in enumerate(template.args):
        alone = replace(template, args=(*template.args[:index], argument))
        for path in argv_directories(alone, place.environment, lambda p: _is_directory(p, place)):
            try:
                place.root(path)
            except RootError as exc:
                at = ("servers", name, "args", index)
                fix = "Name another directory, or none: then the clients' roots decide."
                lifted = "" if config.is_clients else " `roots.allow_unsafe` lifts this."
                return config.fault(at, f"{path}: {exc}", f"{fix}{lifted}")
    at = ("servers", name, "args")
    return config.fault(at, "a directory may not be shared", "Name other directories.")


def _has_all_files(path: str, place: PathContext) -> bool:
    try:
        found = place.resolved(path)
    except PathError:
        return False
    return found in {"/", ntpath.splitdrive(found)[0] + "\\"}


def _is_directory(path: str, place: PathContext) -> bool:
    try:
        found = place.links.entry(place.resolved(path))
    except PathError:
        return False
    return found is not None and found.kind == "directory"


def _policy(
    config: HubConfig, name: str, server: Server, rules: tuple[AccessRule, ...], place: PathContext
) -> Policy:
    guard = config.guard_of(name)
    return Policy(
        mode=Mode(guard.mode),
        access=rules,
        deny=DenyPatterns(config.roots.deny),
        unsafe=place.unsafe,
        symlinks=guard.symlinks,
        rewrite=guard.rewrite,
        refuse_options=guard.refuse_options,
        on_refused=guard.on_refused,
        paths="local" if isinstance(server, StdioServer) else server.paths,
        own=place.own,
    )


def access_rules(
    entries: Sequence[AccessAt], at: Path, place: PathContext, fault: FaultAt
) -> tuple[AccessRule, ...]:
    """Return the rules that `entries` make, which are at `at` in the config.

    Raises: ConfigError if a path cannot be followed.
    """
    rules: list[AccessRule] = []
    for index, entry in enumerate(entries):
        try:
            found = place.resolved(entry.path)
        except PathError as exc:
            fix = "Name a path that the hub may read."
            found = fault((*at, index, "path"), f"{entry.path}: {exc}", fix)
            raise ConfigError.of([found]) from exc
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


def warn_of_left_out(left_out: Iterable[LeftOut]) -> None:
    """Log an error for each server that the config has and that cannot be used."""
    for one in left_out:
        for fault in one.faults:
            log.error(
                "server LEFT OUT",
                server=one.name,
                where=fault.where,
                what=fault.what,
                fix=fault.fix,
            )


def narrowed(made: Configured, config: HubConfig, name: str, place: PathContext) -> Configured:
    """Return what is left of `made`, which comes from `config`, for the clients of a profile.

    Raises: ConfigError if a path of the profile cannot be used.
    """
    profile = config.profiles[name]
    return replace(
        made,
        servers=narrowed_servers(made.servers, config, name, place),
        roots=narrowed_roots(made.roots, config, name, place),
        left_out=[one for one in made.left_out if _has(profile, one.name)],
    )


def narrowed_servers(
    specs: Mapping[ServerName, ServerSpec], config: HubConfig, name: str, place: PathContext
) -> dict[ServerName, ServerSpec]:
    """Return the servers of a profile, as they are for its clients; raises as `narrowed`."""
    profile, at = config.profiles[name], ("profiles", name, "roots", "access")
    rules = access_rules(profile.roots.access, at, place, config.fault)
    return {
        server: _narrowed_spec(spec, profile, rules)
        for server, spec in specs.items()
        if _has(profile, server)
    }


def narrowed_roots(
    roots: OperatorRoots, config: HubConfig, name: str, place: PathContext
) -> OperatorRoots:
    """Return the operator's roots with the ceiling of a profile."""
    paths = config.profiles[name].roots.ceiling
    own = ceiling_of(paths, f"profiles.{name}.roots.ceiling", place)
    if own is None:
        return roots
    return replace(roots, ceiling=own if roots.ceiling is None else roots.ceiling.within(own))


def _has(profile: Profile, server: ServerName) -> bool:
    return any(fnmatchcase(server, glob) for glob in profile.servers)


def _narrowed_spec(spec: ServerSpec, profile: Profile, rules: Sequence[AccessRule]) -> ServerSpec:
    policy = _narrowed_policy(spec.policy, profile, rules)
    deny = (*spec.offer.deny, *globs_for(spec.name, profile.tools.deny))
    only = globs_for(spec.name, profile.tools.allow)
    return replace(
        spec,
        policy=policy,
        tool_policies={
            tool: replace(own, policy=_narrowed_policy(own.policy, profile, rules))
            for tool, own in spec.tool_policies.items()
        },
        offer=replace(spec.offer, deny=deny, only=only),
        confined_by=spec.policy if spec.share == "all" else None,
    )


def globs_for(server: ServerName, globs: Sequence[str]) -> tuple[str, ...]:
    """Return the globs on a server's own tool names among `globs`; `SERVER/` may precede one."""
    found: list[str] = []
    for glob in globs:
        whose, slash, tool = glob.partition("/")
        if not slash:
            found.append(glob)
        elif fnmatchcase(server, whose):
            found.append(tool)
    return tuple(found)


def _narrowed_policy(policy: Policy, profile: Profile, rules: Sequence[AccessRule]) -> Policy:
    guard = profile.guard
    return replace(
        policy,
        mode=Mode.ENFORCE if guard.mode == "enforce" else policy.mode,
        access=stricter(policy.access, rules),
        deny=DenyPatterns((*policy.deny.lines, *profile.roots.deny)),
        symlinks=guard.symlinks or policy.symlinks,
        refuse_options=guard.refuse_options or policy.refuse_options,
        on_refused=guard.on_refused or policy.on_refused,
    )


def stricter(one: Sequence[AccessRule], other: Sequence[AccessRule]) -> tuple[AccessRule, ...]:
    """Return rules that allow what both lists allow: where either says `read`, they do."""
    if not one or not other:
        return (*one, *other)
    places = dict.fromkeys(rule.parts for rule in (*one, *other))
    return tuple(
        AccessRule(parts, "read" if "read" in {_at(one, parts), _at(other, parts)} else "write")
        for parts in places
    )


def _at(rules: Sequence[AccessRule], parts: tuple[str, ...]) -> str:
    """Return what a list of rules allows at a place: the innermost rule counts."""
    return Policy(access=(*rules,)).access_at(parts)
