"""What `explain` is asked, and what the call is judged by: options, config, the server itself."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from hub.app.machine import Setting, place_of, this_machine
from hub.calls.permission import Change, Circumstances
from hub.cli.options import (
    FILES,
    arguments_of,
    chosen_profile,
    config_and_folders,
    config_path,
    ensure_usable,
    named_tool,
    parsed_option,
)
from hub.cli.own_client import own_client
from hub.config.fields import AccessAt
from hub.config.models import FallbackRoot, Guard, HubConfig, StdioServer, ToolOverride
from hub.config.operator_roots import PathContext, operator_roots, roots_in
from hub.config.to_specs import narrowed_roots, narrowed_servers, usable_servers
from hub.errors import ConfigError, RouteError, StartError
from hub.guard.containment import CallContext
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Policy, ToolPolicy
from hub.launch.plan import LaunchTemplate, plan
from hub.paths.resolve import CachedDisk
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.specs import RemoteTarget, ServerSpec
from hub.system.machine import Machine
from hub.system.this_process import run_loop
from hub.values import Call, Json, JsonObject, ServerName

_MOST: Final = 16
"""How often changes are made, and the call judged again."""


class CallInQuestion(Struct, frozen=True):
    """The call that is asked about, and what it is judged with: a config, and `folders`.

    `folders` are those of `--root`, or what stands for them without a config. `source` is the
    config's file, if there is one.
    """

    server: str
    tool: str
    arguments: JsonObject
    definition: JsonObject
    config: HubConfig
    folders: tuple[str, ...]
    has_config: bool
    source: Path | None
    profile: str | None


class ExplainedCall(Struct, frozen=True):
    """All that a call is judged by. `name` is SERVER.TOOL, `schema` that of the tool's input."""

    name: str
    call: Call
    schema: Json
    read_only: bool
    policy: ToolPolicy
    context: CallContext
    circumstances: Circumstances

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that an issuer's token needs for the call."""
        return self.circumstances.spec.scopes.of(self.call.method, self.call.name)


def question_of(options: Namespace) -> CallInQuestion:
    """Return what the command line asks about.

    Raises: StartError, ConfigError, RouteError; SystemExit for arguments that are no JSON object.
    """
    found, folders = config_and_folders(options)
    config = found or HubConfig(version=1)
    server, tool = _named(options, config)
    return CallInQuestion(
        server,
        tool,
        arguments_of(options),
        _definition(options, found, server, tool),
        config,
        folders,
        has_config=found is not None,
        profile=chosen_profile(config, options.profile),
        source=config_path(options),
    )


def case_of(question: CallInQuestion) -> ExplainedCall:
    """Return what a call is judged by. Raises: ConfigError, StartError, RouteError."""
    config, machine = question.config, this_machine(os.environ)
    place = place_of(machine, config, question.source)
    operator, profile = operator_roots(config.roots, question.folders, place), question.profile
    if profile is not None:
        operator = narrowed_roots(operator, config, profile, place)
    rootless = effective = for_rootless(operator)
    if not question.has_config:  # the default policy, and the server runs in the first root
        policy = Policy(unsafe=place.unsafe, own=place.own)
        spec = ServerSpec(ServerName(question.server), RemoteTarget(""), policy)
        first = next((root.path for root in effective.roots.roots if not root.is_file), None)
        context = replace(_context(spec, effective, machine), cwd=first)
    else:
        spec = _spec(config, question.server, place)
        _ensure_offered(spec, question.tool, f"servers.{spec.name}.tools")
        if profile is not None:
            spec = _in_profile(spec, config, profile, place)
            _ensure_offered(spec, question.tool, f"profiles.{profile}.tools")
        effective = for_server(effective, spec.ceiling)
        context = _context(spec, effective, machine)
    hints, arguments = question.definition.get("annotations"), question.arguments
    return ExplainedCall(
        name=f"{question.server}.{question.tool}",
        call=Call("tools/call", question.tool, arguments, {"arguments": arguments}),
        schema=question.definition.get("inputSchema"),
        read_only=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
        policy=spec.policy_of(question.tool),
        context=context,
        circumstances=Circumstances(
            spec=spec,
            effective=rootless,
            ceiling=operator.ceiling,
            announced=None,
            has_config=question.has_config,
            links=context.links,
            flavour=context.flavour,
            profile=profile,
        ),
    )


def _named(options: Namespace, config: HubConfig) -> tuple[str, str]:
    """Return the server and the tool of the argument `SERVER.TOOL`, or of a public name."""
    call: str = options.call or ""
    if not call:
        options.usage_error("give SERVER.TOOL and --arguments '{...}', or --batch FILE")
    named = named_tool(call, config.servers, config.names)
    if named is None:
        return options.usage_error(f"{call!r} is not SERVER.TOOL, like files.read_file")
    if not config.servers and named[0] != FILES:
        return options.usage_error(f"{call!r}: without a config the only server is {FILES}")
    return named


def _in_profile(
    spec: ServerSpec, config: HubConfig, profile: str, place: PathContext
) -> ServerSpec:
    narrowed = narrowed_servers({spec.name: spec}, config, profile, place)
    if not narrowed:
        raise RouteError(
            f"profiles.{profile}.servers: hides {spec.name}: its clients do not have the server\n"
            "Name it there."
        )
    return narrowed[spec.name]


def _ensure_offered(spec: ServerSpec, tool: str, where: str) -> None:
    if not spec.offer.includes(tool):
        raise RouteError(
            f"{where}: hides {tool!r}: clients can neither see nor call it\n"
            "Name it in tools.allow, or take it out of tools.deny."
        )


def _spec(config: HubConfig, server: str, place: PathContext) -> ServerSpec:
    usable = usable_servers(config, place)
    specs = usable.specs
    if (spec := specs.get(ServerName(server))) is not None:
        return spec
    ensure_usable(usable.left_out, server)
    known = ", ".join(specs) or "none"
    raise ConfigError(f"servers.{server}", "there is no such server", f"Configured: {known}.")


def _context(spec: ServerSpec, effective: EffectiveRoots, machine: Machine) -> CallContext:
    """Return what a call to a server of the config is judged against."""
    planned = None
    if isinstance(spec.target, LaunchTemplate):
        own = spec.directories
        planned = plan(spec.target, effective.roots, machine.environment, directories=own)
    return CallContext(
        effective.roots,
        cwd=None if planned is None else planned.cwd,
        env=planned.environment(spec.inherits) if planned else dict(machine.environment),
        links=CachedDisk(machine.links),
        flavour=machine.flavour,
        enforcing=effective.enforcing,
        starts=() if planned is None else planned.starts,
        near=() if planned is None else planned.near,
    )


def _definition(options: Namespace, config: HubConfig | None, server: str, tool: str) -> JsonObject:
    if options.schema is not None:
        try:
            text = Path(options.schema).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as exc:
            raise unreadable(f"--schema {options.schema}", exc, "Name a JSON Schema.") from exc
        return {"inputSchema": parsed_option(options, text, "--schema")}
    if not options.connect:
        return {}
    if config is None:
        return cast("JsonObject", options.usage_error("--connect needs a config with the server"))
    spec = _spec(config, server, place_of(this_machine(os.environ), config, config_path(options)))
    return run_loop(_ask, config, Setting(given=options.root), spec.name, tool)


def unreadable(what: str, why: OSError | UnicodeError, fix: str) -> StartError:
    """Return the error for a file that cannot be read."""
    said = why.strerror if isinstance(why, OSError) else "is not UTF-8"
    return StartError(f"{what}: {said}", fix)


async def _ask(config: HubConfig, setting: Setting, server: ServerName, tool: str) -> JsonObject:
    """Start a server and return its definition of `tool`.

    Raises: RouteError if it has no such tool.
    """
    async with own_client(config, setting) as client:
        listing = (await client.start(server)).listing
    for definition in listing.tools:
        if definition.get("name") == tool:
            return definition
    raise RouteError(f"Unknown tool: {server}.{tool}\n`roots-hub tools` lists those there are.")


def allowing(
    question: CallInQuestion, needed: Callable[[CallInQuestion], Sequence[Change] | None]
) -> tuple[Change, ...] | None:
    """Return the changes after which the call passes; None if none are known.

    `needed` judges the call: None if it passes, else the changes for its refusal.
    """
    made: list[Change] = []
    for _ in range(_MOST):
        next_ones = needed(question)
        if next_ones is None:
            return tuple(made)
        new = [change for change in next_ones if change not in made]
        if not new:
            return None
        for change in new:
            question = changed(question, change)
        made += new
    return None


def changed(question: CallInQuestion, change: Change) -> CallInQuestion:
    """Return `question` after a change; one that is no setting (of a client's) changes nothing."""
    config, folders = question.config, question.folders
    match change.key.split("."):
        case ["--root" | "HUB_ROOTS"]:
            before = folders or tuple(roots_in(os.environ))
            return replace(question, folders=(*before, str(change.value)))
        case ["roots", key]:
            roots = _with(config.roots, key, _roots_value(config, key, change))
            return replace(question, config=_with(config, "roots", roots))
        case ["servers", *_]:
            return replace(question, config=_with(config, "servers", _servers(config, change)))
        case _:
            return question


def _roots_value(config: HubConfig, key: str, change: Change) -> object:
    before, value = getattr(config.roots, key), cast("Any", change.value)
    if change.op == "set":
        return value
    if change.op == "remove":
        return tuple(one for one in before if one != value)
    if key == "fallback":
        return (*before, FallbackRoot.model_construct(path=value, name=None))
    return (*before, AccessAt.model_construct(**value) if key == "access" else str(value))


def _servers(config: HubConfig, change: Change) -> Mapping[str, object]:
    longest_first = sorted(config.servers, key=len, reverse=True)
    name = next(one for one in longest_first if change.key.startswith(f"servers.{one}."))
    server, rest = config.servers[name], change.key.removeprefix(f"servers.{name}.")
    value = cast("Any", change.value)
    if rest.startswith("guard."):
        guard = config.guard_of(name).model_copy()
        own = server.guard or Guard.model_construct(_fields_set=set(), **guard.model_dump())
        made = _with(server, "guard", _with(own, rest.removeprefix("guard."), value))
    elif rest == "args" and isinstance(server, StdioServer):
        made = _with(server, "args", (*server.args, value))
    elif rest == "roots.args":
        made = _with(server, "roots", _with(server.roots, "args", value))
    else:
        tool = rest.removeprefix("tools.overrides.").removesuffix(".arguments")
        before = server.tools.overrides.get(tool) or ToolOverride()
        kinds = {pointer: Kind(kind) for pointer, kind in value.items()}
        override = _with(before, "arguments", {**before.arguments, **kinds})
        overrides = {**server.tools.overrides, tool: override}
        made = _with(server, "tools", _with(server.tools, "overrides", overrides))
    return {**config.servers, name: made}


def _with(model: Any, key: str, value: object) -> Any:
    """Return a copy of a part of the config with another value, which counts as written there."""
    return model.model_copy(update={key: value})
