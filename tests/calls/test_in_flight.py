from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Raw
from msgspec.structs import replace
from structlog.testing import capture_logs

from hub.calls.dispatch import CallDispatcher
from hub.calls.routes import KnownAnswer
from hub.guard.policy import Policy
from hub.jsonrpc.errors import InternalError
from hub.jsonrpc.messages import Failure, Notification, Request, Response, as_object, lost
from hub.sessions.services import ResultLimit
from hub.values import Json, JsonObject
from tests.kit.child_calls import ChildSlots
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, RecordingSink
from tests.kit.loops import virtual_time
from tests.kit.rigs import Rig, RigClient, remote, rig
from tests.kit.trees import plant

FILES = remote("files")


class DispatchedCaller:
    """A client whose plain calls go by a cached route, if they do."""

    def __init__(self, at: Rig, client: RigClient) -> None:
        self.at = at
        self.client = client
        self.reply = RecordingSink()
        self.dispatcher = CallDispatcher(client.peer.backlog, at.tasks)

    @cached_property
    def slots(self) -> ChildSlots:
        (slot,) = self.client.session.slots
        assert slot.child is not None
        return ChildSlots(slot.child.answers)

    def take(self, id_: int | str, name: str, arguments: Json, **params: Json) -> bool:
        given: JsonObject = {"name": name, "arguments": arguments, **params}
        return self.send(Request(id_, "tools/call", given))

    def send(self, request: Request) -> bool:
        route = self.at.relay.session_routes.find(self.client.session, request)
        return self.dispatcher.take(request, route, self.reply) is not None

    async def result(self, nth: int = 1) -> JsonObject:
        """Wait for the nth answer, which must be a result."""
        await self.reply.signals.until(lambda: len(self.reply.answers) >= nth)
        answer = self.reply.answers[nth - 1]
        assert isinstance(answer, Response), answer
        return as_object(answer.result)


@asynccontextmanager
async def calling(fake: FakeChild, top: Path, **spec: Any) -> AsyncGenerator[DispatchedCaller]:
    """Keep a client that shares `top`, and has called each of the child's tools once."""
    async with rig({"files": replace(FILES, **spec)}, {"files": fake}) as at:
        client = at.client(top)
        answers, fake.answers["tools/call"] = fake.answers["tools/call"], {}
        for tool in ("echo", "read"):
            await client.call(tool, {})
        fake.answers["tools/call"] = answers
        at.audit.records.clear()
        yield DispatchedCaller(at, client)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f") / "a"


@pytest.fixture
def fake() -> FakeChild:
    return FakeChild(ECHO, READ)


def move(folder: Path) -> None:
    folder.rename(folder.parent / "moved")


async def test_a_call_is_answered_with_the_bytes_that_the_child_wrote(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = b'{"content":[],"n":1e400,"u":"\\ud83d"}'
    async with calling(fake, top) as caller:
        assert caller.take("x", "echo", {"text": "hello", "n": 2**100}, more={"kept": True})
        await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        assert caller.reply.answers == [
            Response("x", Raw(b'{"content":[],"n":1e400,"u":"\\ud83d"}'))
        ]
        sent = fake.link.requests("tools/call")[-1]["params"]
        assert sent == {
            "name": "echo",
            "arguments": {"text": "hello", "n": 2**100},
            "more": {"kept": True},
        }


async def test_each_call_is_recorded(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        assert caller.take(1, "read", {"path": f"{top}/f"})
        await caller.result()
        (record,) = caller.at.audit.records
        assert (record.verdict, record.tool, record.server) == ("admitted", "read", "files")


async def test_a_child_is_in_use_from_the_start_of_a_call_to_its_end(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        (slot,) = caller.client.session.slots
        assert slot.is_idle
        slot.used_at = 0.0
        assert caller.take(1, "echo", {})
        began, slot.used_at = slot.used_at, 0.0
        assert not slot.is_idle
        fake.link.answer(fake.link.requests("tools/call")[-1]["id"], {})
        await caller.result()
        assert 0.0 < began <= slot.used_at
        assert slot.is_idle


async def test_a_child_for_which_a_call_waits_is_in_use(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top, concurrency=1) as caller:
        (slot,) = caller.client.session.slots
        assert slot.child is not None
        assert caller.slots.take()
        assert caller.take(1, "echo", {})
        assert slot.child.limiter.wanted == 1
        assert not slot.is_idle
        caller.slots.give()
        await caller.result()
        assert slot.is_idle


async def test_the_first_call_of_a_tool_is_looked_up(fake: FakeChild, top: Path) -> None:
    async with rig({"files": FILES}, {"files": fake}) as at:
        caller = DispatchedCaller(at, at.client(top))
        assert not caller.take(1, "echo", {})
        await caller.client.call("echo", {})
        assert caller.take(2, "echo", {})
        assert not caller.take(3, "read", {})


async def test_a_path_outside_of_the_roots_is_refused_at_once(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        for nth, path in enumerate((f"{top}/../b/f", "/etc/passwd", f"{top.parent}/b/f"), 1):
            assert caller.take(nth, "read", {"path": path})
            result = await caller.result(nth)
            assert result["isError"] is True
            assert f"Path '{path}' is outside" in str(result["content"]).replace("\\'", "'")
        assert len(fake.link.requests("tools/call")) == 2
        assert [one.verdict for one in caller.at.audit.records] == ["refused"] * 3
        assert len(caller.client.session.refusals.recent) == 3
        assert caller.take(1, "read", {"path": f"{top}/f"})


async def test_a_refusal_waits_for_a_client_that_does_not_read(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        caller.reply.is_stuck = True
        assert caller.take(1, "read", {"path": "/etc/passwd"})
        assert (await caller.result())["isError"] is True
        assert [one.verdict for one in caller.at.audit.records] == ["refused"]


async def test_other_roots_close_the_route(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        caller.client.session.roots.list_changed()
        assert not caller.take(1, "read", {"path": f"{top}/f"})
        assert not caller.take(1, "echo", {})


async def test_a_root_that_is_gone_from_the_disk_admits_nothing(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        move(top)
        assert not caller.take(1, "read", {"path": f"{top}/f"})


async def test_a_child_that_is_gone_closes_the_route(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        slot = next(iter(caller.client.session.slots))
        fake.link.crash()
        await fake.ended()
        assert slot.state == "down"
        assert not caller.take(1, "echo", {})


async def test_another_list_of_the_child_closes_the_route(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        fake.answers["tools/list"] = {"tools": [ECHO]}
        fake.link.notify("notifications/tools/list_changed", {})
        await fake.link.request("tools/list", nth=2)
        await anyio.wait_all_tasks_blocked()
        assert not caller.take(1, "read", {"path": f"{top}/f"})


@pytest.mark.parametrize("arguments", [[], "x", 5])
async def test_a_call_that_is_none_is_left_to_be_resolved(
    fake: FakeChild, top: Path, arguments: Json
) -> None:
    async with calling(fake, top) as caller:
        assert not caller.take(1, "echo", arguments)
        assert not caller.send(Request(1, "tools/call", {"name": 5}))


async def test_an_id_that_is_under_way_is_left_to_the_peer(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        assert not caller.take(1, "echo", {})


async def test_a_call_is_sent_once_its_child_reads_again(fake: FakeChild, top: Path) -> None:
    async with calling(fake, top) as caller:
        fake.is_full = True
        assert caller.take(1, "echo", {})
        await caller.result()


@virtual_time
async def test_a_call_that_waits_for_its_child_to_read_can_be_cancelled(
    fake: FakeChild, top: Path
) -> None:
    async with calling(fake, top, concurrency=1) as caller:
        fake.is_full = fake.is_stuck = True
        assert caller.take(1, "echo", {})
        await anyio.wait_all_tasks_blocked()
        await caller.client.peer.receive(Notification("notifications/cancelled", {"requestId": 1}))
        assert caller.reply.answers == [None]
        assert caller.slots.take()
        assert len(fake.link.requests("tools/call")) == 2


async def test_a_path_that_has_no_json_form_is_an_error_and_takes_no_slot(
    fake: FakeChild, top: Path
) -> None:
    (top / os.fsdecode(b"\xff")).write_text("")
    (top / "link").symlink_to(os.fsdecode(b"\xff"))
    async with calling(fake, top, policy=Policy(rewrite="canonical"), concurrency=1) as caller:
        assert caller.take(1, "read", {"path": f"{top}/link"})
        (answer,) = caller.reply.answers
        assert isinstance(answer, Failure)
        assert [one.verdict for one in caller.at.audit.records] == ["failed"]
        assert caller.take(2, "read", {"path": f"{top}/f"})
        await caller.result(2)


async def test_an_error_of_the_child_reaches_the_client_as_it_was_written(
    fake: FakeChild, top: Path
) -> None:
    error: JsonObject = {"code": -5, "message": "no", "data": {"x": 1}}
    fake.answers["tools/call"] = Failure(None, error)
    async with calling(fake, top) as caller:
        assert caller.take("x", "echo", {})
        await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        assert caller.reply.answers == [Failure("x", error)]
        (record,) = caller.at.audit.records
        assert (record.verdict, record.reason) == ("failed", "no")


async def test_an_answer_that_is_lost_is_a_tool_error(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = lost(0, "it broke off")
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        result = await caller.result()
        assert result["isError"] is True
        assert "server 'files' gave no answer: it broke off" in str(result["content"])


async def test_a_child_that_crashes_during_a_call_is_a_tool_error(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        fake.link.crash("was ended by SIGKILL")
        result = await caller.result()
        assert result["isError"] is True
        assert "went away during the call: was ended by SIGKILL" in str(result["content"])
        (record,) = caller.at.audit.records
        assert record.verdict == "failed"


@virtual_time
async def test_a_call_that_takes_too_long_is_given_up_and_the_child_told(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, timeout=0.01) as caller:
        assert caller.take(1, "echo", {})
        result = await caller.result()
        assert "did not answer within 0.01 s" in str(result["content"])
        told = await fake.link.request("notifications/cancelled")
        asked = fake.link.requests("tools/call")[-1]
        assert told["params"] == {"requestId": asked["id"], "reason": "timed out"}
        fake.link.answer(asked["id"], {})
        assert caller.take(2, "echo", {}), "its slot is free again"


async def test_a_call_that_its_client_cancels_is_cancelled_at_the_child(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        params: JsonObject = {"requestId": 1, "reason": "enough"}
        await caller.client.peer.receive(Notification("notifications/cancelled", params))
        told = await fake.link.request("notifications/cancelled")
        sent = fake.link.requests("tools/call")[-1]
        assert told["params"] == {"requestId": sent["id"], "reason": "enough"}
        assert caller.reply.answers == [None]
        (record,) = caller.at.audit.records
        assert record.verdict == "cancelled"
        await caller.client.peer.backlog.idle()


async def test_what_a_child_asks_within_a_call_that_was_given_up_is_not_taken_for_anothers(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        await caller.client.peer.receive(Notification("notifications/cancelled", {"requestId": 1}))
        (slot,) = caller.client.session.slots
        assert slot.child is not None
        assert slot.child.answers.questions.abandoned().keys() == {caller.client.session.party}


async def test_nor_is_what_it_asks_within_a_call_whose_answer_was_lost(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = lost(0, "it broke off")
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        await caller.result()
        (slot,) = caller.client.session.slots
        assert slot.child is not None
        assert slot.child.answers.questions.abandoned().keys() == {caller.client.session.party}


async def test_a_client_that_goes_cancels_its_calls(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        caller.client.peer.close("the client is gone")
        await fake.link.request("notifications/cancelled")
        assert not caller.take(2, "echo", {})


async def test_no_more_calls_than_the_child_takes_are_sent_and_the_others_follow(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=2) as caller:
        for number in range(5):
            assert caller.take(number, "echo", {"text": str(number)})
        sent = fake.link.requests("tools/call")[2:]
        assert [one["params"]["arguments"]["text"] for one in sent] == ["0", "1"]
        for nth in range(5):
            asked = fake.link.requests("tools/call")[2 + nth]
            fake.link.answer(asked["id"], {"nth": nth})
            assert (await caller.result(nth + 1))["nth"] == nth
        assert [answer.id for answer in caller.reply.answers if answer] == [0, 1, 2, 3, 4]


@pytest.mark.long
async def test_many_calls_of_one_client_keep_no_other_from_its_turn(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=1) as caller:
        for number in range(4):
            assert caller.take(number, "echo", {"text": str(number)})
        other = caller.at.client(top)
        arguments: JsonObject = {"text": "other"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.call, "echo", arguments)
            for nth in range(5):
                await anyio.wait_all_tasks_blocked()
                asked = fake.link.requests("tools/call")[2 + nth]
                fake.link.answer(asked["id"], {"content": []})
        sent = [one["params"]["arguments"]["text"] for one in fake.link.requests("tools/call")[2:]]
        assert sent == ["0", "1", "other", "2", "3"]


async def test_a_call_that_waits_for_a_slot_is_judged_again_if_its_root_is_another_folder_by_then(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=1) as caller:
        assert caller.take(1, "echo", {})
        assert caller.take(2, "read", {"path": f"{top}/f"})
        move(top)
        plant(top.parent, "a/f")
        fake.link.answer(fake.link.requests("tools/call")[-1]["id"], {"a": 1})
        await caller.result()
        (again,) = caller.reply.resolved_again
        assert again.id == 2
        assert len(fake.link.requests("tools/call")) == 3
        assert (await caller.client.call("read", {"path": f"{top}/f"}))["isError"] is True


async def test_a_call_that_waits_for_a_slot_can_be_cancelled(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=1) as caller:
        assert caller.take(1, "echo", {})
        assert caller.take(2, "echo", {})
        params: JsonObject = {"requestId": 2}
        await caller.client.peer.receive(Notification("notifications/cancelled", params))
        fake.link.answer(fake.link.requests("tools/call")[-1]["id"], {"a": 1})
        assert await caller.result(2) == {"a": 1}
        assert len(fake.link.requests("tools/call")) == 3
        assert fake.link.requests("notifications/cancelled") == []


@virtual_time
async def test_a_call_that_waits_too_long_for_a_slot_is_not_sent_and_says_so(
    fake: FakeChild, top: Path
) -> None:
    async with calling(fake, top, concurrency=1, timeout=0.01) as caller:
        assert caller.slots.take()
        assert caller.take(1, "echo", {})
        result = await caller.result()
        assert result["isError"] is True
        assert "'files' was not called: its only slot was taken" in str(result["content"])
        (record,) = caller.at.audit.records
        assert record.verdict == "failed"
        caller.slots.give()
        assert caller.take(1, "echo", {}), "neither its id nor the slot is taken"
        await caller.result(2)
        assert len(fake.link.requests("tools/call")) == 3


@virtual_time
async def test_a_call_that_waits_too_long_is_not_cancelled_while_its_answer_is_on_its_way(
    fake: FakeChild, top: Path
) -> None:
    async with calling(fake, top, concurrency=1, timeout=0.01) as caller:
        assert caller.slots.take()
        caller.reply.is_stuck = True
        caller.reply.on_deliver = lambda: caller.client.peer.backlog.cancel({"requestId": 1})
        assert caller.take(1, "echo", {})
        await caller.result()
        assert [record.verdict for record in caller.at.audit.records] == ["failed"]
        caller.slots.give()
        assert caller.slots.take()
        assert not caller.slots.take()


@virtual_time
async def test_a_call_has_all_its_time_from_its_turn_on(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=1, timeout=0.05) as caller:
        assert caller.slots.take()
        assert caller.take(1, "echo", {})
        caller.slots.give()
        result = await caller.result()
        assert "did not answer within 0.05 s" in str(result["content"])


async def test_a_call_whose_route_closes_while_it_waits_is_resolved_again(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=1) as caller:
        assert caller.take(1, "echo", {})
        assert caller.take(2, "echo", {"text": "two"})
        assert caller.take(3, "echo", {"text": "three"})
        caller.client.session.roots.list_changed()
        fake.link.answer(fake.link.requests("tools/call")[-1]["id"], {})
        await caller.result()
        assert [request.id for request in caller.reply.resolved_again] == [2, 3]
        assert len(fake.link.requests("tools/call")) == 3
        assert caller.client.peer.backlog.accepts(2)


async def test_a_child_sees_nothing_of_calls_in_line_whose_client_goes(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top, concurrency=2) as caller:
        for id_ in range(6):
            assert caller.take(id_, "echo", {"text": f"{id_}"})
        caller.client.peer.close("gone")
        await anyio.wait_all_tasks_blocked()
        sent = fake.link.requests("tools/call")[2:]
        assert [one["params"]["arguments"]["text"] for one in sent] == ["0", "1"]
        assert len(fake.link.requests("notifications/cancelled")) == 2


async def test_what_the_child_reports_goes_out_before_its_answer(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {}, _meta={"progressToken": "mine"})
        asked = fake.link.requests("tools/call")[-1]
        under = asked["params"]["_meta"]["progressToken"]
        assert under != "mine"
        fake.link.notify("notifications/progress", {"progressToken": under, "progress": 1})
        fake.link.answer(asked["id"], {})
        await caller.result()
        assert caller.reply.outlet.messages == [
            Notification("notifications/progress", {"progressToken": "mine", "progress": 1})
        ]


async def test_a_child_can_ask_the_client_of_a_call(fake: FakeChild, top: Path) -> None:
    fake.answers["tools/call"] = SILENT
    async with rig({"files": FILES}, {"files": fake}) as at:
        client = at.client(capabilities={"sampling": {}})
        fake.answers["tools/call"] = {}
        await client.call("echo", {})
        fake.answers["tools/call"] = SILENT
        caller = DispatchedCaller(at, client)
        assert caller.take(1, "echo", {})
        fake.link.ask("q", "sampling/createMessage", {"messages": []})
        asked = await caller.reply.outlet.next_request()
        assert asked.method == "sampling/createMessage"
        await client.peer.receive(Response(asked.id, {"role": "assistant"}))
        assert (await fake.link.reply("q"))["result"] == {"role": "assistant"}


async def test_a_question_that_comes_right_before_its_calls_answer_is_not_taken_for_anothers(
    fake: FakeChild,
) -> None:
    fake.is_read_at_once = True
    async with rig({"files": FILES}, {"files": fake}) as at:
        callers = [DispatchedCaller(at, at.client(capabilities={"sampling": {}})) for _ in range(2)]
        for caller in callers:
            await caller.client.call("echo", {})
        (slot,) = callers[0].client.session.slots
        assert slot.child is not None
        slot.child.answers.habits.asked("echo")
        fake.answers["tools/call"] = SILENT
        for caller in callers:
            assert caller.take(1, "echo", {})
        *_, first, _ = fake.link.requests("tools/call")
        fake.link.ask("q", "sampling/createMessage", {"messages": []})
        fake.link.answer(first["id"], {})
        assert "several clients" in (await fake.link.reply("q"))["error"]["message"]


async def test_a_client_that_does_not_read_gets_its_answer_when_it_does(
    fake: FakeChild, top: Path
) -> None:
    async with calling(fake, top) as caller:
        caller.reply.is_stuck = True
        assert caller.take(1, "echo", {"text": "x"})
        assert (await caller.result())["structuredContent"] == {"text": "x"}
        await caller.client.peer.backlog.idle()


async def test_a_child_that_turns_out_to_want_roots_has_the_call_resolved_again(
    fake: FakeChild, top: Path
) -> None:
    fake.answers["tools/call"] = SILENT
    async with calling(fake, top) as caller:
        caller.client.session.unasked = True
        assert caller.take(1, "echo", {})
        asked = fake.link.requests("tools/call")[-1]
        (slot,) = caller.client.session.slots
        assert slot.child is not None
        slot.child.answers.unknown = True
        fake.link.ask("q", "roots/list", {})
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        assert [request.id for request in caller.reply.resolved_again] == [1]
        assert caller.reply.answers == []
        (record,) = caller.at.audit.records
        assert (record.verdict, record.reason) == ("cancelled", "its client is asked for its roots")


async def test_an_error_that_names_urls_is_known_to_the_client(fake: FakeChild, top: Path) -> None:
    data: JsonObject = {"elicitations": [{"mode": "url", "elicitationId": "e", "url": "http://x"}]}
    fake.answers["tools/call"] = Failure(None, {"code": -32042, "message": "go", "data": data})
    async with calling(fake, top) as caller:
        assert caller.take(1, "echo", {})
        await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        done = Notification("notifications/elicitation/complete", {"elicitationId": "e"})
        caller.client.session.notifier.tell(FILES, done)
        await caller.client.session.notifier.send_queue.flush()
        assert done in caller.client.outlet.messages


async def test_a_call_that_is_asked_for_roots_has_its_answer_at_once(
    fake: FakeChild, top: Path
) -> None:
    route = KnownAnswer(Raw(b'{"resultType":"input_required"}'))
    async with calling(fake, top) as caller:
        request = Request("x", "tools/call", {"name": "read"})
        assert caller.dispatcher.take(request, route, caller.reply) is not None
        assert caller.reply.answers == [Response("x", route.result)]
        assert caller.client.peer.backlog.is_idle
        caller.reply.is_stuck = True
        assert caller.dispatcher.take(request, route, caller.reply) is None
        caller.reply.is_stuck = False
        caller.client.peer.backlog.add("x", route)
        assert caller.dispatcher.take(request, route, caller.reply) is None, "its id is in use"
        assert len(caller.reply.answers) == 1


async def test_a_fault_in_passing_a_result_on_ends_no_connection(
    fake: FakeChild, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault of the hub")

    async with calling(fake, top) as caller:
        with monkeypatch.context() as broken, capture_logs() as logs:
            broken.setattr("hub.calls.in_flight.too_large", fail)
            caller.at.services.max_result = ResultLimit(1, "max_result")
            assert caller.take(1, "echo", {})
            await caller.reply.signals.until(lambda: bool(caller.reply.answers))
        assert caller.reply.answers == [Failure(1, InternalError().error)]
        assert [entry["event"] for entry in logs] == ["result not passed on"]
        caller.at.services.max_result = None
        assert caller.take(2, "echo", {})
        await caller.result(2)
        assert caller.client.peer.backlog.is_idle
