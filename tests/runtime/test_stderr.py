from __future__ import annotations

import anyio
import pytest
from structlog.testing import capture_logs

from hub.runtime.stderr import LINES_PER_SECOND, STDERR_LINE_LIMIT, Stderr


async def test_each_line_is_logged_and_the_last_ones_are_kept() -> None:
    said = Stderr("files")
    with capture_logs() as logs:
        said.feed(b"one\ntw")
        said.feed(b"o\n" + b"x" * (STDERR_LINE_LIMIT + 1) + b"\n")
        said.feed(b"")
        said.feed(b"caf\xe9")
        said.finish()
    lines = ["one", "two", "(too long to show)", "caf\N{REPLACEMENT CHARACTER}"]
    assert [entry["line"] for entry in logs] == lines
    assert {entry["server"] for entry in logs} == {"files"}
    assert said.last_words == " | ".join(lines)


async def test_of_a_flood_only_how_much_it_was_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Stderr("files")
    now = 100.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    with capture_logs() as logs:
        for number in range(10):
            said.feed(b"".join(b"%d\n" % line for line in range(number * 100, number * 100 + 100)))
        now += 1
        said.feed(b"again\n")
        said.finish()
    assert [entry["line"] for entry in logs if entry["event"] == "stderr"] == [
        *map(str, range(LINES_PER_SECOND)),
        "again",
    ]
    floods = [entry["lines"] for entry in logs if entry["event"] == "stderr flood, not logged"]
    assert floods == [1000 - LINES_PER_SECOND]
    assert said.last_words == "996 | 997 | 998 | 999 | again"
