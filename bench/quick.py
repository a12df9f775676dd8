"""How far the hub is from a bare relay: `python -m bench.quick [ROUNDS]`, or `make bench-quick`.

Direct, bare relay and hub take turns, a little of each in every round, with the same child and the
same client. Each is measured twice: with all processes on one CPU, and with what is measured on a
CPU of its own.
"""

from __future__ import annotations

import sys

from bench import calls
from bench.figures import machine
from bench.placing import place_us
from bench.programs import exit_on_sigterm, keep_memory


def main() -> None:
    """Print the tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    exit_on_sigterm()
    keep_memory()
    print(machine())
    print(f"Medians of {rounds} rounds; spread: the middle half of the rounds.\n", flush=True)
    place_us()
    for line in calls.lines(rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
