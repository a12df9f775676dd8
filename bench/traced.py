"""How many functions and files of the hub a call runs through: `python -m bench.traced`.

What runs in the hub for one call is what someone has to read who wants to know how a call goes.
Functions of the hub's alone are counted, each once, whichever thread runs them; a comprehension is
a part of its function. What runs while nobody calls anything, such as the look at the config, is no
part of a call.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.cases import ECHO, folder_in, reading, require_guard
from bench.figures import machine
from bench.piped import Piped
from bench.programs import CHILD, exit_on_sigterm, hub_config, hub_on_stdio

PACKAGE = f"{os.sep}hub{os.sep}"
SETTLED = 0.3
"""Seconds in which the hub does what it puts off."""
IDLE = 3.0
"""Seconds in which all runs that the hub does of its own accord."""


class Traced:
    """A hub with one client on stdio, that says which functions ran."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        asked, told = (folder.parent / name for name in ("asked", "told"))
        for pipe in (asked, told):
            os.mkfifo(pipe)
        config = hub_config(folder.parent, {"child": CHILD})
        traced = str(Path(__file__).with_name("traced_hub.py"))
        argv = [sys.executable, traced, str(asked), str(told), *hub_on_stdio(config)[1:]]
        self._program = Piped(argv, folder=folder.parent, roots=[folder])
        stack.callback(self._program.end)
        self._asked = stack.enter_context(asked.open("w", encoding="utf-8"))
        self._told = stack.enter_context(told.open(encoding="utf-8"))
        self._program.begin()
        self._idle: set[tuple[str, str]] = set()

    def rest(self) -> None:
        """Note what runs while nobody calls anything."""
        self._functions()
        time.sleep(IDLE)
        self._idle = self._functions()

    def of(self, work: Callable[[Piped], object]) -> tuple[int, int]:
        """Return how many functions and files ran while `work` was done."""
        self._functions()
        work(self._program)
        ran = self._functions() - self._idle
        return len(ran), len({path for path, _ in ran})

    def _functions(self) -> set[tuple[str, str]]:
        """Return the functions that ran since the last time, each with its file."""
        time.sleep(SETTLED)
        self._asked.write("?\n")
        self._asked.flush()
        lines = [line.split("\t") for line in iter(self._told.readline, ".\n") if PACKAGE in line]
        return {(path, name) for path, name, _ in lines if not name.endswith(">")}


def lines() -> list[str]:
    """Return the table."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        hub, call = Traced(stack, folder), reading(folder)

        def listed(program: Piped) -> None:
            program.request("tools/list", {})

        def called(program: Piped) -> None:
            program.request("tools/call", call)

        rows: dict[str, Callable[[Piped], object]] = {
            "first tools/list: the roots are asked for, the child is started": listed,
            "first call": called,
            "the same call again": called,
            "first call of another tool": lambda program: program.request("tools/call", ECHO),
            "a call that is refused": require_guard,
        }
        shown: list[str] = []
        for row, work in rows.items():
            shown.append(f"| {row} | {' | '.join(map(str, hub.of(work)))} |")
            if work is listed:  # from here on its child runs
                hub.rest()
        return ["| stdio, legacy | functions | files |", "|---|---|---|", *shown]


def main() -> None:
    """Print the table."""
    exit_on_sigterm()
    print(machine())
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
