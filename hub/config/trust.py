"""Remember which config files the user trusts: by path, and by the hash of their text.

A `hub.yaml` that lies in a directory may come from somebody else (a cloned repository), and names
commands to start. So it counts only after its user has agreed, and only with this very text.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from hub.config.own_files import record_key, record_path
from hub.errors import ConfigError, StartError
from hub.system.machine import Machine
from hub.system.private_file import StateFile

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
