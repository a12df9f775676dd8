"""`roots-hub roots add`, `remove` and `rename`: edit `roots.fallback` in the config file."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from hub.app.machine import place_of, this_machine
from hub.cli.options import Subparsers, add_config_option, load_context
from hub.config.edit import added, entries, removed, renamed
from hub.config.load import config_source, is_own_config, load_config
from hub.config.models import FallbackRoot
from hub.config.operator_roots import PathContext
from hub.errors import ConfigError, RootError, StartError
from hub.launch.templates import literal
from hub.paths.file_uris import UriError, path_from_uri
from hub.paths.resolve import PathError, resolve
from hub.roots.roots import Root
from hub.system.atomic_file import FileEdit, opened

_NOTED = (
    "A running hub with this config applies the change, or keeps it waiting for `roots-hub reload`."
)


def register(roots: Subparsers) -> None:
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
        by_path = by_path or [i for i, one in enumerate(self.kept) if canonical == one.path]
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
        raise ConfigError("no config to edit", "Name one by --config or HUB_CONFIG.")
    load_config(source, context)  # first: its errors name the place
    if not is_own_config(source, context):
        shown = "the config" if source.lstrip().startswith("{") else source
        raise ConfigError(
            f"{shown}: is not a hub.yaml; configs of other programs are not edited",
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
            _kept(entry, text, place)
            for entry, text in zip(config.roots.fallback, written, strict=True)
        ]
        yield _Config(source, file, place, tuple(kept), config.roots.detect)


def _kept(entry: FallbackRoot, written: str, place: PathContext) -> _Kept:
    path = _canonical(entry.path, place)
    return _Kept(path, entry.name or Path(path).name, written)


def _add(options: Namespace) -> int:
    _named(options.name)
    with _opened(options) as config:
        root = _root(options.path, config.place)
        there = next((one for one in config.kept if one.path == root.path), None)
        if there is not None:
            print(f"{root.path} is in {config.source} already, as {there.name}: nothing to do")
            return 0
        text = added(config.file.text, _spelled(options.path, root, config), options.name)
        config.file.replace(text)
    print(f"added {root.path} ({options.name or root.name}) to {config.source}", _NOTED, sep="\n")
    return 0


def _remove(options: Namespace) -> int:
    with _opened(options) as config:
        found = config.matching(options.which)
        text = config.file.text
        for index in reversed(found):
            text = removed(text, index)
        config.file.replace(text)
    gone = config.kept[found[0]]
    print(f"removed {gone.path} ({gone.name}) from {config.source}", _NOTED, sep="\n")
    if len(found) == len(config.kept) and not config.detects:
        print("It was the last one: clients without roots of their own reach nothing now.")
    return 0


def _rename(options: Namespace) -> int:
    _named(options.name)
    with _opened(options) as config:
        found = config.matching(options.which)
        old, text = config.kept[found[0]], config.file.text
        if old.name == options.name:
            print(f"{old.path} is called {old.name} already: nothing to do")
            return 0
        for index in found:
            text = renamed(text, index, options.name)
        config.file.replace(text)
    print(f"{old.path} is now called {options.name} in {config.source}", _NOTED, sep="\n")
    return 0


def _named(name: str | None) -> None:
    if name is not None and not name.strip():
        raise StartError("the name is empty", "Give one that says what the folder is.")


def _root(given: str, place: PathContext) -> Root:
    try:
        return place.root(_local(given, place))
    except (RootError, UriError) as exc:
        _unusable(given, exc)


def _unusable(given: str, error: Exception) -> NoReturn:
    fix = "Give a directory (or file) that exists, that you may read, and that is safe to share."
    raise StartError(f"{given}: {error}", fix) from error


def _local(given: str, place: PathContext) -> str:
    is_uri = given[:5].lower() == "file:" or "://" in given
    return path_from_uri(given, place.flavour) if is_uri else given


def _canonical(path: str, place: PathContext) -> str:
    try:
        return resolve(
            _local(path, place), cwd=place.directory, links=place.links, flavour=place.flavour
        )
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
