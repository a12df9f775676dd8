"""Calls through programs that serve one client on stdio."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from bench.cases import (
    AT_ONCE,
    ECHO,
    PLACES,
    Calls,
    Params,
    folder_in,
    p50,
    pass_large,
    reading,
    require_guard,
)
from bench.figures import PATIENCE, Table, Target
from bench.peers import Peer, by_call_tool
from bench.piped import Piped, WrongAnswerError, within
from bench.placing import cpu_seconds, place
from bench.programs import BARE, BATCHED, CHILD, STREAMS, hub_config, hub_on_stdio

BARE_ROW, BATCHED_ROW = "bare relay", "bare relay, batched"
FRESH_ROW = "bare relay, fresh"
"""It asks the kernel for what it reads into, until larger messages have it on its heap."""
STREAMS_ROW = "bare relay on streams"
PLAIN, PATH = "hub, no path", "hub, one path"
FOUND = "hub, one path, tool found by search"
"""Its config says `expose: search`, so that it is called as mcp-hub-mcp is."""
RELAYS = {"direct": CHILD, BARE_ROW: BARE, BATCHED_ROW: BATCHED}
Rows = dict[str, tuple[Piped, Params]]


class Programs:
    """All that are compared, started for one kind of calls alone.

    They stand before `server`: a command, or a URL of this machine, whose `port` peers are told.
    """

    def __init__(
        self,
        stack: ExitStack,
        peers: Sequence[Peer],
        server: Sequence[str] = CHILD,
        port: int = 0,
    ) -> None:
        self._stack = stack
        self._server = server
        self._port = port
        self.folder = folder_in(stack)
        self._config = hub_config(self.folder.parent, {"child": server})
        self.peers = {peer.name: peer for peer in peers}
        self.failed: dict[str, str] = {}
        self._joined: dict[str, Piped] = {}
        for peer in peers:
            self._join(peer)

    def open(self, argv: list[str], stack: ExitStack) -> Piped:
        """Start a program for as long as `stack`, and have it start its child."""
        program = Piped(argv, folder=self.folder.parent, roots=[self.folder])
        stack.callback(program.end)
        program.begin()
        program.request("tools/list", {})
        return program

    def hub(self, stack: ExitStack) -> Piped:
        """Start a hub for as long as `stack`."""
        hub = self.open(hub_on_stdio(self._config), stack)
        hub.request("tools/call", reading(self.folder))
        require_guard(hub)
        return hub

    def searched_hub(self, stack: ExitStack) -> Piped:
        """Start a hub whose tools are found by search for as long as `stack`."""
        folder = folder_in(stack).parent
        config = hub_config(folder, {"child": self._server}, expose="search")
        hub = self.open(hub_on_stdio(config), stack)
        hub.request("tools/call", by_call_tool(reading(self.folder)))
        return hub

    def _join(self, peer: Peer) -> None:
        """Start a peer, or note why it does not start."""
        try:
            with within(PATIENCE):
                peer.require()
                program = self.open(peer.argv(self.folder.parent, self._port), self._stack)
                peer.await_child(program)
        except (WrongAnswerError, OSError, ValueError) as exc:
            self.failed[peer.name] = str(exc)[:200]
        else:
            self._joined[peer.name] = program

    def of_peers(self, params: Params) -> Rows:
        """Return a call as each peer wants it."""
        return {row: (one, self.peers[row].call(params)) for row, one in self._joined.items()}

    def calls(self, params: Params) -> Calls:
        """Return a call that names no path through each of them."""
        ours = {row: self.open(argv, self._stack) for row, argv in RELAYS.items()}
        ours[PLAIN] = self.hub(self._stack)
        rows = {**{row: (one, params) for row, one in ours.items()}, **self.of_peers(params)}
        return {row: (one.process.pid, one, call) for row, (one, call) in rows.items()}


class OnStdio:
    """What is measured of small calls: in each round of processes of its own, but for the peers."""

    def __init__(self, programs: Programs) -> None:
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
        self._peers = list(programs.peers)
        self._set_targets()
        for table in self.tables:
            table.failed |= programs.failed
        self._programs = programs

    def _opened(self, stack: ExitStack) -> Rows:
        """Start all but the peers anew."""
        programs = self._programs
        commands = {**RELAYS, STREAMS_ROW: STREAMS, FRESH_ROW: BARE}
        relays = {row: programs.open(argv, stack) for row, argv in commands.items()}
        for row in (BARE_ROW, BATCHED_ROW, STREAMS_ROW):
            pass_large(relays[row])
        hub, path = programs.hub(stack), reading(programs.folder)
        return {
            **{row: (relay, ECHO) for row, relay in relays.items()},
            PLAIN: (hub, ECHO),
            PATH: (hub, path),
            FOUND: (programs.searched_hub(stack), by_call_tool(path)),
            **programs.of_peers(ECHO),
        }

    def _set_targets(self) -> None:
        for table in self._single.values():
            table.targets = {PLAIN: Target(1.5), PATH: Target(2)}
        for table in self._flight.values():
            table.targets = {PLAIN: Target(0.5, True), PATH: Target(0.25, True)}
            table.peers = self._peers
            table.beyond_peers = {PLAIN: Target(1, True), PATH: Target(1, True)}

    def round(self) -> None:
        """Measure all once."""
        with ExitStack() as stack:
            rows = self._opened(stack)
            for apart in PLACES.values():
                for name, (program, params) in rows.items():
                    place(program.process.pid, apart=apart)
                    self._measure(name, program, params, apart=apart)

    def _measure(self, name: str, program: Piped, params: Params, *, apart: bool) -> None:
        times = 40 if name in self._peers else 400
        self._single[apart].measure(name, partial(p50, program, params, times, 1e6))
        used, answered = cpu_seconds(program.process.pid), program.answered
        self._flight[apart].measure(name, partial(program.in_flight, params, AT_ONCE, 0.2))
        if apart and program.answered > answered:
            used = cpu_seconds(program.process.pid) - used
            self._cpu.add(name, used * 1e6 / (program.answered - answered))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [*self._single.values(), *self._flight.values(), self._cpu]
