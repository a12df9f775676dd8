"""What install put into which file, kept in the hub's state directory until it is taken out."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec

from hub.config.installing.changes import Installation
from hub.config.own_files import record_path
from hub.errors import StartError
from hub.system.machine import Machine
from hub.system.private_file import StateFile
from hub.values import Json


def install_record(machine: Machine) -> InstallRecord:
    """Return the user's record."""
    return InstallRecord(record_path(machine, "installed.json"))


class InstallRecord:
    """The installations of this user, by the file that each is in."""

    def __init__(self, file: Path | None) -> None:
        self._state = StateFile(file)

    def of(self, path: Path) -> Installation | None:
        """Return what was installed into a file; None if nothing is known."""
        try:
            return msgspec.convert(self._state.read().get(_key(path)), Installation)
        except msgspec.ValidationError:
            return None

    def files(self) -> list[Path]:
        """Return the files that the hub is installed in."""
        return [Path(key) for key in self._state.read()]

    def set(self, path: Path, made: Installation | None) -> None:
        """Remember what was installed into a file; None forgets it.

        Raises: StartError if the record cannot be written.
        """
        value = None if made is None else cast("Json", msgspec.to_builtins(made))
        try:
            self._state.write(_key(path), value)
        except OSError as exc:
            fix = "Make it yours, with its directory: without it nothing can be taken out again."
            raise StartError(f"{self._state.path}: {exc.strerror}", fix) from exc


def _key(path: Path) -> str:
    return str(path.resolve())
