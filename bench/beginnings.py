"""How long it takes from the start of a process until a client has its list of tools."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

from bench.cases import folder_in
from bench.figures import Table, Target
from bench.on_stdio import BARE_ROW
from bench.peers import Peer
from bench.piped import Piped, WrongAnswerError
from bench.posting import Session
from bench.programs import BARE, CHILD, HttpProgram, free_port, hub_config, hub_on_stdio
from bench.streaming import StreamSession

HUB, SLOW = "hub", "hub, child that takes 300 ms to start"
SLOW_BARE = "bare relay, child that takes 300 ms to start"
SLOW_CHILD = [*CHILD, "--delay", "0.3"]
SLOWER = {HUB: SLOW, BARE_ROW: SLOW_BARE}
LISTED = 45.0
"""Seconds after which a program that lists no tools counts as failed."""


class Beginnings:
    """The programs, started anew in each round."""

    def __init__(self, stack: ExitStack, peers: Sequence[Peer], http: Sequence[Peer]) -> None:
        # Installed programs have their byte code; the round that is not counted writes it.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self._folder = folder_in(stack)
        slow = folder_in(stack)
        configs = [
            hub_config(self._folder.parent, {"child": CHILD}),
            hub_config(slow.parent, {"child": SLOW_CHILD}),
        ]
        self.table = Table("first tools/list from process start", "ms", BARE_ROW)
        self._starts: dict[str, Callable[[], float]] = {
            "direct": partial(self._on_stdio, CHILD),
            BARE_ROW: partial(self._on_stdio, BARE),
            HUB: partial(self._on_stdio, hub_on_stdio(configs[0])),
            SLOW_BARE: partial(self._on_stdio, [*BARE[: -len(CHILD)], *SLOW_CHILD]),
            SLOW: partial(self._on_stdio, hub_on_stdio(configs[1])),
        }
        for peer in peers:
            self._starts[f"{peer.name}, stdio"] = partial(self._peer_on_stdio, peer)
        for peer in http:
            self._starts[f"{peer.name}, HTTP"] = partial(self._on_http, peer)

    def round(self) -> None:
        """Start all once."""
        for name, start in self._starts.items():
            self.table.measure(name, start)

    def lines(self) -> list[str]:
        """Return the table, and how it compares with what it must be."""
        found = {name: statistics.median(self.table.rows[name]) for name in self.table.rows}
        more = {name: found[slow] - found[name] for name, slow in SLOWER.items()}
        return [
            *self.table.lines(),
            f"First tools/list through the hub: {found[HUB]:.0f} ms, "
            f"{Target(600).verdict(found[HUB])}; with a child that takes 300 ms to start "
            f"{found[SLOW]:.0f} ms, {Target(600).verdict(found[SLOW])}, "
            f"{more[HUB]:.0f} ms more; through the bare relay {more[BARE_ROW]:.0f} ms more.",
            "",
        ]

    def _peer_on_stdio(self, peer: Peer) -> float:
        peer.require()
        return self._on_stdio(peer.argv(self._folder.parent, 0))

    def _on_stdio(self, argv: list[str]) -> float:
        began = time.perf_counter()
        program = Piped(argv, folder=self._folder.parent, roots=[self._folder])
        try:
            program.begin()
            _until_listed(program)
            return (time.perf_counter() - began) * 1e3
        finally:
            program.end()

    def _on_http(self, peer: Peer) -> float:
        peer.require()
        port = free_port()
        began = time.perf_counter()
        server = HttpProgram(peer.argv(self._folder.parent, port), port, folder=self._folder.parent)
        kind = StreamSession if peer.streams else Session
        try:
            server.ready(pause=0.002)
            with closing(kind(server.address, peer.path, roots=[self._folder])) as session:
                session.begin()
                _until_listed(session)
                return (time.perf_counter() - began) * 1e3
        finally:
            server.end()


def _until_listed(client: Piped | Session) -> None:
    """Ask for the tools until there are some: some programs answer before their child does."""
    until = time.monotonic() + LISTED
    while not client.request("tools/list", {})["tools"]:
        if time.monotonic() > until:
            raise WrongAnswerError("lists no tools")
        time.sleep(0.005)
