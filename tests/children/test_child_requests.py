from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.callbacks import ChildRequest
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, Request
from hub.jsonrpc.peer import Asked
from hub.jsonrpc.requests import UNSAID, Answer, AwaitedRequest, PendingRequests, RequestWithin
from hub.jsonrpc.send_queue import MAX_WEIGHT
from hub.values import Json, JsonObject
from tests.kit.fakes import RecordingOutlet
from tests.kit.loops import all_tasks_blocked

PROGRESS = "notifications/progress"


def asked_with(token: Json) -> tuple[Asked, RecordingOutlet]:
    outlet = RecordingOutlet()
    return Asked(Request("q", "m", {"_meta": {"progressToken": token}}), outlet), outlet


@asynccontextmanager
async def some_tasks() -> AsyncGenerator[TaskGroup]:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


async def report(question: ChildRequest, number: int) -> None:
    assert question.progress is not None
    await question.progress(Raw(b'{"progressToken":9,"progress":%d.10}' % number))


@pytest.mark.parametrize("token", ["mine", 0])
async def test_reports_reach_the_child_under_its_own_token_before_the_end(token: Json) -> None:
    asked, outlet = asked_with(token)
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            for number in (1, 2):
                await report(question, number)
            assert outlet.messages == [], "nobody waits for it"
        assert [line["params"] for line in outlet.lines] == [
            {"progressToken": token, "progress": 1.1},
            {"progressToken": token, "progress": 2.1},
        ]
        assert len(outlet.notified(PROGRESS)) == 2


async def test_reports_go_out_before_an_error_too() -> None:
    asked, outlet = asked_with("mine")
    async with some_tasks() as tasks:

        async def refuse() -> None:
            async with ChildRequest(asked, tasks) as question:
                await report(question, 1)
                raise RpcError(-1, "no")

        with pytest.raises(RpcError, match="no"):
            await refuse()
        assert len(outlet.notified(PROGRESS)) == 1


@pytest.mark.parametrize("token", [None, True, 1.5, [1]])
async def test_who_gives_no_token_hears_no_reports(token: Json) -> None:
    asked, _ = asked_with(token)
    async with some_tasks() as tasks, ChildRequest(asked, tasks) as question:
        assert question.progress is None


async def test_a_child_that_is_gone_hears_nothing() -> None:
    asked, outlet = asked_with("mine")
    outlet.gone = True
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            await report(question, 1)
        assert outlet.messages == []


async def test_a_child_that_does_not_read_holds_up_who_reports_as_little_as_who_gives_up() -> None:
    asked, outlet = asked_with("mine")
    outlet.stuck = True
    async with some_tasks() as tasks:
        with anyio.CancelScope() as scope:
            async with ChildRequest(asked, tasks) as question:
                for number in range(3):
                    await report(question, number)
                await all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        assert len(outlet.messages) == 1


async def test_reports_for_a_child_that_does_not_read_are_bounded_by_their_bytes() -> None:
    asked, outlet = asked_with("mine")
    outlet.stuck = True
    async with some_tasks() as tasks:
        with anyio.CancelScope() as scope, capture_logs() as logs:
            async with ChildRequest(asked, tasks) as question:
                assert question.progress is not None
                message = "x" * (MAX_WEIGHT * 6 // 10)
                for _ in range(3):
                    await question.progress({"progress": 1, "message": message})
                    await all_tasks_blocked()
                scope.cancel()
    assert [entry["log_level"] for entry in logs] == ["warning"], "one is on its way, one waits"


async def test_why_it_is_taken_back_is_what_the_child_says() -> None:
    asked, _ = asked_with("mine")
    async with some_tasks() as tasks, ChildRequest(asked, tasks) as question:
        assert question.reason == UNSAID
        asked.cancel("enough")
        assert question.reason == "enough"


class Waiter:
    """Somebody who waits for an answer without a task, on his own behalf."""

    progress = None
    reason = UNSAID

    @property
    def request_owner(self) -> Waiter:
        return self

    def settle(self, answer: Answer) -> None:
        raise AssertionError("nobody answers")


@pytest.mark.parametrize("has_task", [True, False])
async def test_a_child_may_say_within_which_request_it_asks(*, has_task: bool) -> None:
    pending, waiter = PendingRequests(), Waiter()
    pending.add(7, AwaitedRequest(waiter) if has_task else waiter)
    pending.add(8, AwaitedRequest(None))
    outlet = RecordingOutlet()
    async with some_tasks() as tasks:
        for request, served in (
            (RequestWithin("q", "m", within=7), waiter),
            (RequestWithin("q", "m", within=8), None),
            (Request("q", "m"), None),
        ):
            async with ChildRequest(Asked(request, outlet, pending=pending), tasks) as question:
                assert question.served() is served
        over = Asked(RequestWithin("q", "m", within=9), outlet, pending=pending)
        async with ChildRequest(over, tasks) as question:
            with pytest.raises(RpcError, match="the call is over"):
                question.served()


async def test_a_report_says_all_that_the_client_said() -> None:
    asked, outlet = asked_with("mine")
    async with some_tasks() as tasks:
        async with ChildRequest(asked, tasks) as question:
            assert question.progress is not None
            await question.progress({"progress": 1, "x": [2**70], "message": "m"})
        params: JsonObject = {"progress": 1, "x": [2**70], "message": "m", "progressToken": "mine"}
        assert outlet.messages == [Notification(PROGRESS, params)]
