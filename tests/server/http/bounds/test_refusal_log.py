from __future__ import annotations

import anyio
from structlog.testing import capture_logs

from hub.server.http.bounds.connections import RefusalLog


async def test_the_first_is_logged_and_the_others_are_counted() -> None:
    with capture_logs() as lines, anyio.fail_after(20):
        log = RefusalLog(every=0.05)
        for _ in range(100):
            log.note("request refused: 401", "192.0.2.1", "no token")
        log.note("connection closed", "192.0.2.2")
        assert [line["event"] for line in lines] == ["request refused: 401", "connection closed"]
        assert (lines[0]["client"], lines[0]["reason"]) == ("192.0.2.1", "no token")
        while len(lines) < 3:  # noqa: ASYNC110 - a timer logs
            await anyio.sleep(0.01)
        assert (lines[2]["event"], lines[2]["further"]) == ("request refused: 401", 99)


async def test_after_a_while_one_is_the_first_again() -> None:
    with capture_logs() as lines, anyio.fail_after(20):
        log = RefusalLog(every=0.01)
        log.note("refused", "a")
        while len(lines) < 2:
            await anyio.sleep(0.02)
            log.note("refused", "b")
        assert "client" in lines[0]
