"""The computer that the hub runs on (`Machine`): disk, environment, clocks and kernel features.

And where the hub's own directories are on it, by the XDG base directory specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from hub.paths.resolve import Flavour, LinkReader

NAME: Final = "roots-hub"
"""The name of the hub's directories."""
STATE: Final = ("XDG_STATE_HOME", ".local/state")
CACHE: Final = ("XDG_CACHE_HOME", ".cache")
"""A variable that names a directory, and where that is in the home directory otherwise."""


def home_directory(environment: Mapping[str, str]) -> str:
    """Return the user's home directory."""
    return environment.get("HOME") or str(Path.home())


def own_directory(environment: Mapping[str, str], variable: str, default: str) -> str:
    """Return the hub's directory below the one in `variable`, or below `default` in the home."""
    base = environment.get(variable, "")
    if not base.startswith("/"):  # the specification: a relative path is ignored
        base = f"{home_directory(environment)}/{default}"
    return f"{base}/{NAME}"


class Kernel(Struct, frozen=True):
    """The kernel's confinement features. `abi`: Landlock version, 0 if none (see `why_not`).

    `no_seccomp` says why it cannot load seccomp filters; empty if it can.
    """

    abi: int = 0
    why_not: str = "not determined yet"
    no_seccomp: str = ""


class Machine(Struct, frozen=True):
    """The computer as the guard and launch plans see it. `clock` is monotonic; times in seconds."""

    links: LinkReader
    flavour: Flavour
    environment: Mapping[str, str]
    directory: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    kernel: Kernel = field(default_factory=Kernel)

    def wall_time(self, at: float) -> float:
        """Return the time `at` of the monotonic clock as seconds since 1970, to the millisecond."""
        return round(self.wall_clock() - self.clock() + at, 3)
