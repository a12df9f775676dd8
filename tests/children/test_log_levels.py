from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from structlog.testing import capture_logs

from hub.children.child import PATIENCE, Child, log_from
from hub.children.clients import LogLevels, reaches
from hub.children.slot import ChildSlot
from hub.protocol.constants import LOG_LEVELS
from hub.values import Json, JsonObject, SessionKey
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import Rig, remote, rig

A, B, C = SessionKey("a"), SessionKey("b"), SessionKey("c")


@pytest.mark.parametrize(("least", "level"), list(pairwise(LOG_LEVELS)))
def test_a_level_reaches_itself_and_all_below(level: str, least: str) -> None:
    assert reaches(level, least)
    assert reaches(least, least)
    assert not reaches(least, level)


@pytest.mark.parametrize("level", ["trace", "", None, 7, []])
def test_messages_of_an_unknown_level_are_sent_to_everyone(level: Json) -> None:
    assert reaches(level, "emergency")


def test_a_child_gets_the_lowest_level_that_a_session_wants() -> None:
    levels = LogLevels()
    assert levels.told is None
    assert levels.of_session(A, "warning") == "warning"
    levels.confirm("warning")
    assert levels.of_session(B, "error") is None
    assert levels.of_session(B, "debug") == "debug"
    levels.leave(B)
    assert levels.of_session(A, "warning") == "warning"
    assert levels.told == "warning"


def test_a_failure_says_nothing_of_a_level_that_was_set_otherwise() -> None:
    levels = LogLevels()
    levels.of_session(A, "debug")
    levels.of_session(B, "debug")
    levels.confirm("debug")
    levels.forget("debug")
    assert levels.of_session(C, "debug") is None
    levels.leave(A)
    levels.leave(B)
    assert levels.of_session(C, "info") == "info"
    levels.confirm("debug")
    levels.forget("debug")
    assert levels.told == "info"
    assert levels.of_session(C, "info") == "info"


def test_a_call_lowers_the_level_and_never_raises_it() -> None:
    levels = LogLevels()
    assert levels.of_call("warning") == "warning"
    assert levels.of_call("error") is None
    assert levels.of_call("debug") == "debug"
    assert levels.of_call("debug") is None


def test_a_level_that_could_not_be_set_is_set_again() -> None:
    levels = LogLevels()
    levels.of_call("info")
    levels.forget("info")
    assert levels.of_call("info") == "info"


def test_a_session_without_a_level_does_not_get_what_others_want() -> None:
    levels = LogLevels()
    assert not levels.is_filtered(C, "debug")
    levels.of_session(A, "debug")
    assert levels.is_filtered(C, "debug")
    assert not levels.is_filtered(C, "info")
    assert not levels.is_filtered(A, "debug")


LOGS: JsonObject = {"tools": {}, "logging": {}}
SESSION = SessionKey("s")


@asynccontextmanager
async def ready(fake: FakeChild) -> AsyncGenerator[Child]:
    async with rig({"files": remote()}, {"files": fake}) as at:
        slot = await _place(at)
        yield await at.services.children.obtain(slot)


async def _place(at: Rig) -> ChildSlot:
    client = at.client()
    return client.session.slot_for(remote(), await client.session.effective(client.outlet))


async def test_a_level_is_set_once() -> None:
    fake = FakeChild(ECHO, capabilities=LOGS, answers={"logging/setLevel": {}})
    async with ready(fake) as child:
        await log_from(child, "info")
        await log_from(child, "error")
        await log_from(child, "debug", SESSION)
        sent = [line["params"] for line in fake.link.requests("logging/setLevel")]
        assert sent == [{"level": "info"}, {"level": "debug"}]


@pytest.mark.parametrize(
    "fake", [FakeChild(ECHO), FakeChild(ECHO, capabilities=LOGS, era="modern")]
)
async def test_a_child_without_logging_gets_no_level(fake: FakeChild) -> None:
    async with ready(fake) as child:
        await log_from(child, "info")
        assert fake.link.requests("logging/setLevel") == []
        child.stop()
        await fake.ended()
        await log_from(child, "info")


async def test_a_child_that_refuses_is_asked_again_next_time() -> None:
    fake = FakeChild(ECHO, capabilities=LOGS)
    async with ready(fake) as child:
        for _ in range(2):
            with capture_logs() as logs:
                await log_from(child, "info")
            assert [entry["event"] for entry in logs] == ["log level not set"]
        assert len(fake.link.requests("logging/setLevel")) == 2


@virtual_time
async def test_a_call_does_not_wait_long_for_a_child_that_says_nothing_to_it() -> None:
    fake = FakeChild(ECHO, capabilities=LOGS, answers={"logging/setLevel": SILENT})
    async with ready(fake) as child:
        began = anyio.current_time()
        await log_from(child, "info")
        assert round(anyio.current_time() - began, 3) == PATIENCE
        assert child.answers.levels.told is None


@virtual_time
async def test_a_level_that_was_not_set_as_its_request_was_cancelled_is_set_by_the_next() -> None:
    fake = FakeChild(ECHO, answers={"logging/setLevel": SILENT}, capabilities=LOGS)
    async with ready(fake) as child:
        with anyio.move_on_after(0.01):
            await log_from(child, "debug", SessionKey("a"))
        fake.answers["logging/setLevel"] = {}
        await log_from(child, "debug", SessionKey("b"))
        assert len(fake.link.requests("logging/setLevel")) == 2


@pytest.mark.parametrize("first", [SessionKey("a"), None])
async def test_a_level_that_a_second_client_wants_is_set_though_the_first_gives_up(
    first: SessionKey | None,
) -> None:
    fake = FakeChild(ECHO, answers={"logging/setLevel": SILENT}, capabilities=LOGS)
    async with ready(fake) as child:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(log_from, child, "debug", first)
                await fake.link.request("logging/setLevel")
                fake.answers["logging/setLevel"] = {}
                await log_from(child, "debug", SessionKey("b"))
                await all_tasks_blocked()
                scope.cancel()
        assert child.answers.levels.told == "debug"
        assert len(fake.link.requests("logging/setLevel")) == 2
