"""`roots-hub plan` and `schema`: how each server would be launched, and the keys of hub.yaml."""

from __future__ import annotations

import json
import os
import shlex
from argparse import Namespace
from pathlib import Path
from typing import Any

import structlog

from hub.app.machine import place_of, this_machine
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_profile_option,
    add_root_option,
    chosen_profile,
    config_path,
    required_config,
)
from hub.cli.terminal import NAME, painted
from hub.config.models import HubConfig, json_schema
from hub.config.operator_roots import operator_roots
from hub.config.to_specs import narrowed_roots, narrowed_servers, usable_servers, warn_of_left_out
from hub.confinement.confined_launch import planned_grants, this_kernel
from hub.confinement.grants import confinement_status, missing
from hub.errors import ChildError
from hub.launch.plan import LaunchPlan, LaunchTemplate, passes_roots, plan
from hub.legible import on_one_line
from hub.roots.effective import EffectiveRoots, for_rootless, for_server
from hub.specs import LeftOut, RemoteTarget, ServerSpec

log = structlog.stdlib.get_logger(__name__)


def register(subparsers: Subparsers) -> None:
    """Add the subcommands `plan` and `schema`."""
    planned = subparsers.add_parser(
        "plan",
        help="show how each server would be launched",
        description="Show each server's command line, directory, variables and roots, as for a "
        "client that shares no folders. Nothing is started.",
    )
    add_config_option(planned)
    add_root_option(planned)
    add_profile_option(planned)
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
    servers, left_out = servers_of(config, options, chosen_profile(config, options.profile))
    warn_of_left_out(left_out)
    plans = [(_planned(spec, effective), _why_none(spec, effective)) for spec, effective in servers]
    if options.json:
        print(json.dumps([entry for entry, _ in plans], indent=2))
    else:
        print("\n\n".join(_text(entry, why_none) for entry, why_none in plans))
    return 0


def _planned(spec: ServerSpec, effective: EffectiveRoots) -> dict[str, Any]:
    """Return what `plan --json` prints of a server."""
    if isinstance(spec.target, RemoteTarget):
        return {
            "server": spec.name,
            "url": spec.target.shown,
            "headers": dict.fromkeys(spec.target.headers, "(set)")
            | {name: text.shown for name, text in spec.target.secrets.items()},
            "roots": list(effective.roots.uris),
        }
    made = plan(spec.target, effective.roots, os.environ, directories=spec.directories)
    variables = [name for name, _ in spec.target.env]
    return {
        "server": spec.name,
        "argv": list(made.shown),
        "cwd": made.cwd
        or ("(an empty private directory)" if effective.enforcing else str(Path.cwd())),
        "env": {name: value for name, value in made.env if name not in variables}
        | dict.fromkeys(variables, "(set)")
        | {name: text.shown for name, text in made.secrets},
        "inherits": sorted(spec.inherits),
        "withheld": sorted(os.environ.keys() - spec.inherits.keys() - {*variables}),
        "roots": list(effective.roots.uris),
        "confinement": str(confinement_status(spec.confine, spec.target, this_kernel())),
        "grants": _granted(spec, made),
    }


def _granted(spec: ServerSpec, made: LaunchPlan) -> dict[str, list[str]] | None:
    """Return the child's grants, even if this machine cannot enforce them; None if not confined."""
    if spec.confine.mode == "off":
        return None
    try:
        found = planned_grants(spec, made)
    except ChildError as exc:
        return {"read": [], "write": [], "allow": [], "unheld": [str(exc)]}
    abi = this_kernel().abi
    lacks = missing(abi) if abi else ()
    return {
        "read": [grant.path for grant in found.read],
        "write": [grant.path for grant in found.write],
        "allow": list(spec.confine.allow),
        "unheld": [*found.unheld, *(f"with this kernel: {text}" for text in lacks)],
    }


def _text(entry: dict[str, Any], why_none: str) -> str:
    lines = list[str]()
    if "url" in entry:
        lines.append(f"  url    {entry['url']}")
        lines += [f"  header {name}={value!r}" for name, value in entry["headers"].items()]
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
    # Names, arguments and paths may have characters that steer a terminal.
    return "\n".join([painted(on_one_line(entry["server"]), NAME), *map(on_one_line, lines)])


def _why_none(spec: ServerSpec, effective: EffectiveRoots) -> str:
    if not effective.enforcing:
        if isinstance(spec.target, LaunchTemplate) and passes_roots(spec.target):
            return "clients without roots give it no folder"
        return "clients without roots are not restricted"
    if effective.source == "none":
        return "clients without roots may name no path"
    return "no root is inside the ceilings"


def servers_of(
    config: HubConfig, options: Namespace, profile: str | None = None
) -> tuple[list[tuple[ServerSpec, EffectiveRoots]], tuple[LeftOut, ...]]:
    """Return the servers for a client without roots: those that can be used, and the others.

    Each that can be used is with its roots. `profile`: as they are for the clients of that one.
    """
    machine = this_machine(os.environ)
    place = place_of(machine, config, config_path(options))
    roots, usable = operator_roots(config.roots, options.root, place), usable_servers(config, place)
    specs = usable.specs
    if profile is not None:
        roots = narrowed_roots(roots, config, profile, place)
        specs = narrowed_servers(specs, config, profile, place)
    effective = for_rootless(roots)
    return [(spec, for_server(effective, spec.ceiling)) for spec in specs.values()], usable.left_out
