"""The waiting itself; what clients and children see is tested in tests/flow, going both ways."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from hub.jsonrpc.messages import Failure, Notification, Request, Response, as_object
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    INTERNAL_ERROR,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
)
from hub.protocol.input_requests import ELICITATION
from hub.values import JsonObject
from tests.calls.test_in_flight import DispatchedCaller
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.rigs import remote, rig

WANTED: JsonObject = {
    "resultType": "input_required",
    "inputRequests": {"q": {"method": ELICITATION, "params": {"message": "Which?"}}},
    "requestState": "s",
}
AGAIN: JsonObject = {"resultType": "input_required", "requestState": "s"}
DONE: JsonObject = {"resultType": "complete", "content": []}


@asynccontextmanager
async def calling(allowed: float = 300.0) -> AsyncGenerator[tuple[DispatchedCaller, FakeChild]]:
    """Keep a client of the handshake era, which has called a modern child once."""
    child = FakeChild(ECHO, era="modern", answers={"tools/call": DONE})
    spec = replace(remote("files"), era="modern", concurrency=1, timeout=allowed)
    async with rig({"files": spec}, {"files": child}) as at:
        client = at.client(capabilities={"elicitation": {}})
        await client.call("echo", {})
        child.answers["tools/call"] = SILENT
        at.audit.records.clear()
        child.link.seen.clear()
        yield DispatchedCaller(at, client), child


async def last_of(child: FakeChild, *, nth: int = 1) -> int:
    """Return the id of the nth call that the child has."""
    id_: int = (await child.link.request("tools/call", nth=nth))["id"]
    return id_


async def asked(caller: DispatchedCaller) -> Request:
    """Return what the client is asked."""
    request = await caller.reply.outlet.next()
    assert isinstance(request, Request)
    assert request.method == ELICITATION
    return request


def settle(caller: DispatchedCaller, id_: int, answer: JsonObject) -> None:
    """Answer a call with nothing else happening before what the test does next."""
    (slot,) = caller.client.session.slots
    assert slot.child is not None
    assert slot.child.peer is not None
    slot.child.peer.pending.settle(Response(id_, answer))


def assert_taken_back(caller: DispatchedCaller) -> None:
    """Make sure that the one call was taken back, and is over."""
    assert caller.reply.answers == [None]
    assert caller.reply.outlet.messages == []
    assert [record.verdict for record in caller.at.audit.records] == ["cancelled"]
    assert caller.slots.take()
    assert not caller.slots.take()


async def test_a_call_is_answered_at_once_in_the_words_of_its_clients_era() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {"text": "x"})
        (sent,) = child.link.requests("tools/call")
        meta = sent["params"]["_meta"]
        assert meta[PROTOCOL_VERSION_META] == MODERN_VERSIONS[-1]
        assert meta[CLIENT_CAPABILITIES_META]["elicitation"] == {}
        named: JsonObject = {SERVER_INFO_META: {"name": "child"}, "own": 1}
        child.link.answer(sent["id"], {**DONE, "_meta": named})
        assert (await caller.result())["_meta"] == {"own": 1}
        assert [record.verdict for record in caller.at.audit.records] == ["admitted"]
        assert caller.slots.take()


async def test_a_child_that_asks_is_called_again_with_the_answer_and_keeps_its_slot() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {"text": "x"})
        child.link.answer(await last_of(child), WANTED)
        question = await asked(caller)
        assert not caller.slots.take()
        answer: JsonObject = {"action": "accept", "content": {"n": 1}}
        await caller.client.peer.receive(Response(question.id, answer))
        again = await child.link.request("tools/call", nth=2)
        assert again["params"]["inputResponses"] == {"q": answer}
        assert again["params"]["requestState"] == "s"
        assert again["params"]["arguments"] == {"text": "x"}
        child.link.answer(again["id"], {**DONE, "n": 2})
        assert (await caller.result())["n"] == 2
        assert caller.slots.take()
        assert len(caller.at.audit.records) == 1


async def test_a_call_can_be_taken_back_while_its_client_is_asked() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), WANTED)
        await asked(caller)
        caller.client.peer.backlog.cancel({"requestId": 1, "reason": "enough"})
        await caller.client.peer.backlog.idle()
        await all_tasks_blocked()
        assert caller.slots.take()
        assert caller.reply.answers == [None]
        assert [record.verdict for record in caller.at.audit.records] == ["cancelled"]


@virtual_time
async def test_who_takes_a_call_back_is_told_first_that_nothing_is_asked_any_more() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), WANTED)
        question = await asked(caller)
        caller.reply.outlet.stuck = True
        caller.client.peer.backlog.cancel({"requestId": 1})
        told = await caller.reply.outlet.next()
        assert isinstance(told, Notification)
        assert as_object(told.params)["requestId"] == question.id
        assert caller.reply.answers == []
        await caller.client.peer.backlog.idle()
        assert caller.reply.answers == [None]


async def test_who_takes_back_a_later_round_has_the_child_told_why() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), AGAIN)
        id_ = await last_of(child, nth=2)
        caller.client.peer.backlog.cancel({"requestId": 1, "reason": "enough"})
        told = await child.link.request("notifications/cancelled")
        assert told["params"] == {"requestId": id_, "reason": "enough"}


@pytest.mark.parametrize("answer", [{"resultType": "input_required"}, AGAIN, WANTED])
async def test_a_call_can_be_taken_back_the_moment_that_its_child_asks(answer: JsonObject) -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        settle(caller, await last_of(child), answer)
        caller.client.peer.backlog.cancel({"requestId": 1})
        await all_tasks_blocked()
        assert_taken_back(caller)


async def test_a_call_can_be_taken_back_the_moment_that_a_later_round_is_answered() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), AGAIN)
        settle(caller, await last_of(child, nth=2), DONE)
        caller.client.peer.backlog.cancel({"requestId": 1})
        await all_tasks_blocked()
        assert_taken_back(caller)


@virtual_time
async def test_each_round_has_as_long_as_a_call_may_take() -> None:
    async with calling(allowed=0.8) as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), WANTED)
        question = await asked(caller)
        await anyio.sleep(0.5)
        await caller.client.peer.receive(Response(question.id, {"action": "decline"}))
        again = await last_of(child, nth=2)
        await anyio.sleep(0.5)
        child.link.answer(again, {**DONE, "n": 3})
        assert (await caller.result())["n"] == 3


async def test_a_client_that_never_answers_holds_no_slot_for_ever() -> None:
    async with calling(allowed=0.1) as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), WANTED)
        question = await asked(caller)
        result = await caller.result()
        assert "asked for input that the client did not give within 0.1 s" in str(result["content"])
        taken_back = await caller.reply.outlet.next()
        assert isinstance(taken_back, Notification)
        assert as_object(taken_back.params)["requestId"] == question.id
        assert caller.slots.take()
        assert [record.verdict for record in caller.at.audit.records] == ["failed"]


@pytest.mark.parametrize(
    ("crashes", "said"),
    [(False, "did not answer within 0.1 s"), (True, "went away during the call: exited with")],
)
async def test_a_later_round_without_an_answer_is_a_tool_error(*, crashes: bool, said: str) -> None:
    async with calling(allowed=0.1) as (caller, child):
        assert caller.take(1, "echo", {})
        child.link.answer(await last_of(child), AGAIN)
        await last_of(child, nth=2)
        if crashes:
            child.link.crash()
        result = await caller.result()
        assert result["isError"] is True
        assert said in str(result["content"])
        assert [record.verdict for record in caller.at.audit.records] == ["failed"]


async def test_a_result_that_cannot_be_read_is_the_calls_error() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        twice = b'{"_meta":{"%b":1},"_meta":{}}' % SERVER_INFO_META.encode()
        child.link.answer(await last_of(child), twice)
        await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        (answer,) = caller.reply.answers
        assert isinstance(answer, Failure)
        assert [record.verdict for record in caller.at.audit.records] == ["failed"]


async def test_what_goes_wrong_within_the_rounds_ends_the_call_alone() -> None:
    async with calling() as (caller, child):
        assert caller.take(1, "echo", {})
        caller.reply.outlet.gone = True
        child.link.answer(await last_of(child), WANTED)
        await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        (answer,) = caller.reply.answers
        assert isinstance(answer, Failure)
        assert as_object(answer.error)["code"] == INTERNAL_ERROR
        assert caller.slots.take()
