"""`roots-hub roots`: find projects, show the roots, check a path, edit `roots.fallback`."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from pydantic import ValidationError

from hub.app.machine import place_of, this_machine
from hub.cli.options import (
    Subparsers,
    add_config_option,
    add_root_option,
    config_and_folders,
    load_context,
    no_config,
)
from hub.config.fallback import added, entries, removed, renamed
from hub.config.load import config_source, is_own_config, load_config
from hub.config.models import FallbackRoot, Roots
from hub.config.operator_roots import PathContext, operator_roots, projects_below
from hub.config.source.documents import is_inline
from hub.errors import ConfigError, RootError, StartError
from hub.launch.templates import literal
from hub.legible import on_one_line
from hub.paths.file_uris import UriError, path_from_uri
from hub.paths.resolve import Flavour, PathError, parts_of
from hub.roots.effective import EffectiveRoots, for_rootless
from hub.roots.roots import INACCESSIBLE, Root
from hub.system.atomic_file import FileEdit, opened

_NOTED = (
    "A running hub with this config applies the change, or keeps it waiting for `roots-hub reload`."
)


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
    _register_edits(roots)


def _register_edits(roots: Subparsers) -> None:
    """Add `add`, `remove` and `rename` to the subcommand `roots`."""
    add = roots.add_parser("add", help="add a root to the config (roots.fallback)")
    add_config_option(add)
    add.add_argument("path", metavar="PATH", help="a directory, or a single file")
    add.add_argument("--name", metavar="NAME", help="what to call it (default: its last part)")
    add.set_defaults(perform=_add)
    remove = roots.add_parser("remove", help="remove a root from the config")
    add_config_option(remove)
    remove.add_argument("which", metavar="PATH-or-NAME")
    remove.set_defaults(perform=_remove)
    rename = roots.add_parser("rename", help="rename a root in the config")
    add_config_option(rename)
    rename.add_argument("which", metavar="PATH-or-NAME")
    rename.add_argument("name", metavar="NEW")
    rename.set_defaults(perform=_rename)


def _say(*lines: str) -> None:
    """Print lines: what folders are called cannot control the terminal."""
    print(*map(on_one_line, lines), sep="\n")


def _detect(options: Namespace) -> int:
    top = Path(options.directory).absolute()
    if not top.is_dir():
        raise StartError(f"{top}: is no directory", "Name one that exists.")
    if not os.access(top, os.R_OK | os.X_OK):
        raise StartError(f"{top}: you may not read it", "Make it readable, or name another one.")
    found = list(projects_below(top))
    if options.json:
        print(json.dumps(to_builtins(found, enc_hook=str), indent=2))
    else:
        for one in found:
            _say(f"{one.path}  ({one.name}, {one.marker})")
        if not found:
            _say(f"No project in {top} or below.")
    return 0


def _effective_roots(options: Namespace) -> tuple[EffectiveRoots, PathContext]:
    config, folders = config_and_folders(options)
    place = place_of(this_machine(os.environ), config)
    roots = operator_roots(Roots() if config is None else config.roots, folders, place)
    return for_rootless(roots), place


def _list(options: Namespace) -> int:
    effective, _ = _effective_roots(options)
    if options.json:
        entries = [
            {"uri": root.uri, "name": root.name, "path": root.path}
            for root in effective.roots.roots
        ]
        told = {"source": effective.source, "enforcing": effective.enforcing, "roots": entries}
        print(json.dumps(told, indent=2))
        return 0
    for root in effective.roots.roots:
        _say(f"{root.path}  ({root.name}, {effective.source})")
    if not effective.roots.roots:
        unbound = "is not restricted by the hub (roots.when_missing: allow)"
        reach = "reaches none" if effective.enforcing else unbound
        print(f"No roots: a client without roots of its own {reach}.")
    return 0


def _contains(options: Namespace) -> int:
    effective, place = _effective_roots(options)
    try:
        found = place.resolved(_local(options.path, place.flavour))
    except (PathError, UriError) as exc:
        _say(f"{options.path}: {exc}")
        return 1
    root = effective.roots.covers(parts_of(found, place.flavour))
    _say(f"{found}: {f'inside {root.path}' if root is not None else 'outside of the roots'}")
    return 0 if root is not None else 1


class _Kept(Struct, frozen=True):
    """A root in the config: absolute `path`, no links if it exists; `written` as in the file."""

    path: str
    name: str
    written: str


class _Config(Struct, frozen=True):
    """The config that is being edited."""

    source: str
    file: FileEdit
    place: PathContext
    kept: tuple[_Kept, ...]
    detects: bool

    def matching(self, which: str) -> list[int]:
        """Return the indexes of the root that `which` names, by path or by name.

        Several indexes if the same path is listed more than once.

        Raises: StartError if no root matches, or roots with different paths do.
        """
        canonical = _canonical(os.path.expanduser(which), self.place)  # noqa: PTH111 - text that is parsed next
        by_path = [i for i, one in enumerate(self.kept) if which == one.written]
        by_path = by_path or [
            i for i, one in enumerate(self.kept) if canonical == one.path and which
        ]
        by_name = [i for i, one in enumerate(self.kept) if which == one.name]
        found = sorted({*by_path, *by_name})
        if not found:
            known = ", ".join(f"{one.path} ({one.name})" for one in self.kept) or "none"
            raise StartError(f"{self.source}: roots.fallback has no {which}", f"It has: {known}.")
        if len({self.kept[i].path for i in found}) > 1:
            could = ", ".join(self.kept[i].path for i in found)
            raise StartError(f"{which}: is ambiguous: {could}", "Write the whole path.")
        return found


@contextmanager
def _opened(options: Namespace) -> Generator[_Config]:
    context = load_context()
    source = config_source(options.config, os.environ)
    if source is None:
        raise no_config()
    load_config(source, context)  # first: its errors name the place
    if not is_own_config(source, context):
        shown = "the config" if is_inline(source) else source
        raise ConfigError(
            shown,
            "is not a hub.yaml; configs of other programs are not edited",
            "Make a hub.yaml with `version: 1` and these servers, and name it by --config.",
        )
    with opened(context.directory / source) as file:
        # Loaded again under the lock, so that the config matches the text that is edited.
        config = load_config(source, context).config
        place = place_of(this_machine(os.environ), config)
        written = entries(file.text)
        if len(written) != len(config.roots.fallback):
            raise StartError(f"{source}: another program is changing it", "Try again.")
        kept = [
            _Kept(path := _canonical(entry.path, place), entry.name or Path(path).name, text)
            for entry, text in zip(config.roots.fallback, written, strict=True)
        ]
        yield _Config(source, file, place, tuple(kept), config.roots.detect)


def _add(options: Namespace) -> int:
    _named(options.name)
    with _opened(options) as config:
        root = _root(options.path, config.place)
        there = next((one for one in config.kept if one.path == root.path), None)
        if there is not None:
            _say(f"{root.path} is in {config.source} already, as {there.name}: nothing to do")
            return 0
        text = added(config.file.text, _spelled(options.path, root, config), options.name)
        config.file.replace(text)
    _say(f"added {root.path} ({options.name or root.name}) to {config.source}", _NOTED)
    return 0


def _remove(options: Namespace) -> int:
    with _opened(options) as config:
        found = config.matching(options.which)
        text = config.file.text
        for index in reversed(found):
            text = removed(text, index)
        config.file.replace(text)
    gone = config.kept[found[0]]
    _say(f"removed {gone.path} ({gone.name}) from {config.source}", _NOTED)
    if len(found) == len(config.kept) and not config.detects:
        print("It was the last one: clients without roots of their own reach nothing now.")
    return 0


def _rename(options: Namespace) -> int:
    _named(options.name)
    with _opened(options) as config:
        found = config.matching(options.which)
        old, text = config.kept[found[0]], config.file.text
        if old.name == options.name:
            _say(f"{old.path} is called {old.name} already: nothing to do")
            return 0
        for index in found:
            text = renamed(text, index, options.name)
        config.file.replace(text)
    _say(f"{old.path} is now called {options.name} in {config.source}", _NOTED)
    return 0


def _named(name: str | None) -> None:
    if name is not None and not name.strip():
        raise StartError("the name is empty", "Give one that says what the folder is.")


def _root(given: str, place: PathContext) -> Root:
    path = given
    try:
        path = _local(given, place.flavour)
        return place.root(path)
    except (RootError, UriError) as exc:
        why = str(exc)
        fix = place.remedy(path, why)
        if why == INACCESSIBLE:
            why = "there is no such file or directory"
        raise StartError(f"{given}: {why}", fix) from exc


def _local(given: str, flavour: Flavour) -> str:
    is_uri = given[:5].lower() == "file:" or "://" in given
    return path_from_uri(given, flavour) if is_uri else given


def _canonical(path: str, place: PathContext) -> str:
    try:
        return place.resolved(_local(path, place.flavour))
    except (PathError, UriError):
        return os.path.normpath(os.path.join(place.directory, path))  # noqa: PTH118 - as text


def _spelled(given: str, root: Root, config: _Config) -> str:
    """Return the path to write: relative to the config's directory if it was given relative.

    If the relative path leads elsewhere (because of links), the absolute path is returned.
    """
    spelled = literal(given)
    if not given.startswith("~") and not Path(given).is_absolute():
        directory = Path(config.place.directory, config.source).parent
        relative = os.path.relpath(Path(config.place.directory, given), directory)
        spelled = literal(relative if relative.startswith(".") else f"./{relative}")
    return spelled if _leads_to(spelled, root, config) else literal(root.path)


def _leads_to(spelled: str, root: Root, config: _Config) -> bool:
    context = load_context()
    directory = Path(context.directory, config.source).parent.absolute()
    try:
        read = FallbackRoot.model_validate(
            {"path": spelled}, context=replace(context, directory=directory)
        )
    except ValidationError:
        return False
    return _canonical(read.path, config.place) == root.path
