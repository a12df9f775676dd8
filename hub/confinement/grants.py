"""File grants of a confined child (roots, operator's paths, program files), and its status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from hub.confinement.landlock import MAX_ABI
from hub.guard.own_files import OwnFiles, OwnPlace
from hub.guard.policy import Policy
from hub.launch.known_servers import runs_elsewhere
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.paths.resolve import is_inside
from hub.roots.roots import Root
from hub.specs import ConfineSetting
from hub.system.machine import Kernel


class FileGrant(Struct, frozen=True):
    """A file, or a directory with everything below it.

    With an `inode` (its device and number), nothing is granted if `path` is another file by then.
    """

    path: str
    inode: tuple[int, int] | None = None


class FileGrants(Struct, frozen=True):
    """All files that a child may open. `read` includes executing, `write` includes both.

    Landlock cannot exclude a path inside a granted directory: `unheld` has a sentence for each path
    that only the guard protects. `keys` are the hub's key directories that a grant opens.
    """

    read: tuple[FileGrant, ...] = ()
    write: tuple[FileGrant, ...] = ()
    unheld: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def file_grants(
    setting: ConfineSetting,
    plan: LaunchPlan,
    policy: Policy,
    *,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
) -> FileGrants:
    """Return the grants of the child of `plan`, whose program `reads` and `writes` these paths.

    A root is writable unless the operator made it read-only. A writable path inside a read-only
    root gets a grant of its own. A read-only path inside a writable root is protected by the guard
    alone, and `unheld` says so.
    """
    read = [FileGrant(path) for path in (*reads, *setting.read)]
    write = [FileGrant(path) for path in (*writes, *setting.write)]
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
                unheld.append(f"only the guard keeps {path} read-only: {root.path} is writable")
    written = frozenset(write)
    return FileGrants(
        tuple(grant for grant in dict.fromkeys(read) if grant not in written),
        tuple(dict.fromkeys(write)),
        tuple(dict.fromkeys((*unheld, *_unheld_own(policy, write)))),
        _opened_keys(policy, (*read, *write)),
    )


def _unheld_own(policy: Policy, write: Sequence[FileGrant]) -> Iterator[str]:
    """Yield a sentence for each of the hub's own files inside a writable grant."""
    own = policy.own or OwnFiles()
    for grant in write:
        for place in (*own.kept, *own.secret):
            if _opens(grant, place):
                yield f"only the guard protects the hub's {place.path}: {grant.path} is writable"


def _opened_keys(policy: Policy, granted: Iterable[FileGrant]) -> tuple[str, ...]:
    own = policy.own or OwnFiles()
    keys = [place for place in own.secret if place.holds_keys]
    opened = [place.path for grant in granted for place in keys if _opens(grant, place)]
    return tuple(dict.fromkeys(opened))


def _opens(grant: FileGrant, place: OwnPlace) -> bool:
    """Return whether `place` is inside the grant, or the grant is inside a place with keys."""
    parts = tuple(name for name in grant.path.split("/") if name)
    within = place.holds_keys and is_inside(parts, place.parts)
    return grant.path.startswith("/") and (within or is_inside(place.parts, parts))


def _below(root: Root, parts: tuple[str, ...]) -> str:
    return "/".join((root.path.rstrip("/"), *parts[len(root.parts) :]))


class Confined(Struct, frozen=True):
    """A child that the kernel confines. `no_seccomp` says why there is no seccomp filter, if so."""

    abi: int
    no_seccomp: str = ""

    def __str__(self) -> str:
        return f"landlock (ABI {self.abi}), {'NO seccomp' if self.no_seccomp else 'seccomp'}"


class Unconfined(Struct, frozen=True):
    """A child that should be confined but cannot be. `reason` says why and what to do."""

    reason: str

    def __str__(self) -> str:
        return "unconfined"


class NotAsked(Struct, frozen=True):
    """A child with `confine: off`."""

    def __str__(self) -> str:
        return "off"


ConfinementStatus: TypeAlias = Confined | Unconfined | NotAsked


def confinement_status(
    setting: ConfineSetting, template: LaunchTemplate, kernel: Kernel
) -> ConfinementStatus:
    """Return whether `kernel` can confine a child of `template` as `setting` asks."""
    if setting.mode == "off":
        return NotAsked()
    if runs_elsewhere((template.command.fill(lambda _: "", ()),)):
        return Unconfined(
            "its command runs the server elsewhere (a container, a machine), where the hub cannot "
            "confine it: confine it there, and set confine: off"
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


MISSING_BEFORE: tuple[tuple[int, str], ...] = (
    (2, "moving or linking a file into another directory fails, also inside the roots"),
    (3, "truncating (emptying) files outside is not stopped"),
    (5, "ioctl on devices is not stopped"),
    (6, "signals to other processes and abstract Unix sockets are not stopped"),
)
"""Landlock ABI versions, and what is missing on a kernel with an older version."""


def missing(abi: int, than: int = MAX_ABI) -> tuple[str, ...]:
    """Return what Landlock version `abi` lacks compared to version `than`."""
    return tuple(text for since, text in MISSING_BEFORE if abi < since <= than)
