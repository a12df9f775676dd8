from __future__ import annotations

from structlog.testing import capture_logs

from hub.children.process.process import STDERR_LINE_LIMIT, Stderr
from hub.jsonrpc.loop_share import LoopShare
from hub.jsonrpc.rated_log import BESIDE, LINES, ChildLog


def test_each_line_is_logged_and_the_last_ones_are_kept() -> None:
    said = Stderr(ChildLog("files"), LoopShare(lambda: 0.0))
    with capture_logs() as logs:
        said.data_received(b"one\ntw")
        said.data_received(b"o\n" + b"x" * (STDERR_LINE_LIMIT + 1) + b"\n")
        said.data_received(b"")
        said.data_received(b"caf\xe9")
        said.connection_lost(None)
    lines = ["one", "two", "(too long to show)", "caf\N{REPLACEMENT CHARACTER}"]
    assert [entry["line"] for entry in logs] == lines
    assert {entry["server"] for entry in logs} == {"files"}
    assert said.last_words == " | ".join(lines)


def test_of_a_flood_only_how_much_it_was_is_logged() -> None:
    said = Stderr(ChildLog("files", lambda: 100.0), LoopShare(lambda: 0.0))
    with capture_logs() as logs:
        for number in range(10):
            said.data_received(
                b"".join(b"%d\n" % line for line in range(number * 100, number * 100 + 100))
            )
        said.connection_lost(None)
    lines = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert lines == [*map(str, range(LINES))]
    assert [entry["lines"] for entry in logs if "bytes" in entry] == [1000 - LINES]
    assert said.last_words == "995 | 996 | 997 | 998 | 999"


def test_of_many_lines_at_once_the_first_are_logged_and_the_last_are_kept() -> None:
    said = Stderr(ChildLog("files", lambda: 100.0), LoopShare(lambda: 0.0))
    chunk = b"".join(b"%d\n" % line for line in range(20_000))
    with capture_logs() as logs:
        said.data_received(b"begun ")
        said.data_received(chunk + b"cut o")
        said.data_received(b"ff\n")
        said.connection_lost(None)
    lines = [entry["line"] for entry in logs if entry["event"] == "stderr"]
    assert lines == ["begun 0", *map(str, range(1, LINES))]
    [left] = [entry for entry in logs if "bytes" in entry]
    assert left["lines"] == 20_001 - LINES
    assert 0 < left["bytes"] <= len(chunk) + 20_001 * BESIDE
    assert said.last_words == "19996 | 19997 | 19998 | 19999 | cut off"
