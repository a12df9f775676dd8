"""What the guard costs: `python bench/guard.py` prints microseconds per call, best of five rounds.

Each round builds the surroundings of a call anew, as the hub does: nothing is cached between calls.
"""

import os
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

from hub.core.guard import Admitted, ToolGuard, compile_tool, decide
from hub.core.paths import Flavour
from hub.core.policy import Policy, ToolPolicy
from hub.core.roots import RootSet, UnsafePaths, root_from_path, root_set
from hub.core.values import Call, Json, JsonObject
from hub.core.whereabouts import Surroundings
from hub.runtime.links import CachedLinks, OsLinks

ROUNDS = 5
UNSAFE = UnsafePaths(str(Path.home()), Flavour.POSIX)
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Path to the file"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "content": {"type": "string"},
        "query": {"type": "string"},
        "limit": {"type": "integer"},
    },
}


def best(case: Callable[[], object], times: int) -> float:
    """Return the least microseconds that one run of `case` took on average in a round."""
    return min(timeit.repeat(case, number=times, repeat=ROUNDS)) / times * 1e6


def decision(arguments: JsonObject, guard: ToolGuard, roots: RootSet) -> Callable[[], object]:
    """Return what judges one call from scratch."""
    call = Call("tools/call", "tool", arguments, {"name": "tool", "arguments": arguments})
    cwd = roots.paths[0]

    def case() -> object:
        links = CachedLinks(OsLinks())
        return decide(call, guard, Surroundings(roots, cwd, {}, links, Flavour.POSIX))

    if not isinstance(case(), Admitted):
        raise SystemExit(f"refused: {case()}")
    return case


def main() -> None:
    """Print the four figures and what they may be."""
    with tempfile.TemporaryDirectory() as made:
        top = os.path.realpath(made)
        folder = Path(top, "project", "src", "lib")
        folder.mkdir(parents=True)
        names = [f"file{n}.py" for n in range(100)]
        for name in names:
            (folder / name).touch()
        root = root_from_path(
            f"{top}/project", name=None, links=OsLinks(), flavour=Flavour.POSIX, unsafe=UNSAFE
        )
        roots = root_set([root])
        guard = compile_tool(SCHEMA, read_only=False, policy=ToolPolicy(Policy(unsafe=UNSAFE)))
        path = f"{folder}/file0.py"
        deep = "/".join(path.split("/")[1:]).count("/") + 1
        cases: list[tuple[str, JsonObject, int, int]] = [
            (f"one absolute path of {deep} components", {"path": path}, 5000, 30),
            ("100 paths", {"paths": [f"{folder}/{name}" for name in names]}, 100, 1000),
            (
                "100 kB content beside the path",
                {"path": path, "content": "x y/z " * 17000},
                5000,
                60,
            ),
            ("no path-like argument", {"query": "select 1", "limit": 5}, 20000, 5),
        ]
        for title, arguments, times, allowed in cases:
            took = best(decision(arguments, guard, roots), times)
            sys.stdout.write(f"{title:40s} {took:8.1f} us  (at most {allowed})\n")


if __name__ == "__main__":
    main()
