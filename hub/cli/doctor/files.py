"""What the checks ask of files, and of texts that may have secrets."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hub.config.importing.secrets import SecretVariables, hidden

OTHERS_WRITE: Final = 0o022
OTHERS_READ: Final = 0o044
OTHERS: Final = 0o077
_GROUP: Final = 0o070


def quoted(path: Path | str) -> str:
    """Return a path as a word of a command."""
    return shlex.quote(str(path))


def reason(error: OSError) -> str:
    """Return why a file cannot be used, in the system's words."""
    return error.strerror or "it cannot be used"


def status(path: Path) -> os.stat_result | None:
    """Return what the system says of a file; None if there is none, or it cannot be asked."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def is_directory(path: Path) -> bool:
    """Return whether there is a directory."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_plain_file(path: Path) -> bool:
    """Return whether there is a file that can be read to its end, unlike a pipe."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def barred_by(path: Path) -> Path | None:
    """Return the outermost directory above a path that this user may not look into."""
    return next((one for one in reversed(path.parents) if _is_barred(one)), None)


def _is_barred(place: Path) -> bool:
    return is_directory(place) and not os.access(place, os.X_OK)


def is_others(found: os.stat_result) -> bool:
    """Return whether a file belongs to another user."""
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def take_over(path: Path, *, all_in_it: bool = False) -> str | None:
    """Return the command that makes a file the user's; None outside of the home directory.

    What is elsewhere may well be another user's on purpose.
    """
    home = Path(os.environ.get("HOME") or "/")
    if len(home.parts) == 1 or not path.is_relative_to(home) or path == home:
        return None
    option = "-R " if all_in_it else ""
    return f'sudo chown {option}"$(id -u):$(id -g)" {quoted(path)}'


def open_to(found: os.stat_result, bits: int) -> int:
    """Return which of the mode's `bits` are set for others; a group with only its user is none."""
    mode = stat.S_IMODE(found.st_mode) & bits
    return mode & ~_GROUP if mode & _GROUP and _is_private_group(found) else mode


def _is_private_group(found: os.stat_result) -> bool:
    """Return whether the file's group is the one that many systems make for each user."""
    try:
        from grp import getgrgid  # noqa: PLC0415 - not on Windows
        from pwd import getpwuid  # noqa: PLC0415 - as above

        group, user = getgrgid(found.st_gid), getpwuid(found.st_uid)
    except (ImportError, KeyError, OSError):
        return False
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return is_own and not {*group.gr_mem} - {user.pw_name}


def without_secrets(text: str, arguments: Sequence[str]) -> str:
    """Return a text without what looks like a secret in a server's arguments."""
    found = hidden("server", {"args": [*arguments]}, SecretVariables({}))[1]
    for value in sorted((one.value or "" for one in found), key=len, reverse=True):
        text = text.replace(value, "(hidden)") if value else text
    return text
