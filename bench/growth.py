"""How cost grows: `python -m bench.growth` prints what a hub spends on sessions, children and more.

What is measured is the time the hub itself runs on a CPU, because that depends least on what else
the machine does. Each curve gets the power of the size with which it grows at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path

from bench.cases import ECHO, Params, folder_in, reading
from bench.figures import machine
from bench.flood import Flood
from bench.holdings import memory
from bench.piped import Piped
from bench.placing import cpu_seconds, place_us
from bench.posting import Session
from bench.programs import CHILD, HttpProgram, free_port, hub_config, hub_on_http, hub_on_stdio

ROUNDS = 5
SESSIONS = (1, 10, 100, 1000)
CHILDREN = (1, 5, 10, 25, 50)
TOOLS = (10, 100, 1000, 5000)
ROOTS = (1, 4, 16, 64, 256)
PATHS = (1, 10, 100, 1000)
LISTINGS = 30
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
    costs: list[float]

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


def in_turns(*costs: Sequence[Callable[[], float]]) -> list[list[float]]:
    """Measure each thing at all sizes in turn, round by round; return the least of each.

    So all sizes see the machine at its fastest if it is that for some round. A first round, which
    is not counted, warms what is measured.
    """
    found: list[list[float]] = []
    for sizes in costs:
        rounds = [[cost() for cost in sizes] for _ in range(ROUNDS + 1)]
        found.append([min(of_one) for of_one in zip(*rounds[1:], strict=True)])
    return found


def spent(pid: int, work: Callable[[], object], times: int) -> float:
    """Return the microseconds of CPU that each of `times` pieces of `work` took a process."""
    before = cpu_seconds(pid)
    work()
    return (cpu_seconds(pid) - before) / times * 1e6


class OnStdio:
    """One client of a hub, with so much of something."""

    def __init__(self, stack: ExitStack, servers: dict[str, list[str]], roots: list[Path]) -> None:
        folder = folder_in(stack).parent  # of its own: it looks after the config that is there
        config = hub_config(folder, servers)
        self.hub = Piped(hub_on_stdio(config), folder=folder, roots=roots)
        stack.callback(self.hub.end)
        self.hub.begin()
        self.hub.request("tools/list", {})

    @property
    def memory(self) -> float:
        """The megabytes that the hub holds."""
        return memory(self.hub.process.pid)

    def call(self, params: Params, times: int) -> Callable[[], float]:
        """Return what measures the microseconds of CPU that a call takes the hub."""
        self.hub.request("tools/call", params)
        return partial(
            spent, self.hub.process.pid, lambda: self.hub.one_by_one(params, times), times
        )

    def listing(self) -> Callable[[], float]:
        """Return what measures the microseconds of CPU that all pages of a list take the hub."""
        pages: list[Params] = [{}]
        while "nextCursor" in (page := self.hub.request("tools/list", pages[-1])):
            pages.append({"cursor": page["nextCursor"]})

        def work() -> None:
            for page in pages:
                self.hub.one_by_one(page, LISTINGS, "tools/list")

        return partial(spent, self.hub.process.pid, work, LISTINGS)


def by_sessions() -> list[Curve]:
    """Return what calls cost among so many open sessions, what these cost, and what they hold."""
    with ExitStack() as stack:
        hubs = [OnHttp(stack, size) for size in SESSIONS]
        [calls] = in_turns([hub.call for hub in hubs])
        opening, held = [hub.opening for hub in hubs], [hub.memory for hub in hubs]
    return [
        Curve("a call with a path, among so many open sessions", "µs", SESSIONS, calls),
        Curve("the opening of so many sessions, with a call each", "µs", SESSIONS, opening),
        Curve("memory of the hub with so many open sessions", "MB", SESSIONS, held),
    ]


class OnHttp:
    """A hub with so many sessions; `opening` is how many microseconds of CPU they took it."""

    def __init__(self, stack: ExitStack, size: int) -> None:
        self._folder, port = folder_in(stack), free_port()
        argv = hub_on_http(hub_config(self._folder.parent, {"child": CHILD}), port)
        self._hub = HttpProgram(argv, port, folder=self._folder.parent)
        stack.callback(self._hub.end)
        self._hub.ready()
        self._open(stack)
        self._clients: list[Session] = []
        self._pid = self._hub.process.pid
        self.opening = spent(
            self._pid, lambda: self._clients.extend(self._open(stack) for _ in range(size)), 1
        )

    def _open(self, stack: ExitStack) -> Session:
        session = Session(self._hub.address, "/mcp", roots=[self._folder])
        stack.callback(session.close)
        session.begin()
        session.request("tools/call", ECHO)
        return session

    @property
    def memory(self) -> float:
        """The megabytes that the hub holds."""
        return memory(self._pid)

    def call(self) -> float:
        """Return the microseconds of CPU that a call takes the hub, of 64 sessions at a time."""
        clients = self._clients
        floods = [Flood(clients[start : start + 64]) for start in range(0, len(clients), 64)]
        before = cpu_seconds(self._pid)
        for one in floods:
            one.run(reading(self._folder), 0.4 / len(floods))
        return (cpu_seconds(self._pid) - before) / sum(one.answered for one in floods) * 1e6


def by_children() -> list[Curve]:
    """Return what calls and lists cost with so many servers of 10 tools."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        child = [*CHILD, "--tools", "6"]
        sets = [{f"child{number}": child for number in range(size)} for size in CHILDREN]
        hubs = [OnStdio(stack, servers, [folder]) for servers in sets]
        names = ["read_file" if size == 1 else "child0__read_file" for size in CHILDREN]
        params = [{**reading(folder), "name": name} for name in names]
        calls, listings = in_turns(
            [hub.call(one, 400) for hub, one in zip(hubs, params, strict=True)],
            [hub.listing() for hub in hubs],
        )
        held = [hub.memory for hub in hubs]
    return [
        Curve("a call with a path, among so many children", "µs", CHILDREN, calls),
        Curve("tools/list of so many children, warm", "µs", CHILDREN, listings),
        Curve("memory of the hub with so many children", "MB", CHILDREN, held),
    ]


def by_tools() -> list[Curve]:
    """Return what calls and lists cost when a server has so many tools."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        sets = [{"child": [*CHILD, "--tools", str(size)]} for size in TOOLS]
        hubs = [OnStdio(stack, servers, [folder]) for servers in sets]
        calls, listings = in_turns(
            [hub.call(reading(folder), 400) for hub in hubs], [hub.listing() for hub in hubs]
        )
    return [
        Curve("a call with a path, among so many tools", "µs", TOOLS, calls),
        Curve("tools/list of so many tools, all pages, warm", "µs", TOOLS, listings),
    ]


def by_roots() -> list[Curve]:
    """Return what a call costs whose path is in the last of so many roots."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        roots = [folder / f"root{number}" for number in range(max(ROOTS))]
        for root in roots:
            (root / "src").mkdir(parents=True)
            (root / "src" / "main.py").touch()
        hubs = [OnStdio(stack, {"child": CHILD}, roots[:size]) for size in ROOTS]
        calls, plain = in_turns(
            [
                hub.call(reading(roots[size - 1]), 200)
                for hub, size in zip(hubs, ROOTS, strict=True)
            ],
            [hub.call(ECHO, 200) for hub in hubs],
        )
    return [
        Curve("a call with a path in the last of so many roots", "µs", ROOTS, calls),
        Curve("a call without a path, with so many roots", "µs", ROOTS, plain),
    ]


def by_paths() -> list[Curve]:
    """Return what a call costs that names so many paths."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        paths = [str(folder / "src" / f"module{number}.py") for number in range(max(PATHS))]
        hub = OnStdio(stack, {"child": CHILD}, [folder])
        [calls] = in_turns(
            [
                hub.call(
                    {"name": "read_files", "arguments": {"paths": paths[:size]}},
                    max(4, 400 // size),
                )
                for size in PATHS
            ]
        )
    return [Curve("a call with so many paths", "µs", PATHS, calls)]


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
