"""The computer that the hub runs on: what of it decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from hub.paths.resolve import Flavour, LinkReader


class Kernel(Struct, frozen=True):
    """What this machine's kernel can do: the version of Landlock it has, or why it has none.

    `no_seccomp` says why it cannot refuse system calls; it is empty if it can.
    """

    abi: int = 0
    why_not: str = "this machine was not asked"
    no_seccomp: str = ""


class Machine(Struct, frozen=True):
    """The computer the hub runs on, as the guard and the launch plans see it."""

    links: LinkReader
    flavour: Flavour
    environment: Mapping[str, str]
    directory: str
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    kernel: Kernel = field(default_factory=Kernel)

    def wall_time(self, at: float) -> float:
        """Return the seconds since 1970 of a moment `at` of the monotonic clock."""
        return round(self.wall_clock() - self.clock() + at, 3)
