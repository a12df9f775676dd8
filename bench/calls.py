"""Calls on stdio and over HTTP: small ones, then large ones through programs of their own.

What a process has passed on can change what it costs from then on, so no process has both kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bench import on_http, on_stdio
from bench.cases import SESSIONS
from bench.figures import Part, measure
from bench.large import Large
from bench.peers import Peer

Peers = Sequence[Peer]


def small(stack: ExitStack, stdio: Peers, http: Peers) -> list[Part]:
    """Start what calls of some bytes are measured of."""
    return [
        on_stdio.OnStdio(on_stdio.Programs(stack, stdio)),
        on_http.OnHttp(on_http.Programs(stack, http, SESSIONS)),
    ]


def large(stack: ExitStack, stdio: Peers, http: Peers) -> list[Part]:
    """Start what calls of 1 MiB are measured of."""
    return [
        Large("stdio", on_stdio.Programs(stack, stdio)),
        Large("HTTP", on_http.Programs(stack, http, 1)),
    ]


def lines(rounds: int, stdio: Peers = (), http: Peers = ()) -> Iterator[str]:
    """Give the tables of both kinds, those of the one before the other begins."""
    for kind in (small, large):
        with ExitStack() as stack:
            parts = kind(stack, stdio, http)
            measure(parts, rounds)
            for part in parts:
                for table in part.tables:
                    yield from table.lines()
