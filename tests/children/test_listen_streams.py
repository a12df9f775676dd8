"""Notifications of a modern child, on the listen streams that the hub opens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from hub.children import listen_streams
from hub.children.child import Child
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Payload, Request, as_object
from hub.protocol.constants import INVALID_PARAMS, LIST_CHANGED, METHOD_NOT_FOUND
from hub.protocol.listen_filter import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_ID_META, UPDATED
from hub.values import Json, JsonObject
from tests.calls.test_listen_streams import acknowledging
from tests.kit.fakes import ECHO, SILENT, Answer, FakeChild, RecordingLessee, failure
from tests.kit.loops import VIRTUAL, Backend, all_tasks_blocked
from tests.kit.rigs import remote, rig

TOOLS = "notifications/tools/list_changed"
MEMO = "memo://x"
TELLS: JsonObject = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


@pytest.fixture
def anyio_backend() -> Backend:
    """Let no child seem slow because the machine is."""
    return VIRTUAL


def modern(**changes: Any) -> FakeChild:
    child = FakeChild(ECHO, era="modern", capabilities=TELLS, **changes)
    child.answers["resources/list"] = {"resources": []}
    child.answers["resources/templates/list"] = {"resourceTemplates": []}
    child.answers.setdefault(LISTEN, acknowledging(child))
    return child


@asynccontextmanager
async def ready(fake: FakeChild) -> AsyncGenerator[tuple[Child, RecordingLessee]]:
    spec = remote()
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client()
        slot = client.session.slot_for(spec, await client.session.effective(client.outlet))
        user = RecordingLessee()
        slot.users[client.session.key] = user
        yield await at.services.children.obtain(slot), user


def wanted(fake: FakeChild) -> list[Any]:
    return [line["params"]["notifications"] for line in fake.link.requests(LISTEN)]


async def test_a_child_is_asked_for_the_changes_that_it_declares_before_it_is_listed() -> None:
    fake = modern()
    async with ready(fake) as (_, user):
        assert wanted(fake) == [{"toolsListChanged": True}]
        sent = [line["method"] for line in fake.link.seen]
        assert sent.index(LISTEN) < sent.index("resources/list") or LISTEN in sent
        (line,) = fake.link.requests(LISTEN)
        assert "io.modelcontextprotocol/protocolVersion" in line["params"]["_meta"]
        fake.link.notify(TOOLS, {"_meta": {SUBSCRIPTION_ID_META: line["id"]}})
        await user.signals.until(lambda: bool(user.heard))
        assert [(told.method, told.params) for told in user.heard] == [(TOOLS, {})]


async def test_a_child_that_declares_no_changes_is_asked_for_none() -> None:
    fake = modern()
    discovered: Any = fake.answers["server/discover"]
    discovered["capabilities"] = {"tools": {}}
    async with ready(fake):
        assert wanted(fake) == []


async def test_each_subscribed_resource_has_a_stream_that_ends_with_it() -> None:
    fake = modern()
    async with ready(fake) as (child, user):
        assert await child.forward("resources/subscribe", {"uri": MEMO}) == {}
        assert await child.forward("resources/subscribe", {"uri": MEMO}) == {}
        assert wanted(fake)[1:] == [{"resourceSubscriptions": [MEMO]}]
        line = fake.link.requests(LISTEN)[1]
        meta: JsonObject = {SUBSCRIPTION_ID_META: line["id"], "own": 1}
        fake.link.notify(UPDATED, {"uri": MEMO, "_meta": meta})
        await user.signals.until(lambda: bool(user.heard))
        assert user.heard[0].params == {"uri": MEMO, "_meta": {"own": 1}}
        assert await child.forward("resources/unsubscribe", {"uri": MEMO}) == {}
        cancelled = await fake.link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == line["id"]
        assert await child.forward("resources/unsubscribe", {"uri": MEMO}) == {}


@pytest.mark.parametrize("honoured", [{}, {"resourceSubscriptions": []}, None, "x"])
async def test_a_resource_that_is_not_honoured_is_not_subscribed_to(honoured: Json) -> None:
    fake = modern()

    def begin(request: Request) -> Answer:
        params: JsonObject = {"_meta": {SUBSCRIPTION_ID_META: request.id}}
        fake.link.notify(ACKNOWLEDGED, {**params, "notifications": honoured})
        return SILENT

    fake.answers[LISTEN] = begin
    async with ready(fake) as (child, _):
        with pytest.raises(RpcError) as caught:
            await child.forward("resources/subscribe", {"uri": MEMO})
        assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("answer", "code"),
    [(failure(METHOD_NOT_FOUND, "no"), METHOD_NOT_FOUND), (SILENT, INVALID_PARAMS)],
)
async def test_a_child_without_listen_streams_still_serves_calls(answer: Answer, code: int) -> None:
    fake = modern()
    fake.answers[LISTEN] = answer
    async with ready(fake) as (child, _):
        with pytest.raises(RpcError) as caught:
            await child.forward("resources/subscribe", {"uri": MEMO})
        assert caught.value.code == code
        assert len((await child.ready()).listing.tools) == 1


async def test_a_stream_that_ends_is_requested_again_and_its_lists_are_read_again() -> None:
    fake = modern()
    async with ready(fake) as (_, user):
        (line,) = fake.link.requests(LISTEN)
        fake.answers["tools/list"] = {"tools": [ECHO, {**ECHO, "name": "more"}]}
        fake.link.answer(line["id"], {"resultType": "complete"})
        await fake.link.request(LISTEN, nth=2)
        await user.signals.until(lambda: bool(user.heard))
        assert user.heard[0].method == TOOLS


async def test_a_stream_that_its_child_cancels_has_ended_too() -> None:
    fake = modern()
    async with ready(fake) as (child, user):
        (line,) = fake.link.requests(LISTEN)
        fake.answers["tools/list"] = {"tools": [ECHO, {**ECHO, "name": "more"}]}
        for id_ in ("other", None, line["id"]):
            fake.link.notify("notifications/cancelled", {"requestId": id_, "reason": "bye"})
        again = await fake.link.request(LISTEN, nth=2)
        assert again["id"] != line["id"]
        await user.signals.until(lambda: bool(user.heard))
        assert [told.method for told in user.heard] == [TOOLS]
        assert len((await child.ready()).listing.tools) == 2


async def test_a_child_cancels_nothing_but_its_streams() -> None:
    fake, found = modern(), list[Payload]()
    fake.answers["completion/complete"] = SILENT
    async with ready(fake) as (child, _), anyio.create_task_group() as tasks:

        async def complete() -> None:
            found.append(await child.forward("completion/complete", {}))

        tasks.start_soon(complete)
        line = await fake.link.request("completion/complete")
        fake.link.notify("notifications/cancelled", {"requestId": line["id"]})
        await all_tasks_blocked()
        assert not found
        fake.link.answer(line["id"], {"resultType": "complete", "more": 1})
    assert [as_object(one) for one in found] == [{"resultType": "complete", "more": 1}]


async def test_a_notification_outside_of_a_stream_is_passed_on_unchanged() -> None:
    fake = modern()
    async with ready(fake) as (_, user):
        fake.link.notify(ACKNOWLEDGED, {"_meta": {SUBSCRIPTION_ID_META: "other"}})
        fake.link.notify(UPDATED, {"uri": MEMO})
        await user.signals.until(lambda: bool(user.heard))
        assert [told.method for told in user.heard] == [UPDATED]


async def test_streams_end_with_their_child() -> None:
    fake = modern()
    async with ready(fake) as (child, _):
        fake.link.crash()
        await fake.ended()
        await all_tasks_blocked()
        assert not child.answers.busy


def test_only_notifications_of_streams_are_changed() -> None:
    assert set(LIST_CHANGED) < listen_streams.OF_STREAMS


async def test_a_cancelled_subscription_leaves_no_stream_unless_another_waits_for_it() -> None:
    fake = modern()
    async with ready(fake) as (child, _):
        fake.answers[LISTEN] = SILENT
        before = len(fake.link.requests(LISTEN))

        async def subscribe(until: anyio.CancelScope) -> None:
            with until:
                await child.forward("resources/subscribe", {"uri": MEMO})

        first, second = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            for until in (first, second):
                tasks.start_soon(subscribe, until)
            await fake.link.request(LISTEN, nth=before + 1)
            second.cancel()
            await all_tasks_blocked()
            assert not fake.link.requests("notifications/cancelled")
            first.cancel()
        await fake.link.request("notifications/cancelled")
