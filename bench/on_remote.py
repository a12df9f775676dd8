"""Calls through programs that serve one client on stdio, of a server behind a URL.

The server is the bare relay over HTTP before the child of all other measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from bench.cases import AT_ONCE, ECHO, Params, folder_in, p50, reading
from bench.figures import Table, measure
from bench.on_stdio import PATH, PLAIN, Programs, Rows
from bench.peers import Peer
from bench.piped import Piped
from bench.placing import cpu_seconds, place
from bench.programs import CHILD, HERE, YARD, HttpProgram, free_port

BRIDGE_ROW = "bare bridge"


class OnRemote:
    """Small calls; each program has a CPU of its own, server and client have the other one.

    The others than the peers are started anew in each round.
    """

    def __init__(self, stack: ExitStack, peers: Sequence[Peer]) -> None:
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/mcp"
        relay = [YARD, str(HERE / "bare_asgi.py"), "uvloop", str(port), *CHILD]
        self._server = HttpProgram(relay, port, folder=folder_in(stack).parent)
        stack.callback(self._server.end)
        self._server.ready()
        self._programs = Programs(stack, peers, self._url, port)
        self._single = Table("server behind a URL, one call", "µs, p50", BRIDGE_ROW)
        self._flight = Table(f"server behind a URL, {AT_ONCE} in flight", "calls/s", BRIDGE_ROW)
        self._cpu = Table(
            f"server behind a URL, {AT_ONCE} in flight, CPU time of the program",
            "µs a call",
            BRIDGE_ROW,
        )
        for table in self.tables:
            table.failed |= self._programs.failed

    def _opened(self, stack: ExitStack) -> Rows:
        """Start all but the peers anew."""
        programs = self._programs
        bridge = programs.open([YARD, str(HERE / "bare_bridge.py"), self._url], stack)
        hub = programs.hub(stack)
        return {
            BRIDGE_ROW: (bridge, ECHO),
            PLAIN: (hub, ECHO),
            PATH: (hub, reading(programs.folder)),
            **programs.of_peers(ECHO),
        }

    def round(self) -> None:
        """Measure all once."""
        place(self._server.process.pid, apart=False)
        with ExitStack() as stack:
            for name, (program, params) in self._opened(stack).items():
                place(program.process.pid, apart=True)
                self._measure(name, program, params)

    def _measure(self, name: str, program: Piped, params: Params) -> None:
        times = 20 if name in self._programs.peers else 200
        self._single.measure(name, partial(p50, program, params, times, 1e6))
        used, answered = cpu_seconds(program.process.pid), program.answered
        self._flight.measure(name, partial(program.in_flight, params, AT_ONCE, 0.3))
        if program.answered > answered:
            used = cpu_seconds(program.process.pid) - used
            self._cpu.add(name, used * 1e6 / (program.answered - answered))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [self._single, self._flight, self._cpu]


def lines(rounds: int, peers: Sequence[Peer]) -> Iterator[str]:
    """Give the tables."""
    with ExitStack() as stack:
        part = OnRemote(stack, peers)
        measure([part], rounds)
        for table in part.tables:
            yield from table.lines()
