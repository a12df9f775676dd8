from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.calls.addressing import is_modern
from hub.catalog.pages import PAGE_SIZE
from hub.jsonrpc import exact_json
from hub.jsonrpc.messages import Failure, Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
    UNSUPPORTED_VERSION,
)
from hub.protocol.input_requests import ROOTS_KEY, URL_NEEDED
from hub.server.modern import supported
from hub.sessions.client import MAX_DECLARED
from hub.values import Json, JsonObject, object_or_empty
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, failure
from tests.kit.hubs import FakeClient, text_of
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import refusal, scripted
from tests.kit.trees import plant

VERSION = MODERN_VERSIONS[-1]
LEFT_OUT: JsonObject = {}


def envelope(roots: Json = LEFT_OUT, **more: Json) -> JsonObject:
    """Return the `_meta` of a client that declares roots, unless `roots` is None."""
    capabilities: JsonObject = {} if roots is None else {"roots": roots}
    return {
        PROTOCOL_VERSION_META: VERSION,
        CLIENT_CAPABILITIES_META: capabilities,
        CLIENT_INFO_META: {"name": "modern", "version": "1"},
        **more,
    }


def with_roots(*uris: Json) -> JsonObject:
    """Return the responses of a client that shares these."""
    roots: list[Json] = [{"uri": uri} if isinstance(uri, str) else uri for uri in uris]
    return {ROOTS_KEY: {"roots": roots}}


async def read(
    client: FakeClient, path: str, responses: Json = None, *, meta: JsonObject | None = None
) -> JsonObject:
    """Call `read`; with `responses` it is the retry of a call that was answered with a question."""
    params: JsonObject = {"name": "read", "arguments": {"path": path}, "_meta": meta or envelope()}
    if responses is not None:
        params["inputResponses"] = responses
    return await client.request("tools/call", params)


def is_refused(result: JsonObject) -> bool:
    return result.get("isError") is True and text_of(result).startswith("Access denied: ")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


# The envelope


@pytest.mark.parametrize(
    ("method", "meta", "modern"),
    [
        ("tools/list", {PROTOCOL_VERSION_META: VERSION}, True),
        ("tools/list", {PROTOCOL_VERSION_META: None}, True),
        ("tools/list", {}, False),
        ("tools/list", [PROTOCOL_VERSION_META], False),
        ("tools/list", None, False),
        ("initialize", {PROTOCOL_VERSION_META: VERSION}, False),
    ],
)
def test_the_envelope_makes_a_request_modern(method: str, meta: Json, *, modern: bool) -> None:
    assert is_modern(Request(1, method, {"_meta": meta})) is modern
    assert not is_modern(Request(1, method, {}))


@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01", "", None, 7, {}])
async def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(version: Json) -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client()
        meta: JsonObject = {**envelope(), PROTOCOL_VERSION_META: version}
        error = await refusal(client, "tools/list", {"_meta": meta})
        assert error["code"] == UNSUPPORTED_VERSION
        assert error["data"] == {"supported": [VERSION], "requested": version}
        assert error["data"] == supported(version)
        assert "tools" in await client.request("tools/list", {"_meta": envelope()})


async def test_an_envelope_without_capabilities_declares_none(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        undeclared: list[Json] = [{}, [], None, {"roots": None}, {"roots": False}]
        for capabilities in undeclared:
            meta: JsonObject = {**envelope(), CLIENT_CAPABILITIES_META: capabilities}
            assert (await read(hub.client(), str(top / "a"), meta=meta))["content"]


@pytest.mark.parametrize("capabilities", [None, {"x": "y" * (MAX_DECLARED + 1)}])
async def test_an_envelope_without_capabilities_or_with_too_many_is_refused(
    capabilities: Json,
) -> None:
    meta: JsonObject = {PROTOCOL_VERSION_META: VERSION}
    if capabilities is not None:
        meta[CLIENT_CAPABILITIES_META] = capabilities
    async with scripted(FakeChild(ECHO)) as hub:
        error = await refusal(hub.client(), "tools/list", {"_meta": meta})
        assert error["code"] == INVALID_PARAMS


@pytest.mark.parametrize("roots", [True, [], 1, "", {}])
async def test_roots_that_are_declared_wrongly_are_asked_for_all_the_same(roots: Json) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        result = await read(hub.client(), "/etc/passwd", meta=envelope(roots))
        assert result["inputRequests"] == {ROOTS_KEY: {"method": "roots/list"}}
        assert child.links == []


# What the hub says of itself


async def test_discovery_says_what_the_hub_speaks_and_offers() -> None:
    child = FakeChild(ECHO)
    async with scripted(child) as hub:
        found = await hub.client().request("server/discover", {"_meta": envelope()})
        assert found == {
            "supportedVersions": [VERSION],
            "capabilities": {
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "prompts": {"listChanged": True},
                "completions": {},
                "logging": {},
            },
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_INFO_META: hub.services.info},
        }
        assert child.links == []


@pytest.mark.parametrize(
    "method", ["nonsense", "logging/setLevel", "resources/subscribe", "server/discovered"]
)
async def test_an_unknown_method_is_named(method: str) -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        error = await refusal(hub.client(), method, {"_meta": envelope()})
        assert error == {"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"}


async def test_an_unknown_tool_is_named() -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        params: JsonObject = {"name": "nonsense", "_meta": envelope(None)}
        error = await refusal(hub.client(), "tools/call", params)
        assert (error["code"], "nonsense" in error["message"]) == (INVALID_PARAMS, True)


async def test_every_result_carries_the_hubs_name_and_never_the_childs() -> None:
    answer: JsonObject = {
        "content": [],
        "kept": {"n": 1},
        "_meta": {SERVER_INFO_META: {"name": "child"}, "own": 1},
    }
    async with scripted(FakeChild(ECHO, answers={"tools/call": answer})) as hub:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        result = await hub.client().request("tools/call", params)
        assert result == {
            "resultType": "complete",
            "content": [],
            "kept": {"n": 1},
            "_meta": {SERVER_INFO_META: hub.services.info, "own": 1},
        }


async def test_numbers_keep_their_value() -> None:
    raw = b'{"content":[],"n":[1e400,12345678901234567890.50,18446744073709551617]}'
    async with scripted(FakeChild(ECHO, answers={"tools/call": raw})) as hub:
        client = hub.client()
        await client.request(
            "tools/call", {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        )
        answer = exact_json.decode_strict(client.texts[0])
        assert isinstance(answer, dict)
        assert object_or_empty(answer["result"])["n"] == [
            Decimal("1e400"),
            Decimal("12345678901234567890.50"),
            18446744073709551617,
        ]


async def test_a_result_goes_on_as_it_was_written() -> None:
    own = b'"content":[], "n" : [1e400,1.10,-0.0],"content":["again"]}'
    async with scripted(FakeChild(ECHO, answers={"tools/call": b"{" + own})) as hub:
        client = hub.client()
        await client.request(
            "tools/call", {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        )
        (text,) = client.texts
        made: JsonObject = {
            "resultType": "complete",
            "_meta": {SERVER_INFO_META: hub.services.info},
        }
        assert text.endswith(b',"result":' + exact_json.encode(made)[:-1] + b"," + own + b"}")


@pytest.mark.parametrize("bad", [b"5", b"null", b"[]", b'"text"'])
async def test_a_result_that_is_no_object_is_an_error(bad: bytes) -> None:
    child = FakeChild(ECHO, answers={"tools/call": bad})
    async with scripted(child) as hub:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        error = await refusal(hub.client(), "tools/call", params)
        assert error["code"] in {INTERNAL_ERROR, INVALID_REQUEST}
        child.answers["tools/call"] = {"content": []}
        assert (await hub.client().request("tools/call", params))["content"] == []


async def test_an_error_of_a_child_comes_back_whole() -> None:
    error: JsonObject = {"code": -32001, "message": "no", "data": {"n": 1}, "more": True}
    child = FakeChild(ECHO, answers={"tools/call": Failure(None, error)})
    async with scripted(child) as hub:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        assert await refusal(hub.client(), "tools/call", params) == error


async def test_the_tools_are_listed_again_of_a_child_that_wants_other_headers() -> None:
    child = FakeChild(ECHO, answers={"tools/call": failure(HEADER_MISMATCH, "other headers")})
    async with scripted(child) as hub:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        error = await refusal(hub.client(), "tools/call", params)
        assert error["code"] == HEADER_MISMATCH
        await child.link.request("tools/list", nth=2)


@pytest.mark.parametrize(
    ("listed", "code"),
    [([{"url": "https://example.com"}], MISSING_CLIENT_CAPABILITY), ([], INTERNAL_ERROR)],
)
async def test_an_error_that_names_urls_is_none_of_the_era(listed: list[Json], code: int) -> None:
    error: JsonObject = {"code": URL_NEEDED, "message": "go", "data": {"elicitations": listed}}
    async with scripted(FakeChild(ECHO, answers={"tools/call": Failure(None, error)})) as hub:
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope(None)}
        assert (await refusal(hub.client(), "tools/call", params))["code"] == code


async def test_a_resource_that_is_not_there_is_so_in_the_words_of_the_era() -> None:
    error: JsonObject = {"code": -32002, "message": "gone", "data": {"uri": "memo://x"}, "more": 1}
    child = FakeChild(
        answers={
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
            "resources/read": Failure(None, error),
        },
        capabilities={"resources": {}},
    )
    async with scripted(child) as hub:
        params: JsonObject = {"uri": "memo://x", "_meta": envelope(None)}
        found = await refusal(hub.client(), "resources/read", params)
        assert found == {**error, "code": INVALID_PARAMS}
        legacy = await hub.greeted()
        assert await refusal(legacy, "resources/read", {"uri": "memo://x"}) == error


@pytest.mark.parametrize(
    "extensions", [{"com.example/own": {}}, {"io.modelcontextprotocol/tasks": {}}]
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_extensions_that_the_hub_does_not_know_stop_at_it(
    era: Any, extensions: JsonObject
) -> None:
    capabilities: JsonObject = {"tools": {}, "extensions": extensions}
    child = FakeChild(ECHO, era=era, capabilities=capabilities)
    async with scripted(child) as hub:
        client = hub.client()
        meta = envelope(None)
        meta[CLIENT_CAPABILITIES_META] = {"extensions": extensions, "sampling": {}}
        found: Any = await client.request("server/discover", {"_meta": meta})
        assert "extensions" not in found["capabilities"]
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": meta}
        await client.request("tools/call", params)
        legacy = hub.client()
        greeted: Any = await legacy.initialize({"extensions": extensions})
        assert "extensions" not in greeted["capabilities"]
        seen = str(child.link.seen)
        assert "sampling" in seen
        assert all(id_ not in seen for id_ in extensions)


@pytest.mark.parametrize("method", ["ping", "resources/unsubscribe", "tasks/get", "initialize"])
async def test_what_the_era_has_not_is_no_method(method: str) -> None:
    async with scripted(FakeChild(ECHO)) as hub:
        client = hub.client()
        await client.request("server/discover", {"_meta": envelope()})
        error = await refusal(client, method, {"_meta": envelope()})
        expected = {METHOD_NOT_FOUND, UNSUPPORTED_VERSION}
        assert error["code"] in (expected if method == "initialize" else {METHOD_NOT_FOUND})


async def test_pages_of_a_listing_are_walked_to_its_end() -> None:
    own = [f"t{n}" for n in range(2 * PAGE_SIZE)]
    tools: list[JsonObject] = [{**ECHO, "name": name} for name in own]
    async with scripted(FakeChild(*tools)) as hub:
        client, names, cursor = hub.client(), list[str](), None
        while True:
            more: JsonObject = {} if cursor is None else {"cursor": cursor}
            page: Any = await client.request("tools/list", {**more, "_meta": envelope()})
            assert (page["ttlMs"], page["cacheScope"]) == (0, "private")
            names += [tool["name"] for tool in page["tools"]]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert names == ["get-roots", *own]
        error = await refusal(client, "tools/list", {"cursor": "x", "_meta": envelope()})
        assert error["code"] == INVALID_PARAMS


@pytest.mark.parametrize("shared", ["", "a"])
async def test_a_server_that_failed_when_it_was_listed_is_reported_as_down(
    shared: str, top: Path
) -> None:
    child = FakeChild(ECHO, answers={"initialize": failure(-1, "broken")})
    async with scripted(child) as hub:
        client = hub.client()
        meta = envelope() if shared else envelope(None)
        await client.request("tools/list", {"_meta": meta})
        params: JsonObject = {"name": "get-roots", "_meta": meta}
        if shared:
            params["inputResponses"] = with_roots((top / shared).as_uri())
        told: Any = await client.request("tools/call", params)
        (server,) = told["structuredContent"]["servers"]
        assert (server["state"], server["reason"]) == ("down", "broken")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_cancelled_request_is_cancelled_at_its_child(era: Any) -> None:
    child = FakeChild(ECHO, era=era, answers={"tools/call": SILENT})
    async with scripted(child) as hub:
        client = hub.client()
        params: JsonObject = {"name": "echo", "arguments": {}, "_meta": envelope()}
        id_ = await client.begin("tools/call", params)
        await child.connected()
        sent = await child.link.request("tools/call")
        await client.notify_cancelled(id_)
        told = await child.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == sent["id"]
        assert not client.is_answered(id_)


# Asking for roots


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "read", "arguments": {"path": "/x"}}),
        ("tools/call", {"name": "get-roots"}),
        ("prompts/get", {"name": "p", "arguments": {"path": "/x"}}),
        ("resources/read", {"uri": "file:///x"}),
    ],
)
@pytest.mark.parametrize("responses", [None, [], "x"])
async def test_a_request_that_needs_roots_is_answered_with_the_question(
    method: str, params: JsonObject, responses: Json
) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        given: JsonObject = {} if responses is None else {"inputResponses": responses}
        asked = await client.request(method, {**params, "_meta": envelope(), **given})
        assert asked == {
            "resultType": "input_required",
            "inputRequests": {ROOTS_KEY: {"method": "roots/list"}},
            "_meta": {SERVER_INFO_META: hub.services.info},
        }
        assert child.links == []
        assert client.asked == []


async def test_a_client_without_roots_is_not_asked(top: Path) -> None:
    async with scripted(FakeChild(READ), given=[str(top / "a")]) as hub:
        client = hub.client()
        assert not is_refused(await read(client, f"{top}/a/x", meta=envelope(None)))
        assert is_refused(await read(client, f"{top}/b/x", meta=envelope(None)))


async def test_roots_that_were_not_declared_are_not_taken(top: Path) -> None:
    async with scripted(FakeChild(READ), given=[str(top / "a")]) as hub:
        responses = with_roots((top / "b").as_uri())
        result = await read(hub.client(), f"{top}/b/x", responses, meta=envelope(None))
        assert is_refused(result)


async def test_a_client_without_roots_and_a_hub_without_a_fallback_are_not_restricted(
    top: Path,
) -> None:
    async with scripted(FakeChild(READ)) as hub:
        with capture_logs() as logged:
            assert not is_refused(await read(hub.client(), f"{top}/a/x", meta=envelope(None)))
        warnings = [line for line in logged if line["log_level"] == "warning"]
        assert len(warnings) == 1
        assert "NOT restricted" in warnings[0]["event"]
        assert warnings[0]["client"] == "modern"


async def test_an_operator_can_deny_clients_without_roots(top: Path) -> None:
    async with scripted(FakeChild(READ), config={"roots": {"when_missing": "deny"}}) as hub:
        params: JsonObject = {"name": "read", "arguments": {"path": f"{top}/a/x"}}
        error = await refusal(hub.client(), "tools/call", {**params, "_meta": envelope(None)})
        assert error["code"] == MISSING_CLIENT_CAPABILITY
        assert error["data"] == {"requiredCapabilities": {"roots": {}}}


# Roots that come with the retry


async def test_a_retry_is_judged_against_its_roots(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        responses = with_roots((top / "a").as_uri())
        result = await read(client, f"{top}/a/x", responses)
        assert result["resultType"] == "complete"
        assert result["structuredContent"] == {"path": f"{top}/a/x"}
        refused = await read(client, f"{top}/b/x", responses)
        assert is_refused(refused)
        assert refused["resultType"] == "complete"
        assert text_of(refused) == (
            f"Access denied: Path '{top}/b/x' is outside the allowed roots boundaries. "
            f'Current roots: ["{(top / "a").as_uri()}"]'
        )
        assert len(child.link.requests("tools/call")) == 1


async def test_the_answer_to_the_question_does_not_reach_the_child(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        await read(hub.client(), f"{top}/a/x", with_roots((top / "a").as_uri()))
        (sent,) = child.link.requests("tools/call")
        assert "inputResponses" not in sent["params"]
        assert PROTOCOL_VERSION_META not in sent["params"].get("_meta", {})


async def test_one_bad_root_does_not_spoil_the_others(top: Path) -> None:
    bad: list[Json] = [
        "https://example.com",
        "file:///etc",
        "relative",
        7,
        None,
        {},
        {"uri": 7},
        {"uri": f"file://{top}/gone"},
        {"uri": "file:///a\u0000b"},
    ]
    async with scripted(FakeChild(READ)) as hub:
        client = hub.client()
        responses = with_roots(*bad, {"uri": (top / "a").as_uri(), "name": 7, "_meta": 1})
        assert not is_refused(await read(client, f"{top}/a/x", responses))
        assert is_refused(await read(client, "/etc/passwd", responses))
        params: JsonObject = {"name": "get-roots", "_meta": envelope(), "inputResponses": responses}
        report: Any = (await client.request("tools/call", params))["structuredContent"]
        assert [root["uri"] for root in report["roots"]] == [(top / "a").as_uri()]
        assert len(report["rejected"]) == len(bad)


@pytest.mark.parametrize("roots", [[], ["https://example.com"]])
async def test_no_usable_root_grants_nothing_whatever_the_fallback(
    top: Path, roots: list[str]
) -> None:
    async with scripted(FakeChild(READ), given=[str(top / "a")]) as hub:
        assert is_refused(await read(hub.client(), f"{top}/a/x", with_roots(*roots)))


DECLINED: list[JsonObject] = [
    {},
    {"other": {"roots": []}},
    {ROOTS_KEY: None},
    {ROOTS_KEY: "no"},
    {ROOTS_KEY: {"error": {"code": -32601, "message": "no"}}},
    {ROOTS_KEY: {"roots": None}},
    {ROOTS_KEY: {"roots": {"uri": "file:///"}}},
]


@pytest.mark.parametrize("responses", DECLINED)
async def test_a_client_that_declines_gets_the_fallback(top: Path, responses: JsonObject) -> None:
    async with scripted(FakeChild(READ), given=[str(top / "a")]) as hub:
        client = hub.client()
        assert not is_refused(await read(client, f"{top}/a/x", responses))
        assert is_refused(await read(client, f"{top}/b/x", responses))


@pytest.mark.parametrize("responses", DECLINED)
async def test_a_client_that_declines_reaches_nothing_without_a_fallback(
    top: Path, responses: JsonObject
) -> None:
    async with scripted(FakeChild(READ, ECHO)) as hub:
        client = hub.client()
        assert is_refused(await read(client, f"{top}/a/x", responses))
        params: JsonObject = {"name": "echo", "arguments": {"text": "hi"}, "_meta": envelope()}
        params["inputResponses"] = responses
        assert (await client.request("tools/call", params))["structuredContent"] == {"text": "hi"}


# Each request for itself


async def test_the_roots_of_one_request_never_serve_another(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        client, other = hub.client(), hub.client()
        for uri, path in [("a", "a/x"), ("b", "b/x"), ("a", "a/x")]:
            responses = with_roots((top / uri).as_uri())
            assert not is_refused(await read(client, f"{top}/{path}", responses))
            elsewhere = "b/x" if uri == "a" else "a/x"
            assert is_refused(await read(client, f"{top}/{elsewhere}", responses))
            for one in (client, other):
                assert (await read(one, f"{top}/{path}"))["resultType"] == "input_required"
                assert is_refused(await read(one, f"{top}/{path}", {}))


async def test_requests_at_the_same_time_keep_their_roots_apart(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        client = hub.client()
        ids: list[tuple[int, bool]] = []
        for shared, path in [("a", "a"), ("b", "a"), ("a", "b"), ("b", "b")] * 3:
            params: JsonObject = {
                "name": "read",
                "arguments": {"path": f"{top}/{path}/x"},
                "_meta": envelope(),
                "inputResponses": with_roots((top / shared).as_uri()),
            }
            ids.append((await client.begin("tools/call", params), shared != path))
        for id_, refused in ids:
            result: Any = (await client.end(id_))["result"]
            assert is_refused(result) is refused


async def test_children_are_launched_for_their_roots_alone(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child) as hub:
        client = hub.client()
        for shared in ("a", "b", "a"):
            await read(client, f"{top}/{shared}/x", with_roots((top / shared).as_uri()))
        plans = [link.plan.roots.paths for link in child.links if link.plan is not None]
        assert plans == [(f"{top}/a",), (f"{top}/b",)]


async def test_a_request_leaves_no_session_behind(top: Path) -> None:
    async with scripted(FakeChild(READ), config=alone()) as hub:
        client = hub.client()
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        assert client.connection.session.client is None
        assert list(client.connection.session.slots) == []


def alone() -> dict[str, Any]:
    """Return a config in which each session has a child of its own."""
    return {"servers": {"files": {"command": "x", "share": "session"}}}


async def test_a_child_of_one_request_over_http_ends_with_it(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child, config=alone()) as hub:
        client = hub.client()
        client.connection.modern.headers = []
        await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
        await child.ended()
        assert len(child.links) == 1


async def test_a_child_of_a_connection_stays_until_its_client_disconnects(top: Path) -> None:
    child = FakeChild(READ)
    async with scripted(child, config=alone()) as hub:
        client = hub.client()
        for shared in (["a"], ["a", "b"], ["b", "a"]):
            uris = [(top / name).as_uri() for name in shared]
            await read(client, f"{top}/a/x", with_roots(*uris))
        other = hub.client()
        await read(other, f"{top}/a/x", with_roots((top / "a").as_uri()))
        assert len(child.links) == 2, "one for each connection"
        assert child.closed == 0
        client.connection.close()
        await child.ended()
        assert child.closed == 1


async def test_get_roots_asks_and_then_reports(top: Path) -> None:
    async with scripted(FakeChild(READ)) as hub:
        client = hub.client()
        params: JsonObject = {"name": "get-roots", "_meta": envelope({"listChanged": True})}
        asked = await client.request("tools/call", params)
        assert asked["resultType"] == "input_required"
        responses = with_roots((top / "a").as_uri())
        await read(client, f"{top}/b/x", responses)
        answer = await client.request("tools/call", {**params, "inputResponses": responses})
        report: Any = answer["structuredContent"]
        assert report["filePaths"] == [f"{top}/a"]
        assert (report["source"], report["enforcing"], report["stale"]) == ("client", True, False)
        assert report["supportsRoots"] is True
        assert [refused["path"] for refused in report["recentRefusals"]] == [f"{top}/b/x"]
        other: Any = await hub.client().request(
            "tools/call", {**params, "inputResponses": responses}
        )
        assert other["structuredContent"]["recentRefusals"] == []


# Requests that cannot be answered with a question


@pytest.mark.parametrize("roots", [LEFT_OUT, None])
@pytest.mark.parametrize(
    ("method", "field"),
    [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ],
)
async def test_a_listing_asks_for_nothing_and_is_private(
    method: str, field: str, roots: Json
) -> None:
    async with scripted(FakeChild(READ)) as hub:
        listed = await hub.client().request(method, {"_meta": envelope(roots)})
        assert isinstance(listed.pop(field), list)
        assert listed == {
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_INFO_META: hub.services.info},
        }


async def test_a_listing_without_roots_shows_what_a_child_without_roots_offers(top: Path) -> None:
    offered: dict[bool, JsonObject] = {True: ECHO, False: READ}

    def tools(_: Request) -> JsonObject:
        plan = child.link.plan
        return {"tools": [offered[plan is not None and not plan.roots.roots]]}

    child = FakeChild(answers={"tools/list": tools})
    async with scripted(child) as hub:
        client = hub.client()
        for _ in range(2):
            await read(client, f"{top}/a/x", with_roots((top / "a").as_uri()))
            listed: Any = await client.request("tools/list", {"_meta": envelope()})
            assert [tool["name"] for tool in listed["tools"]] == ["get-roots", "echo"]
        assert len(child.links) == 2
        assert [link.plan and link.plan.roots.paths for link in child.links] == [
            (str(top / "a"),),
            (),
        ]


async def test_a_completion_cannot_ask_and_is_judged_against_the_fallback(top: Path) -> None:
    child = FakeChild(
        answers={
            "prompts/list": {"prompts": [{"name": "p"}]},
            "completion/complete": {"completion": {"values": []}},
        },
        capabilities={"prompts": {}, "completions": {}},
    )

    def params(path: str) -> JsonObject:
        ref: JsonObject = {"type": "ref/prompt", "name": "p"}
        argument: JsonObject = {"name": "path", "value": path}
        return {"ref": ref, "argument": argument, "_meta": envelope()}

    async with scripted(child, given=[str(top / "a")]) as hub:
        client = hub.client()
        assert "completion" in await client.request("completion/complete", params(f"{top}/a/x"))
        error = await refusal(client, "completion/complete", params(f"{top}/b/x"))
        assert (error["code"], error["message"][:13]) == (INVALID_PARAMS, "Access denied")


@pytest.mark.parametrize("hints", [{}, {"ttlMs": 60_000}, {"ttlMs": 1, "cacheScope": "public"}])
async def test_what_was_read_is_private_and_soon_old_whatever_the_child_says(
    top: Path, hints: JsonObject
) -> None:
    uri = (top / "a/x").as_uri()
    child = FakeChild(
        answers={
            "resources/list": {"resources": [{"uri": uri, "name": "x"}]},
            "resources/templates/list": {"resourceTemplates": []},
            "resources/read": {"contents": [{"uri": uri, "text": "t"}], **hints},
        },
        capabilities={"resources": {}},
    )
    async with scripted(child) as hub:
        params: JsonObject = {"uri": uri, "_meta": envelope()}
        client = hub.client()
        params["inputResponses"] = with_roots((top / "a").as_uri())
        result = await client.request("resources/read", params)
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
        params["inputResponses"] = with_roots((top / "b").as_uri())
        assert (await refusal(client, "resources/read", params))["code"] == INVALID_PARAMS


async def test_listings_of_clients_with_other_roots_are_kept_apart(top: Path) -> None:
    """What a child names after its roots is no business of anybody who has others."""

    def tools(_: Request) -> JsonObject:
        plan = child.link.plan
        assert plan is not None
        return {"tools": [{**ECHO, "name": f"read-{Path(path).name}"} for path in plan.roots.paths]}

    child = FakeChild(answers={"tools/list": tools})
    async with scripted(child) as hub:
        client = hub.client()
        for name, other in (("a", "b"), ("b", "a")):
            shared = with_roots((top / name).as_uri())
            params: JsonObject = {"arguments": {}, "_meta": envelope(), "inputResponses": shared}
            own = await client.request("tools/call", {**params, "name": f"read-{name}"})
            assert "isError" not in own
            error = await refusal(client, "tools/call", {**params, "name": f"read-{other}"})
            assert error["code"] == INVALID_PARAMS


async def test_an_eager_child_is_not_started_for_a_request_that_stands_for_itself(
    top: Path,
) -> None:
    children = {"a": FakeChild(READ), "b": FakeChild(READ)}
    servers = {"a": {"command": "x", "start": "eager"}, "b": {"command": "x"}}
    async with scripted(children, config={"servers": servers}) as hub:
        client = hub.client()
        for roots in (LEFT_OUT, None):
            params: JsonObject = {
                "name": "b__read",
                "arguments": {"path": f"{top}/a/x"},
                "_meta": envelope(roots),
                "inputResponses": with_roots((top / "a").as_uri()),
            }
            assert "isError" not in await client.request("tools/call", params)
        await all_tasks_blocked()
        assert children["a"].links == []
        await hub.greeted()
        await children["a"].connected()


async def test_what_the_only_client_will_list_is_started_when_it_asks_what_there_is() -> None:
    for roots in (LEFT_OUT, None):
        child = FakeChild(READ)
        async with scripted(child, is_for_one=True) as hub:
            client = hub.client()
            await client.request("server/discover", {"_meta": envelope(roots)})
            await child.connected()
            await client.request("tools/list", {"_meta": envelope(roots)})
            assert len(child.links) == 1
    child = FakeChild(READ)
    async with scripted(child) as hub:
        await hub.client().request("server/discover", {"_meta": envelope(None)})
        await all_tasks_blocked()
        assert child.links == []
