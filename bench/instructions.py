"""How many instructions a call takes: `python -m bench.instructions`, or `make instructions`.

They are counted, not timed, so they are nearly the same whatever else the machine does: a change
that costs a few hundredths is seen. What the kernel does for a call is not in them, nor what it is
to wait for memory. A played processor is slow, so what the hub does by the clock would count for
too much: it looks at its own files as much more seldom. It needs valgrind.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.cases import AT_ONCE, ECHO, Params, folder_in, reading, require_guard
from bench.piped import Piped, WrongAnswerError
from bench.programs import BARE, CHILD, exit_on_sigterm, hub_config, hub_on_stdio

COUNTED = 2000
"""Calls that are counted one after the other."""
SECONDS = 5.0
"""How long calls in flight are counted."""
WARM = 200
"""Calls before, which are not counted."""
AFTER = 0.5
"""Seconds in which a program does what it puts off, such as to write a log."""
DUMPED = 20.0
"""Seconds that a count may take to be written."""
SLOWER = 50
"""How many times as long a program takes on the played processor."""
_SLOWED = f"""
import runpy
from hub.config import own_files
own_files.EVERY *= {SLOWER}
runpy.run_module("hub", run_name="__main__", alter_sys=True)
"""
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)


def _found(command: str) -> str:
    """Return where a command of valgrind's is.

    Raises: SystemExit if it is nowhere.
    """
    return shutil.which(command) or sys.exit(f"{command} is missing: install valgrind")


class Counting:
    """A program on a processor that valgrind plays, and that counts."""

    def __init__(self, stack: ExitStack, argv: Sequence[str], folder: Path) -> None:
        self._counts = folder_in(stack, "counts")
        tool = [_found("valgrind"), "--tool=callgrind", "--instr-atstart=no", "--trace-children=no"]
        files = [f"--callgrind-out-file={self._counts}/out", f"--log-file={self._counts}/log"]
        self.program = Piped(
            [*tool, *files, *argv],
            folder=folder.parent,
            roots=[folder],
            environment={"PYTHONHASHSEED": "0"},  # so that dictionaries are laid out alike
        )
        stack.callback(self.program.end)
        self.program.begin()
        self.program.request("tools/list", {})

    def of_calls(self, params: Params) -> tuple[float, float]:
        """Return the instructions of a call: with one under way at a time, and with many."""
        program = self.program
        program.one_by_one(params, WARM)
        return (
            self._counted(partial(program.one_by_one, params, COUNTED)),
            self._counted(partial(program.in_flight, params, AT_ONCE, SECONDS)),
        )

    def _counted(self, work: Callable[[], object]) -> float:
        self._control("--instr=on")
        self._control("--zero")
        answered = self.program.answered
        work()
        time.sleep(AFTER)
        return self._total() / (self.program.answered - answered)

    def _control(self, what: str) -> None:
        subprocess.run(
            [_found("callgrind_control"), what, str(self.program.process.pid)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _total(self) -> int:
        """Have the count written, and return it.

        Raises: WrongAnswerError if it is not.
        """
        before = set(self._counts.glob("out.*"))
        self._control("--dump")
        until = time.monotonic() + DUMPED
        while time.monotonic() < until:
            for path in set(self._counts.glob("out.*")) - before:
                if found := _TOTAL.search(path.read_text()):
                    return int(found[1])
            time.sleep(0.1)
        raise WrongAnswerError("valgrind writes no count")


def lines() -> list[str]:
    """Return the table."""
    with ExitStack() as stack:
        folder = folder_in(stack)
        config = hub_config(folder.parent, {"child": CHILD})
        relay = Counting(stack, BARE, folder)
        argv = [sys.executable, "-c", _SLOWED, *hub_on_stdio(config)[1:]]
        hub = Counting(stack, argv, folder)
        hub.program.request("tools/call", reading(folder))
        require_guard(hub.program)
        counts = {
            "bare relay": relay.of_calls(ECHO),
            "hub, no path": hub.of_calls(ECHO),
            "hub, one path": hub.of_calls(reading(folder)),
        }
    single, flight = counts["bare relay"]
    return [
        f"| instructions a call | one by one | × | {AT_ONCE} in flight | × |",
        "|---|---|---|---|---|",
        *(
            f"| {row} | {one:,.0f} | {one / single:.2f} | {many:,.0f} | {many / flight:.2f} |"
            for row, (one, many) in counts.items()
        ),
    ]


def main() -> None:
    """Print the table."""
    exit_on_sigterm()
    print("\n".join(lines()))


if __name__ == "__main__":
    main()
