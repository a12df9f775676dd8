"""The hub's own files: config, audit log, directories, inodes; and what is remembered in them.

Trust: a `hub.yaml` that lies in a directory may come from somebody else (a cloned repository), and
names commands to start. So it counts only after its user has agreed, and only with this very text.

Names without prefix: with `names: auto` the only server of a config is shown without prefixes. When
a second one is added, all get prefixes, and the names that clients know stay callable as aliases:
of that first server, whatever the order in the file. No other server ever gets them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from hub.attach.runtime_directory import runtime_paths
from hub.audit.log_file import put_aside
from hub.catalog.names import SEPARATOR, NamesMode
from hub.errors import ConfigError, StartError
from hub.guard.own_files import Inode, Inodes, OwnFiles, OwnPlace
from hub.paths.resolve import Flavour, PathError, parts_of, resolve
from hub.system.machine import CACHE, NAME, STATE, Machine, own_directory
from hub.system.private_file import StateFile
from hub.values import ServerName

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


def record_key(config: Path) -> str:
    """Return the name of a config file in the hub's records."""
    # A link as the last part is not followed: relative paths in a config start where it lies.
    return str(config.parent.resolve() / config.name)


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
            files = (path for directory in self._secret for path in _files_in(directory))
            secret, kept = frozenset(_inodes(files)), frozenset(_inodes(iter(self._kept)))
            self._found = Inodes(secret, kept, secret | kept)
        return self._found


def _files_in(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.path for entry in islice(entries, MOST))
    except OSError:
        return


def _inodes(paths: Iterator[str]) -> Iterator[Inode]:
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


def digest_of(path: Path) -> str:
    """Return the SHA-256 hash of a config file's bytes, in hexadecimal digits.

    Raises: ConfigError if it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as exc:
        raise ConfigError(str(path), str(exc.strerror), "Make the file readable.") from exc


def trust_record(machine: Machine) -> TrustRecord:
    """Return the user's record."""
    return TrustRecord(record_path(machine, "trusted.json"))


class TrustRecord:
    """The record of trusted configs, with their hashes. Without a `file` nothing is remembered."""

    def __init__(self, file: Path | None) -> None:
        self._state = StateFile(file)

    def has(self, config: Path, digest: str) -> bool:
        """Return whether the user has trusted this file with this content."""
        return self._state.read().get(record_key(config)) == digest

    def knows(self, config: Path) -> bool:
        """Return whether the user has trusted this file, perhaps with other content."""
        return record_key(config) in self._state.read()

    def add(self, config: Path, digest: str) -> None:
        """Remember that the user trusts this file with this content.

        Raises: StartError if the record cannot be written.
        """
        if self._state.path is None:
            return
        try:
            self._state.write(record_key(config), digest)
        except OSError as exc:
            raise StartError(
                f"{self._state.path}: {exc.strerror}",
                f"Make it yours, and its directory, or name the config: --config {FOUND}",
            ) from exc


log = structlog.stdlib.get_logger(__name__)


class BareNames(Struct, frozen=True):
    """The server that had names without prefix, as the only one of its config.

    `is_fixed`: other servers were served beside it since then, so clients may know both forms of
    its names. From then on they stay its own, even if another server is the only one some day.
    """

    server: ServerName
    is_fixed: bool = False


def names_record(machine: Machine) -> StateFile:
    """Return the record of all configs of this user."""
    return StateFile(record_path(machine, "bare-names.json"))


def recorded(record: StateFile, config: Path) -> BareNames | None:
    """Return what is recorded for a config file; None if nothing usable is."""
    try:
        return msgspec.convert(record.read().get(record_key(config)), BareNames | None)
    except msgspec.ValidationError:
        return None


def settled(
    record: StateFile, config: Path, servers: Collection[ServerName], mode: NamesMode
) -> BareNames | None:
    """Return whose names without prefix hold for a hub that starts now; update the record.

    What cannot be recorded does not hold.
    """
    before = recorded(record, config)
    now = following(before, servers, mode)
    if now != before:
        try:
            record.write(record_key(config), None if now is None else msgspec.to_builtins(now))
        except OSError as exc:
            log.warning(
                "names without prefix are not remembered: they end when a second server is added",
                file=str(record.path),
                error=exc.strerror,
                fix="Make it yours, and its directory, or set names: always.",
            )
            return None
    if now != before or (now is not None and len(servers) == 1):
        for warning in moved(now, servers, mode):
            log.warning(warning)
    return now


def following(
    before: BareNames | None, servers: Collection[ServerName], mode: NamesMode
) -> BareNames | None:
    """Return what is recorded once these servers are served."""
    if mode == "always" or not servers:
        return before
    if len(servers) > 1:
        if mode == "never":
            return None  # names without prefix are those of several servers now
        return None if before is None else replace(before, is_fixed=True)
    if mode == "auto" and before is not None and before.is_fixed:
        return before
    return BareNames(next(iter(servers)))


def moved(found: BareNames | None, servers: Collection[ServerName], mode: NamesMode) -> list[str]:
    """Return a warning with a remedy, if clients know names that are not the listed ones."""
    if mode != "auto" or found is None:
        return []
    first, only = found.server, next(iter(servers), "")
    if len(servers) == 1 and found.is_fixed and first != only:
        return [
            f"names: {only!r} is shown with its prefix ({only}{SEPARATOR}NAME), though it is the "
            f"only server: clients may know the names without prefix as those of {first!r}. "
            "`names: never` gives them to it"
        ]
    if len(servers) > 1 and first in servers:
        return [
            f"names: there are several servers, so the names of {first!r} are listed with its "
            f"prefix ({first}{SEPARATOR}NAME). They can still be called without it, but "
            "permissions saved in clients do not match the new names: grant them again. With "
            "`names: always` from the start, names never change"
        ]
    if len(servers) > 1:
        return [
            f"names: those without prefix were of {first!r}, which is gone: they lead nowhere, as "
            "clients may have saved permissions for them. Call the servers' names with their prefix"
        ]
    return []
