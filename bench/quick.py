"""How far the hub is from a bare relay: `python -m bench.quick [ROUNDS]`, or `make bench-quick`.

Direct, bare relay and hub take turns, a little of each in every round, with the same child and the
same client. Each is measured twice: with all processes on one CPU, and with what is measured on a
CPU of its own.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from bench.figures import Part, machine, measure
from bench.on_http import OnHttp
from bench.on_stdio import OnStdio
from bench.placing import place_us
from bench.programs import exit_on_sigterm


def main() -> None:
    """Print the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    exit_on_sigterm()
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n", flush=True)
    place_us()
    with ExitStack() as stack:
        parts: list[Part] = [OnStdio(stack), OnHttp(stack)]
        measure(parts, rounds)
        for part in parts:
            for table in part.tables:
                print("\n".join(table.lines()))


if __name__ == "__main__":
    main()
