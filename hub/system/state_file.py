"""A small file of the hub's own, in its state directory: JSON entries that outlive the process."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import structlog

from hub.system.atomic_file import alone_in, replace_file
from hub.system.private_file import is_ours, private_directory
from hub.values import Json

log = structlog.stdlib.get_logger(__name__)


class StateFile:
    """A JSON object in a file of mode 0600, in a directory of mode 0700.

    A file that another user could have written, or that is damaged, counts as empty. Without a
    `path` nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path: Final = path

    def read(self) -> Mapping[str, Json]:
        """Return all entries; none if the file cannot be read."""
        try:
            return {} if self.path is None else _entries(self.path)
        except OSError:
            return {}

    def write(self, key: str, value: Json) -> None:
        """Set one entry; None removes it. Other processes may write other entries meanwhile.

        Raises: OSError if the file cannot be written, one that is there cannot be read, or the
            directory is another user's.
        """
        if self.path is None:
            raise OSError(errno.ENOENT, "there is no directory for it")
        private_directory(self.path.parent)
        with alone_in(self.path.parent):
            entries = {**_entries(self.path), key: value}
            kept = {name: entry for name, entry in entries.items() if entry is not None}
            replace_file(self.path, f"{json.dumps(kept, indent=2)}\n".encode())


def _entries(path: Path) -> Mapping[str, Json]:
    """Return the entries in a file; none if there is no file.

    Raises: OSError if there is one, and it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if not (is_ours(path.stat()) and is_ours(path.parent.stat())):
            log.warning("ignored, as other users may write it", file=str(path))
            return {}
        found: object = json.loads(text)
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Json]", found) if isinstance(found, dict) else {}
