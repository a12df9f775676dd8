from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import NAME_BEARING_METHODS, decode_header_value, encode_header_value

from hub.core.protocol import MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.core.request_headers import header_value, modern_version, request_headers

VERSION = MODERN_VERSIONS[-1]


def test_a_request_is_of_the_modern_era_if_its_envelope_says_so() -> None:
    assert modern_version({"_meta": {PROTOCOL_VERSION_META: VERSION}}) == VERSION
    assert modern_version({"_meta": {PROTOCOL_VERSION_META: 7}}) is None
    assert modern_version({"_meta": "x"}) is None
    assert modern_version({}) is None


def test_a_request_names_its_version_its_method_and_its_target() -> None:
    assert request_headers(VERSION, "tools/list", {"name": "x"}) == {
        b"mcp-protocol-version": VERSION.encode(),
        b"mcp-method": b"tools/list",
    }
    for method, field in NAME_BEARING_METHODS.items():
        headers = request_headers(VERSION, method, {field: "own name", "other": 1})
        assert headers[b"mcp-name"] == b"own name"
        assert b"mcp-name" not in request_headers(VERSION, method, {field: 7})


@given(
    st.text() | st.text("=?base64 \t\x7fäaZ~!") | st.from_regex(r"=\?base64\?.*\?=", fullmatch=True)
)
def test_a_value_is_encoded_as_the_sdk_encodes_it_and_reads_back(text: str) -> None:
    assert header_value(text) == encode_header_value(text).encode()
    assert decode_header_value(header_value(text).decode()) == text
