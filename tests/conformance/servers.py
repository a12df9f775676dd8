"""The suite's server scenarios: the hub before one everything server, and that server alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from tests.conformance.suites import Attempt, Outcome, run
from tests.live.programs import config_file, http_hub, program

EVERYTHING = str(Path(__file__).parent.parent / "live/everything_server.py")
POLL_AFTER = 1.0
"""Below what the everything server's longest call takes, above what the others take."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One run of the suite, and how many checks have to succeed.

    `era` is the one that the hub speaks to the server, which knows both: it asks a client for input
    in another way in each.
    """

    package: str
    arguments: tuple[str, ...]
    least: int
    era: str

    def __str__(self) -> str:
        return " ".join((self.package, *self.arguments))


SUITES = (
    Suite("suite-0.1", ("--suite", "all"), 44, "legacy"),
    Suite("suite-0.2", ("--requirements", "2025-11-25"), 84, "legacy"),
    Suite("suite-0.2", ("--requirements", "2026-07-28"), 136, "modern"),
)


def judge(directory: Path) -> Iterator[Attempt]:
    """Yield what makes each run."""
    for suite in SUITES:
        yield partial(_attempt, suite, directory)


def _attempt(suite: Suite, top: Path) -> tuple[str, list[str]]:
    """Return what a run says in one line, and what is wrong with it."""
    directory = Path(mkdtemp(dir=top))
    # The everything server keeps nothing between calls. Without this word each session starts it
    # anew, and a client that has roots is asked for them before any call; the suite's answers not.
    keeps_nothing = {"share": "roots"}
    server = {"command": sys.executable, "args": [EVERYTHING], "era": suite.era, **keeps_nothing}
    config = config_file(directory, {"everything": server}, listen={"poll_after": POLL_AFTER})
    with (
        program([sys.executable, EVERYTHING, "http"], cwd=directory) as alone,
        http_hub("--config", config, cwd=directory) as hub,
    ):
        bare = _run(suite, alone.first_line("serves "), directory / "alone")
        return _judged(suite, bare, _run(suite, hub, directory / "hub"))


def _run(suite: Suite, url: str, results: Path) -> Outcome:
    arguments = ["server", "--url", url, *suite.arguments]
    return run(suite.package, arguments, results, cwd=results.parent)


def _judged(suite: Suite, alone: Outcome, hub: Outcome) -> tuple[str, list[str]]:
    """Compare: what succeeds without the hub must succeed with it, and nothing else may be new."""
    passed = sum(hub.counted("SUCCESS").values())
    wrong = [] if hub.code == 0 else [f"the suite ended with {hub.code}"]
    if passed < suite.least:
        wrong.append(f"{passed} checks succeeded, {suite.least} have to")
    missing = alone.counted("SUCCESS") - hub.counted("SUCCESS")
    more = (hub.counted("WARNING") - alone.counted("WARNING")) | (
        hub.counted("FAILURE") - alone.counted("FAILURE")
    )
    new = {*missing, *more}
    told = hub.messages(new)
    wrong += told + [f"missing: {key}" for key in new if not any(key in one for one in told)]
    failed = sum(hub.counted("FAILURE").values())
    line = f"{suite}: {passed} succeeded, {failed} failed; the server alone: "
    own = alone.counted("SUCCESS"), alone.counted("FAILURE")
    return line + "{} and {}".format(*(sum(one.values()) for one in own)), wrong
