"""Calls through programs that serve many clients over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import (
    ECHO,
    PLACES,
    SESSIONS,
    Calls,
    Params,
    folder_in,
    p50,
    reading,
    require_guard,
)
from bench.figures import PATIENCE, Table, Target
from bench.flood import Flood
from bench.on_stdio import BARE_ROW
from bench.peers import Peer
from bench.piped import WrongAnswerError, within
from bench.placing import cpu_seconds, place
from bench.posting import Session
from bench.programs import CHILD, HERE, YARD, HttpProgram, free_port, hub_config, hub_on_http
from bench.streaming import StreamSession

ASKED = "hub, modern that is asked for roots, one path"
ERAS = ("legacy", "modern")
LOOPS = {BARE_ROW: "asyncio", "bare relay on uvloop": "uvloop"}
Row = tuple[HttpProgram, list[Session], Params]
Rows = dict[str, Row]


class Servers:
    """Servers with `many` clients for each row, for as long as `stack`."""

    def __init__(self, stack: ExitStack, folder: Path, many: int) -> None:
        self._stack, self._folder, self._many = stack, folder, many

    def open(self, argv: Callable[[int], list[str]]) -> HttpProgram:
        """Start a server, whose command `argv` returns for a port."""
        port = free_port()
        server = HttpProgram(argv(port), port, folder=self._folder.parent)
        self._stack.callback(server.end)
        server.ready()
        return server

    def clients(self, make: Callable[[], Session]) -> list[Session]:
        """Return new clients, all of which have begun."""
        return [self._begun(make()) for _ in range(self._many)]

    def _begun(self, session: Session) -> Session:
        self._stack.callback(session.close)
        session.begin()
        return session


class Ours(Servers):
    """The relays and the hub."""

    def __init__(self, stack: ExitStack, folder: Path, many: int) -> None:
        super().__init__(stack, folder, many)
        config = hub_config(folder.parent, {"child": CHILD})
        self._bare = {row: self.open(partial(_bare, loop)) for row, loop in LOOPS.items()}
        self._legacy = self.open(partial(hub_on_http, config))
        self._operator = self.open(lambda port: hub_on_http(config, port, folder))

    def row(
        self, server: HttpProgram, params: Params, *, modern: bool = False, roots: bool = True
    ) -> Row:
        """Return a call of many new clients, each of which has made it once."""
        shared = [self._folder] if roots else None
        make = partial(Session, server.address, "/mcp", modern=modern, roots=shared)
        sessions = self.clients(make)
        for session in sessions:
            session.request("tools/call", params)
        return server, sessions, params

    def relays(self, params: Params) -> Rows:
        """Return a call through the relays."""
        return {row: self.row(server, params) for row, server in self._bare.items()}

    def hubs(self, kind: str, params: Params) -> Rows:
        """Return a call of clients of both eras; the modern ones know no roots."""
        rows = {
            f"hub, legacy, {kind}": self.row(self._legacy, params),
            f"hub, modern, {kind}": self.row(self._operator, params, modern=True, roots=False),
        }
        for _, sessions, _ in rows.values():
            require_guard(sessions[0])
        return rows

    def asked(self, params: Params) -> Row:
        """Return a call of modern clients that are asked for their roots."""
        row = self.row(self._legacy, params, modern=True)
        require_guard(row[1][0])
        return row


class Programs:
    """All that are compared, started for one kind of calls alone; `many` clients in each row."""

    def __init__(self, stack: ExitStack, peers: Sequence[Peer], many: int) -> None:
        self._stack, self._many = stack, many
        self.folder = folder_in(stack)
        self.peers = {peer.name: peer for peer in peers}
        self.failed: dict[str, str] = {}
        self._joined: dict[str, tuple[HttpProgram, list[Session]]] = {}
        for peer in peers:
            self._join(peer, Servers(stack, self.folder, many))

    def ours(self, stack: ExitStack) -> Ours:
        """Start the relays and the hub for as long as `stack`."""
        return Ours(stack, self.folder, self._many)

    def _join(self, peer: Peer, servers: Servers) -> None:
        """Start a peer, or note why it does not start."""
        kind = StreamSession if peer.streams else Session
        try:
            with within(PATIENCE):
                peer.require()
                server = servers.open(partial(peer.argv, self.folder.parent))
                make = partial(kind, server.address, peer.path, roots=[self.folder])
                sessions = servers.clients(make)
                peer.await_child(sessions[0])
        except (WrongAnswerError, OSError, ValueError) as exc:
            self.failed[peer.name] = str(exc)[:200]
        else:
            self._joined[peer.name] = server, sessions

    def of_peers(self, params: Params) -> Rows:
        """Return a call as each peer wants it."""
        return {
            row: (server, sessions, self.peers[row].call(params))
            for row, (server, sessions) in self._joined.items()
        }

    def calls(self, params: Params) -> Calls:
        """Return a call that names no path through each of them."""
        ours = self.ours(self._stack)
        rows = {**ours.relays(params), **ours.hubs("no path", params), **self.of_peers(params)}
        return {
            row: (server.process.pid, sessions[0], call)
            for row, (server, sessions, call) in rows.items()
        }


class OnHttp:
    """What is measured of small calls: in each round of processes of its own, but for the peers."""

    def __init__(self, programs: Programs) -> None:
        self._flood = {
            apart: Table(f"HTTP, {SESSIONS} sessions, {place}", "calls/s", BARE_ROW)
            for place, apart in PLACES.items()
        }
        self._single = {
            apart: Table(f"HTTP, one call, {place}", "µs, p50", BARE_ROW, digits=1)
            for place, apart in PLACES.items()
        }
        self._cpu = Table(
            f"HTTP, {SESSIONS} sessions, CPU time of the program", "µs a call", BARE_ROW, 1
        )
        self._peers = list(programs.peers)
        self._set_targets()
        for table in self.tables:
            table.failed |= programs.failed
        self._programs = programs

    def _opened(self, stack: ExitStack) -> Rows:
        """Start all but the peers anew."""
        ours, path = self._programs.ours(stack), reading(self._programs.folder)
        return {
            **ours.relays(ECHO),
            **ours.hubs("no path", ECHO),
            **ours.hubs("one path", path),
            ASKED: ours.asked(path),
            **self._programs.of_peers(ECHO),
        }

    def _set_targets(self) -> None:
        for table in self._flood.values():
            table.peers = self._peers
            for era in ERAS:
                table.targets[f"hub, {era}, no path"] = Target(0.5, True)
                table.targets[f"hub, {era}, one path"] = Target(0.33, True)
                table.beyond_peers[f"hub, {era}, no path"] = Target(3, True)
                table.beyond_peers[f"hub, {era}, one path"] = Target(2, True)

    def round(self) -> None:
        """Measure all once."""
        with ExitStack() as stack:
            rows = self._opened(stack)
            for apart in PLACES.values():
                for name, row in rows.items():
                    place(row[0].process.pid, apart=apart)
                    self._measure(name, *row, apart=apart)

    def _measure(
        self,
        name: str,
        server: HttpProgram,
        sessions: list[Session],
        params: Params,
        *,
        apart: bool,
    ) -> None:
        used = cpu_seconds(server.process.pid)
        flood = Flood(sessions)
        seconds, times = (0.4, 30) if name in self._peers else (0.2, 100)
        self._flood[apart].measure(name, partial(flood.run, params, seconds))
        if apart and flood.answered:
            used = cpu_seconds(server.process.pid) - used
            self._cpu.add(name, used * 1e6 / flood.answered)
        self._single[apart].measure(name, partial(p50, sessions[0], params, times, 1e6))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [*self._flood.values(), self._cpu, *self._single.values()]


def _bare(loop: str, port: int) -> list[str]:
    return [YARD, str(HERE / "bare_asgi.py"), loop, str(port), *CHILD]
