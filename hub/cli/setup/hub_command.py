"""How a client starts this hub: the command that goes into its config."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

_NAMES: Final = frozenset({"roots-hub", "roots-hub.exe"})


def hub_command(
    argv0: str | None = None, prefix: str | None = None, python: str = sys.executable
) -> list[str]:
    """Return the command of the hub that runs now, for a client that has another PATH.

    That is the absolute path of `roots-hub`; for one that uvx has made for this run alone, uvx;
    else this Python with `-m hub`.
    """
    program = sys.argv[0] if argv0 is None else argv0
    place = Path(sys.prefix if prefix is None else prefix)
    if {"uv", "archive-v0"} <= set(place.parts) or "environments-v2" in place.parts:
        return [shutil.which("uvx") or "uvx", "roots-hub"]
    beside = Path(python).parent / "roots-hub"
    for found in (program, str(beside), shutil.which("roots-hub")):
        if found and Path(found).name in _NAMES and Path(found).is_file():
            return [str(Path(found).absolute())]
    return [python, "-m", "hub"]
