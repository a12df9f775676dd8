"""The hub beside a bare relay and other programs: `python -m bench.full [ROUNDS]`, or `make bench`.

All take turns, a little of each in every round, before the same child and with the same client.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from bench import calls, guard, holdings, kinds, on_remote, peers, with_sdk
from bench.beginnings import Beginnings
from bench.figures import machine
from bench.placing import place_anywhere, place_us
from bench.programs import exit_on_sigterm, keep_memory

STARTS = 5
"""Rounds of starts at most: some programs take ten seconds."""


def beginnings(rounds: int) -> Iterator[str]:
    """Give the table of what passes until there is a list of tools."""
    with ExitStack() as stack:
        part = Beginnings(stack, peers.STDIO, peers.HTTP)
        part.round()  # what it writes and reads first is not counted
        part.table.rows.clear()
        for _ in range(rounds):
            part.round()
        yield from part.lines()


def others(stack: ExitStack) -> list[str]:
    """Give the lines on the memory of the other programs."""
    return holdings.of_others(stack, peers.STDIO, peers.HTTP)


def held() -> Iterator[str]:
    """Give the lines on listings and memory."""
    for part in (holdings.listings, others, holdings.sessions):
        with ExitStack() as stack:
            for line in part(stack):
                yield f"- {line}"
    yield ""


def main() -> None:
    """Print all tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    exit_on_sigterm()
    keep_memory()
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n")
    began = time.monotonic()
    place_us()
    for part in (
        calls.lines(rounds, peers.STDIO, peers.HTTP),
        kinds.lines(rounds),
        on_remote.lines(rounds, peers.REMOTE),
        with_sdk.lines(rounds),
    ):
        for line in part:
            print(line, flush=True)
    place_anywhere()
    for part in (beginnings(min(rounds, STARTS)), held(), guard.lines()):
        for line in part:
            print(line, flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
