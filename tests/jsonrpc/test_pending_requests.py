from __future__ import annotations

import anyio
import pytest
from msgspec import Raw

from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Failure, Payload, Response
from hub.jsonrpc.requests import (
    MAX_REASON,
    UNSAID,
    Answer,
    AwaitedRequest,
    PendingRequests,
    Progress,
    reason_in,
    token_in,
    with_token,
    without_token,
)
from hub.values import Json, JsonObject
from tests.kit.loops import all_tasks_blocked


class Note:
    """A pending request that records its outcome."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.request_owner = None
        self.answers: list[Answer] = []

    def settle(self, answer: Answer) -> None:
        self.answers.append(answer)


def test_a_response_is_delivered_once_to_its_request() -> None:
    pending, one, other = PendingRequests(), Note(), Note()
    pending[1] = one
    pending["1"] = other
    pending.settle(Response(1, {"a": 1}))
    pending.settle(Response(1, {"a": 2}))
    pending.settle(Failure(None, {}))
    assert one.answers == [Response(1, {"a": 1})]
    assert other.answers == []


def test_an_id_that_comes_back_as_text_is_the_same_id() -> None:
    pending, one = PendingRequests(), Note()
    pending[7] = one
    for other in ("x", "07", "+7", " 7", "\u0667", "8", "9" * 5000):
        pending.settle(Response(other, {}))
    assert one.answers == []
    pending.settle(Response("7", {"a": 1}))
    assert one.answers == [Response("7", {"a": 1})]


def test_a_forgotten_request_gets_nothing() -> None:
    pending, one = PendingRequests(), Note()
    pending[1] = one
    assert pending.pop(1, None)
    assert not pending.pop(1, None)
    pending.settle(Response(1, {}))
    pending.close()
    assert one.answers == []


def test_closing_fails_every_pending_request_once() -> None:
    pending, one = PendingRequests(), Note()
    pending[1] = one
    pending.close()
    pending.close()
    assert one.answers == [None]


async def test_a_progress_report_is_delivered_unchanged() -> None:
    reports: list[Payload] = []

    async def keep(params: Payload) -> None:
        reports.append(params)

    pending = PendingRequests()
    pending[1] = Note(keep)
    pending[2] = Note()
    for token in (b"1", b"2", b"3", b"[1]", b"null", b"true"):
        await pending.report(Raw(b'{"progressToken":%b,"progress":1e400}' % token))
    assert reports == [Raw(b'{"progressToken":1,"progress":1e400}')]


async def test_a_task_waits_until_its_answer_is_there() -> None:
    waiter = AwaitedRequest(None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(waiter.done.wait)
        await all_tasks_blocked()
        waiter.settle(Response(1, {}))
    assert waiter.answer == Response(1, {})


def test_a_token_is_put_beside_what_else_is_in_the_meta_of_params() -> None:
    assert with_token({"a": 1}, 5) == {"a": 1, "_meta": {"progressToken": 5}}
    assert with_token({"_meta": {"b": 2}}, 5) == {"_meta": {"b": 2, "progressToken": 5}}
    assert with_token({"_meta": 3}, "x") == {"_meta": {"progressToken": "x"}}


@pytest.mark.parametrize(
    ("meta", "found"),
    [
        ({"progressToken": "x"}, "x"),
        ({"progressToken": 0}, 0),
        ({"progressToken": True}, None),
        ({"progressToken": [1]}, None),
        ({"progressToken": 1.5}, None),
        ({}, None),
        (5, None),
    ],
)
def test_the_token_of_a_request_is_a_text_or_a_whole_number(
    meta: Json, found: RequestId | None
) -> None:
    assert token_in({"_meta": meta}) == found
    assert token_in({}) is None


def test_a_token_is_taken_out_of_params_and_nothing_else() -> None:
    plain: list[JsonObject] = [{}, {"a": 1}, {"_meta": 3}, {"_meta": {"b": 2}}]
    for params in plain:
        assert without_token(params) is params
    assert without_token({"_meta": {"progressToken": None, "b": 2}, "a": 1}) == {
        "_meta": {"b": 2},
        "a": 1,
    }


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("enough", "enough"),
        ("", ""),
        ("e" * MAX_REASON, "e" * MAX_REASON),
        ("e" * MAX_REASON + "f", "e" * MAX_REASON),
        (None, UNSAID),
        (7, UNSAID),
        ({"reason": "enough"}, UNSAID),
    ],
)
def test_a_reason_is_a_text_of_bounded_length(reason: Json, told: str) -> None:
    assert reason_in({"reason": reason}) == told
    assert reason_in({}) == UNSAID


async def test_a_report_under_an_id_that_comes_back_as_text_is_wanted() -> None:
    reports: list[Payload] = []

    async def keep(params: Payload) -> None:
        reports.append(params)

    pending = PendingRequests()
    pending[7] = Note(keep)
    assert await pending.report({"progressToken": "7", "progress": 1})
    assert not await pending.report({"progressToken": "07", "progress": 1})
    assert len(reports) == 1


def test_a_waiter_that_raises_leaves_no_other_one_waiting() -> None:
    class RaisingRequest(AwaitedRequest):
        def settle(self, answer: Answer) -> None:
            raise ZeroDivisionError

    pending = PendingRequests()
    waiters = [AwaitedRequest(None), RaisingRequest(None), AwaitedRequest(None)]
    for id_, waiter in enumerate(waiters):
        pending[id_] = waiter
    with pytest.raises(ZeroDivisionError):
        pending.close()
    assert [waiter.done.is_set() for waiter in waiters] == [True, False, True]
