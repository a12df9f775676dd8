"""`--log-file`: the log in a file, for clients that do not show what the hub writes to stderr."""

from __future__ import annotations

from pathlib import Path

from hub.audit.open_file import UnfitFileError, open_to_add
from hub.errors import StartError
from hub.system.log import ThreadedLog


def log_to_file(path: Path) -> ThreadedLog:
    """Return what adds the lines of the log to a file; a missing file is created with mode 0600.

    Raises: StartError if it cannot be opened, or is not safe to write to.
    """
    try:
        file = open_to_add(path)
    except UnfitFileError as exc:
        raise StartError(f"--log-file {path}: {exc.strerror}", exc.fix) from exc
    except OSError as exc:
        raise StartError(
            f"--log-file {path}: {exc.strerror}", "Name a file that the hub may write."
        ) from exc

    def write(text: str) -> None:
        file.write(text.encode("utf-8", "replace"))

    return ThreadedLog(write)
