from typing import Any

import pytest

from hub.core.protocol import (
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
from hub.core.values import JsonObject
from hub.edge.envelope import rejection, status_of
from hub.edge.gatekeeper import Headers
from hub.runtime import wire
from hub.runtime.wire import Failure, Request

VERSION = MODERN_VERSIONS[-1]
META: JsonObject = {
    PROTOCOL_VERSION_META: VERSION,
    CLIENT_CAPABILITIES_META: {},
    CLIENT_INFO_META: {"name": "c", "version": "1"},
}


def asked(method: str = "tools/call", **params: Any) -> Request:
    return Request(7, method, {"_meta": META, "name": "read", "arguments": {}, **params})


def headers(*more: tuple[str, str], **changes: str | None) -> Headers:
    fields: dict[str, str | None] = {
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "read",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    pairs = [(name, value) for name, value in fields.items() if value is not None]
    return Headers((name.encode(), value.encode()) for name, value in (*pairs, *more))


def code(found: Failure | None) -> object:
    assert found is not None
    assert found.id == 7
    return wire.as_object(found.error)["code"]


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
    assert "more than once" in str(wire.as_object(found.error)["message"] if found else "")


def test_a_version_that_the_hub_does_not_speak_is_refused_with_those_it_does() -> None:
    meta: JsonObject = {**META, PROTOCOL_VERSION_META: "2099-01-01"}
    found = rejection(asked(_meta=meta), headers(mcp_protocol_version="2099-01-01"))
    assert code(found) == UNSUPPORTED_VERSION
    assert found is not None
    details = wire.as_object(found.error)["data"]
    assert details == {"supported": [VERSION], "requested": "2099-01-01"}


def test_an_envelope_without_capabilities_is_none() -> None:
    found = rejection(asked(_meta={PROTOCOL_VERSION_META: VERSION}), headers())
    assert code(found) == INVALID_PARAMS


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
