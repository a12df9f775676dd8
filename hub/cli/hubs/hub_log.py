"""The log of a shared hub: a file in the state directory, moved aside when it is large."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from hub.audit.open_file import open_to_add

LARGEST: Final = 4 * 1024 * 1024
"""Bytes after which the log is moved aside; one such older file is kept."""


class HubLog:
    """Writes to the log file. What the process itself writes to stderr goes there as well."""

    def __init__(self, path: Path, *, largest: int = LARGEST) -> None:
        """Open the log.

        Raises: OSError.
        """
        self.path = path
        self._largest = largest
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._has_stderr = False
        self._file = self._opened()

    def write(self, text: str) -> None:
        """Add a text.

        Raises: OSError.
        """
        self._file.write(text.encode("utf-8", "replace"))
        if self._file.tell() > self._largest:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Move the file aside; where no new one can be made, the old one goes on."""
        with suppress(FileNotFoundError):  # it was moved aside before
            self.path.replace(self.path.with_suffix(".log.1"))
        made = self._opened()
        self._file.close()
        self._file = made
        if self._has_stderr:
            self.take_stderr()

    def _opened(self) -> FileIO:
        file = open_to_add(self.path)
        file.seek(0, os.SEEK_END)
        return file

    def take_stderr(self) -> None:
        """Let this process's stderr lead to the log, for what Python itself writes at a crash."""
        self._has_stderr = True
        os.dup2(self._file.fileno(), 2)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
