"""How far the hub is from a bare relay: `python -m bench.quick [ROUNDS]`, or `make bench-quick`.

Direct, bare relay and hub take turns, a little of each in every round, with the same child and the
same client. Each is measured twice: with all processes on one CPU, and with what is measured on a
CPU of its own.
"""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack

from bench.figures import machine
from bench.on_http import OnHttp
from bench.on_stdio import OnStdio
from bench.placing import place_us


def main() -> None:
    """Print the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n", flush=True)
    place_us()
    with ExitStack() as stack:
        parts = [OnStdio(stack), OnHttp(stack)]
        for _ in range(rounds):
            for part in parts:
                part.round()
        for part in parts:
            for table in part.tables:
                print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
