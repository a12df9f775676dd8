from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.guard.decide import Refused
from hub.jsonrpc.rated_log import BYTES, LINES, TOLD_EVERY
from hub.sessions.client import Client
from hub.sessions.services import ClientLogs
from hub.sessions.session import Session
from hub.values import Call
from tests.kit.fakes import FakeClock
from tests.kit.rigs import Rig, remote, rig

LEFT_OUT = "not all of it is logged"
CALL = Call("tools/call", "read", {}, {})


def greeted(at: Rig, principal: str, name: str = "test") -> Session:
    session = Session(at.services, at.tasks, principal=principal)
    session.greeted(Client("legacy", "2025-11-25", {}, {"name": name}))
    return session


def refuse(at: Rig, principal: str) -> None:
    greeted(at, principal).refusals.add(
        remote("files"), CALL, Refused("/path", "/etc/x", "no", ()), told={"client": "test"}
    )


async def test_sessions_that_one_principal_opens_without_end_leave_the_log_short() -> None:
    clock = FakeClock(100.0)
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(clock)
        with capture_logs() as logs:
            for _ in range(10 * LINES):
                greeted(at, "alice").close()
            greeted(at, "bob")
            clock.now += TOLD_EVERY
            greeted(at, "alice").close()
    said = [entry for entry in logs if entry["event"] == "client"]
    (left_out,) = [entry for entry in logs if entry["event"] == LEFT_OUT]
    assert len(said) + left_out["lines"] == 10 * LINES + 2
    assert len(said) <= LINES + 2
    assert left_out["principal"] == "alice"


@pytest.mark.parametrize("flood", ["long names", "refused calls"])
async def test_a_client_that_is_named_at_length_or_refused_often_has_the_same_share(
    flood: str,
) -> None:
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(FakeClock())
        with capture_logs() as logs:
            for _ in range(10 * LINES):
                if flood == "long names":
                    greeted(at, "alice", "x" * 1000)
                else:
                    refuse(at, "alice")
    assert 0 < len(str(logs)) < 2 * BYTES


async def test_the_end_of_a_session_says_what_was_left_out_before() -> None:
    clock = FakeClock(100.0)
    logs: list[Any]
    async with rig({}, {}) as at:
        at.services.client_logs = ClientLogs(clock)
        sessions = [greeted(at, "alice") for _ in range(2 * LINES)]
        clock.now += TOLD_EVERY
        with capture_logs() as logs:
            for session in sessions:
                session.close()
    assert [(entry["event"], entry["principal"]) for entry in logs] == [(LEFT_OUT, "alice")]


def test_a_principal_whose_log_is_forgotten_is_told_of_first() -> None:
    made = ClientLogs(FakeClock(), max_logs=2)
    with capture_logs() as logs:
        for _ in range(LINES + 1):
            made.of("alice").info("said")
        made.of("bob")
        assert made.of("alice") is made.of("alice")
        made.of("carol")
    assert logs[-1]["event"] == LEFT_OUT
    assert logs[-1]["lines"] == 1
