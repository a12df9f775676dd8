from __future__ import annotations

import json

import pytest
from msgspec import Raw

from hub.calls.results import completed, for_legacy, renumbered
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import as_object
from hub.protocol.constants import SERVER_INFO_META
from hub.values import JsonObject

INFO: JsonObject = {"name": "hub"}
HINTS: JsonObject = {"ttlMs": 0, "cacheScope": "private"}


def test_a_carried_result_gets_what_the_era_wants_and_stays_as_it_was_written() -> None:
    made = completed(Raw(b'{"content":[],"n":1e400}'), INFO)
    assert not isinstance(made, dict)
    assert bytes(made).endswith(b'"content":[],"n":1e400}')
    assert json.loads(bytes(made))["resultType"] == "complete"
    assert json.loads(bytes(made))["_meta"] == {SERVER_INFO_META: INFO}


def test_a_childs_own_words_for_it_are_kept_but_not_who_it_is() -> None:
    meta = json.dumps({SERVER_INFO_META: {"name": "child"}, "kept": 1})
    made = completed(Raw(b'{"resultType":"complete","_meta":%b,"a":1}' % meta.encode()), INFO)
    assert not isinstance(made, dict)
    assert json.loads(bytes(made)) == {
        "resultType": "complete",
        "_meta": {SERVER_INFO_META: INFO, "kept": 1},
        "a": 1,
    }


def test_a_result_of_the_hubs_own_is_completed_likewise() -> None:
    made = completed({"content": [], "_meta": {"kept": 1}}, INFO, HINTS)
    meta = {SERVER_INFO_META: INFO, "kept": 1}
    assert made == {"content": [], "resultType": "complete", **HINTS, "_meta": meta}


def test_a_result_that_asks_for_input_is_not_to_be_kept() -> None:
    made = completed({"resultType": "input_required"}, INFO, HINTS)
    assert isinstance(made, dict)
    assert "ttlMs" not in made


@pytest.mark.parametrize(
    "text", [b"[]", b"5", b'{"_meta":1,"_meta":2}', b'{"resultType":"input_required"}']
)
def test_a_result_that_cannot_be_read_is_an_error(text: bytes) -> None:
    with pytest.raises(RpcError, match="cannot be read"):
        completed(Raw(text), INFO)


def test_an_error_keeps_everything_but_a_code_that_the_era_has_another_for() -> None:
    gone: JsonObject = {"code": -32002, "message": "gone", "data": {"uri": "memo://x"}, "more": 1}
    assert renumbered(RpcError.received(gone)).error == {**gone, "code": -32602}
    other = RpcError(-32603, "no")
    assert renumbered(other) is other
    deep = RpcError.received(
        Raw(b'{"code":-32002,"message":"gone","data":%b}' % (b"[" * 500 + b"]" * 500))
    )
    assert renumbered(deep).error == {"code": -32602, "message": "gone"}


@pytest.mark.parametrize("code", [-32022, -32023, -32050, -32099])
def test_a_code_that_is_not_the_servers_to_use_becomes_an_internal_error(code: int) -> None:
    error: JsonObject = {"code": code, "message": "busy", "data": {"after": 1.10}, "more": 1}
    assert renumbered(RpcError.received(error)).error == {**error, "code": -32603}


@pytest.mark.parametrize("code", [-32020, -32021, -32019, -32000, -32100, -32603, 7])
def test_a_code_that_a_server_may_use_stays(code: int) -> None:
    error = RpcError(code, "busy")
    assert renumbered(error) is error


LISTING: JsonObject = {"name": "list", "outputSchema": {"type": "array"}}


@pytest.mark.parametrize(
    ("content", "is_read"), [("[1]", False), ("7", False), ("null", False), ('{"a":1.10}', True)]
)
def test_a_legacy_client_gets_no_structured_content_but_an_object(
    content: str, *, is_read: bool
) -> None:
    result = Raw(b'{"content":[],"structuredContent":%b,"more":1}' % content.encode())
    kept = result if is_read else Raw(b'{"content":[],"more":1}')
    assert as_object(for_legacy(result, LISTING)) == as_object(kept)
    assert for_legacy(as_object(result), LISTING) == as_object(kept)
    known: list[JsonObject] = [{}, {"outputSchema": {"type": "object"}}]
    for definition in known:
        assert for_legacy(result, definition) is result


def test_a_result_without_structured_content_is_for_all() -> None:
    result = Raw(b'{"content":[]}')
    assert for_legacy(result, LISTING) is result
    with pytest.raises(RpcError, match="cannot be read"):
        for_legacy(Raw(b"[]"), LISTING)
