"""`roots-hub check`, `plan` and `schema`: check a config and show launch plans without serving."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Final, TypeAlias, TypedDict, final
from urllib.parse import urlsplit

import anyio
import structlog

from hub.app import Setting, place_of, running_hub, this_machine
from hub.catalog.merge import Offer
from hub.children.child import Ready
from hub.children.known.cache import CatalogCache
from hub.children.known.lists import KnownLists
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    config_path,
    configured,
    required_config,
    run_loop,
)
from hub.cli.problems import audit_problem, folder_problems, program_problem, tool_problems
from hub.cli.terminal_questions import ask_for_inputs
from hub.config.bare_names import following, moved, names_record, recorded
from hub.config.load import config_source
from hub.config.models import HubConfig, RemoteServer, json_schema
from hub.config.operator_roots import operator_roots
from hub.config.own_files import catalog_directory
from hub.config.to_specs import UsableServers, server_specs, usable_servers
from hub.config.withholding import missed, warn_of_left_out
from hub.confinement import landlock, launcher, seccomp
from hub.confinement.confined_launch import planned_grants, this_kernel
from hub.confinement.grants import confinement_status, missing
from hub.confinement.program_files import SYSTEM
from hub.confinement.seccomp_rules import PARENT, PARENTS_GROUP, compiled
from hub.confinement.startup_check import settle_confinement
from hub.errors import ChildError, HubError
from hub.launch.plan import LaunchPlan, LaunchTemplate, passes_roots, plan
from hub.legible import legible, on_one_line
from hub.protocol.host_names import is_loopback
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.specs import LeftOut, RemoteTarget, ServerSpec
from hub.system.cache_files import CacheFiles
from hub.system.machine import Kernel
from hub.values import JsonObject, ServerName

_TRIAL: Final = """
import os, resource, sys
try:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
except PermissionError:
    print("filtered")
for name in sys.argv[1:]:
    print(open(name).read(), flush=True)
"""
LOCAL: Final = "stdio"
"""The principal of a client over stdio."""
_PATIENCE: Final = 20.0
"""Seconds that the trial of the confinement may take."""


_Run: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


def confinement_report(kernel: Kernel, run: _Run = subprocess.run) -> tuple[list[str], bool]:
    """Return a report as lines, and whether this machine with this kernel can confine servers.

    Runs a small confined program with one of two files granted: it must read that file, and fail
    to read the other.
    """
    if kernel.abi == 0:
        return [f"This machine cannot confine servers: {kernel.why_not}."], False
    lines = [f"Landlock ABI {kernel.abi}: servers can be confined."]
    lines += [f"  with this kernel: {text}" for text in missing(kernel.abi)]
    if kernel.no_seccomp:
        lines.append(f"System calls are NOT filtered: {kernel.no_seccomp}.")
    else:
        lines.append(
            "seccomp: system calls that affect other processes or the machine are refused."
        )
    trouble = _tried(run, filters=not kernel.no_seccomp)
    if trouble is not None:
        return [*lines, f"A trial FAILED: {trouble}"], False
    lines.append("Tried: a confined program could read the file it was granted, and no other file.")
    return lines, not kernel.no_seccomp


def _tried(run: _Run, *, filters: bool) -> str | None:
    with tempfile.TemporaryDirectory(prefix="roots-hub-") as folder:
        inside, outside = Path(folder, "inside"), Path(folder, "outside")
        inside.write_text("granted")
        outside.write_text("secret")
        code = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
        places = [*SYSTEM, "/etc/ld.so.cache", *code, str(inside)]
        held = Path(folder, "held")
        grants = landlock.encode([("r", place, None) for place in places])
        machine = seccomp.machine() if filters else None
        refused = b"" if machine is None else compiled(machine)
        held.write_bytes(launcher.encode(grants, refused, (PARENT, PARENTS_GROUP)))
        python = [sys.executable, "-I", "-S", "-B"]
        before = [*python, launcher.__file__, str(held), sys.executable]
        try:
            tried = run(
                [*before, *python, "-c", _TRIAL, str(inside), str(outside)],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            return str(exc)
    if "secret" in tried.stdout:
        return "a file that was not granted could be read"
    if "granted" not in tried.stdout or "PermissionError" not in tried.stderr:
        return (tried.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if filters and "filtered" not in tried.stdout:
        return "the limits of another process could be read"
    return None


log = structlog.stdlib.get_logger(__name__)


@final
class RemotePlan(TypedDict):
    """What `plan --json` prints for a remote server."""

    server: str
    url: str
    roots: list[str]


@final
class GrantsPlan(TypedDict):
    """What `plan --json` prints of a confined server's grants."""

    read: list[str]
    write: list[str]
    allow: list[str]
    unheld: list[str]


@final
class ProcessPlan(TypedDict):
    """What `plan --json` prints for a launched server."""

    server: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    inherits: list[str]
    withheld: list[str]
    roots: list[str]
    confinement: str
    grants: GrantsPlan | None


Planned: TypeAlias = RemotePlan | ProcessPlan


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `check`, `plan` and `schema`."""
    check = subparsers.add_parser(
        "check", help="load a config; with --connect, also start its servers"
    )
    add_config_option(check)
    add_root_option(check)
    check.add_argument(
        "--connect", action="store_true", help="start every server and show what it offers"
    )
    check.add_argument(
        "--confine", action="store_true", help="tell how this machine can confine servers, and try"
    )
    check.set_defaults(perform=_check)
    planned = subparsers.add_parser("plan", help="show how each server would be launched")
    add_config_option(planned)
    add_root_option(planned)
    planned.add_argument("--json", action="store_true", help="print JSON")
    planned.set_defaults(perform=_plan)
    schema = subparsers.add_parser("schema", help="print the JSON Schema of hub.yaml")
    schema.set_defaults(perform=_schema)


def _schema(options: Namespace) -> int:
    print(json.dumps(json_schema(), indent=2))
    return 0


def _plan(options: Namespace) -> int:
    config, warnings = required_config(options)
    for warning in warnings:
        log.warning(warning)
    servers = _servers(config, options)
    warn_of_left_out(_usable(config, options).left_out)
    plans = [(_planned(spec, effective), _why_none(spec, effective)) for spec, effective in servers]
    if options.json:
        print(json.dumps([entry for entry, _ in plans], indent=2))
    else:
        print("\n\n".join(_text(entry, why_none) for entry, why_none in plans))
    return 0


def _servers(config: HubConfig, options: Namespace) -> list[tuple[ServerSpec, EffectiveRoots]]:
    machine = this_machine(os.environ)
    place = place_of(machine, config, config_path(options))
    effective = for_rootless(operator_roots(config.roots, options.root, place))
    return [
        (spec, for_server(effective, spec.ceiling)) for spec in server_specs(config, place).values()
    ]


def _usable(config: HubConfig, options: Namespace) -> UsableServers:
    place = place_of(this_machine(os.environ), config, config_path(options))
    return usable_servers(config, place)


def _planned(spec: ServerSpec, effective: EffectiveRoots) -> Planned:
    if isinstance(spec.target, RemoteTarget):
        return {"server": spec.name, "url": spec.target.shown, "roots": list(effective.roots.uris)}
    made = plan(spec.target, effective.roots, os.environ, directories=spec.directories)
    variables = [name for name, _ in spec.target.env]
    return {
        "server": spec.name,
        "argv": list(made.shown),
        "cwd": made.cwd
        or ("(an empty private directory)" if effective.enforcing else str(Path.cwd())),
        "env": {name: value for name, value in made.env if name not in variables}
        | dict.fromkeys(variables, "(set)"),
        "inherits": sorted(spec.inherits),
        "withheld": sorted(os.environ.keys() - spec.inherits.keys() - {*variables}),
        "roots": list(effective.roots.uris),
        "confinement": str(confinement_status(spec.confine, spec.target, this_kernel())),
        "grants": _granted(spec, made),
    }


def _granted(spec: ServerSpec, made: LaunchPlan) -> GrantsPlan | None:
    """Return the child's grants, even if this machine cannot enforce them; None if not confined."""
    if spec.confine.mode == "off":
        return None
    try:
        found = planned_grants(spec, made)
    except ChildError as exc:
        return {"read": [], "write": [], "allow": [], "unheld": [str(exc)]}
    return {
        "read": [grant.path for grant in found.read],
        "write": [grant.path for grant in found.write],
        "allow": list(spec.confine.allow),
        "unheld": [*found.unheld, *(f"with this kernel: {text}" for text in _not_held())],
    }


def _not_held() -> tuple[str, ...]:
    kernel = this_kernel()
    return missing(kernel.abi) if kernel.abi else ()


def _text(entry: Planned, why_none: str) -> str:
    lines = [entry["server"]]
    if "url" in entry:
        lines.append(f"  url    {entry['url']}")
    else:
        lines.append(f"  argv   {shlex.join(entry['argv'])}")
        lines.append(f"  cwd    {entry['cwd']}")
        lines += [f"  env    {name}={value!r}" for name, value in entry["env"].items()]
        for key, names in (("inherits", entry["inherits"]), ("withheld", entry["withheld"])):
            lines.append(f"  {key} {', '.join(names) or '(nothing)'}")
    lines += [f"  root   {uri}" for uri in entry["roots"] or [f"(none: {why_none})"]]
    if "argv" in entry:
        lines.append(f"  confinement {entry['confinement']}")
    if "argv" in entry and entry["grants"] is not None:
        lines += [
            f"  {kind:<6} {path}" for kind in ("write", "read") for path in entry["grants"][kind]
        ]
        lines += [f"  allow  {name}" for name in entry["grants"]["allow"]]
        lines += [f"  note   {note}" for note in entry["grants"]["unheld"]]
    return "\n".join(lines)


def _why_none(spec: ServerSpec, effective: EffectiveRoots) -> str:
    if not effective.enforcing:
        if isinstance(spec.target, LaunchTemplate) and passes_roots(spec.target):
            return "clients without roots give it no folder"
        return "clients without roots are not restricted"
    if effective.source == "none":
        return "clients without roots may name no path"
    return "no root is inside the ceilings"


def _check(options: Namespace) -> int:
    if options.confine:
        lines, fine = confinement_report(this_kernel())
        print("\n".join(lines))
        if configured(options) is None:
            return 0 if fine else 1
    ask_for_inputs(config_source(options.config, os.environ))
    config, warnings = required_config(options)
    servers = _servers(config, options)
    left_out = _left_out(config, options)
    named = [*(spec.name for spec, _ in servers), *(one.name for one in left_out)]
    moved_names = _moved_names(config, named, config_path(options))
    for sentence in (*warnings, *_missed(servers), *moved_names):
        print(f"warning: {sentence}")
    settle_confinement((spec for spec, _ in servers), this_kernel())
    for hint in _hints(config):
        print(f"hint: {hint}")
    problems = [*_problems(config, servers)]
    for problem in problems:
        print(f"problem: {problem}")
    names = ", ".join(spec.name for spec, _ in servers)
    count = "1 server" if len(servers) == 1 else f"{len(servers)} servers"
    specs = [spec for spec, _ in servers]
    sharing = [*_sharing(config, specs), *_known(specs)]
    print("\n".join([f"{count}: {names}. {_verdict(left_out, len(problems))}", *sharing]))
    answer = run_loop(_connect, config, Setting(given=options.root)) if options.connect else 0
    return 3 if left_out else 1 if problems else answer


def _left_out(config: HubConfig, options: Namespace) -> tuple[LeftOut, ...]:
    """Return the servers that cannot be used, and print why."""
    left_out = _usable(config, options).left_out
    for one in left_out:
        print(f"{one.name}: down, left out:")
        for fault in one.faults:
            print(indent(legible(str(fault)), "  "))
    return left_out


def _verdict(left_out: Collection[LeftOut], problems: int) -> str:
    count = "1 problem" if problems == 1 else f"{problems} problems"
    if left_out:
        others = f"The others run, with {count}." if problems else "The others run."
        return f"Left out: {', '.join(one.name for one in left_out)}. {others}"
    return f"The config loads, but has {count}." if problems else "The config is fine."


def _problems(config: HubConfig, servers: list[tuple[ServerSpec, EffectiveRoots]]) -> Iterator[str]:
    """Yield what will go wrong with a config that loads, as far as it shows offline."""
    for spec, effective in servers:
        problem = program_problem(spec, effective)
        if problem is not None:
            yield problem
    yield from folder_problems(config)
    problem = audit_problem(config)
    if problem is not None:
        yield problem


def _missed(servers: list[tuple[ServerSpec, EffectiveRoots]]) -> Iterator[str]:
    """Yield a warning for each variable that a server's config names and its process lacks."""
    for spec, _ in servers:
        yield from missed(spec, os.environ)


def _moved_names(config: HubConfig, servers: Sequence[ServerName], path: Path | None) -> list[str]:
    """Return a warning if clients know names of tools that are not the listed ones."""
    if path is None:
        return []
    before = recorded(names_record(this_machine(os.environ)), path)
    return moved(following(before, servers, config.names), servers, config.names)


def _sharing(config: HubConfig, specs: Sequence[ServerSpec]) -> Iterator[str]:
    """Yield a line on who shares the processes of which servers, and why."""
    named: dict[str, list[str]] = {}
    for spec in specs:
        why = f"`share: {spec.share}`"
        if config.servers[spec.name].share == "auto" and spec.share == "roots":
            why = "known to keep nothing between calls"
        elif spec.share == "auto":
            why = "may keep something between calls"
            if not config.is_clients:
                why += "; if not, `share: roots`"
        named.setdefault(f"{spec.sharing} ({why})", []).append(spec.name)
    for text, names in named.items():
        yield f"{', '.join(names)}: {text}"


def _known(specs: Sequence[ServerSpec]) -> Iterator[str]:
    """Yield a line on the servers whose lists are shown to a client over stdio before they run."""
    known = KnownLists(CatalogCache(CacheFiles(catalog_directory(this_machine(os.environ)))), 0)
    names = [spec.name for spec in specs if known.has_run_before(spec, LOCAL)]
    if names:
        yield (
            f"{', '.join(names)}: known from an earlier start: listed before being started again "
            "(`check --connect` renews what is known)"
        )


def _hints(config: HubConfig) -> Iterator[str]:
    """Yield hints about keys that the operator should set; other programs' files have no such."""
    if config.is_clients:
        return
    for name, server in config.servers.items():
        if not isinstance(server, RemoteServer) or "paths" in server.model_fields_set:
            continue
        host = urlsplit(server.url).hostname
        if host is not None and not is_loopback(host):
            yield (
                f"servers.{name}.paths: absolute paths are judged as those of this machine. If they"
                " are those of the server's own, say `paths: remote`, else `paths: local`."
            )


async def _connect(config: HubConfig, setting: Setting) -> int:
    failed: list[str] = []
    problems: list[str] = []
    servers: Sequence[ServerSpec] = ()
    async with running_hub(config, setting) as hub, anyio.create_task_group() as tasks:
        services = hub.services
        services.children.known.renews = True  # whoever checks wants to see what is there now
        servers = list(services.servers.values())
        session = Session(services, tasks, principal=LOCAL)
        async with anyio.create_task_group() as starting:
            for spec in servers:
                print(f"{spec.name}: starting", flush=True)
                starting.start_soon(_start, services, session, spec, failed, problems, config)
        session.close()
        tasks.cancel_scope.cancel()
    print(f"{len(servers) - len(failed)} of {len(servers)} servers answer.")
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if failed or problems else 0


async def _start(  # noqa: PLR0913, PLR0917 - what is found is told at the end, in one place
    services: Services,
    session: Session,
    spec: ServerSpec,
    failed: list[str],
    problems: list[str],
    config: HubConfig,
) -> None:
    began = services.machine.clock()
    try:
        child = await services.children.obtain(session.slot_for(spec, session.known_effective()))
        ready = await child.ready()
    except (ChildError, HubError) as exc:
        failed.append(spec.name)
        print(f"{spec.name}: {legible(str(exc))}", flush=True)
        return
    print(
        f"{spec.name}: {_offer(ready, spec.offer)}, {services.machine.clock() - began:.1f} s",
        flush=True,
    )
    problems += tool_problems(spec, config, list(map(_name_of, ready.listing.tools)))


def _offer(ready: Ready, offer: Offer) -> str:
    listing, handshake = ready.listing, ready.handshake
    name = f"{handshake.info.get('name', '?')} {handshake.info.get('version', '')}".strip()
    tools = [tool for tool in map(_name_of, listing.tools) if offer.includes(tool)]
    hidden = len(listing.tools) - len(tools)
    count = f"{len(tools)} tools" + (f" ({hidden} more left out)" if hidden else "")
    return (
        f"{on_one_line(name)} ({handshake.version}); {count}: "
        f"{', '.join(map(on_one_line, tools)) or '-'}; "
        f"{len(listing.resources)} resources, {len(listing.templates)} templates, "
        f"{len(listing.prompts)} prompts"
    )


def _name_of(tool: JsonObject) -> str:
    return str(tool.get("name"))
