"""`roots-hub explain`: show whether the guard admits a call, and why; or judge a batch of calls."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import anyio
from msgspec import Struct, to_builtins

from hub.app.machine import place_of, this_machine
from hub.app.running import running_hub
from hub.app.setting import Setting
from hub.calls.refusals.permission import Change, Circumstances, changes_for
from hub.cli.allowing import Setup, allowing
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    config_path,
    configured,
    run_loop,
)
from hub.cli.profiles import add_profile_option, chosen_profile
from hub.cli.terminal.colours import BAD, GOOD, NAME, WARNING, painted
from hub.cli.tool_names import named_tool
from hub.config.models import HubConfig
from hub.config.operator_roots import PathContext, operator_roots
from hub.config.profiles.narrowing import narrowed_roots, narrowed_servers
from hub.config.to_specs import usable_servers
from hub.errors import ConfigError, RouteError, StartError
from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import Admitted, Judged, Refused, compile_tool, decide, explain
from hub.guard.policy import Policy, ToolPolicy
from hub.launch.plan import LaunchTemplate, plan
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.roots.roots import EMPTY, UnsafePaths, parse_announcement
from hub.sessions.session import Session
from hub.specs import RemoteTarget, ServerSpec
from hub.system.disk import CachedDisk, OsDisk
from hub.system.machine import Machine
from hub.values import Call, Json, JsonObject, ServerName

_FLAVOURS = {"linux": Flavour.POSIX, "darwin": Flavour.MACOS, "windows": Flavour.WINDOWS}
FINE = "fine"
"""What is shown for a reading that is inside the roots."""
_HERE = "windows" if sys.platform == "win32" else sys.platform


class NoDisk(LinkReader):
    """A `LinkReader` for another platform, without a disk to ask: every path is a directory."""

    def entry(self, path: str) -> Entry | None:
        return Entry("directory", 0, 0)

    def target(self, path: str) -> str:
        raise PathError(f"{path} is not a link")


def read_lines(source: str, stdin: Iterable[str] | None = None) -> Iterator[str]:
    """Yield the lines of a file, or of `stdin` (this process's own) for `-`."""
    if source == "-":
        yield from sys.stdin if stdin is None else stdin
        return
    with Path(source).open(encoding="utf-8") as lines:
        yield from lines


def answers(lines: Iterable[str]) -> Iterator[str]:
    """Yield one JSON verdict per non-blank line, in order. A malformed line gives a refusal."""
    for line in lines:
        if line.strip():
            yield json.dumps(_answer(line))


def _answer(line: str) -> JsonObject:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as exc:
        return _verdict(None, None, f"the row is not JSON: {exc}")
    if not isinstance(row, dict):
        return _verdict(None, None, "the row is not an object")
    return _judged(cast("JsonObject", row))


def _judged(row: JsonObject) -> JsonObject:
    number, arguments = row.get("id"), row.get("arguments")
    context = _context(row)
    if context is None or not isinstance(arguments, dict):
        return _verdict(number, None, "the row's arguments, roots, env or platform are not usable")
    policy = ToolPolicy(Policy(unsafe=_unsafe(context)))
    guard = compile_tool(row.get("schema"), read_only=False, policy=policy)
    call = Call("tools/call", "", arguments, {"arguments": arguments})
    verdict = decide(call, guard, context)
    if isinstance(verdict, Refused):
        return _verdict(number, verdict.pointer, verdict.reason)
    return {"id": number, "verdict": "allow", "pointer": None, "reason": None}


def _verdict(number: Json, pointer: str | None, reason: str) -> JsonObject:
    return {"id": number, "verdict": "deny", "pointer": pointer, "reason": reason}


def _context(row: JsonObject) -> CallContext | None:
    platform, cwd = row.get("platform", _HERE), row.get("cwd")
    env, uris = row.get("env", {}), row.get("roots", [])
    flavour = _FLAVOURS.get(platform) if isinstance(platform, str) else None
    if flavour is None or not isinstance(env, dict) or not isinstance(uris, list):
        return None
    links = CachedDisk(OsDisk()) if platform == _HERE else NoDisk()
    roots: list[Json] = [{"uri": uri} for uri in uris]
    announced = parse_announcement({"roots": roots}, links=links, flavour=flavour, unsafe=None)
    return CallContext(
        roots=announced.roots if announced is not None else EMPTY,
        cwd=cwd if isinstance(cwd, str) else None,
        env={key: value for key, value in env.items() if isinstance(value, str)},
        links=links,
        flavour=flavour,
    )


def _unsafe(context: CallContext) -> UnsafePaths:
    home = context.env.get("HOME") or context.env.get("USERPROFILE")
    try:
        return UnsafePaths(home, context.flavour)
    except PathError:
        return UnsafePaths(None, context.flavour)


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `explain`."""
    parser: ArgumentParser = subparsers.add_parser(
        "explain",
        help="show whether a call would pass the guard, and why",
        description="Judge one call, or with --batch a row of JSON per line. Exit code 1: refused.",
    )
    parser.add_argument(
        "call", metavar="SERVER.TOOL", nargs="?", help="what would be called; or its public name"
    )
    parser.add_argument("--arguments", metavar="JSON", default="{}", help="the call's arguments")
    add_config_option(parser)
    add_root_option(parser)
    add_profile_option(parser)
    parser.add_argument("--schema", metavar="FILE", help="the tool's input schema")
    parser.add_argument(
        "--connect", action="store_true", help="ask the server itself for the tool's schema"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--batch",
        metavar="FILE",
        help="judge {id, arguments, schema, roots, ...} lines; - for stdin",
    )
    parser.set_defaults(perform=perform, usage_error=parser.error)


def perform(options: Namespace) -> int:
    """Explain one call or a batch. Return the exit code: 1 if a single call is refused."""
    if options.batch is not None:
        return _batch(options.batch)
    question = _question(options)
    setup = Setup(question.config or HubConfig(version=1), tuple(options.root))
    case = _case(question, setup)
    verdict, judged = _judged_in(case)
    refused = _refused(verdict)
    allowed_by = None if refused is None else allowing(setup, partial(_needed, question))
    show = _json if options.json else _text
    print(show(case, verdict, judged, allowed_by))
    return 0 if refused is None else 1


def _judged_in(case: _Case) -> tuple[Admitted | Refused, tuple[Judged, ...]]:
    guard = compile_tool(case.schema, read_only=case.read_only, policy=case.policy)
    verdict = decide(case.call, guard, case.context)
    try:
        return verdict, explain(case.call, guard, case.context)
    except PathError:
        return verdict, ()


def _needed(question: _Question, setup: Setup) -> tuple[Change, ...] | None:
    """Return the changes for the refusal of a call; None if it is not refused."""
    try:
        case = _case(question, setup)
    except (ConfigError, StartError):
        return ()  # the folder of a change cannot be a root
    verdict, judged = _judged_in(case)
    refused = _refused(verdict)
    if refused is None:
        return None
    readings = [
        one for value in judged if value.pointer == refused.pointer for one in value.readings
    ]
    objected = [one for one in readings if one.objection == refused.reason]
    places = dict.fromkeys(one.leads_to for one in objected if one.leads_to is not None)
    found = changes_for(refused, case.call, case.circumstances, places)
    if question.config is None:
        # There is no config to change: only what the command line says.
        return () if any("." in one.key for one in found) else found
    return found


def _batch(source: str) -> int:
    try:
        for line in answers(read_lines(source)):
            print(line)
    except BrokenPipeError:
        raise
    except (OSError, UnicodeError) as exc:
        raise _unreadable(
            f"--batch {source}", exc, "Name a file of JSON lines, or - for stdin."
        ) from exc
    return 0


class _Question(Struct, frozen=True):
    """The call that is asked about, and the config, if there is one, and its file."""

    server: str
    tool: str
    arguments: JsonObject
    definition: JsonObject
    config: HubConfig | None
    source: Path | None
    profile: str | None


class _Case(Struct, frozen=True):
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
        return self.circumstances.spec.scopes.of(self.call.name)


def _question(options: Namespace) -> _Question:
    found = configured(options)
    config = None if found is None else found[0]
    server, tool = _named(options, config or HubConfig(version=1))
    arguments = _parsed(options.arguments, "--arguments", options)
    if not isinstance(arguments, dict):
        options.usage_error('--arguments: not a JSON object, like \'{"path": "notes.md"}\'')
    definition = _definition(options, config, server, tool)
    given = cast("JsonObject", arguments)
    profile = chosen_profile(config or HubConfig(version=1), options.profile)
    return _Question(server, tool, given, definition, config, config_path(options), profile)


def _case(question: _Question, setup: Setup) -> _Case:
    config, machine = setup.config, this_machine(os.environ)
    place = place_of(machine, config, question.source)
    operator, profile = operator_roots(config.roots, setup.given, place), question.profile
    if profile is not None:
        operator = narrowed_roots(operator, config, profile, place)
    rootless = effective = for_rootless(operator)
    if question.config is None:
        # Without a config: default policy, and the server runs in the first root.
        policy = Policy(unsafe=place.unsafe, own=place.own)
        spec = ServerSpec(ServerName(question.server), RemoteTarget(""), policy)
        cwd = next((root.path for root in effective.roots.roots if not root.is_file), None)
        env = dict(machine.environment)
    else:
        spec = _spec(config, question.server, place)
        _ensure_offered(spec, question.tool, f"servers.{spec.name}.tools")
        if profile is not None:
            spec = _in_profile(spec, config, profile, place)
            _ensure_offered(spec, question.tool, f"profiles.{profile}.tools")
        effective = for_server(effective, spec.ceiling)
        cwd, env = _launched(spec, effective, machine)
    hints, arguments = question.definition.get("annotations"), question.arguments
    links, flavour = CachedDisk(machine.links), machine.flavour
    return _Case(
        name=f"{question.server}.{question.tool}",
        call=Call("tools/call", question.tool, arguments, {"arguments": arguments}),
        schema=question.definition.get("inputSchema"),
        read_only=isinstance(hints, dict) and hints.get("readOnlyHint") is True,
        policy=spec.policy_of(question.tool),
        context=CallContext(effective.roots, cwd, env, links, flavour, effective.enforcing),
        circumstances=Circumstances(
            spec=spec,
            effective=rootless,
            ceiling=operator.ceiling,
            announced=None,
            has_config=question.config is not None,
            links=links,
            flavour=flavour,
        ),
    )


def _named(options: Namespace, config: HubConfig) -> tuple[str, str]:
    """Return the server and the tool of the argument `SERVER.TOOL`, or of a public name."""
    call: str = options.call or ""
    if not call:
        options.usage_error("give SERVER.TOOL and --arguments '{...}', or --batch FILE")
    named = named_tool(call, config.servers, config.names)
    return named or options.usage_error(f"{call!r} is not SERVER.TOOL, like files.read_file")


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
    for name, spec in specs.items():
        if name == server:
            return spec
    for one in usable.left_out:
        if one.name == server:
            raise ConfigError.of(one.faults)
    known = ", ".join(specs) or "none"
    raise ConfigError(f"servers.{server}: there is no such server", f"Configured: {known}.")


def _launched(
    spec: ServerSpec, effective: EffectiveRoots, machine: Machine
) -> tuple[str | None, dict[str, str]]:
    """Return the working directory and the environment of a server's process."""
    if not isinstance(spec.target, LaunchTemplate):
        return None, dict(machine.environment)
    planned = plan(spec.target, effective.roots, machine.environment, directories=spec.directories)
    return planned.cwd, planned.environment(spec.inherits)


def _definition(options: Namespace, config: HubConfig | None, server: str, tool: str) -> JsonObject:
    if options.schema is not None:
        try:
            text = Path(options.schema).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as exc:
            raise _unreadable(f"--schema {options.schema}", exc, "Name a JSON Schema.") from exc
        return {"inputSchema": _parsed(text, "--schema", options)}
    if not options.connect:
        return {}
    if config is None:
        return cast("JsonObject", options.usage_error("--connect needs a config with the server"))
    return run_loop(_ask, config, Setting(given=options.root), server, tool)


def _unreadable(what: str, why: OSError | UnicodeError, fix: str) -> StartError:
    said = why.strerror if isinstance(why, OSError) else "is not UTF-8"
    return StartError(f"{what}: {said}", fix)


def _parsed(text: str, what: str, options: Namespace) -> Json:
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as exc:
        return options.usage_error(f"{what}: not JSON: {exc}")


async def _ask(config: HubConfig, setting: Setting, server: str, tool: str) -> JsonObject:
    """Start a server and return its definition of `tool`.

    Raises: RouteError if it has no such tool.
    """
    async with running_hub(config, setting) as hub, anyio.create_task_group() as tasks:
        services = hub.services
        session = Session(services, tasks, principal="stdio")
        spec = next(spec for name, spec in services.servers.items() if name == server)
        child = await services.children.obtain(session.slot_for(spec, session.known_effective()))
        ready = await child.ready()
        session.close()
        tasks.cancel_scope.cancel()
        for definition in ready.listing.tools:
            if definition.get("name") == tool:
                return definition
    raise RouteError(f"Unknown tool: {server}.{tool}")


def _refused(verdict: Admitted | Refused) -> Refused | None:
    return verdict if isinstance(verdict, Refused) else verdict.would_refuse


def _text(
    case: _Case,
    verdict: Admitted | Refused,
    judged: tuple[Judged, ...],
    allowed_by: tuple[Change, ...] | None,
) -> str:
    refused = _refused(verdict)
    style = GOOD if refused is None else WARNING if isinstance(verdict, Admitted) else BAD
    outcome = painted(_outcome(verdict), style)
    lines = [f"{painted(case.name, NAME)}: {outcome}", *([refused.message()] if refused else [])]
    for value in judged:
        lines += ["", f"{value.pointer}  ({value.kind.value}: {value.why})"]
        rows = dict.fromkeys(
            (json.dumps(read.reading), read.how, read.leads_to or "-", read.objection or FINE)
            for read in value.readings
        )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *cells, objection in rows:
            row = "  ".join(map(str.ljust, cells, widths))
            lines.append(f"  {row}  {painted(objection, GOOD if objection == FINE else BAD)}")
    if not judged and refused is None:
        lines.append("No argument is judged as a path.")
    elif not case.context.enforcing:
        lines += [
            "",
            "No roots are set, so paths are not compared with any; set one with --root DIR.",
        ]
    if case.scopes:
        lines += ["", f"A token of an issuer needs the scopes {' '.join(case.scopes)}."]
    if refused is not None:
        lines += ["", *_permission(allowed_by, refused)]
    return "\n".join(lines)


def _permission(allowed_by: tuple[Change, ...] | None, refused: Refused) -> list[str]:
    if not allowed_by:
        return ["No change that is known would let this call pass."]
    lines = ["It passes after:", *(f"  {change.text}" for change in allowed_by)]
    if refused.reason == OUTSIDE:
        lines.append(
            "For a client that shares roots, its own count instead: it has to share the folder."
        )
    return lines


def _outcome(verdict: Admitted | Refused) -> str:
    if isinstance(verdict, Refused):
        return "refused"
    return (
        "allowed" if verdict.would_refuse is None else "allowed, because refusals are only reported"
    )


def _json(
    case: _Case,
    verdict: Admitted | Refused,
    judged: tuple[Judged, ...],
    allowed_by: tuple[Change, ...] | None,
) -> str:
    refused = _refused(verdict)
    arguments = [
        {
            "pointer": value.pointer,
            "kind": value.kind.value,
            "why": value.why,
            "value": value.value,
            "readings": [
                {
                    "reading": read.reading,
                    "how": read.how,
                    "leadsTo": read.leads_to,
                    "objection": read.objection,
                }
                for read in value.readings
            ],
        }
        for value in judged
    ]
    shown = {
        "call": case.name,
        "verdict": "deny" if isinstance(verdict, Refused) else "allow",
        "mode": case.policy.policy.mode.value,
        "message": refused.message() if refused is not None else None,
        "pointer": refused.pointer if refused is not None else None,
        "roots": list(case.context.roots.uris),
        "enforcing": case.context.enforcing,
        "scopes": list(case.scopes),
        "allowedBy": [to_builtins(change) for change in allowed_by] if allowed_by else None,
        "arguments": arguments,
    }
    return json.dumps(shown, indent=2, default=str)
