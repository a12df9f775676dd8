"""Sessions of another process: two endpoints with the same secrets, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.protocol.constants import LIST_CHANGED
from hub.server.http.adoption import MAX_ID, SessionIds
from hub.server.http.app import HttpLimits
from hub.server.http.auth.credentials import BearerTokens
from hub.system.sealing import RememberedIds, SealingSecrets
from hub.values import JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeClock
from tests.kit.loops import all_tasks_blocked
from tests.server.http.test_app import LEGACY, ROOTS, asked, echo, initialize, told, web

BOTH = "application/json, text/event-stream"


class Processes:
    """What the processes of one hub share: secrets, and the file of ended ids."""

    def __init__(self, path: Path | None = None) -> None:
        self.clock = FakeClock(1_800_000_000)
        self.secrets = SealingSecrets((b"shared" * 6,))
        self.path = path

    def ids(self, replica: str | None = None, *adopts: str) -> SessionIds:
        ended = RememberedIds(self.clock, self.path)
        return SessionIds(self.secrets, self.clock, ended=ended, replica=replica, adopts=adopts)


async def test_a_session_goes_on_in_the_next_process_which_asks_for_its_roots_anew() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        key = await site.session(ROOTS)
    async with web(ids=hub.ids()) as site:
        call = site.start("POST", key, echo())
        (wanted,) = await call.heard(1)
        assert wanted["method"] == "roots/list"
        answer: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(answer, key)).status == 202
        assert (await call.over()).events[1]["result"]["structuredContent"] == {"text": "hi"}
        (connection,) = site.connection_builder
        client = connection.session.client
        assert client is not None
        assert (client.version, client.capabilities) == (LEGACY, ROOTS)


async def test_a_session_goes_on_whatever_comes_first() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        keys = [await site.session() for _ in range(4)]
    async with web(ids=hub.ids()) as site:
        assert (await site.post(asked("ping"), keys[0])).json["result"] == {}
        assert (await site.post(told("notifications/roots/list_changed"), keys[1])).status == 202
        assert (await site.use("DELETE", keys[2])).status == 200
        stream = site.start("GET", keys[3])
        await stream.began()
        assert stream.status == 200
        again = await site.post(initialize(), keys[0])
        assert "already" in again.json["error"]["message"]


async def test_a_stream_can_be_resumed_that_is_opened_right_after_the_handshake() -> None:
    async with web() as site:
        handshake = site.start("POST", None, initialize())
        key = (await handshake.over()).headers["mcp-session-id"]
        stream = site.start("GET", key)
        await all_tasks_blocked()
        assert stream.ids == ["0-0"]


async def test_its_client_is_told_to_list_again() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        key = await site.session()
    async with web(ids=hub.ids()) as site:
        assert (await site.post(asked("ping"), key)).status == 200
        stream = site.start("GET", key)
        assert [event["method"] for event in await stream.heard(3)] == list(LIST_CHANGED)


async def test_an_event_stream_goes_on_after_an_event_of_the_process_before() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        key = await site.session()
    async with web(ids=hub.ids()) as site:
        stream = site.start("GET", key, last_event_id="0-17")
        assert len(await stream.heard(3)) == 3
    async with web(ids=hub.ids()) as site:
        lost = await site.use("GET", key, last_event_id="3-1")
        assert (lost.status, "make the request again" in str(lost.json)) == (400, True)


async def test_no_event_is_taken_for_one_of_the_process_before() -> None:
    """A client whose new stream breaks before it has read of it comes back with the old event."""
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        key = await site.session()
    async with web(ids=hub.ids()) as site:
        unread = site.start("GET", key, last_event_id="0-2")
        await unread.heard(3)
        unread.disconnect()
        await unread.served()
        stream = site.start("GET", key, last_event_id="0-2")
        assert [event["method"] for event in await stream.heard(3)] == list(LIST_CHANGED)
        assert stream.ids[-3:] == unread.ids[-3:]
        newer = site.start("GET", key, last_event_id="0-2")
        await newer.heard(3)
        assert (newer.status, (await stream.over()).status) == (200, 200)


async def test_no_stream_is_taken_for_one_of_the_process_before() -> None:
    hub = Processes()
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(ids=hub.ids()) as site:
        key = await site.session(ROOTS)
        first = site.start("POST", key, echo())
        await first.heard(1)
        old = first.ids[-1]
    hub.clock.now += 1
    async with web(child, ids=hub.ids()) as site:
        second = site.start("POST", key, echo(3))
        await second.heard(1)
        assert second.ids[-1] != old
        lost = await site.use("GET", key, last_event_id=old)
        assert lost.status == 400
        assert not second.is_over


async def test_an_answer_to_the_process_before_is_no_answer_to_this_one() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        key = await site.session(ROOTS)
        (wanted,) = await site.start("POST", key, echo()).heard(1)
    async with web(ids=hub.ids()) as site:
        call = site.start("POST", key, echo())
        (again,) = await call.heard(1)
        assert again["id"] != wanted["id"]
        late: JsonObject = {"jsonrpc": "2.0", "id": wanted["id"], "result": {"roots": []}}
        assert (await site.post(late, key)).status == 202
        await all_tasks_blocked()
        assert not call.is_over


async def test_what_was_ended_is_not_adopted(tmp_path: Path) -> None:
    hub = Processes(tmp_path / "ended")
    async with web(ids=hub.ids(), limits=HttpLimits(session_idle=0.06)) as site:
        deleted, idle = await site.session(), await site.session()
        assert (await site.use("DELETE", deleted)).status == 200
        site.clock.now += 1
        await site.until_closed(2)
        kept = await site.session()
        for key in (deleted, idle):
            assert (await site.post(asked("ping"), key)).status == 404
    async with web(ids=hub.ids()) as site:
        for key in (deleted, idle):
            assert (await site.post(asked("ping"), key)).status == 404
        assert (await site.post(asked("ping"), kept)).status == 200
        assert (await site.use("DELETE", kept)).status == 200
        assert (await site.post(asked("ping"), kept)).status == 404


async def test_adopted_sessions_count_as_new_ones_do(tmp_path: Path) -> None:
    hub = Processes(tmp_path / "ended")
    async with web(FakeChild(ECHO), ids=hub.ids()) as site:
        keys = [await site.session() for _ in range(4)]
    async with web(FakeChild(ECHO), ids=hub.ids(), limits=HttpLimits(sessions=4)) as site:
        for key in keys[:2]:
            assert (await site.post(echo(), key)).status == 200
        refused = await site.post(echo(), keys[2])
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert (await site.use("DELETE", keys[0])).status == 200
        assert (await site.post(echo(), keys[2])).status == 200, "it was not ended meanwhile"


@pytest.mark.parametrize("principal", ["token", "local"])
async def test_who_is_another_principal_adopts_nothing(principal: str) -> None:
    hub = Processes()
    authorized = {"authorization": "Bearer s3cret"}
    asking, open_to_all = BearerTokens("s3cret"), BearerTokens()
    first, later = (asking, open_to_all) if principal == "token" else (open_to_all, asking)
    async with web(ids=hub.ids(), tokens=first) as site:
        begun = await site.post(initialize(), **authorized)
        key = begun.headers["mcp-session-id"]
    async with web(ids=hub.ids(), tokens=later) as site:
        assert (await site.post(asked("ping"), key, **authorized)).status == 404


async def test_replicas_adopt_what_they_take_over_alone() -> None:
    hub = Processes()
    async with web(ids=hub.ids("a")) as site:
        key = await site.session()
        assert key.startswith("a.")
    async with web(ids=hub.ids("b")) as site:
        assert (await site.post(asked("ping"), key)).status == 404
    async with web(ids=hub.ids("b", "a")) as site:
        assert (await site.post(asked("ping"), key)).status == 200


async def test_a_client_that_declares_too_much_has_a_session_in_this_process_alone() -> None:
    hub = Processes()
    large: JsonObject = {"sampling": {"x": "y" * 5000}}
    async with web(ids=hub.ids()) as site:
        key = await site.session(large)
        assert len(key) < MAX_ID
        assert (await site.post(asked("ping"), key)).status == 200
    async with web(ids=hub.ids()) as site:
        assert (await site.post(asked("ping"), key)).status == 404


async def test_a_hub_that_drains_opens_and_adopts_nothing() -> None:
    hub = Processes()
    async with web(ids=hub.ids()) as site:
        earlier = await site.session()
    async with web(ids=hub.ids()) as site:
        key = await site.session()
        site.app.drain()
        for refused in (await site.post(initialize()), await site.post(asked("ping"), earlier)):
            assert (refused.status, "retry-after" in refused.headers) == (503, True)
        assert (await site.post(asked("ping"), key)).status == 200


async def test_calls_in_progress_keep_a_hub_busy_and_streams_do_not() -> None:
    async with web(FakeChild(ECHO, answers={"tools/call": SILENT})) as site:
        key = await site.session()
        stream = site.start("GET", key)
        await stream.began()
        assert not site.app.is_busy
        call = site.start("POST", key, echo())
        await (await site.child.connected()).request("tools/call")
        assert site.app.is_busy
        call.disconnect()
        await call.served()
        assert not site.app.is_busy
