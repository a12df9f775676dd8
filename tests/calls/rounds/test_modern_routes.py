from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Raw

from hub.calls.rounds.modern_routes import MAX_KEY, ModernRoute, key_of
from hub.calls.routes import KnownAnswer
from hub.children.clients import RootsNeededError
from hub.guard.decide import Admitted, Refused
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Request, as_object
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
)
from hub.protocol.input_requests import ROOTS_KEY
from hub.roots.effective import OperatorRoots
from hub.roots.roots import Announcement, parse_announcement
from hub.sessions.client import Client
from hub.sessions.services import RootsSettings
from hub.values import Json, JsonObject, object_or_empty
from tests.kit.fakes import ECHO, READ, Answer, FakeChild
from tests.kit.rigs import INFO, ROOTS, Rig, RigClient, remote, rig, roots_at
from tests.kit.trees import plant

VERSION = "2026-07-28"
FILES = remote("files")


def params(
    arguments: JsonObject | None = None,
    *,
    capabilities: Json = None,
    name: str = "read",
    **more: Json,
) -> JsonObject:
    """Return the params of a modern call."""
    meta: JsonObject = {
        PROTOCOL_VERSION_META: VERSION,
        CLIENT_INFO_META: {"name": "test"},
        CLIENT_CAPABILITIES_META: {} if capabilities is None else capabilities,
    }
    return {"name": name, "arguments": arguments or {}, "_meta": meta, **more}


def tool_call(given: JsonObject) -> Request:
    return Request(1, "tools/call", given)


def bringing(*paths: object) -> JsonObject:
    roots: list[Json] = [{"uri": f"file://{path}"} for path in paths]
    return {ROOTS_KEY: {"roots": roots}}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f", "link => a")


def announced(at: Rig, *shared: object) -> Announcement:
    """Return what a client that brought these roots announced by that."""
    machine, unsafe = at.services.machine, at.services.settings.unsafe
    raw = bringing(*shared)[ROOTS_KEY]
    found = parse_announcement(raw, links=machine.links, flavour=machine.flavour, unsafe=unsafe)
    assert found is not None
    return found


def modern(
    at: Rig, *shared: object, unasked: bool = False, kept: Announcement | None = None
) -> RigClient:
    """Return a client whose one request brings these roots, or whose earlier one brought `kept`."""
    capabilities = ROOTS if shared or kept is not None else dict[str, Json]()
    client = at.client(capabilities=capabilities)
    client.session.greeted(Client("modern", VERSION, capabilities, {}))
    client.session.unasked = unasked
    if kept is not None:
        client.session.roots.kept(kept, 0.0)
    elif shared:
        client.session.roots.given(bringing(*shared)[ROOTS_KEY])
    return client


async def called(
    at: Rig,
    given: JsonObject,
    *shared: object,
    unasked: bool = False,
    kept: Announcement | None = None,
) -> ModernRoute | None:
    """Make one modern call, and return the route that the next one finds."""
    client = modern(at, *shared, unasked=unasked, kept=kept)
    await client.request(client.asked_for("tools/call", given))
    client.session.close()
    found = at.relay.modern_routes.find("alice", Request(1, "tools/call", given), kept)
    assert not isinstance(found, KnownAnswer)
    return found


async def asked(at: Rig, given: JsonObject) -> KnownAnswer | None:
    """Make a call that is asked for its client's roots, and return how the next one goes."""
    client = modern(at, "/", unasked=True)
    with pytest.raises(RootsNeededError):
        await client.request(client.asked_for("tools/call", given))
    client.session.close()
    found = at.relay.modern_routes.find("alice", Request(1, "tools/call", given))
    assert not isinstance(found, ModernRoute)
    return found


async def test_a_call_leaves_its_lane_to_calls_that_bring_the_same_roots(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        inside: JsonObject = {"path": f"{top}/a/f"}
        given = params(inside, capabilities=ROOTS, inputResponses=bringing(top / "a"))
        found = await called(at, given, top / "a")
        assert found is not None
        admitted = found.judge(given)
        assert isinstance(admitted, Admitted)
        assert admitted.call.params == {"name": "read", "arguments": inside}
        outside: JsonObject = {**given, "arguments": {"path": f"{top}/b/f"}}
        assert isinstance(found.judge(outside), Refused)
        other = params(inside, capabilities=ROOTS, inputResponses=bringing(top / "b"))
        for principal, asked in (("alice", other), ("bob", given), ("alice", params(inside))):
            request = Request(2, "tools/call", asked)
            assert at.relay.modern_routes.find(principal, request) is None


async def test_no_tool_is_called_by_the_label_of_a_prompt() -> None:
    answers: dict[str, Answer] = {
        "prompts/list": {"prompts": [{"name": "ask"}]},
        "prompts/get": {"messages": []},
    }
    fake = FakeChild(READ, capabilities={"tools": {}, "prompts": {}}, answers=answers)
    async with rig({"files": FILES}, {"files": fake}) as at:
        client, prompt = modern(at), params(name="ask")
        await client.request(client.asked_for("prompts/get", prompt))
        find = at.relay.modern_routes.find
        assert find("alice", Request(2, "prompts/get", prompt)) is not None
        assert find("alice", tool_call(params(name="prompts/get\0ask"))) is None


async def test_a_root_that_was_replaced_admits_nothing(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        inside: JsonObject = {"path": f"{top}/a/f"}
        given = params(inside, capabilities=ROOTS, inputResponses=bringing(top / "a"))
        found = await called(at, given, top / "a")
        assert found is not None
        replace_with(top / "a", top / "b")
        assert found.judge(given) is None


def replace_with(one: Path, other: Path) -> None:
    one.rename(one.parent / "was")
    other.rename(one)


@pytest.mark.parametrize("retry", [["link"], ["a", "link"], ["a", "missing"], ["a", "a"]])
async def test_roots_that_may_come_to_mean_another_place_leave_none(
    top: Path, retry: list[str]
) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        shared = [top / name for name in retry]
        given = params(capabilities=ROOTS, inputResponses=bringing(*shared))
        assert await called(at, given, *shared) is None


async def test_without_roots_of_its_own_a_client_is_judged_by_the_operators(top: Path) -> None:
    operator = OperatorRoots(fallback=roots_at(top / "a"), fallback_source="config")
    async with rig({"files": FILES}, {"files": FakeChild(READ)}, operator=operator) as at:
        given = params({"path": f"{top}/a/f"})
        found = await called(at, given)
        assert found is not None
        assert isinstance(found.judge(given), Admitted)
        assert isinstance(found.judge(params({"path": f"{top}/b/f"})), Refused)
        at.services.operator.take(OperatorRoots(fallback=roots_at(top / "b")))
        request = Request(1, "tools/call", given)
        assert at.relay.modern_routes.find("alice", request) is None


async def test_roots_that_were_not_brought_admit_calls_without_paths_alone(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(ECHO)}) as at:
        given = params({"text": "x"}, name="echo", capabilities=ROOTS)
        found = await called(at, given, unasked=True)
        assert found is not None
        assert found.judge(given) is not None
        assert found.judge(params({"path": f"{top}/a/f"}, name="echo")) is None


async def test_headers_must_repeat_arguments_where_the_tool_says_so() -> None:
    text: JsonObject = {"type": "string", "x-mcp-header": "Text"}
    tool: JsonObject = {**ECHO, "inputSchema": {"type": "object", "properties": {"text": text}}}
    async with rig({"files": FILES}, {"files": FakeChild(tool)}) as at:
        given = params({"text": "x"}, name="echo")
        found = await called(at, given)
        assert found is not None
        routes, request = at.relay.modern_routes, tool_call(given)
        assert routes.find("alice", request) is found, "over stdio there are no headers"
        for headers, wanted in (
            ([("mcp-param-text", "x")], found),
            ([("mcp-param-text", "y")], None),
            ([], None),
        ):
            assert routes.find("alice", request, headers=headers) is wanted


async def test_a_place_that_was_given_up_closes_its_routes() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        found = await called(at, params())
        assert found is not None
        found.resolved.slot.is_kept = False
        assert not found.is_open


async def test_only_so_many_routes_are_kept() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ, ECHO)}) as at:
        at.relay.modern_routes.max_kept = 1
        assert await called(at, params()) is not None
        assert await called(at, params(name="echo")) is not None
        request = Request(1, "tools/call", params())
        assert at.relay.modern_routes.find("alice", request) is None


async def test_a_call_that_was_asked_for_roots_tells_what_the_next_is_answered() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        found = await asked(at, params(capabilities=ROOTS))
        assert found is not None
        assert as_object(found.result) == {
            "resultType": "input_required",
            "inputRequests": {ROOTS_KEY: {"method": "roots/list"}},
            "_meta": {SERVER_INFO_META: INFO},
        }
        assert not found.can_be_cancelled
        found.cancel()


async def test_a_tool_that_is_found_by_search_has_a_route_and_a_need_of_its_own(top: Path) -> None:
    def searched(tool: str, **more: Json) -> JsonObject:
        its: JsonObject = {"path": f"{top}/a/f"}
        asked: JsonObject = {"serverName": "files", "toolName": tool, "toolArgs": its}
        return params(asked, name="call-tool", capabilities=ROOTS, **more)

    fakes = {"files": FakeChild(READ, {**READ, "name": "look"})}
    async with rig({"files": FILES}, fakes, expose="search") as at:
        retry = bringing(top / "a")
        found = await called(at, searched("read", inputResponses=retry), top / "a")
        assert found is not None
        admitted = found.judge(searched("read"))
        assert isinstance(admitted, Admitted)
        assert admitted.call.params == {"name": "read", "arguments": {"path": f"{top}/a/f"}}
        other = Request(1, "tools/call", searched("look", inputResponses=retry))
        assert at.relay.modern_routes.find("alice", other) is None
        assert await asked(at, searched("read")) is not None
        unknown = Request(1, "tools/call", searched("look"))
        assert at.relay.modern_routes.find("alice", unknown) is None


async def test_only_so_many_needs_are_kept() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ, {**READ, "name": "look"})}) as at:
        at.relay.modern_routes.max_kept = 1
        given = params(capabilities=ROOTS)
        assert await asked(at, given) is not None
        assert await asked(at, {**given, "name": "look"}) is not None
        assert at.relay.modern_routes.find("alice", Request(1, "tools/call", given)) is None


async def test_what_needed_roots_by_the_old_config_is_looked_at_again() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params(capabilities=ROOTS)
        assert await asked(at, given) is not None
        at.services.operator.take(OperatorRoots())
        assert at.relay.modern_routes.find("alice", Request(1, "tools/call", given)) is None
        assert await asked(at, given) is not None


async def test_what_is_too_long_to_be_kept_leaves_none(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params(capabilities={**ROOTS, "sampling": {"x": "x" * MAX_KEY}})
        assert await asked(at, given) is None
        assert await called(at, {**given, "inputResponses": bringing(top)}, top) is None


async def test_results_are_completed_for_their_clients() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        found = await called(at, params())
        assert found is not None
        assert found.complete({"content": []}) == {
            "content": [],
            "resultType": "complete",
            "_meta": {SERVER_INFO_META: INFO},
        }
        with pytest.raises(RpcError, match="cannot be read"):
            found.complete(Raw(b"[]"))


@pytest.mark.parametrize(
    "more",
    [
        params(capabilities=[]),
        params(inputResponses=bringing("/a")),
        params(capabilities=ROOTS, inputResponses={"mine": {}, **bringing("/a")}),
        params(capabilities=ROOTS, inputResponses=5),
        params(requestState="x"),
        params(unknown=1),
        {**params(), "_meta": {**object_or_empty(params()["_meta"]), "unknown": 1}},
        {**params(), "_meta": {PROTOCOL_VERSION_META: VERSION}},
        {**params(), "name": 5},
        {**params(), "_meta": 5},
        {"name": "read"},
    ],
)
def test_a_call_that_may_want_more_than_its_answer_has_no_key(more: JsonObject) -> None:
    assert key_of("alice", tool_call(more)) is None


def test_who_calls_and_whether_he_hears_of_progress_makes_no_other_call() -> None:
    envelope = params()["_meta"]
    assert isinstance(envelope, dict)
    unnamed = {key: value for key, value in envelope.items() if key != CLIENT_INFO_META}
    for meta in (unnamed, {**envelope, "progressToken": 1}):
        assert key_of("alice", tool_call({**params(), "_meta": meta})) == key_of(
            "alice", tool_call(params())
        )


def test_who_says_wrongly_what_he_can_be_asked_goes_no_way_of_others() -> None:
    said: list[Json] = [{}, True, "form", {"form": {}}]
    keys = [key_of("alice", tool_call(params(capabilities={"elicitation": one}))) for one in said]
    assert None not in keys
    assert len(set(keys)) == len(said)


def test_a_version_that_the_hub_does_not_speak_has_no_key() -> None:
    known = params()["_meta"]
    assert isinstance(known, dict)
    meta: JsonObject = {**known, PROTOCOL_VERSION_META: "2099-01-01"}
    assert key_of("alice", tool_call({**params(), "_meta": meta})) is None


async def test_a_child_of_one_request_alone_leaves_none() -> None:
    async with rig({"files": remote(share="session")}, {"files": FakeChild(READ)}) as at:
        client = modern(at)
        await client.request(client.asked_for("tools/call", params()))
        request = Request(1, "tools/call", params())
        assert at.relay.modern_routes.find("alice", request) is None


async def test_roots_that_are_to_be_kept_leave_none(top: Path) -> None:
    settings = RootsSettings(reuse=60)
    fake = FakeChild(ECHO, READ)
    async with rig({"files": FILES}, {"files": fake}, settings=settings) as at:
        given = params(capabilities=ROOTS, inputResponses=bringing(top / "a"))
        assert await called(at, given, top / "a") is None
        assert await called(at, params()) is not None, "it brings none"
        plain = params(name="echo", capabilities=ROOTS)
        assert await called(at, plain, unasked=True) is not None, "nor does it"


async def test_calls_judged_by_the_same_kept_roots_go_one_way(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params({"path": f"{top}/a/f"}, capabilities=ROOTS)
        one, same = (announced(at, top / "a") for _ in range(2))
        found = await called(at, given, kept=one)
        assert found is not None
        assert isinstance(found.judge(given), Admitted)
        outside = params({"path": f"{top}/b/f"}, capabilities=ROOTS)
        assert isinstance(found.judge(outside), Refused)
        request = Request(1, "tools/call", given)
        assert at.relay.modern_routes.find("alice", request) is None, "they count no more"
        assert at.relay.modern_routes.find("alice", request, one) is found
        retry = Request(1, "tools/call", {**given, "inputResponses": bringing(top / "a")})
        assert at.relay.modern_routes.find("alice", retry, one) is None, "they are brought anew"
        assert at.relay.modern_routes.find("alice", request, same) is None, "these came after them"


async def test_a_kept_root_that_was_replaced_admits_nothing(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params({"path": f"{top}/a/f"}, capabilities=ROOTS)
        kept = announced(at, top / "a")
        found = await called(at, given, kept=kept)
        assert found is not None
        replace_with(top / "a", top / "b")
        assert found.judge(given) is None
        again = await called(at, given, kept=kept)
        assert again is None or again.judge(given) is None


async def test_kept_roots_are_not_for_who_has_none(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params({"path": f"{top}/a/f"})
        found = await called(at, given)
        request = Request(1, "tools/call", given)
        assert at.relay.modern_routes.find("alice", request, announced(at, top / "b")) is found


async def test_who_has_kept_roots_is_not_asked(top: Path) -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        given = params(capabilities=ROOTS)
        assert await asked(at, given) is not None
        request = Request(1, "tools/call", given)
        assert at.relay.modern_routes.find("alice", request, announced(at, top / "a")) is None


async def test_a_child_that_a_session_gave_other_roots_closes_the_route(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig({"files": FILES}, {"files": fake}) as at:
        given = params(capabilities=ROOTS, inputResponses=bringing(top / "a"))
        found = await called(at, given, top / "a")
        assert found is not None
        client = at.client(top / "a")
        await client.call("read", {})
        assert found.is_open
        client.shares(top / "b")
        client.session.roots.list_changed()
        await fake.link.request("notifications/roots/list_changed")
        assert not found.is_open
