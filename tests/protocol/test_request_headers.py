from __future__ import annotations

from mcp.shared.inbound import NAME_BEARING_METHODS

from hub.protocol.constants import MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.protocol.http_headers import Offered, ParamHeader, modern_version, offered, request_headers
from hub.values import JsonObject

VERSION = MODERN_VERSIONS[-1]
REGION: JsonObject = {"type": "string", "x-mcp-header": "Region"}


def tool(name: str, **properties: JsonObject) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object", "properties": {**properties}}}


def test_a_request_is_of_the_modern_era_if_its_envelope_says_so() -> None:
    assert modern_version({"_meta": {PROTOCOL_VERSION_META: VERSION}}) == VERSION
    assert modern_version({"_meta": {PROTOCOL_VERSION_META: 7}}) is None
    assert modern_version({"_meta": "x"}) is None
    assert modern_version({}) is None


def test_a_request_names_its_version_its_method_and_its_target() -> None:
    assert request_headers(VERSION, "tools/list", {"name": "x"}, {}) == {
        b"mcp-protocol-version": VERSION.encode(),
        b"mcp-method": b"tools/list",
    }
    for method, field in NAME_BEARING_METHODS.items():
        headers = request_headers(VERSION, method, {field: "own name", "other": 1}, {})
        assert headers[b"mcp-name"] == b"own name"
        assert b"mcp-name" not in request_headers(VERSION, method, {field: 7}, {})
    encoded = request_headers(VERSION, "tools/call", {"name": "ü"}, {})
    assert encoded[b"mcp-name"] == b"=?base64?w7w=?="


def test_what_a_tool_marks_is_repeated_in_its_calls() -> None:
    listing: JsonObject = {"tools": [tool("query", region=REGION), tool("other", region={})]}
    found = offered(listing)
    marked = found.marked
    assert (found.listing is listing, found.refused) == (True, {})
    assert marked == {
        "query": (ParamHeader("Mcp-Param-Region", ("region",), "string"),),
        "other": (),
    }
    params: JsonObject = {"name": "query", "arguments": {"region": "eu west"}}
    headers = request_headers(VERSION, "tools/call", params, marked)
    assert headers[b"mcp-param-region"] == b"eu west"
    for method, changes in (("tools/call", {"name": "other"}), ("prompts/get", {})):
        plain = request_headers(VERSION, method, {**params, **changes}, marked)
        assert b"mcp-param-region" not in plain
    assert request_headers(VERSION, "tools/call", {"name": "query"}, marked).keys() == {
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
    }


def test_a_tool_that_marks_wrongly_is_not_offered() -> None:
    wrong: JsonObject = {"type": "number", "x-mcp-header": "Region"}
    good, bad = tool("other"), tool("query", region=wrong)
    found = offered({"tools": [bad, good, "x"], "nextCursor": "c"})
    assert found.listing == {"tools": [good, "x"], "nextCursor": "c"}
    assert "query" not in found.marked
    assert found.refused.keys() == {"query"}
    assert "'region'" in found.refused["query"]


def test_what_is_no_listing_of_tools_stays_as_it_is() -> None:
    listings: list[JsonObject] = [{"tools": "x"}, {}]
    for listing in listings:
        assert offered(listing) == Offered(listing, {}, {})
