from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

from hub.jsonrpc import messages
from hub.jsonrpc.messages import Failure, Request
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    UNSUPPORTED_VERSION,
)
from hub.server.http import modern as envelope
from hub.server.http.access import RequestHeaders
from hub.server.http.modern import routing_headers_of, status_of
from hub.values import JsonObject

VERSION = MODERN_VERSIONS[-1]
META: JsonObject = {
    PROTOCOL_VERSION_META: VERSION,
    CLIENT_CAPABILITIES_META: {},
    CLIENT_INFO_META: {"name": "c", "version": "1"},
}


def asked(method: str = "tools/call", **params: Any) -> Request:
    return Request(7, method, {"_meta": META, "name": "read", "arguments": {}, **params})


def headers(*more: tuple[str, str], **changes: str | None) -> RequestHeaders:
    fields: dict[str, str | None] = {
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "read",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    pairs = [(name, value) for name, value in fields.items() if value is not None]
    return RequestHeaders((name.encode(), value.encode()) for name, value in (*pairs, *more))


def rejection(request: Request, sent: RequestHeaders) -> Failure | None:
    return envelope.rejection(request, routing_headers_of(sent))


def code(found: Failure | None) -> object:
    assert found is not None
    assert found.id == 7
    return messages.as_object(found.error)["code"]


def test_headers_that_say_what_the_body_says_are_taken() -> None:
    assert rejection(asked(), headers()) is None
    assert rejection(asked("tools/list"), headers(mcp_method="tools/list", mcp_name=None)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"mcp_method": "tools/list"},
        {"mcp_method": None},
        {"mcp_name": "write"},
        {"mcp_name": None},
        {"mcp_protocol_version": None},
        {"mcp_protocol_version": "2025-11-25"},
    ],
)
def test_headers_that_say_something_else_are_a_mismatch(changes: dict[str, str | None]) -> None:
    assert code(rejection(asked(), headers(**changes))) == HEADER_MISMATCH


@pytest.mark.parametrize("name", ["mcp-method", "mcp-name", "mcp-protocol-version"])
def test_a_routing_header_stands_once(name: str) -> None:
    again = headers().get(name) or ""
    found = rejection(asked(), headers((name, again)))
    assert code(found) == HEADER_MISMATCH
    assert "more than once" in str(messages.as_object(found.error)["message"] if found else "")


def test_a_version_that_the_hub_does_not_speak_is_refused_with_those_it_does() -> None:
    meta: JsonObject = {**META, PROTOCOL_VERSION_META: "2099-01-01"}
    found = rejection(asked(_meta=meta), headers(mcp_protocol_version="2099-01-01"))
    assert code(found) == UNSUPPORTED_VERSION
    assert found is not None
    details = messages.as_object(found.error)["data"]
    assert details == {"supported": [VERSION], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "meta",
    [{PROTOCOL_VERSION_META: VERSION}, {CLIENT_CAPABILITIES_META: {}}, {}, [], None, "x"],
)
def test_what_lacks_a_part_of_the_envelope_is_none(meta: Any) -> None:
    assert code(rejection(asked(_meta=meta), headers())) == INVALID_PARAMS


@pytest.mark.parametrize("meta", [None, {}, {CLIENT_CAPABILITIES_META: {}}])
def test_a_legacy_request_with_an_unknown_version_is_told_which_are_known(meta: Any) -> None:
    found = rejection(asked(_meta=meta), headers(mcp_protocol_version="2024-01-01"))
    assert code(found) == INVALID_PARAMS
    said = str(messages.as_object(found.error)["message"] if found else "")
    assert all(version in said for version in ("2024-01-01", "2025-11-25", VERSION))


def test_a_name_that_no_header_can_hold_is_wrapped() -> None:
    wrapped = "=?base64?Y2Fmw6k=?="
    assert rejection(asked(name="café"), headers(mcp_name=wrapped)) is None
    assert code(rejection(asked(name="cafe"), headers(mcp_name=wrapped))) == HEADER_MISMATCH
    assert code(rejection(asked(name="café"), headers(mcp_name="=?base64?x?="))) == HEADER_MISMATCH


def test_a_request_without_a_name_needs_no_header_for_it() -> None:
    nameless = Request(7, "tools/call", {"_meta": META})
    assert rejection(nameless, headers(mcp_name=None)) is None


VALUES: list[Any] = [
    None,
    VERSION,
    "2025-11-25",
    "2099-01-01",
    7,
    [],
    "read",
    "=?base64?cmVhZA==?=",
]


@given(
    st.sampled_from(["tools/call", "tools/list", "resources/read"]),
    st.sampled_from([*VALUES, META, {PROTOCOL_VERSION_META: VERSION}]),
    st.sampled_from(VALUES),
    st.fixed_dictionaries(
        {
            "mcp_protocol_version": st.sampled_from([None, VERSION, "2025-11-25", "2099-01-01"]),
            "mcp_method": st.sampled_from([None, "tools/call", "tools/list", "resources/read"]),
            "mcp_name": st.sampled_from([None, "read", "=?base64?cmVhZA==?=", "=?base64?!?="]),
        }
    ),
)
def test_what_is_refused_is_what_the_sdks_server_refuses(
    method: str, meta: Any, named: Any, told: dict[str, str | None]
) -> None:
    request = Request(7, method, {"_meta": meta, "name": named, "uri": named})
    sent = headers(**told)
    body = {"method": method, "params": request.params}
    theirs = classify_inbound_request(body, headers=dict(sent.pairs))
    ours = rejection(request, sent)
    assert (ours is None) is not isinstance(theirs, InboundLadderRejection)
    if isinstance(theirs, InboundLadderRejection):
        assert code(ours) == theirs.code


def test_an_error_has_its_http_status() -> None:
    def status(error: JsonObject) -> int:
        return status_of(Failure(1, error))

    for code_, expected in [
        (HEADER_MISMATCH, 400),
        (UNSUPPORTED_VERSION, 400),
        (MISSING_CLIENT_CAPABILITY, 400),
        (METHOD_NOT_FOUND, 404),
        (-32099, 200),
    ]:
        assert status({"code": code_, "message": "x"}) == expected
    assert status({"code": "7"}) == 200
    assert status({}) == 200


def test_the_handshake_is_no_method_of_this_era() -> None:
    found = rejection(asked("initialize"), headers(mcp_method="initialize", mcp_name=None))
    assert code(found) == METHOD_NOT_FOUND
    assert found is not None
    assert status_of(found) == 404
