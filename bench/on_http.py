"""Calls through programs that serve many clients over HTTP."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import ECHO, LARGE, PLACES, SESSIONS, Params, folder_in, reading, require_guard
from bench.figures import PATIENCE, Table, Target
from bench.flood import Flood
from bench.on_stdio import BARE_ROW
from bench.peers import Peer
from bench.piped import WrongAnswerError, within
from bench.placing import cpu_seconds, place
from bench.posting import Session
from bench.programs import CHILD, HERE, YARD, Listening, free_port, hub_config, hub_on_http
from bench.streaming import StreamSession

ASKED = "hub, modern that is asked for roots, one path"
ERAS = ("legacy", "modern")


class OnHttp:
    """The programs, and what is measured of them."""

    def __init__(self, stack: ExitStack, peers: Sequence[Peer] = ()) -> None:
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
        self._large = {
            kind: Table(f"HTTP, 1 MiB {kind}", "ms, p50", BARE_ROW, digits=2) for kind in LARGE
        }
        self._set_targets([peer.name for peer in peers])
        self._rows: dict[str, tuple[Listening, list[Session], Params]] = {}
        self._peers: dict[str, Peer] = {}
        folder = folder_in(stack)
        self._start(stack, folder)
        for peer in peers:
            self._join(stack, peer, folder)
        for _, sessions, _ in self._rows.values():
            for session in sessions:
                stack.callback(session.close)

    def _set_targets(self, peers: list[str]) -> None:
        for table in self._large.values():
            table.targets = {f"hub, {era}, no path": Target(2) for era in ERAS}
        for table in self._flood.values():
            table.peers = peers
            for era in ERAS:
                table.targets[f"hub, {era}, no path"] = Target(0.5, True)
                table.targets[f"hub, {era}, one path"] = Target(0.33, True)
                table.beyond_peers[f"hub, {era}, no path"] = Target(3, True)
                table.beyond_peers[f"hub, {era}, one path"] = Target(2, True)

    def _start(self, stack: ExitStack, folder: Path) -> None:
        config = hub_config(folder.parent, {"child": CHILD})
        ports = [free_port() for _ in range(4)]
        bare = self._open(stack, folder, ports[0], _bare("asyncio", ports[0]))
        faster = self._open(stack, folder, ports[3], _bare("uvloop", ports[3]))
        legacy = self._open(stack, folder, ports[1], hub_on_http(config, ports[1]))
        operator = self._open(stack, folder, ports[2], hub_on_http(config, ports[2], folder))

        def row(name: str, server: Listening, params: Params, modern: bool, knows: bool) -> None:
            roots = [folder] if knows else None
            sessions = [
                Session(server.address, "/mcp", modern=modern, roots=roots) for _ in range(SESSIONS)
            ]
            self._greet(sessions, params)
            if name.startswith("hub"):
                require_guard(sessions[0])
            self._rows[name] = server, sessions, params

        row(BARE_ROW, bare, ECHO, modern=False, knows=True)
        row("bare relay on uvloop", faster, ECHO, modern=False, knows=True)
        for kind, params in {"no path": ECHO, "one path": reading(folder)}.items():
            row(f"hub, legacy, {kind}", legacy, params, modern=False, knows=True)
            row(f"hub, modern, {kind}", operator, params, modern=True, knows=False)
        row(ASKED, legacy, reading(folder), modern=True, knows=True)

    def _greet(self, sessions: Sequence[Session], params: Params) -> None:
        for session in sessions:
            session.begin()
            session.request("tools/call", params)

    def _open(self, stack: ExitStack, folder: Path, port: int, argv: list[str]) -> Listening:
        server = Listening(argv, port, folder=folder.parent)
        stack.callback(server.end)
        server.ready()
        return server

    def _join(self, stack: ExitStack, peer: Peer, folder: Path) -> None:
        """Start a peer; one that does not start is shown as such in each table."""
        port = free_port()
        kind = StreamSession if peer.streams else Session
        try:
            with within(PATIENCE):
                peer.require()
                server = self._open(stack, folder, port, peer.argv(folder.parent, port))
                sessions: list[Session] = [
                    kind(server.address, peer.path, roots=[folder]) for _ in range(SESSIONS)
                ]
                for session in sessions:
                    session.begin()
                peer.await_child(sessions[0])
        except (WrongAnswerError, OSError, ValueError) as exc:
            for table in self.tables:
                table.failed[peer.name] = str(exc)[:200]
        else:
            self._peers[peer.name] = peer
            self._rows[peer.name] = server, sessions, peer.call(ECHO)

    def round(self) -> None:
        """Measure all once."""
        for apart in PLACES.values():
            for name, (server, sessions, params) in self._rows.items():
                place(server.process.pid, apart=apart)
                used = cpu_seconds(server.process.pid)
                flood = Flood(sessions)
                seconds, times = (0.4, 30) if name in self._peers else (0.2, 100)
                self._flood[apart].measure(name, partial(flood.run, params, seconds))
                if apart and flood.answered:
                    used = cpu_seconds(server.process.pid) - used
                    self._cpu.add(name, used * 1e6 / flood.answered)
                self._single[apart].measure(name, partial(p50, sessions[0], params, times, 1e6))
        for name, (_, sessions, _) in self._rows.items():
            if name == ASKED or "one path" in name:
                continue
            for kind, params in LARGE.items():
                peer = self._peers.get(name)
                call = peer.call(params) if peer else params
                self._large[kind].measure(name, partial(p50, sessions[0], call, 5, 1e3))

    @property
    def tables(self) -> list[Table]:
        """What was measured."""
        return [*self._flood.values(), self._cpu, *self._single.values(), *self._large.values()]


def _bare(loop: str, port: int) -> list[str]:
    return [YARD, str(HERE / "bare_asgi.py"), loop, str(port), *CHILD]


def p50(session: Session, params: Params, times: int, unit: float) -> float:
    """Return the median of so many calls in parts of a second."""
    return statistics.median(session.one_by_one(params, times)) * unit
