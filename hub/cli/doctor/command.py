"""The subcommand `doctor`: runs all checks, and shows what they found."""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from hub.app import this_machine
from hub.cli.doctor.client_checks import HubEntry, client_findings
from hub.cli.doctor.config_checks import config_findings, configured_programs
from hub.cli.doctor.findings import Finding
from hub.cli.doctor.machine_checks import machine_findings
from hub.cli.doctor.server_checks import server_findings
from hub.cli.options import Subparsers, add_config_option
from hub.config.installing.record import install_record
from hub.config.load import config_source
from hub.config.trust import FOUND, found_in
from hub.legible import on_one_line


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help="find what is wrong here, and say what mends it",
        description="Look at the config, the programs it names, the clients that have the hub, "
        "and the hub's directories. Nothing is changed. Exit code 1: there is a problem.",
    )
    add_config_option(parser)
    parser.add_argument("--connect", action="store_true", help="start each server as well")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(perform=_doctor, usual_log_level="error")


def _doctor(options: Namespace) -> int:
    machine = this_machine(os.environ)
    entries, found = client_findings(install_record(machine))
    paths = _configs(options, entries)
    if not paths:
        what = "there is no hub.yaml here, and no client has the hub"
        found.append(Finding("config", what, "roots-hub init, or roots-hub import"))
    configs = [config_findings(path, time.time()) for path in paths]
    found += [one for _, more in configs for one in more]
    loaded = [config for config, _ in configs if config is not None]
    found += machine_findings(machine, configured_programs(loaded))
    if options.connect:
        usable = [path for path, (config, _) in zip(paths, configs, strict=True) if config]
        found += [one for path in usable for one in server_findings(path)]
    found.sort(key=lambda one: one.level)
    problems = sum(one.level == "problem" for one in found)
    if options.json:
        print(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        print("\n".join(_shown(found, paths, entries, problems)))
    return 1 if problems else 0


def _configs(options: Namespace, entries: Iterable[HubEntry]) -> list[Path]:
    """Return the config that is named, or the one here and those of the clients' hubs."""
    source = config_source(options.config, os.environ)
    if source is not None and not source.lstrip().startswith("{"):
        return [Path.cwd() / source]
    found = [Path.cwd() / FOUND] if found_in(Path.cwd()) else []
    found += [one.config for one in entries if one.config is not None and one.config.exists()]
    return list(dict.fromkeys(path.absolute() for path in found))


def _shown(
    found: Sequence[Finding], paths: Sequence[Path], entries: Sequence[HubEntry], problems: int
) -> list[str]:
    lines: list[str] = []
    for one in found:
        lines += [f"{one.level}: {one.area}: {on_one_line(one.what)}", f"  {on_one_line(one.fix)}"]
    clients = ", ".join(dict.fromkeys(one.file.client for one in entries)) or "none"
    configs = ", ".join(map(str, paths)) or "none"
    lines.append(on_one_line(f"Looked at: config {configs}; clients with the hub: {clients}."))
    count = "1 problem" if problems == 1 else f"{problems} problems"
    lines.append(f"{count}." if problems else "No problem was found.")
    return lines
