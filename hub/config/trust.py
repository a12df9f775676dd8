"""Remember which config files the user trusts: by path, and by the hash of their text.

A `hub.yaml` that lies in a directory may come from somebody else (a cloned repository), and names
commands to start. So it counts only after its user has agreed, and only with this very text.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import structlog

from hub.config.own_files import own_directories
from hub.errors import ConfigError, StartError
from hub.system.machine import Machine

FOUND: Final = "hub.yaml"
"""The name of the config that `run` looks for in its directory."""
_NAME: Final = "trusted.json"
_OTHERS_MAY_WRITE: Final = 0o022
_PRIVATE: Final = 0o700

log = structlog.stdlib.get_logger(__name__)


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
        raise ConfigError(f"{path}: {exc.strerror}", "Make the file readable.") from exc


def trust_record(machine: Machine) -> TrustRecord:
    """Return the user's record, in the hub's state directory: no call and no server reaches it."""
    directories = own_directories(machine)
    return TrustRecord(Path(directories[0]) / _NAME if directories else None)


class TrustRecord:
    """The record of trusted configs, a JSON file of mode 0600 in a directory of mode 0700.

    A record that another user could have written counts for nothing. Without a `file` nothing is
    remembered.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def has(self, config: Path, digest: str) -> bool:
        """Return whether the user has trusted this file with this content."""
        return self._read().get(_key(config)) == digest

    def knows(self, config: Path) -> bool:
        """Return whether the user has trusted this file, perhaps with other content."""
        return _key(config) in self._read()

    def add(self, config: Path, digest: str) -> None:
        """Remember that the user trusts this file with this content.

        Raises: StartError if the record cannot be written.
        """
        if self._file is None:
            return
        directory = self._file.parent
        text = json.dumps({**self._read(), _key(config): digest}, indent=2) + "\n"
        try:
            directory.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            if not _is_ours(directory):
                directory.chmod(_PRIVATE)
            _replace(self._file, text)
        except OSError as exc:
            raise StartError(
                f"{self._file}: {exc.strerror}",
                f"Make the directory writable, or name the config: --config {FOUND}",
            ) from exc

    def _read(self) -> Mapping[str, str]:
        if self._file is None:
            return {}
        try:
            text = self._file.read_text(encoding="utf-8")
            if not (_is_ours(self._file) and _is_ours(self._file.parent)):
                log.warning("others may write the record of trusted configs", file=str(self._file))
                return {}
            raw: object = json.loads(text)
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("Mapping[str, str]", raw) if isinstance(raw, dict) else {}


def _key(config: Path) -> str:
    # A link is not followed: relative paths in a config start where it lies.
    return str(config.parent.resolve() / config.name)


def _is_ours(path: Path) -> bool:
    """Return whether only this process's user may write `path`."""
    if not hasattr(os, "geteuid"):
        return True
    found = path.stat()
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & _OTHERS_MAY_WRITE


def _replace(file: Path, text: str) -> None:
    """Replace `file`; a reader sees the old text or the new one. `mkstemp` gives mode 0600."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
