from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hub.children.link import lost_in, message_in, parsed
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Failure, Message, Request
from hub.jsonrpc.peer_conduct import MAX_WASTE, PeerConduct
from hub.protocol.constants import INTERNAL_ERROR


def read(text: bytes) -> Message | None:
    return message_in(PeerConduct("files"), text, parsed(text), otherwise="no message")


def test_a_message_is_one() -> None:
    with capture_logs() as logs:
        assert read(b'{"jsonrpc":"2.0","id":1,"method":"ping"}') == Request(1, "ping", {})
    assert logs == []


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff"}}',
        b'{"jsonrpc":"2.0","result":{"text":"\xff"},"id":7}',
    ],
)
def test_an_answer_that_cannot_be_read_fails_the_call_that_waits_for_it(text: bytes) -> None:
    with capture_logs() as logs:
        answer = read(text)
    assert isinstance(answer, Failure)
    failed = RpcError.received(answer.error)
    assert (answer.id, failed.code) == (7, INTERNAL_ERROR)
    assert str(failed).startswith("the answer of server 'files' cannot be read: ")
    assert logs == []


@pytest.mark.parametrize(
    "text", [b"hello", b"{}", b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":NaN}}']
)
def test_anything_else_is_logged(text: bytes) -> None:
    with capture_logs() as logs:
        assert read(text) is None
    assert [(entry["event"], entry["text"]) for entry in logs] == [("no message", text.decode())]


def test_what_was_too_large_fails_the_call_that_it_answers() -> None:
    said = f"it has more than {messages.MAX_MESSAGE_BYTES} bytes"
    with capture_logs() as logs:
        assert lost_in(PeerConduct("files"), b'{"id":7,"result":{"a":"xx') == messages.lost(7, said)
        assert lost_in(PeerConduct("files"), b'{"id":7,"method":"m","params":{"a":"xx') is None
    assert [entry["event"] for entry in logs] == ["message too large, dropped"] * 2


def test_one_that_sends_only_what_is_too_large_is_ended() -> None:
    conduct, ends = PeerConduct("files"), b'{"method":"m","params":{"a":"xx'
    with capture_logs():
        for _ in range(MAX_WASTE // messages.MAX_MESSAGE_BYTES):
            assert lost_in(conduct, ends) is None
        with pytest.raises(GoneError, match="messages that are too large, over 128 MiB"):
            lost_in(conduct, ends)
