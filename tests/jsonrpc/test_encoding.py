from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Request,
    Response,
    to_bytes,
    to_line,
)
from hub.jsonrpc.parsing import parse_child
from hub.values import Json

ODD = "/caf\udce9"
"""A path on the disk that is no text."""


def test_missing_params_are_not_written() -> None:
    assert (
        to_bytes(Request(1, "roots/list", {})) == b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}'
    )
    assert to_bytes(Notification("n", {})) == b'{"jsonrpc":"2.0","method":"n"}'
    line = b'{"jsonrpc":"2.0","method":"n","params":{}}'
    assert to_bytes(parse_child(line)) == line, "as the child wrote it"
    assert (
        to_bytes(Notification("n", {"a": 1})) == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}'
    )
    assert to_bytes(Response(1, {})) == b'{"jsonrpc":"2.0","id":1,"result":{}}'


def test_a_message_is_always_one_line() -> None:
    written = to_bytes(Response("a\nb", {"text": "x\r\ny\u2028"}))
    assert b"\n" not in written
    assert b"\r" not in written


def test_an_answer_can_always_be_written() -> None:
    told = Response("x", {"path": ODD, "deeper": [{ODD: "\ud83d"}]})
    written = '{"path":"/caf\ufffd","deeper":[{"/caf\ufffd":"\ufffd"}]}'.encode()
    assert to_bytes(told) == b'{"jsonrpc":"2.0","id":"x","result":%b}' % written
    assert to_line(told) == to_bytes(told) + b"\n"
    failed = Failure(None, {"code": 1, "message": ODD})
    assert json.loads(to_line(failed))["error"] == {"code": 1, "message": "/caf\ufffd"}


def test_surrogates_in_requests_and_notifications_are_not_replaced() -> None:
    for message in (Request(1, "m", {"path": ODD}), Notification("n", {"path": ODD})):
        for write in (to_bytes, to_line):
            with pytest.raises(WireError):
                write(message)


def nested(depth: int) -> Json:
    deep: Json = ODD
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize("write", [to_bytes, to_line])
def test_an_answer_that_is_nested_too_deeply_is_refused(
    write: Callable[[Message], bytes],
) -> None:
    with pytest.raises(WireError):
        write(Response(1, {"deep": nested(100_000)}))


@pytest.mark.parametrize("write", [to_bytes, to_line])
def test_an_answer_that_only_some_interpreters_can_write_is_whole_or_refused(
    write: Callable[[Message], bytes],
) -> None:
    """The limit of CPython 3.11 is below 700, that of 3.13 is not."""
    try:
        line = write(Response(1, {"deep": nested(700)}))
    except WireError:
        return
    assert line.count(b"[") == line.count(b"]") == 700
