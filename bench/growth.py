"""How cost grows: `python -m bench.growth` prints what a hub spends on sessions, children and more.

What is measured is the time the hub itself runs on a CPU, because that depends least on what else
the machine does. Each curve gets the power of the size with which it grows at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from bench.cases import ECHO, Params, folder_in, reading
from bench.figures import machine
from bench.flood import Flood
from bench.holdings import memory
from bench.piped import Piped
from bench.placing import cpu_seconds, place_us
from bench.posting import Session
from bench.programs import CHILD, Listening, free_port, hub_config, hub_on_http, hub_on_stdio

ROUNDS = 5
SESSIONS = (1, 10, 100, 1000)
CHILDREN = (1, 5, 10, 25, 50)
TOOLS = (10, 100, 1000, 5000)
ROOTS = (1, 4, 16, 64, 256)
PATHS = (1, 10, 100, 1000)
LISTINGS = 10
"""How often each page of a list is asked for in a measurement."""
FLAT = 1.5
"""How many times as much the largest size may cost as the smallest, and count as the same."""
LINEAR = 1.2
"""The greatest power of the size that counts as linear: measurements scatter."""


@dataclass
class Curve:
    """What one thing costs as there is more of another."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    costs: list[float] = field(default_factory=list[float])

    @property
    def verdict(self) -> str:
        """How cost grows towards the largest size, what does not grow at all left out."""
        first, *_, before, last = self.costs
        if last < FLAT * first or before <= first:
            return "flat" if last < FLAT * first else "no worse than linear"
        sizes = [size - self.sizes[0] for size in self.sizes]
        power = log((last - first) / (before - first)) / log(sizes[-1] / sizes[-2])
        return f"n^{power:.2f}, {'no worse than linear' if power <= LINEAR else 'WORSE'}"

    def line(self) -> str:
        """Return the curve as a row."""
        shown = ", ".join(
            f"{size}: {_shown(cost)}" for size, cost in zip(self.sizes, self.costs, strict=True)
        )
        return f"| {self.title} | {self.unit} | {shown} | {self.verdict} |"


def _shown(cost: float) -> str:
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"


def spent(pid: int, work: Callable[[], object], times: int) -> float:
    """Return the least microseconds of CPU that each of `times` pieces of `work` took a process."""
    found: list[float] = []
    for _ in range(ROUNDS):
        before = cpu_seconds(pid)
        work()
        found.append((cpu_seconds(pid) - before) / times * 1e6)
    return min(found)


class OnStdio:
    """One client of a hub, with so much of something."""

    def __init__(
        self, stack: ExitStack, servers: dict[str, list[str]], folder: Path, roots: list[Path]
    ) -> None:
        config = hub_config(folder.parent, servers)
        self.hub = Piped(hub_on_stdio(config), folder=folder.parent, roots=roots)
        stack.callback(self.hub.end)
        self.hub.begin()
        self.hub.request("tools/list", {})

    def call(self, params: Params, times: int) -> float:
        """Return the microseconds of CPU that a call takes the hub."""
        self.hub.request("tools/call", params)
        self.hub.one_by_one(params, min(times, 50))
        return spent(self.hub.process.pid, lambda: self.hub.one_by_one(params, times), times)

    def listing(self) -> float:
        """Return the microseconds of CPU that all pages of a list take the hub, when warm."""
        pages: list[Params] = [{}]
        while "nextCursor" in (page := self.hub.request("tools/list", pages[-1])):
            pages.append({"cursor": page["nextCursor"]})

        def work() -> None:
            for page in pages:
                self.hub.one_by_one(page, LISTINGS, "tools/list")

        work()
        return spent(self.hub.process.pid, work, LISTINGS)


def by_sessions() -> list[Curve]:
    """Return what calls cost among so many open sessions, what these cost, and what they hold."""
    curves = [
        Curve("a call with a path, among so many open sessions", "µs", SESSIONS),
        Curve("the opening of so many sessions, with a call each", "µs", SESSIONS),
        Curve("memory of the hub with so many open sessions", "MB", SESSIONS),
    ]
    for size in SESSIONS:
        with ExitStack() as stack:
            for curve, cost in zip(curves, _with_sessions(stack, size), strict=True):
                curve.costs.append(cost)
    return curves


def _with_sessions(stack: ExitStack, size: int) -> list[float]:
    folder, port = folder_in(stack), free_port()
    argv = hub_on_http(hub_config(folder.parent, {"child": CHILD}), port)
    hub = Listening(argv, port, folder=folder.parent)
    stack.callback(hub.end)
    hub.ready()
    stack.callback(_opened(hub, folder).close)
    pid = hub.process.pid
    before = cpu_seconds(pid)
    clients = [_opened(hub, folder) for _ in range(size)]
    opening = (cpu_seconds(pid) - before) * 1e6
    for client in clients:
        stack.callback(client.close)
    shares = [clients[start : start + 64] for start in range(0, size, 64)]

    def flood() -> float:
        floods = [Flood(share) for share in shares]
        before = cpu_seconds(pid)
        for one in floods:
            one.run(reading(folder), 0.4 / len(floods))
        return (cpu_seconds(pid) - before) / sum(one.answered for one in floods) * 1e6

    return [min(flood() for _ in range(ROUNDS)), opening, memory(pid)]


def _opened(hub: Listening, folder: Path) -> Session:
    session = Session(hub.address, "/mcp", roots=[folder])
    session.begin()
    session.request("tools/call", ECHO)
    return session


def by_children() -> list[Curve]:
    """Return what calls and lists cost with so many servers of 10 tools."""
    call = Curve("a call with a path, among so many children", "µs", CHILDREN)
    listing = Curve("tools/list of so many children, warm", "µs", CHILDREN)
    held = Curve("memory of the hub with so many children", "MB", CHILDREN)
    for size in CHILDREN:
        with ExitStack() as stack:
            folder = folder_in(stack)
            servers = {f"child{number}": [*CHILD, "--tools", "6"] for number in range(size)}
            hub = OnStdio(stack, servers, folder, [folder])
            prefix = "child0__" if size > 1 else ""
            params = {**reading(folder), "name": f"{prefix}read_file"}
            call.costs.append(hub.call(params, 400))
            listing.costs.append(hub.listing())
            held.costs.append(memory(hub.hub.process.pid))
    return [call, listing, held]


def by_tools() -> list[Curve]:
    """Return what calls and lists cost when a server has so many tools."""
    call = Curve("a call with a path, among so many tools", "µs", TOOLS)
    listing = Curve("tools/list of so many tools, all pages, warm", "µs", TOOLS)
    for size in TOOLS:
        with ExitStack() as stack:
            folder = folder_in(stack)
            hub = OnStdio(stack, {"child": [*CHILD, "--tools", str(size)]}, folder, [folder])
            call.costs.append(hub.call(reading(folder), 400))
            listing.costs.append(hub.listing())
    return [call, listing]


def by_roots() -> list[Curve]:
    """Return what a call costs whose path is in the last of so many roots."""
    call = Curve("a call with a path in the last of so many roots", "µs", ROOTS)
    plain = Curve("a call without a path, with so many roots", "µs", ROOTS)
    for size in ROOTS:
        with ExitStack() as stack:
            folder = folder_in(stack)
            roots = [folder / f"root{number}" for number in range(size)]
            for root in roots:
                (root / "src").mkdir(parents=True)
                (root / "src" / "main.py").touch()
            hub = OnStdio(stack, {"child": CHILD}, folder, roots)
            call.costs.append(hub.call(reading(roots[-1]), 200))
            plain.costs.append(hub.call(ECHO, 200))
    return [call, plain]


def by_paths() -> list[Curve]:
    """Return what a call costs that names so many paths."""
    call = Curve("a call with so many paths", "µs", PATHS)
    for size in PATHS:
        with ExitStack() as stack:
            folder = folder_in(stack)
            hub = OnStdio(stack, {"child": CHILD}, folder, [folder])
            paths = [str(folder / "src" / f"module{number}.py") for number in range(size)]
            params = {"name": "read_files", "arguments": {"paths": paths}}
            call.costs.append(hub.call(params, max(4, 400 // size)))
    return [call]


def lines() -> list[str]:
    """Return the table of all curves."""
    found = ["| what | unit | by size | verdict |", "|---|---|---|---|"]
    for curves in (by_sessions, by_children, by_tools, by_roots, by_paths):
        found += [curve.line() for curve in curves()]
    return [*found, ""]


def main() -> None:
    """Print the table."""
    place_us()
    print(machine(), "\n")
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
