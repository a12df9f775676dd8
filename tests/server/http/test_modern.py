from __future__ import annotations

import pytest

from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.rounds.modern_routes import Headers
from hub.calls.routes import CallRoute, KnownAnswer
from hub.children.clients import RootsNeededError
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.messages import Failure, Request
from hub.jsonrpc.peer import Outlet
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
)
from hub.server.connection import ClientConnection
from hub.server.http.auth.admission import Admission
from hub.server.http.fast_calls import PATIENCE, PlainCall
from hub.server.http.modern import MAX_UNDERWAY, ModernPost, ModernPosts
from hub.sessions.client import Client
from hub.system.tasks import TaskStarter
from hub.values import JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild
from tests.kit.rigs import ROOTS, Rig, remote, rig

VERSION = "2026-07-28"
META: JsonObject = {
    PROTOCOL_VERSION_META: VERSION,
    CLIENT_INFO_META: {"name": "test"},
    CLIENT_CAPABILITIES_META: {},
}
PARAMS: JsonObject = {"name": "echo", "arguments": {"text": "x"}, "_meta": META}
CALL = Request(7, "tools/call", PARAMS)


async def first(at: Rig) -> None:
    """Make the call that the others follow."""
    client = at.client()
    client.session.greeted(Client("modern", VERSION, {}, {}))
    await client.request(client.asked_for("tools/call", PARAMS))


class Ways:
    """Knows the ways of calls, and begins no conversation."""

    def __init__(self, at: Rig) -> None:
        self._at = at

    def __call__(self, outlet: Outlet, tasks: TaskStarter, principal: str, /) -> ClientConnection:
        raise AssertionError("no conversation is needed")

    def within(self, profile: str | None, /) -> Ways:
        return self

    def route_for(
        self, principal: str, request: Request, headers: Headers, /
    ) -> CallRoute | KnownAnswer | None:
        return self._at.relay.modern_routes.find(principal, request, headers=headers)

    def dispatcher(self, register: RequestRegistry, tasks: TaskStarter, /) -> CallDispatcher:
        return CallDispatcher(register, tasks)


class ModernSite:
    """An endpoint for modern calls."""

    def __init__(self, at: Rig, max_underway: int = MAX_UNDERWAY) -> None:
        self.at = at
        self.posts = ModernPosts(Ways(at), max_underway)
        self.taken: list[bool] = []

    def post(self, request: Request = CALL, owner: str = "alice") -> Connection:
        connection = Connection()
        post = ModernPost(self.posts, Admission("alice"), request, [], self.at.tasks, owner)
        call = PlainCall(post, Deadlines(PATIENCE), response=post.response(connection.send))
        self.taken.append(call.begin())
        if self.taken[-1]:
            self.at.tasks.start_soon(call.served, connection.receive)
        return connection


async def test_a_call_is_answered_as_the_era_wants_it_without_a_conversation() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(ECHO)}) as at:
        await first(at)
        site = ModernSite(at)
        connection = await site.post().over()
        assert connection.status == 200
        result = connection.json["result"]
        assert connection.json["id"] == 7
        assert result["structuredContent"] == {"text": "x"}
        assert result["resultType"] == "complete"
        assert result["_meta"][SERVER_INFO_META]["name"] == at.services.info["name"]


async def test_calls_of_two_clients_may_have_the_same_id() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote()}, {"files": fake}) as at:
        await first(at)
        fake.answers["tools/call"] = SILENT
        site = ModernSite(at)
        one, other = site.post(), site.post()
        await fake.link.request("tools/call", nth=3)
        for nth, asked in enumerate(fake.link.requests("tools/call")[1:]):
            fake.link.answer(asked["id"], {"nth": nth})
        assert (await one.over()).json["result"]["nth"] == 0
        assert (await other.over()).json["result"]["nth"] == 1


async def test_an_error_has_the_status_that_the_era_wants() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote()}, {"files": fake}) as at:
        await first(at)
        fake.answers["tools/call"] = Failure(None, {"code": -32021, "message": "no"})
        connection = await ModernSite(at).post().over()
        assert connection.status == 400
        assert connection.json["error"]["message"] == "no"


async def test_a_call_that_is_asked_for_roots_is_answered_so() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        params: JsonObject = {"name": "read", "_meta": {**META, CLIENT_CAPABILITIES_META: ROOTS}}
        client = at.client()
        client.session.greeted(Client("modern", VERSION, ROOTS, {}))
        client.session.unasked = True
        with pytest.raises(RootsNeededError):
            await client.request(client.asked_for("tools/call", params))
        connection = await ModernSite(at).post(Request(7, "tools/call", params)).over()
        assert connection.status == 200
        assert connection.json["id"] == 7
        assert connection.json["result"]["resultType"] == "input_required"


async def test_what_has_no_lane_is_left_alone() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(ECHO)}) as at:
        site = ModernSite(at)
        connections = [site.post(), site.post(Request(1, "tools/list", PARAMS))]
        assert site.taken == [False, False]
        assert all(connection.sent == [] for connection in connections)


async def test_so_many_calls_are_under_way_and_no_more() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote()}, {"files": fake}) as at:
        await first(at)
        fake.answers["tools/call"] = SILENT
        site = ModernSite(at, max_underway=2)
        connections = [site.post(), site.post()]
        assert site.taken == [True, False]
        asked = await fake.link.request("tools/call", nth=2)
        fake.link.answer(asked["id"], {})
        await connections[0].over()
        site.post()
        assert site.taken == [True, False, True]


async def test_an_owner_leaves_room_for_the_calls_of_others() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote()}, {"files": fake}) as at:
        await first(at)
        fake.answers["tools/call"] = SILENT
        site = ModernSite(at, max_underway=8)
        for owner in ("alice", "alice", "alice", "alice", "alice", "ben", "ben", "ben"):
            site.post(owner=owner)
        assert site.taken == [True] * 4 + [False] + [True] * 2 + [False]


async def test_the_end_of_the_hub_gives_calls_up() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote()}, {"files": fake}) as at:
        await first(at)
        fake.answers["tools/call"] = SILENT
        site = ModernSite(at)
        connection = site.post()
        await fake.link.request("tools/call", nth=2)
        site.posts.end()
        await fake.link.request("notifications/cancelled")
        answer = (await connection.over()).json
        assert answer["error"]["message"].startswith("the hub is ending")
