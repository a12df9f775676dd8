"""The computer that the hub runs on (`Machine`): disk, environment, clocks and kernel features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from hub.paths.resolve import Flavour, LinkReader


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
