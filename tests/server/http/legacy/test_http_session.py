from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.jsonrpc import rated_log
from hub.jsonrpc.rated_log import LINES
from hub.protocol.constants import INVALID_REQUEST
from hub.server.http.legacy.event_store import MAX_AGE
from hub.values import JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeLink
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.server.http.test_app import Web, asked, code, echo, initialize, told, web

CHANGED = "notifications/tools/list_changed"


async def streaming(site: Web, key: str) -> tuple[Connection, FakeLink, dict[str, Any]]:
    """Make a call that has told of its progress, and is not answered yet."""
    call = site.start("POST", key, echo(meta={"progressToken": "p"}))
    link = await site.child.connected()
    sent = await link.request("tools/call")
    token = sent["params"]["_meta"]["progressToken"]
    link.notify("notifications/progress", {"progressToken": token, "progress": 1})
    await call.heard(1)
    return call, link, sent


def silent() -> FakeChild:
    return FakeChild(ECHO, answers={"tools/call": SILENT})


async def test_a_call_goes_on_while_its_client_is_away_and_is_answered_when_it_comes_back() -> None:
    async with web(silent()) as site:
        key = await site.session()
        call, link, sent = await streaming(site, key)
        call.disconnect()
        await all_tasks_blocked()
        again = site.start("GET", key, last_event_id=call.ids[-1])
        await again.began()
        link.answer(sent["id"], {"content": [], "n": 1})
        await again.over()
        assert [one["result"]["n"] for one in again.events] == [1]
        assert again.ids == ["1-1", "1-2"]


async def test_an_answer_is_there_for_a_client_that_comes_back_late() -> None:
    async with web(silent()) as site:
        key = await site.session()
        call, link, sent = await streaming(site, key)
        call.disconnect()
        link.answer(sent["id"], {"content": []})
        await call.served()
        again = await site.use("GET", key, last_event_id="1-0")
        assert [one.get("method", "answer") for one in again.events] == [
            "notifications/progress",
            "answer",
        ]
        assert again.is_over


@virtual_time
async def test_a_call_is_cancelled_when_its_client_stays_away() -> None:
    async with web(silent()) as site:
        key = await site.session()
        call, link, sent = await streaming(site, key)
        call.disconnect()
        cancelled = await link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        await call.served()


async def test_a_call_whose_client_is_away_ends_with_its_session() -> None:
    async with web(silent()) as site:
        key = await site.session()
        call, link, sent = await streaming(site, key)
        call.disconnect()
        await all_tasks_blocked()
        assert (await site.use("DELETE", key)).status == 200
        cancelled = await link.request("notifications/cancelled")
        assert cancelled["params"]["requestId"] == sent["id"]
        await call.served()


@pytest.mark.parametrize("seen", ["", "nonsense", "1-7", "9-0", "0-1"])
async def test_an_event_that_is_not_known_is_said_to_be_so(seen: str) -> None:
    async with web() as site:
        key = await site.session()
        refused = await site.use("GET", key, last_event_id=seen)
        assert (refused.status, code(refused)) == (400, INVALID_REQUEST)
        assert f"{seen!r}" in refused.json["error"]["message"]


async def test_one_sessions_events_are_not_anothers() -> None:
    async with web(silent()) as site:
        first, second = await site.session(), await site.session()
        await streaming(site, first)
        assert (await site.use("GET", second, last_event_id="1-0")).status == 400


async def test_a_client_that_comes_back_too_late_again_and_again_does_not_fill_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rated_log, "LINES_A_SECOND", 0)  # however long this takes
    async with web(silent()) as site:
        key = await site.session()
        call, _, _ = await streaming(site, key)
        call.disconnect()
        await all_tasks_blocked()
        site.clock.advance(MAX_AGE + 1)
        with capture_logs() as logs:
            for _ in range(LINES + 50):
                again = site.start("GET", key, last_event_id="1-0")
                await again.began()
                again.disconnect()
                await again.served()
        assert 0 < len([one for one in logs if "too late" in one["event"]]) < LINES + 50


async def test_what_belongs_to_no_request_can_be_fetched_later_too() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        stream = site.start("GET", key)
        await stream.began()
        for _ in range(2):
            site.child.link.notify(CHANGED, {})
            await stream.heard(1)
        await stream.heard(2)
        assert stream.ids == ["0-0", "0-1", "0-2"]
        again = site.start("GET", key, last_event_id="0-1")
        assert [one["method"] for one in await again.heard(1)] == [CHANGED]
        await stream.over()


async def test_a_client_that_names_streams_first_gets_one() -> None:
    async with web() as site:
        key = await site.session()
        both = "text/event-stream, application/json"
        answer = await site.post(asked("tools/list"), key, accept=both)
        assert (answer.is_stream, answer.ids) == (True, ["1-0", "1-1"])
        assert "tools" in answer.events[0]["result"]
        assert not (await site.post(asked("tools/list"), key)).is_stream


async def test_a_client_of_an_older_revision_gets_no_empty_event() -> None:
    async with web() as site:
        older = initialize()
        assert isinstance(older["params"], dict)
        older["params"]["protocolVersion"] = "2025-06-18"
        key = (await site.post(older)).headers["mcp-session-id"]
        await site.post(told(), key)
        both = "text/event-stream, application/json"
        answer = await site.post(asked("tools/list"), key, accept=both)
        assert (answer.is_stream, answer.ids) == (True, ["1-1"])


async def test_a_call_that_takes_long_is_fetched_where_the_hub_is_told_so() -> None:
    async with web(silent(), poll_after=0.001) as site:
        key = await site.session()
        call = site.start("POST", key, echo())
        link = await site.child.connected()
        sent = await link.request("tools/call")
        await call.over()
        assert (call.ids, call.events) == (["1-0"], [])
        link.answer(sent["id"], {"content": []})
        await call.served()
        assert len((await site.use("GET", key, last_event_id="1-0")).events) == 1


async def test_what_has_the_name_of_a_tool_is_no_call_of_it() -> None:
    async with web() as site:
        key = await site.session()
        await site.post(echo(), key)
        called = len(site.child.link.requests("tools/call"))
        prompt: JsonObject = {**echo(3), "method": "prompts/get"}
        assert "error" in (await site.post(prompt, key)).json
        assert len(site.child.link.requests("tools/call")) == called
