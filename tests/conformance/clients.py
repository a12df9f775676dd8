"""The suite's client scenarios: the hub as the client of the server that the suite plays."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from tests.conformance.driver import LOGINS, STEPS
from tests.conformance.suites import Attempt, Outcome, program_of, run
from tests.conftest import PROJECT
from tests.live.programs import environment

COMMAND = shlex.join([sys.executable, "-m", "tests.conformance.driver"])

NOT_APPLICABLE: Mapping[str, str] = {
    "auth/2025-03-26-": "servers without protected resource metadata, or PKCE, are refused",
    "auth/client-credentials-": "an extension: the hub logs in for a person",
    "auth/cross-app-access-": "an extension",
    "auth/enterprise-managed-": "an extension",
    "auth/dpop": "an extension",
    "auth/wif-": "an extension",
    "sep-2640-client-": "an extension (skills) that the hub does not have, and passes on unread",
}
"""Why scenarios whose name begins like this are not run."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A version of the suite, and the protocol revision at which it plays the server."""

    package: str
    version: str | None

    def __str__(self) -> str:
        return " ".join(part for part in (self.package, "client", self.version) if part)


REVISIONS = (
    Revision("suite-0.1", None),
    Revision("suite-0.2", "2025-11-25"),
    Revision("suite-0.2", "2026-07-28"),
)
_LISTED = re.compile(r"  - (?P<name>\S+) \[(?P<versions>[^]]*)\]")


def judge(directory: Path) -> Iterator[Attempt]:
    """Yield what runs each scenario."""
    for revision in REVISIONS:
        names = _scenarios(revision)
        yield partial(_known, revision, names)
        for name in names:
            if _is_run(name):
                yield partial(_attempt, revision, name, directory)


def _known(revision: Revision, names: list[str]) -> tuple[str, list[str]]:
    left = [name for name in names if not _is_run(name)]
    unknown = [name for name in left if not name.startswith(tuple(NOT_APPLICABLE))]
    return f"{revision}: {len(left)} of {len(names)} scenarios do not apply", unknown


def _is_run(name: str) -> bool:
    return name in STEPS or (name.startswith(LOGINS) and not name.startswith(tuple(NOT_APPLICABLE)))


def _attempt(revision: Revision, name: str, top: Path) -> tuple[str, list[str]]:
    """Return what a scenario says in one line, and what is wrong with it."""
    found = _run(revision, name, Path(mkdtemp(dir=top)) / "results")
    return _judged(f"{revision} {name}", found)


def _scenarios(revision: Revision) -> list[str]:
    """Return the client scenarios of a revision."""
    shown = subprocess.run(  # noqa: S603 - the suite
        [*program_of(revision.package), "list"], capture_output=True, text=True, check=True
    ).stdout
    part = shown.partition("Client scenarios")[2].partition("\n\n")[0]
    return [
        found["name"]
        for found in _LISTED.finditer(part)
        if revision.version is None or revision.version in found["versions"].split(",")
    ]


def _run(revision: Revision, name: str, results: Path) -> Outcome:
    version = [] if revision.version is None else ["--spec-version", revision.version]
    arguments = ["client", "--command", COMMAND, "--scenario", name, *version]
    env = environment(PYTHONPATH=str(PROJECT), NO_PROXY="*", PATH=os.environ["PATH"])
    return run(revision.package, arguments, results, cwd=results.parent, env=env)


def _judged(what: str, found: Outcome) -> tuple[str, list[str]]:
    passed = sum(found.counted("SUCCESS").values())
    bad = found.counted("FAILURE") + found.counted("WARNING")
    wrong = found.messages(bad)
    if found.code != 0 and not wrong:
        wrong = [f"the suite ended with {found.code}", *found.output.splitlines()[-12:]]
    if not passed and not wrong:
        wrong = ["nothing was checked"]
    return f"{what}: {passed} succeeded", wrong
