"""The hub's own files: config, audit log, directories, and their inodes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from hub.attach.runtime_directory import runtime_paths
from hub.audit.log_file import put_aside
from hub.guard.own_files import Inode, Inodes, OwnFiles, OwnPlace
from hub.paths.resolve import Flavour, PathError, parts_of, resolve
from hub.system.machine import CACHE, NAME, STATE, Machine, own_directory

CATALOGS = "catalogs"
"""The directory of servers' last known lists, inside the hub's cache directory."""
EVERY: Final = 0.25
"""Seconds until the inodes are read again: an editor may replace the config by another file."""
MOST: Final = 256
"""At most so many files of one directory are read."""


def own_files(
    machine: Machine,
    *,
    config: Path | None = None,
    audit: str | None = None,
    log: str | None = None,
    also: Machine | None = None,
) -> OwnFiles:
    """Return the hub's own files on this machine; `config` is the file it was started with.

    Each file is included both as spelled and with its links resolved. `also` is the machine with
    the hub's own environment, where that of `machine` is a client's.
    """
    logs = () if audit is None else (audit, str(put_aside(Path(audit))))
    kept = [*([] if config is None else [str(config)]), *logs, *([] if log is None else [log])]
    both = (machine,) if also is None else (machine, also)
    keys = tuple(dict.fromkeys(path for one in both for path in own_directories(one)))
    caches = tuple(dict.fromkeys(path for one in both for path in _cache_directories(one)))
    return OwnFiles(
        secret=(*_places(keys, machine, holds_keys=True), *_places(caches, machine)),
        kept=tuple(_places(kept, machine)),
        inodes=OwnInodes(keys, kept, machine.clock),
    )


def own_directories(machine: Machine) -> tuple[str, ...]:
    """Return the hub's private directories: its state, and where its runtime directory can be.

    The runtime directory has the sockets of shared hubs and the secrets for attaching.
    """
    environment = machine.environment
    if machine.flavour is Flavour.WINDOWS:
        base = environment.get("LOCALAPPDATA")
        return (f"{base}\\{NAME}",) if base else ()
    state = own_directory(environment, *STATE)
    return (state, *runtime_paths(environment))


def state_directory(machine: Machine) -> Path | None:
    """Return the directory for what the hub keeps; None if there can be none."""
    return next((Path(one) for one in own_directories(machine)), None)


def record_path(machine: Machine, name: str) -> Path | None:
    """Return the path of a record of the hub's, which no call and no confined server reaches."""
    directory = state_directory(machine)
    return None if directory is None else directory / name


def catalog_directory(machine: Machine) -> Path | None:
    """Return the directory for the last known lists of servers; None without a home directory."""
    if machine.flavour is Flavour.WINDOWS:
        directories = own_directories(machine)
    elif {"HOME", "XDG_CACHE_HOME"}.isdisjoint(machine.environment):
        return None
    else:
        directories = _cache_directories(machine)
    return Path(directories[-1], CATALOGS) if directories else None


def _cache_directories(machine: Machine) -> tuple[str, ...]:
    found = own_directory(machine.environment, *CACHE)
    if machine.flavour is Flavour.MACOS and not machine.environment.get("XDG_CACHE_HOME"):
        return found, own_directory(machine.environment, "", "Library/Caches")
    return (found,)


def _places(
    paths: Iterable[str], machine: Machine, *, holds_keys: bool = False
) -> Iterable[OwnPlace]:
    for path in paths:
        full = os.path.join(machine.directory, path)  # noqa: PTH118 - as text
        found = {os.path.normpath(full): None, _canonical(full, machine): None}
        for one in found:
            try:
                yield OwnPlace(one, parts_of(one, machine.flavour), holds_keys)
            except PathError:
                continue  # a call cannot name such a path either


def _canonical(path: str, machine: Machine) -> str:
    try:
        return resolve(path, cwd=None, links=machine.links, flavour=machine.flavour)
    except PathError:
        return path


class OwnInodes:
    """Return the inodes of the hub's own files, so that a hard link to one is recognised.

    `secret` are directories (the files directly in them count), `kept` are files.
    """

    def __init__(
        self, secret: Sequence[str], kept: Sequence[str], clock: Callable[[], float]
    ) -> None:
        self._secret = secret
        self._kept = kept
        self._clock = clock
        self._until = float("-inf")
        self._found = Inodes()

    def __call__(self) -> Inodes:
        now = self._clock()
        if now >= self._until:
            self._until = now + EVERY
            secret, kept = frozenset(_inodes(self._secret)), frozenset(_inodes((), self._kept))
            self._found = Inodes(secret, kept, secret | kept)
        return self._found


def _inodes(directories: Iterable[str], files: Iterable[str] = ()) -> Iterator[Inode]:
    """Yield the inodes of `files`, and of the files that lie directly in `directories`."""
    paths = [*files]
    for directory in directories:
        with suppress(OSError), os.scandir(directory) as entries:
            paths += (entry.path for entry in islice(entries, MOST))
    for path in paths:
        try:
            found = os.stat(path)  # noqa: PTH116 - the path is a string
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode):
            yield found.st_dev, found.st_ino


FOUND: Final = "hub.yaml"
"""The name of the config that `run` looks for in its directory."""


def found_in(directory: Path) -> Path | None:
    """Return the path of the config in `directory`; None if there is none."""
    path = directory / FOUND
    return path if path.is_file() else None
