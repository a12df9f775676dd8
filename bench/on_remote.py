"""Calls through programs that serve one client on stdio, of a server behind a URL.

The server is the bare relay over HTTP before the child of all other measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from bench.cases import AT_ONCE, ECHO, Params, folder_in, p50, reading, require_guard
from bench.figures import PATIENCE, Table, measure
from bench.peers import Peer
from bench.piped import Piped, WrongAnswerError, within
from bench.placing import cpu_seconds, place
from bench.programs import (
    CHILD,
    HERE,
    YARD,
    Listening,
    free_port,
    hub_config,
    hub_on_stdio,
)

BRIDGE_ROW = "bare bridge"
Rows = dict[str, tuple[Piped, Params]]


class OnRemote:
    """Small calls; each program has a CPU of its own, server and client have the other one.

    The others than the peers are started anew in each round.
    """

    def __init__(self, stack: ExitStack, peers: Sequence[Peer]) -> None:
        self._folder = folder_in(stack)
        self._port = free_port()
        relay = [YARD, str(HERE / "bare_asgi.py"), "uvloop", str(self._port), *CHILD]
        self._server = Listening(relay, self._port, folder=self._folder.parent)
        stack.callback(self._server.end)
        self._server.ready()
        self._config = hub_config(self._folder.parent, {"child": self._url})
        self._single = Table("server behind a URL, one call", "µs, p50", BRIDGE_ROW)
        self._flight = Table(f"server behind a URL, {AT_ONCE} in flight", "calls/s", BRIDGE_ROW)
        self._cpu = Table(
            f"server behind a URL, {AT_ONCE} in flight, CPU time of the program",
            "µs a call",
            BRIDGE_ROW,
        )
        self._joined: Rows = {}
        for peer in peers:
            self._join(peer, stack)

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def _join(self, peer: Peer, stack: ExitStack) -> None:
        """Start a peer, or note why it does not start."""
        try:
            with within(PATIENCE):
                peer.require()
                program = self._open(peer.argv(self._folder.parent, self._port), stack)
                peer.await_child(program)
        except (WrongAnswerError, OSError, ValueError) as exc:
            self._single.failed[peer.name] = str(exc)[:200]
        else:
            self._joined[peer.name] = program, peer.call(ECHO)

    def _open(self, argv: list[str], stack: ExitStack) -> Piped:
        program = Piped(argv, folder=self._folder.parent, roots=[self._folder])
        stack.callback(program.end)
        program.begin()
        program.request("tools/list", {})
        return program

    def _opened(self, stack: ExitStack) -> Rows:
        bridge = self._open([YARD, str(HERE / "bare_bridge.py"), self._url], stack)
        hub = self._open(hub_on_stdio(self._config), stack)
        hub.request("tools/call", reading(self._folder))
        require_guard(hub)
        return {
            BRIDGE_ROW: (bridge, ECHO),
            "hub, no path": (hub, ECHO),
            "hub, one path": (hub, reading(self._folder)),
            **self._joined,
        }

    def round(self) -> None:
        """Measure all once."""
        place(self._server.process.pid, apart=False)
        with ExitStack() as stack:
            for name, (program, params) in self._opened(stack).items():
                place(program.process.pid, apart=True)
                self._measure(name, program, params)

    def _measure(self, name: str, program: Piped, params: Params) -> None:
        times = 20 if name in self._joined else 200
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
