"""Call contexts for the guard's tests."""

import gc
from collections.abc import Mapping
from pathlib import Path

from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, ToolGuard, judge_inline
from hub.guard.plain_paths import PlainPathCheck
from hub.paths.resolve import CachedDisk, Entry, Flavour, LinkReader
from hub.roots.roots import RootSet, root_from_path, root_set
from hub.system.machine import OsDisk
from hub.values import Call, JsonObject

POSIX, MACOS, WINDOWS = Flavour.POSIX, Flavour.MACOS, Flavour.WINDOWS


class Directories(LinkReader):
    """A disk on which every path is a directory."""

    def entry(self, path: str) -> Entry | None:
        return Entry("directory", 0, 0)

    def target(self, path: str) -> str:
        raise AssertionError(path)


def share(*paths: Path | str, links: LinkReader | None = None, flavour: Flavour = POSIX) -> RootSet:
    """Return these places as roots."""
    links = links or OsDisk()
    return root_set(
        root_from_path(str(path), name=None, links=links, flavour=flavour, unsafe=None)
        for path in paths
    )


def context(
    roots: RootSet,
    cwd: Path | str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    enforcing: bool = True,
) -> CallContext:
    """Return a call context on the real disk."""
    where = None if cwd is None else str(cwd)
    links = CachedDisk(OsDisk())
    return CallContext(roots, where, env or {}, links, POSIX, enforcing=enforcing)


def on_windows(*roots: str, env: Mapping[str, str] | None = None) -> CallContext:
    """Return a call context on a Windows machine on which every path is a directory."""
    links = Directories()
    shared = share(*roots, links=links, flavour=WINDOWS)
    return CallContext(shared, roots[0], env or {}, links, WINDOWS)


def views_of_disk() -> list[CachedDisk]:
    """Return all caches of the disk that are in use."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is CachedDisk]


def at_once(
    call: Call,
    guard: ToolGuard,
    around: CallContext,
    plain_check: PlainPathCheck | None = None,
    *,
    is_current: bool = True,
) -> Admitted | Refused | None:
    """Return the guard's verdict if it needs no long look."""
    return judge_inline(call, guard, plain_check, around, lambda _: is_current)


def tool_call(arguments: JsonObject) -> Call:
    """Return a call of a tool with these arguments."""
    return Call("tools/call", "tool", arguments, {"name": "tool", "arguments": arguments})
