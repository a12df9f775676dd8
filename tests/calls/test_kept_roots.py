"""`roots.reuse`: whose roots are kept, for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.calls.modern_calls import KeptRoots, client_key_of
from hub.calls.rounds.modern_routes import ModernRoute
from hub.jsonrpc.messages import Request
from hub.roots.roots import EMPTY, Announcement
from hub.values import JsonObject, SessionKey
from tests.kit.fakes import READ, FakeChild, FakeClock
from tests.kit.scripted import refusal, scripted
from tests.kit.trees import plant
from tests.server.test_modern import envelope, is_refused, read, with_roots

NONE = Announcement(EMPTY, ())
REUSE: dict[str, Any] = {"roots": {"reuse": 60}}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


def is_asked(result: JsonObject) -> bool:
    return result["resultType"] == "input_required"


def test_an_answer_counts_until_its_time_is_over() -> None:
    clock = FakeClock()
    kept = KeptRoots(lambda: 10.0, clock)
    kept.keep("alice", NONE)
    clock.now += 9.9
    found = kept.of("alice")
    assert found is not None
    assert found.announcement is NONE
    assert kept.of("bob") is None
    clock.now += 0.1
    assert kept.of("alice") is None
    assert kept.of("alice") is None


def test_nothing_is_kept_without_a_time_or_a_principal() -> None:
    clock = FakeClock()
    never, kept = KeptRoots(lambda: 0.0, clock), KeptRoots(lambda: 10.0, clock)
    never.keep("alice", NONE)
    kept.keep(None, NONE)
    assert never.of("alice") is kept.of(None) is None


def test_the_oldest_answers_go_first() -> None:
    kept = KeptRoots(lambda: 10.0, FakeClock(), max_kept=2)
    for caller in ("a", "b", "a", "c"):
        kept.keep(caller, NONE)
    assert [caller for caller in "abc" if kept.of(caller)] == ["a", "c"]


def test_a_principal_is_known_by_a_token_or_a_pipe() -> None:
    one, other = SessionKey("1"), SessionKey("2")
    assert client_key_of("token", one) == client_key_of("token", other) == "token"
    assert client_key_of("stdio", one) != client_key_of("stdio", other)
    assert client_key_of("local", one) is None


async def test_kept_roots_serve_the_next_requests(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child, config=REUSE) as hub:
        client = hub.client()
        assert is_asked(await read(client, f"{top}/a/x"))
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        assert not is_refused(await read(client, f"{top}/a/x"))
        assert is_refused(await read(client, f"{top}/b/x"))
        await client.request("tools/list", {"_meta": envelope()})
        assert len(child.links) == 1, "lists and calls come from one child"
        params: JsonObject = {"name": "get-roots", "_meta": envelope()}
        report: Any = (await client.request("tools/call", params))["structuredContent"]
        assert report["filePaths"] == [f"{top}/a"]


@pytest.mark.parametrize("principal", ["stdio", "t"])
async def test_calls_with_kept_roots_go_by_a_cached_route(top: Path, principal: str) -> None:
    async with scripted(FakeChild(READ), config=REUSE) as hub:
        client = hub.client(principal=principal)
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        params: JsonObject = {
            "name": "read",
            "arguments": {"path": f"{top}/a/x"},
            "_meta": envelope(),
        }
        request = Request(1, "tools/call", params)
        assert client.connection.route_for(request) is None, "the first of them is looked into"
        await client.request("tools/call", params)
        assert isinstance(client.connection.route_for(request), ModernRoute)
        on_its_own = hub.open_connection.route_for(principal, request, ())
        assert isinstance(on_its_own, ModernRoute) is (principal == "t")


async def test_an_answer_takes_the_place_of_the_kept_one(top: Path) -> None:
    async with scripted(FakeChild(READ), config=REUSE) as hub:
        client = hub.client()
        for name in ("a", "b"):
            await read(client, f"{top}/{name}/x", with_roots((top / name).as_uri()))
        assert is_refused(await read(client, f"{top}/a/x"))
        assert not is_refused(await read(client, f"{top}/b/x", {}))
        await read(client, f"{top}/b/x", with_roots())
        assert is_refused(await read(client, f"{top}/b/x")), "that there are none is kept too"


async def test_what_is_no_list_of_roots_is_not_kept(top: Path) -> None:
    async with scripted(FakeChild(READ), config=REUSE) as hub:
        client = hub.client()
        await read(client, f"{top}/a/x", {"roots-hub/roots": {"error": "no"}})
        assert is_asked(await read(client, f"{top}/a/x"))


async def test_a_kept_root_that_was_replaced_grants_nothing(top: Path) -> None:
    async with scripted(FakeChild(READ), config=REUSE) as hub:
        client = hub.client()
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        (top / "a").rename(top / "gone")
        plant(top, "a/x")
        assert is_refused(await read(client, f"{top}/a/x"))


async def test_each_request_is_asked_by_default(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        client = hub.client()
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        assert is_asked(await read(client, f"{top}/a/x"))


@pytest.mark.parametrize(
    ("principal", "is_kept"), [("stdio", False), ("local", False), ("t", True)]
)
async def test_other_connections_have_them_only_of_a_proven_principal(
    top: Path, principal: str, *, is_kept: bool
) -> None:
    async with scripted(FakeChild(READ), config=REUSE) as hub:
        one, other = (hub.client(principal=principal) for _ in range(2))
        await read(one, f"{top}/a/x", with_roots((top / "a").as_uri()))
        assert is_asked(await read(other, f"{top}/a/x")) is not is_kept


async def test_kept_roots_do_not_apply_to_clients_without_roots(top: Path) -> None:
    async with scripted(
        FakeChild(READ), config={"roots": {"reuse": 60, "when_missing": "deny"}}
    ) as hub:
        client = hub.client()
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        params: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/x"}}
        await refusal(client, "tools/call", {**params, "_meta": envelope(None)})
