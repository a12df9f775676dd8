"""Secrets in files: `${file:PATH}`."""

from __future__ import annotations

import os
import stat
import sys
from typing import Final

from hub.secrets.values import MAX_BYTES, SecretError, value_in

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A FIFO must not block."""
_OTHERS: Final = 0o077


def file_value(path: str) -> str:
    """Return the content of a file. It may be a link, but must lead to a regular file.

    Raises: SecretError.
    """
    try:
        number = os.open(path, _FLAGS)
    except FileNotFoundError:
        fix = "Write the secret into it, or correct the path."
        raise SecretError(f"there is no file {path}", fix) from None
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise SecretError(f"{path} is not a file", "Name a file with the secret alone.")
        with open(number, "rb", closefd=False) as file:
            return value_in(file.read(MAX_BYTES + 1), path)
    except OSError as exc:
        raise _unreadable(path, exc) from None
    finally:
        os.close(number)


def _unreadable(path: str, exc: OSError | ValueError) -> SecretError:
    why = exc.strerror if isinstance(exc, OSError) else "it is no path"
    return SecretError(f"{path} cannot be read ({why})", "Let the hub's user read it.")


def open_to_others(path: str) -> str | None:
    """Return a sentence if other users may read or write a file, with a remedy; else None."""
    if sys.platform == "win32":
        return None
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - as text
    except (OSError, ValueError):
        return None
    if not mode & _OTHERS:
        return None
    return f"{path} is open to other users (mode {mode:04o}): `chmod 600` keeps it to its owner"
