"""What a confined child may touch: the operator's word, its roots, and what a program needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from hub.guard.own_files import OwnFiles, OwnPlace
from hub.guard.policy import Policy
from hub.launch.filesystem_servers import runs_elsewhere
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.paths.resolve import is_inside
from hub.roots.roots import Root
from hub.specs import ConfineSetting
from hub.system.machine import Kernel


class FileGrant(Struct, frozen=True):
    """A directory with all that is below it, or a file.

    With an `identity` (device and inode) it grants nothing once something else is in that place.
    """

    path: str
    identity: tuple[int, int] | None = None


class FileGrants(Struct, frozen=True):
    """Everything a child may touch, `write` for reading too. `unheld`: what no grant can express.

    Landlock adds up what is granted on the way to a file: nothing can be taken out of a grant.
    `keys` are the hub's own directories for keys that a grant opens.
    """

    read: tuple[FileGrant, ...] = ()
    write: tuple[FileGrant, ...] = ()
    unheld: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class Needs(Struct, frozen=True):
    """What a program needs on this machine, whatever its roots are."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def file_grants(
    setting: ConfineSetting, plan: LaunchPlan, policy: Policy, needs: Needs
) -> FileGrants:
    """Return what the child of `plan` may touch.

    A root is writable unless the operator made it readable only; a writable place inside such a
    root is granted by itself. A readable one inside a writable root cannot be: the guard alone
    holds it, and `unheld` says so.
    """
    read = [FileGrant(path) for path in (*needs.read, *setting.read)]
    write = [FileGrant(path) for path in (*needs.write, *setting.write)]
    unheld: list[str] = []
    for root in plan.roots.roots:
        grant = FileGrant(root.path, (root.device, root.inode))
        writable = policy.access_at(root.parts) == "write"
        (write if writable else read).append(grant)
        for rule in policy.access:
            if rule.parts == root.parts or not is_inside(rule.parts, root.parts) or root.is_file:
                continue
            path = _below(root, rule.parts)
            if rule.access == "write" and not writable:
                write.append(FileGrant(path))
            elif rule.access == "read" and writable:
                unheld.append(f"{path} is read-only for the guard alone: {root.path} is writable")
    written = frozenset(write)
    return FileGrants(
        tuple(grant for grant in dict.fromkeys(read) if grant not in written),
        tuple(dict.fromkeys(write)),
        tuple(dict.fromkeys((*unheld, *_unheld_own(policy, write)))),
        _opened_keys(policy, (*read, *write)),
    )


def _unheld_own(policy: Policy, write: Sequence[FileGrant]) -> Iterator[str]:
    """Yield which of the hub's own files a child could write by itself."""
    own = policy.own or OwnFiles()
    for grant in write:
        for place in (*own.kept, *own.secret):
            if _opens(grant, place):
                yield f"{place.path} is the hub's own for the guard alone: {grant.path} is writable"


def _opened_keys(policy: Policy, granted: Iterable[FileGrant]) -> tuple[str, ...]:
    own = policy.own or OwnFiles()
    keys = [place for place in own.secret if place.holds_keys]
    opened = [place.path for grant in granted for place in keys if _opens(grant, place)]
    return tuple(dict.fromkeys(opened))


def _opens(grant: FileGrant, place: OwnPlace) -> bool:
    """Return whether a place lies in what is granted, or what is granted in the place of keys."""
    parts = tuple(name for name in grant.path.split("/") if name)
    within = place.holds_keys and is_inside(parts, place.parts)
    return grant.path.startswith("/") and (within or is_inside(place.parts, parts))


def _below(root: Root, parts: tuple[str, ...]) -> str:
    return "/".join((root.path.rstrip("/"), *parts[len(root.parts) :]))


class Confined(Struct, frozen=True):
    """A child that the kernel confines. `no_seccomp` says why its system calls are not filtered."""

    abi: int
    no_seccomp: str = ""

    def __str__(self) -> str:
        return f"landlock (ABI {self.abi}), {'NO seccomp' if self.no_seccomp else 'seccomp'}"


class Unconfined(Struct, frozen=True):
    """A child that was to be confined and cannot be: `reason` says why and what to do."""

    reason: str

    def __str__(self) -> str:
        return "unconfined"


class NotAsked(Struct, frozen=True):
    """A child that nobody asked to confine."""

    def __str__(self) -> str:
        return "off"


ConfinementStatus: TypeAlias = Confined | Unconfined | NotAsked


def confinement_status(
    setting: ConfineSetting, template: LaunchTemplate, kernel: Kernel
) -> ConfinementStatus:
    """Return whether a child of `template` is confined by `kernel`."""
    if setting.mode == "off":
        return NotAsked()
    if runs_elsewhere((template.command.fill(lambda _: "", ()),)):
        return Unconfined(
            "its command starts the server elsewhere, where this kernel has no say: "
            "let the container confine it, and set confine: off"
        )
    if kernel.abi == 0:
        return Unconfined(kernel.why_not)
    if kernel.abi < setting.abi:
        return Unconfined(
            f"confine.abi asks for Landlock ABI {setting.abi} and this kernel has {kernel.abi}: "
            f"{'; '.join(missing(kernel.abi, setting.abi)) or 'it is older'}"
        )
    if kernel.no_seccomp and setting.mode == "require":
        return Unconfined(f"its system calls cannot be filtered: {kernel.no_seccomp}")
    return Confined(kernel.abi, kernel.no_seccomp)


NEWEST_ABI = 7
"""The newest version of Landlock that the hub speaks."""
MISSING_BEFORE: tuple[tuple[int, str], ...] = (
    (2, "moving or linking a file into another directory fails, also inside the roots"),
    (3, "truncating (emptying) files outside is not stopped"),
    (5, "ioctl on devices is not stopped"),
    (6, "signals to other processes and abstract Unix sockets are not stopped"),
)
"""What a kernel with an older version of Landlock than each does not do."""


def missing(abi: int, than: int = NEWEST_ABI) -> tuple[str, ...]:
    """Return what this version of Landlock does not do that another does, by default the newest."""
    return tuple(text for since, text in MISSING_BEFORE if abi < since <= than)
