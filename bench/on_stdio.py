"""Calls through programs that serve one client on stdio."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import AT_ONCE, ECHO, LARGE, PLACES, Params, folder_in, reading, require_guard
from bench.figures import PATIENCE, Table, Target
from bench.peers import Peer
from bench.piped import Piped, WrongAnswerError, within
from bench.placing import cpu_seconds, place
from bench.programs import BARE, BATCHED, CHILD, hub_config, hub_on_stdio

BARE_ROW = "bare relay"
PLAIN, PATH = "hub, no path", "hub, one path"
Rows = dict[str, tuple[Piped, Params]]


class OnStdio:
    """The programs, and what is measured of them."""

    def __init__(self, stack: ExitStack, peers: Sequence[Peer] = ()) -> None:
        folder = folder_in(stack)
        top = folder.parent
        self._single = {
            apart: Table(f"stdio, one call, {place}", "µs, p50", BARE_ROW, digits=1)
            for place, apart in PLACES.items()
        }
        self._flight = {
            apart: Table(f"stdio, {AT_ONCE} in flight, {place}", "calls/s", BARE_ROW)
            for place, apart in PLACES.items()
        }
        self._cpu = Table(
            f"stdio, {AT_ONCE} in flight, CPU time of the program", "µs a call", BARE_ROW, 1
        )
        self._large = {
            kind: Table(f"stdio, 1 MiB {kind}", "ms, p50", BARE_ROW, digits=2) for kind in LARGE
        }
        self._set_targets([peer.name for peer in peers])
        self._rows: Rows = {}
        self._calls: dict[str, Peer] = {}
        for name, argv in {"direct": CHILD, BARE_ROW: BARE, "bare relay, batched": BATCHED}.items():
            self._rows[name] = self._open(stack, argv, folder), ECHO
        hub = self._open(stack, hub_on_stdio(hub_config(top, {"child": CHILD})), folder)
        hub.request("tools/call", reading(folder))
        require_guard(hub)
        self._rows |= {PLAIN: (hub, ECHO), PATH: (hub, reading(folder))}
        for peer in peers:
            self._join(stack, peer, folder)

    def _set_targets(self, peers: list[str]) -> None:
        for table in self._single.values():
            table.targets = {PLAIN: Target(1.5), PATH: Target(2)}
        for table in self._flight.values():
            table.targets = {PLAIN: Target(0.5, True), PATH: Target(0.25, True)}
            table.peers = peers
            table.beyond_peers = {PLAIN: Target(1, True), PATH: Target(1, True)}
        for table in self._large.values():
            table.targets = {PLAIN: Target(2)}

    def _open(self, stack: ExitStack, argv: list[str], folder: Path) -> Piped:
        program = Piped(argv, folder=folder.parent, roots=[folder])
        stack.callback(program.end)
        program.begin()
        program.request("tools/list", {})
        return program

    def _join(self, stack: ExitStack, peer: Peer, folder: Path) -> None:
        """Start a peer; one that does not start is shown as such in each table."""
        try:
            with within(PATIENCE):
                peer.require()
                program = self._open(stack, peer.argv(folder.parent, 0), folder)
                peer.await_child(program)
        except (WrongAnswerError, OSError, ValueError) as exc:
            for table in self.tables:
                table.failed[peer.name] = str(exc)[:200]
        else:
            self._calls[peer.name] = peer
            self._rows[peer.name] = program, peer.call(ECHO)

    def round(self) -> None:
        """Measure all once."""
        for apart in PLACES.values():
            for name, (program, params) in self._rows.items():
                place(program.process.pid, apart=apart)
                times = 40 if name in self._calls else 400
                self._single[apart].measure(name, partial(p50, program, params, times, 1e6))
                used, answered = cpu_seconds(program.process.pid), program.answered
                self._flight[apart].measure(name, partial(program.in_flight, params, AT_ONCE, 0.2))
                if apart and program.answered > answered:
                    used = cpu_seconds(program.process.pid) - used
                    self._cpu.add(name, used * 1e6 / (program.answered - answered))
        for name, (program, _) in self._rows.items():
            if name == PATH:
                continue
            for kind, params in LARGE.items():
                peer = self._calls.get(name)
                call = peer.call(params) if peer else params
                self._large[kind].measure(name, partial(p50, program, call, 7, 1e3))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [*self._single.values(), *self._flight.values(), self._cpu, *self._large.values()]


def p50(program: Piped, params: Params, times: int, unit: float) -> float:
    """Return the median of so many calls in parts of a second."""
    return statistics.median(program.one_by_one(params, times)) * unit
