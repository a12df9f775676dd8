"""What judging a call costs: `python -m bench.guard` prints microseconds, best of five rounds.

"At once" is the quick check for tools that were called before; "anew" is the full judgement, for
all other calls and for those that the quick check does not admit. Nothing is cached between calls.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bench.cases import folder_in
from bench.figures import Target
from hub.guard.containment import CallContext, RootIndex
from hub.guard.decide import Admitted, Refused, ToolGuard, compile_tool, decide, judge_inline
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import DenyPatterns, Policy, ToolPolicy
from hub.paths.resolve import CachedDisk, Flavour
from hub.roots.roots import UnsafePaths, root_from_path, root_set
from hub.system.machine import OsDisk
from hub.values import Call, Json, JsonObject

ROUNDS = 5
AT_LEAST = 0.02
"""Seconds that a round takes."""
UNSAFE = UnsafePaths(str(Path.home()), Flavour.POSIX)
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Path to the file"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "pattern": {"type": "string", "description": "Glob of the files to look into"},
        "content": {"type": "string"},
        "query": {"type": "string"},
        "item": {"type": "string"},
        "limit": {"type": "integer"},
    },
}


class Here:
    """One client's folder on the real disk, with a policy."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        root = root_from_path(
            str(folder), name=None, links=OsDisk(), flavour=Flavour.POSIX, unsafe=UNSAFE
        )
        roots = root_set([root])
        index = RootIndex.of(roots, root.path)
        self.around = CallContext(
            roots, root.path, {}, OsDisk(), Flavour.POSIX, enforcing=True, index=index
        )
        self.plain_check = PlainPathCheck.of(self.around, (), policy, needs_write=True)

    def anew(self) -> CallContext:
        """Return the context of one call."""
        return replace(self.around, links=CachedDisk(self.around.links))


class Case(Struct, frozen=True):
    """What is judged. `limit`: microseconds that it may take."""

    title: str
    arguments: JsonObject
    limit: float | None = None
    policy: Policy = Policy(unsafe=UNSAFE)
    is_inside: bool = True


def cases(folder: Path) -> list[Case]:
    """Return the calls that are judged; the files that they name are there."""
    path = str(folder / "src" / "main.py")
    depth = path.count("/")
    letters = folder / "источник" / "größe 文.txt"
    letters.parent.mkdir()
    letters.touch()
    (folder / "link").symlink_to("src")
    files = [folder / "src" / f"file{number}.py" for number in range(100)]
    for file in files:
        file.touch()
    denying = Policy(unsafe=UNSAFE, deny=DenyPatterns(("**/.env", "*.pem", "secrets/")))
    return [
        Case("no path-like argument", {"query": "select 1", "limit": 5}, 3),
        Case(f"one absolute path of {depth} components", {"path": path}, 12),
        Case("the same, with three patterns denied", {"path": path}, policy=denying),
        Case("the same, as a file URI", {"path": f"file://{path}"}),
        Case("the same, and a short text", {"path": path, "item": "all of it"}),
        Case("the same, relative", {"path": "src/main.py"}),
        Case("one with letters of other scripts", {"path": str(letters)}),
        Case("a glob", {"pattern": "src/**/*.py"}),
        Case("a path over a link inside", {"path": f"{folder}/link/main.py"}),
        Case("a path outside, refused", {"path": "/etc/passwd"}, is_inside=False),
        Case("one absolute path, and 100 kB of text", {"path": path, "content": "x y/z " * 17000}),
        Case("100 absolute paths", {"paths": list[Json](map(str, files))}),
    ]


def took(judge: Callable[[], object]) -> float:
    """Return the least microseconds that one run took on average in a round."""
    timer = timeit.Timer(judge)
    times = max(1, round(AT_LEAST / (timer.timeit(5) / 5)))
    return min(timer.repeat(ROUNDS, times)) / times * 1e6


def line(case: Case, folder: Path) -> str:
    """Judge one case both ways, and return what it took."""
    here, arguments = Here(folder, case.policy), case.arguments
    guard: ToolGuard = compile_tool(SCHEMA, read_only=False, policy=ToolPolicy(case.policy))
    call = Call("tools/call", "tool", arguments, {"name": "tool", "arguments": arguments})

    def anew() -> object:
        return decide(call, guard, here.anew())

    def at_once() -> object:
        return judge_inline(call, guard, here.plain_check, here.around, lambda _: True)

    if isinstance(anew(), Refused) is case.is_inside or (
        isinstance(at_once(), Admitted) is not case.is_inside
    ):
        raise SystemExit(f"{case.title}: {anew()}")
    first = took(at_once) if case.is_inside else None
    verdict = "" if first is None or case.limit is None else Target(case.limit).verdict(first)
    shown = "" if first is None else f"{first:.1f}"
    return f"| {case.title} | {shown} | {took(anew):.1f} | {verdict} |"


def lines() -> list[str]:
    """Return the table."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        head = "| the guard alone, µs a call | at once | anew | target |"
        return [head, "|---|---|---|---|", *[line(case, folder) for case in cases(folder)], ""]


if __name__ == "__main__":
    print("\n".join(lines()))
