"""What is remembered of configs: which are trusted, and whose names have no prefix.

Trust: a `hub.yaml` that lies in a directory may come from somebody else (a cloned repository), and
names commands to start. So it counts only after its user has agreed, and only with this very text.

Names without prefix: with `names: auto` the only server of a config is shown without prefixes. When
a second one is added, all get prefixes, and the names that clients know stay callable as aliases:
of that first server, whatever the order in the file. No other server ever gets them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from hub.catalog.names import SEPARATOR, NamesMode
from hub.config.own_files import FOUND, record_path
from hub.errors import ConfigError, StartError
from hub.system.machine import Machine
from hub.system.private_file import StateFile
from hub.values import ServerName

log = structlog.stdlib.get_logger(__name__)


def record_key(config: Path) -> str:
    """Return the name of a config file in the hub's records."""
    # A link as the last part is not followed: relative paths in a config start where it lies.
    return str(config.parent.resolve() / config.name)


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
                fix="Make it writable for you, on a disk with room, or set names: always.",
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
