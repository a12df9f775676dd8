from __future__ import annotations

import httpx2
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.remote.exchange import Exchange, UnfinishedMessages
from hub.children.remote.streamable_http import MAX_MARKED, RemoteSession
from hub.jsonrpc.messages import Request
from hub.jsonrpc.peer_conduct import LoopShare
from hub.jsonrpc.rated_log import LINES, ChildLog
from hub.protocol.constants import MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.values import Json, JsonObject
from tests.kit.scripted_http import URL, json_body

MODERN: JsonObject = {"_meta": {PROTOCOL_VERSION_META: MODERN_VERSIONS[-1]}}
GREETING = Request(1, "initialize", {})
SCHEMA: JsonObject = {"properties": {"at": {"type": "string", "x-mcp-header": "At"}}}
LISTING: JsonObject = {"tools": [{"name": "t", "inputSchema": SCHEMA}]}
CALL: JsonObject = {"name": "t", "arguments": {"at": "here"}}


def answered(session: str) -> Exchange:
    return Exchange(
        json_body(b"{}", mcp_session_id=session),
        httpx2.URL(URL),
        "POST",
        pace=LoopShare(),
        unfinished=UnfinishedMessages(),
    )


def test_a_session_begins_with_the_greeting_and_its_version_with_the_result() -> None:
    session = RemoteSession(ChildLog("far"))
    assert session.headers_of(GREETING) == session.headers() == {}
    session.begin(Request(2, "m", {}), answered("other"))
    assert not session.has_id
    session.begin(GREETING, answered("s"))
    session.learn(GREETING, Raw(b'{"protocolVersion":"2025-06-18"}'))
    agreed = {b"mcp-session-id": b"s", b"mcp-protocol-version": b"2025-06-18"}
    assert session.headers() == agreed
    assert session.headers_of(Request(2, "tools/call", {**CALL, **MODERN})) == agreed
    assert (session.has_id, session.is_modern) == (True, False)


def test_a_version_that_cannot_be_in_a_header_is_none() -> None:
    session = RemoteSession(ChildLog("far"))
    for version in (7, "a\nb", "ü"):
        session.learn(GREETING, {"protocolVersion": version})
    assert session.headers() == {}


def test_a_modern_request_repeats_what_is_in_it_and_what_tools_mark() -> None:
    session = RemoteSession(ChildLog("far"))
    asked = Request(1, "tools/list", MODERN)
    assert session.headers_of(asked)[b"mcp-method"] == b"tools/list"
    assert session.is_modern
    session.learn(asked, LISTING)
    call = Request(2, "tools/call", {**CALL, **MODERN})
    assert session.headers_of(call)[b"mcp-param-at"] == b"here"
    session.learn(asked, {"tools": [{"name": "t", "inputSchema": {}}]})
    assert b"mcp-param-at" not in session.headers_of(call)
    assert session.headers() == {}


def test_a_legacy_listing_marks_nothing() -> None:
    session = RemoteSession(ChildLog("far"))
    asked = Request(1, "tools/list", {})
    session.headers_of(asked)
    session.learn(asked, LISTING)
    call = Request(2, "tools/call", {**CALL, **MODERN})
    assert b"mcp-param-at" not in session.headers_of(call)


def test_a_modern_tool_that_marks_wrongly_is_left_out_and_the_log_says_why() -> None:
    session = RemoteSession(ChildLog("far"))
    asked = Request(1, "tools/list", MODERN)
    session.headers_of(asked)
    assert session.learn(asked, LISTING) is LISTING
    wrong: JsonObject = {"properties": {"at": {"type": "null", "x-mcp-header": "At"}}}
    good: JsonObject = {"name": "good", "inputSchema": {}}
    listing: JsonObject = {"tools": [{"name": "t", "inputSchema": wrong}, good]}
    with capture_logs() as logs:
        assert session.learn(asked, listing) == {"tools": [good]}
    assert [(entry["event"], entry["server"], entry["tool"]) for entry in logs] == [
        ("tool left out", "far", "t")
    ]


def test_thousands_of_tools_that_mark_wrongly_do_not_fill_the_log() -> None:
    session = RemoteSession(ChildLog("far", lambda: 0.0))
    asked = Request(1, "tools/list", MODERN)
    session.headers_of(asked)
    wrong: JsonObject = {"properties": {"at": {"type": "null", "x-mcp-header": "At"}}}
    tools: list[Json] = [{"name": f"t{number}", "inputSchema": wrong} for number in range(10_000)]
    with capture_logs() as logs:
        session.learn(asked, {"tools": tools})
    assert 0 < len(logs) <= LINES


def test_tools_that_are_listed_no_more_are_forgotten_once_there_are_many() -> None:
    session = RemoteSession(ChildLog("far"))
    asked = Request(1, "tools/list", MODERN)
    session.headers_of(asked)
    session.learn(asked, LISTING)
    call = Request(2, "tools/call", {**CALL, **MODERN})
    assert b"mcp-param-at" in session.headers_of(call)
    others: list[Json] = [{"name": f"other{number}"} for number in range(MAX_MARKED)]
    session.learn(asked, {"tools": others})
    assert b"mcp-param-at" not in session.headers_of(call)
