"""The MCP conformance suite of npm, as a program: what it is asked to run, and what it found."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.conftest import PROJECT
from tests.kit.nodes import node

PACKAGES = PROJECT / ".conformance/node_modules"
NEEDED_NODE = (22, 0)
PATIENCE = 300.0
"""Seconds that the suite may take for all that it is asked at once."""
Attempt: TypeAlias = Callable[[], tuple[str, list[str]]]
"""Makes a run; says what it came to in one line, and what is wrong with it."""
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the suite looked at."""

    scenario: str
    id: str
    status: str
    message: str

    @property
    def key(self) -> str:
        return f"{self.scenario}: {self.id}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the suite found; `code` is the exit code with which it judged that itself."""

    code: int
    checks: tuple[Check, ...]
    output: str

    def counted(self, status: str) -> Counter[str]:
        """Return how often each check ended like this."""
        return Counter(check.key for check in self.checks if check.status == status)

    def messages(self, keys: Iterable[str]) -> list[str]:
        """Return what was said of checks that did not succeed."""
        wanted = set(keys)
        return [
            f"{check.status} {check.key}: {check.message}"
            for check in self.checks
            if check.key in wanted and check.status != "SUCCESS"
        ]


def program_of(package: str) -> list[str]:
    """Return the command line that runs a version of the suite."""
    return [node(PACKAGES, NEEDED_NODE), str(PACKAGES / package / "dist/index.js")]


def run(
    package: str,
    arguments: Sequence[str],
    results: Path,
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the suite once; its findings are read from the files that it leaves in `results`."""
    ended = subprocess.run(  # noqa: S603 - the suite
        [*program_of(package), *arguments, "-o", str(results)],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    files = sorted(results.glob("**/checks.json"))
    checks = tuple(check for file in files for check in _checks_in(file))
    return Outcome(ended.returncode, checks, ended.stdout + ended.stderr)


def _checks_in(file: Path) -> list[Check]:
    scenario = _STAMP.sub("", file.parent.name).removeprefix("server-")
    found: list[dict[str, Any]] = json.loads(file.read_text())
    return [
        Check(
            scenario,
            one["id"],
            one["status"],
            str(one.get("errorMessage") or one.get("details", "")),
        )
        for one in found
    ]
