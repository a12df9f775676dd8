"""Runs property tests on new examples again and again: python -m tests.fuzz [SECONDS].

A round is one property in a run of pytest of its own, with hypothesis' `deep` profile and another
seed, so that what it finds can be found again. Ends with the first failure, or when the time is
over: the round of that moment is cut short.
"""

from __future__ import annotations

import itertools
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

PROJECT = Path(__file__).parent.parent
MODULES = (
    "tests/guard/test_guard_against_the_kernel.py",
    *("tests/guard/test_decide.py", "tests/paths/test_resolve.py", "tests/paths/test_file_uris.py"),
    *("tests/guard/test_plain_paths.py", "tests/flow/test_cached_route_verdicts.py"),
    *("tests/config/reload/test_never_looser.py", "tests/config/test_editing.py"),
)
DEFAULT_SECONDS = 600
_NODE = re.compile(r"^tests/.*::.*$", re.MULTILINE)
_EXAMPLES = re.compile(r"(\d+) passing,")


class Pytest(Protocol):
    """Runs pytest, for at most so many seconds."""

    def __call__(
        self, *arguments: str, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]: ...


def run_pytest(*arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest on property tests."""
    command = (sys.executable, "-m", "pytest", "-m", "hypothesis", "-p", "no:cacheprovider")
    return subprocess.run(  # noqa: S603 - our own command
        (*command, *arguments),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def main(seconds: float, pytest: Pytest = run_pytest) -> int:
    """Fuzz for so long; returns 1 if something was found, or nothing tried."""
    began = time.monotonic()
    found = _NODE.findall(pytest("--collect-only", "-q", *MODULES).stdout)
    rounds = examples = 0
    for node in itertools.cycle(found):
        seed = secrets.randbelow(2**32)
        left = began + seconds - time.monotonic()
        try:
            done = pytest(
                *("-ofaulthandler_timeout=0", "--hypothesis-profile=deep"),
                f"--hypothesis-seed={seed}",
                *("--hypothesis-show-statistics", node),
                seconds=max(0.0, left),
            )
        except subprocess.TimeoutExpired:
            break
        if done.returncode:
            say(f"{done.stdout}{done.stderr}\nfuzz: FAILED: {node} --hypothesis-seed={seed}")
            return 1
        rounds += 1
        examples += sum(map(int, _EXAMPLES.findall(done.stdout)))
        say(f"fuzz: {node} seed {seed}: fine; {examples} examples so far")
    if not rounds:
        say(f"fuzz: nothing tried: no round was over within {seconds:g} s; give it more")
        return 1
    spent = time.monotonic() - began
    say(f"fuzz: clean after {spent:.0f} s: {examples} examples in {rounds} whole rounds")
    return 0


def say(text: str) -> None:
    """Show a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SECONDS))
