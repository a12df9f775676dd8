"""`roots-hub roots detect`, `list`, `contains`: find projects, show the roots, check a path.

`roots_edit.py` has the subcommands that change the config.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from pathlib import Path

from hub.app.machine import place_of, this_machine
from hub.cli import roots_edit
from hub.cli.options import Subparsers, add_config_option, add_root_option, config_and_folders
from hub.config.models import Roots
from hub.config.operator_roots import operator_roots, projects_below
from hub.errors import StartError
from hub.paths.resolve import PathError, parts_of, resolve
from hub.roots.effective import EffectiveRoots, for_rootless


def register(subparsers: Subparsers) -> None:
    """Add the subcommand `roots` with its subcommands."""
    roots = subparsers.add_parser("roots", help="detect, list, test and edit roots").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    detect = roots.add_parser("detect", help="find projects that could be roots")
    detect.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="where to look (default: here)"
    )
    detect.add_argument("--json", action="store_true", help="print JSON")
    detect.set_defaults(perform=_detect)
    listed = roots.add_parser("list", help="show the roots of a client that has none of its own")
    add_config_option(listed)
    add_root_option(listed)
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(perform=_list)
    contains = roots.add_parser("contains", help="exit 0 if a path is inside those roots, else 1")
    add_config_option(contains)
    add_root_option(contains)
    contains.add_argument("path", metavar="PATH")
    contains.set_defaults(perform=_contains)
    roots_edit.register(roots)


def _detect(options: Namespace) -> int:
    top = Path(options.directory).absolute()
    if not top.is_dir():
        raise StartError(f"{top}: is no directory", "Name one that exists.")
    found = list(projects_below(top))
    if options.json:
        print(
            json.dumps(
                [{"path": str(one.path), "name": one.name, "marker": one.marker} for one in found],
                indent=2,
            )
        )
    else:
        for one in found:
            print(f"{one.path}  ({one.name}, {one.marker})")
        if not found:
            print(f"No project in {top} or below.")
    return 0


def _effective_roots(options: Namespace) -> EffectiveRoots:
    config, folders = config_and_folders(options)
    place = place_of(this_machine(os.environ), config)
    return for_rootless(operator_roots(Roots() if config is None else config.roots, folders, place))


def _list(options: Namespace) -> int:
    effective = _effective_roots(options)
    if options.json:
        entries = [
            {"uri": root.uri, "name": root.name, "path": root.path}
            for root in effective.roots.roots
        ]
        print(
            json.dumps(
                {"source": effective.source, "enforcing": effective.enforcing, "roots": entries},
                indent=2,
            )
        )
        return 0
    for root in effective.roots.roots:
        print(f"{root.path}  ({root.name}, {effective.source})")
    if not effective.roots.roots:
        unbound = "is not restricted by the hub (roots.when_missing: allow)"
        reach = "reaches none" if effective.enforcing else unbound
        print(f"No roots: a client without roots of its own {reach}.")
    return 0


def _contains(options: Namespace) -> int:
    effective, machine = _effective_roots(options), this_machine(os.environ)
    try:
        found = resolve(
            options.path, cwd=machine.directory, links=machine.links, flavour=machine.flavour
        )
    except PathError as exc:
        print(f"{options.path}: {exc.reason}")
        return 1
    root = effective.roots.covers(parts_of(found, machine.flavour))
    print(f"{found}: {f'inside {root.path}' if root is not None else 'outside of the roots'}")
    return 0 if root is not None else 1
