from __future__ import annotations

import gc
import time
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest
from structlog.testing import capture_logs

from hub.jsonrpc.errors import GoneError, LostError, RpcError, SilentError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.rated_log import RatedLog
from hub.paths.resolve import Flavour
from hub.roots.roots import Announcement, parse_announcement
from hub.roots.state import State
from hub.sessions.client_roots import MAX_PAGES, ClientRoots
from hub.system.machine import OsDisk
from hub.values import Json, JsonObject
from tests.kit.fakes import RecordingOutlet, Signals
from tests.kit.loops import all_tasks_blocked
from tests.kit.trees import plant

CALL = RecordingOutlet()
"""The way to a client through one of its calls."""


class LosableCall(RecordingOutlet):
    """The way through a call whose connection may end before the call does."""

    is_lost = False


class AskedForRoots:
    """A client that is asked for its roots: each answer waits until the test gives it."""

    def __init__(self, tasks: anyio.abc.TaskGroup, debounce: float) -> None:
        self.questions: list[tuple[Json, Outlet | None]] = []
        self.replies: list[Payload | Exception] = []
        self.changes = 0
        self.signals = Signals()
        self.roots = ClientRoots(
            ask=self._ask,
            read=self._read,
            sift=lambda announcement: announcement,
            links=OsDisk(),
            flavour=Flavour.POSIX,
            changed=self._changed,
            tasks=tasks,
            clock=time.monotonic,
            debounce=debounce,
            warn=RatedLog({}).warning,
        )
        self._tasks = tasks
        self._taken = 0

    async def _ask(self, cursor: Json, outlet: Outlet | None) -> Payload:
        self.questions.append((cursor, outlet))
        self.signals.moved()
        await self.signals.until(lambda: len(self.replies) > self._taken)
        reply = self.replies[self._taken]
        self._taken += 1
        if isinstance(reply, Exception):
            raise reply
        return reply

    @staticmethod
    def _read(raw: Json) -> Announcement | None:
        return parse_announcement(raw, links=OsDisk(), flavour=Flavour.POSIX, unsafe=None)

    def _changed(self) -> None:
        self.changes += 1
        self.signals.moved()

    def reply(self, *replies: Payload | Exception) -> None:
        self.replies.extend(replies)
        self.signals.moved()

    async def until_asked(self, times: int = 1) -> None:
        await self.signals.until(lambda: len(self.questions) >= times)

    async def until_changed(self, times: int = 1) -> None:
        await self.signals.until(lambda: self.changes >= times)

    async def current(self) -> State:
        return await self.roots.current(CALL)

    @property
    def known(self) -> list[str]:
        last = self.roots.state.last
        return [] if last is None else list(last.announcement.roots.paths)


@asynccontextmanager
async def client(
    *, declares: bool = True, debounce: float = 0.001
) -> AsyncGenerator[AskedForRoots]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            asked = AskedForRoots(tasks, debounce)
            asked.roots.opened(declares_roots=declares)
            yield asked
            asked.roots.ended()
            tasks.cancel_scope.cancel()


def shared(*paths: object) -> JsonObject:
    return {"roots": [{"uri": f"file://{path}"} for path in paths]}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


async def test_a_client_is_asked_through_the_call_that_needs_its_roots(top: Path) -> None:
    async with client() as asked:
        assert asked.questions == []
        asked.reply(shared(top / "a"))
        await asked.current()
        assert asked.known == [str(top / "a")]
        assert asked.questions == [(None, CALL)]
        await asked.current()
        assert len(asked.questions) == 1


async def test_a_call_that_asked_is_not_kept_after_the_answer(top: Path) -> None:
    async with client() as asked:
        call = RecordingOutlet()
        gone = weakref.ref(call)
        asked.reply(shared(top / "a"))
        await asked.roots.current(call)
        asked.questions.clear()
        del call
        await all_tasks_blocked()
        gc.collect()
        assert gone() is None


async def test_a_client_that_can_be_reached_is_asked_before_any_call(top: Path) -> None:
    async with client() as asked:
        asked.reply(shared(top / "a"))
        asked.roots.reachable()
        await asked.until_changed()
        assert asked.questions == [(None, None)]
        assert asked.known == [str(top / "a")]


async def test_many_calls_wait_for_one_question(top: Path) -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            for _ in range(20):
                calls.start_soon(asked.current)
            await asked.until_asked()
            asked.reply(shared(top / "a"))
        assert len(asked.questions) == 1


async def test_a_client_without_the_capability_is_not_asked() -> None:
    async with client(declares=False) as asked:
        assert (await asked.current()).last is None
        assert asked.questions == []


@pytest.mark.parametrize(
    "failure",
    [
        SilentError("no answer within 10 s"),
        RpcError(-32600, "not now"),
        {"roots": "nope"},
        {},
    ],
)
async def test_a_client_that_does_not_answer_delays_a_call_no_longer_than_that(
    failure: Payload | Exception,
) -> None:
    async with client() as asked:
        asked.reply(failure)
        with capture_logs() as logs:
            state = await asked.current()
        assert state.last is None
        assert state.failed is not None
        assert [entry["log_level"] for entry in logs] == ["warning"]
        await asked.current()
        assert len(asked.questions) == 1, "the next call does not wait again"


async def test_a_failed_refresh_keeps_the_roots_and_the_next_change_works(top: Path) -> None:
    async with client() as asked:
        asked.reply(shared(top / "a"), SilentError("no answer"), shared(top / "b"))
        await asked.current()
        asked.roots.list_changed()
        state = await asked.current()
        assert (asked.known, state.stale) == ([str(top / "a")], True)
        asked.roots.list_changed()
        state = await asked.current()
        assert (asked.known, state.stale) == ([str(top / "b")], False)


async def test_a_burst_of_changes_is_one_question(top: Path) -> None:
    async with client(debounce=0.02) as asked:
        asked.reply(shared(top / "a"), shared(top / "b"))
        await asked.current()
        for _ in range(10):
            asked.roots.list_changed()
        await asked.until_changed(2)
        assert len(asked.questions) == 2
        assert asked.known == [str(top / "b")]


async def test_a_call_ends_the_wait_for_more_changes(top: Path) -> None:
    async with client(debounce=1000.0) as asked:
        asked.reply(shared(top / "a"), shared(top / "b"))
        await asked.current()
        asked.roots.list_changed()
        await asked.current()
        assert asked.known == [str(top / "b")]


async def test_a_call_after_a_change_waits_for_what_was_asked_after_it(top: Path) -> None:
    async with client(debounce=1000.0) as asked:
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.current)
            await asked.until_asked()
            asked.roots.list_changed()
            calls.start_soon(asked.current)
            await all_tasks_blocked()
            asked.reply(shared(top / "a"))
            await asked.until_asked(2)
            asked.reply(shared(top / "b"))
        assert asked.known == [str(top / "b")]


@pytest.mark.parametrize("error", [GoneError("no stream"), LostError(-32603, "came too late")])
async def test_a_question_that_did_not_arrive_is_asked_again_through_the_call(
    top: Path, error: Exception
) -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            asked.roots.reachable()
            await asked.until_asked()
            calls.start_soon(asked.current)
            await all_tasks_blocked()
            asked.reply(error, shared(top / "a"))
        assert asked.questions == [(None, None), (None, CALL)]
        assert asked.known == [str(top / "a")]


async def test_a_client_that_goes_is_not_waited_for() -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.current)
            await asked.until_asked()
            asked.roots.ended()
        asked.roots.list_changed()
        await asked.current()
        assert len(asked.questions) == 1


async def test_pages_are_followed(top: Path) -> None:
    async with client() as asked:
        asked.reply(
            {**shared(top / "a"), "nextCursor": "1"},
            {**shared(top / "b"), "nextCursor": "2"},
            {"roots": "nope"},
        )
        await asked.current()
        assert asked.known == [str(top / "a"), str(top / "b")]
        assert [cursor for cursor, _ in asked.questions] == [None, "1", "2"]


async def test_pages_without_end_are_not_followed(top: Path) -> None:
    async with client() as asked:
        asked.reply(*({**shared(top / "a"), "nextCursor": str(n)} for n in range(100)))
        await asked.current()
        assert len(asked.questions) == 1 + MAX_PAGES


async def test_a_cursor_that_leads_in_a_circle_is_not_followed(top: Path) -> None:
    async with client() as asked:
        asked.reply(*({**shared(top / "a"), "nextCursor": "x"} for _ in range(9)))
        await asked.current()
        assert len(asked.questions) == 2


async def test_a_folder_that_goes_grants_nothing_until_it_is_back(top: Path) -> None:
    async with client() as asked:
        asked.reply(shared(top / "a", top / "b"))
        await asked.current()
        changes = asked.changes
        (top / "a").rename(top / "away")
        state = await asked.current()
        assert asked.known == [str(top / "b")]
        assert state.last is not None
        assert [entry.uri for entry in state.last.announcement.rejected] == [f"file://{top}/a"]
        assert asked.changes == changes + 1
        await asked.current()
        assert asked.changes == changes + 1, "nothing new, nothing said"
        (top / "away").rename(top / "a")
        await asked.current()
        assert asked.known == [str(top / "a"), str(top / "b")]


async def test_a_folder_that_becomes_a_link_grants_nothing(top: Path) -> None:
    async with client() as asked:
        asked.reply(shared(top / "a"))
        await asked.current()
        (top / "a").rmdir()
        (top / "a").symlink_to("/etc")
        await asked.current()
        assert asked.known == []


async def test_what_was_refused_stays_refused_when_folders_come_and_go(top: Path) -> None:
    async with client() as asked:
        asked.reply({"roots": [{"uri": "https://x/"}, {"uri": f"file://{top}/a"}]})
        await asked.current()
        (top / "a").rmdir()
        state = await asked.current()
        assert state.last is not None
        rejected = [entry.uri for entry in state.last.announcement.rejected]
        assert rejected == ["https://x/", f"file://{top}/a"]


async def test_roots_that_come_with_a_request_are_taken_without_asking(top: Path) -> None:
    async with client() as asked:
        asked.roots.given(shared(top / "a"))
        await asked.current()
        assert asked.known == [str(top / "a")]
        assert asked.questions == []
        (top / "a").rmdir()
        await asked.current()
        assert asked.known == []


async def test_a_call_that_goes_takes_its_question_along_and_the_next_call_asks_anew(
    top: Path,
) -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.current)
            await asked.until_asked()
            calls.cancel_scope.cancel()
        await all_tasks_blocked()
        other = RecordingOutlet()
        asked.reply(shared(top / "a"))
        await asked.roots.current(other)
        assert asked.questions == [(None, CALL), (None, other)]
        assert asked.known == [str(top / "a")]


async def test_all_who_wait_for_the_question_of_a_call_that_goes_wait_for_the_next(
    top: Path,
) -> None:
    known = list[bool]()
    async with client() as asked:

        async def call() -> None:
            known.append((await asked.current()).last is not None)

        async with anyio.create_task_group() as calls:
            async with anyio.create_task_group() as first:
                first.start_soon(asked.roots.current, RecordingOutlet())
                await asked.until_asked()
                for _ in range(3):
                    calls.start_soon(call)
                await all_tasks_blocked()
                first.cancel_scope.cancel()
            await asked.until_asked(2)
            await all_tasks_blocked()
            asked.reply(shared(top / "a"))
        assert len(asked.questions) == 2
    assert known == [True] * 3


async def test_a_call_that_goes_does_not_end_another_calls_question(top: Path) -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.roots.current, RecordingOutlet())
            await asked.until_asked()
            async with anyio.create_task_group() as others:
                others.start_soon(asked.current)
                await all_tasks_blocked()
                others.cancel_scope.cancel()
            asked.reply(shared(top / "a"))
        assert len(asked.questions) == 1
        assert asked.known == [str(top / "a")]


async def test_what_was_asked_on_a_stream_that_closes_is_asked_again_through_the_next_call(
    top: Path,
) -> None:
    async with client() as asked:
        asked.roots.reachable(certain=False)
        await asked.until_asked()
        asked.roots.unreachable()
        await all_tasks_blocked()
        assert len(asked.questions) == 1, "there is no way to ask it now"
        asked.reply(shared(top / "a"))
        await asked.current()
        assert asked.questions == [(None, None), (None, CALL)]
        assert asked.known == [str(top / "a")]


async def test_a_call_that_waits_for_a_stream_that_closes_asks_itself(top: Path) -> None:
    async with client() as asked:
        asked.roots.reachable(certain=False)
        await asked.until_asked()
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.current)
            await all_tasks_blocked()
            asked.roots.unreachable()
            await asked.until_asked(2)
            asked.reply(shared(top / "a"))
        assert asked.questions == [(None, None), (None, CALL)]
        assert asked.known == [str(top / "a")]


async def test_a_stream_that_closes_does_not_end_what_a_call_has_asked(top: Path) -> None:
    async with client() as asked:
        async with anyio.create_task_group() as calls:
            calls.start_soon(asked.current)
            await asked.until_asked()
            asked.roots.unreachable()
            await all_tasks_blocked()
            asked.reply(shared(top / "a"))
        assert asked.questions == [(None, CALL)]
        assert asked.known == [str(top / "a")]


async def test_a_stream_that_closes_as_soon_as_it_opens_is_not_waited_for(top: Path) -> None:
    async with client() as asked, anyio.create_task_group() as calls:
        asked.roots.reachable(certain=False)
        asked.roots.unreachable()
        calls.start_soon(asked.current)
        await asked.until_asked(2)
        asked.reply(shared(top / "a"))
        await asked.until_changed()
        assert asked.questions == [(None, None), (None, CALL)]
        assert asked.known == [str(top / "a")]


async def test_a_changed_debounce_counts_for_the_next_change(top: Path) -> None:
    async with client(debounce=3600) as asked:
        asked.reply(shared(top / "a"))
        await asked.current()
        asked.roots.list_changed()
        await all_tasks_blocked()
        assert len(asked.questions) == 1
        asked.roots.follow(0.001)
        asked.roots.list_changed()
        await asked.until_asked(2)


async def test_a_stream_that_closes_after_the_answer_changes_nothing(top: Path) -> None:
    async with client() as asked:
        asked.roots.reachable(certain=False)
        asked.reply(shared(top / "a"))
        await asked.until_changed()
        asked.roots.unreachable()
        await asked.current()
        assert asked.questions == [(None, None)]
        assert asked.known == [str(top / "a")]


async def test_what_was_asked_on_a_lost_connection_is_asked_again_through_the_next_call(
    top: Path,
) -> None:
    async with client() as asked, anyio.create_task_group() as calls:
        first, second = LosableCall(), LosableCall()
        calls.start_soon(asked.roots.current, first)
        await asked.until_asked()
        first.is_lost = True
        calls.start_soon(asked.roots.current, second)
        await asked.until_asked(2)
        asked.reply(shared(top / "a"))
        await asked.until_changed()
        assert asked.questions == [(None, first), (None, second)]
        assert asked.known == [str(top / "a")]


async def test_a_call_beside_a_connection_that_is_lost_asks_itself(top: Path) -> None:
    async with client() as asked, anyio.create_task_group() as calls:
        lost, left = [LosableCall() for _ in range(3)], LosableCall()
        for one in (*lost, left):
            calls.start_soon(asked.roots.current, one)
        await asked.until_asked()
        for one in lost:
            one.is_lost = True
            asked.roots.connection_lost()
        await asked.until_asked(2)
        asked.reply(shared(top / "a"))
        await asked.until_changed()
        assert asked.questions == [(None, lost[0]), (None, left)]
        assert asked.known == [str(top / "a")]


async def test_a_client_that_comes_back_answers_what_nobody_else_could_ask(top: Path) -> None:
    async with client() as asked, anyio.create_task_group() as calls:
        call = LosableCall()
        calls.start_soon(asked.roots.current, call)
        await asked.until_asked()
        call.is_lost = True
        asked.roots.connection_lost()
        await all_tasks_blocked()
        asked.reply(shared(top / "a"))
        await asked.until_changed()
        assert asked.questions == [(None, call)]
        assert asked.known == [str(top / "a")]


@pytest.mark.parametrize("certain", [True, False])
async def test_silence_on_a_stream_that_may_be_dead_is_no_answer(
    top: Path, *, certain: bool
) -> None:
    async with client() as asked:
        asked.reply(SilentError("no answer within 10 s"), shared(top / "a"))
        asked.roots.reachable(certain=certain)
        await asked.until_asked()
        await all_tasks_blocked()
        state = await asked.current()
        assert asked.questions == [(None, None)] + ([] if certain else [(None, CALL)])
        assert asked.known == ([] if certain else [str(top / "a")])
        assert state.failed == ("no answer within 10 s" if certain else None)
