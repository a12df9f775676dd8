from __future__ import annotations

import anyio
import httpx2
import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.remote.http_client import Endpoint
from hub.children.remote.messages import (
    LONGEST_REFUSAL,
    is_session_unknown,
    messages_in,
    refusal_in,
)
from hub.jsonrpc import messages
from hub.jsonrpc.exact_json import MAX_PARTS
from hub.jsonrpc.messages import Failure, Message, Notification, Response
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.protocol.sse_parser import ServerSentEvent
from hub.specs import RemoteTarget
from tests.kit.scripted_http import URL, Feed, ScriptedHttp, json_body

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"n":1e400,"m":1.0,"unknown":null}}'
TOLD = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"a":1}}'


def read(text: bytes, name: str = "message", *, is_cut: bool = False) -> list[Message]:
    return list(messages_in(PeerConduct("far"), ServerSentEvent(name, text, is_cut)))


def test_a_message_is_carried_as_it_was_written() -> None:
    assert read(ANSWER) == [Response(1, Raw(b'{"n":1e400,"m":1.0,"unknown":null}'))]


def test_an_event_may_hold_several_messages() -> None:
    expected = [read(ANSWER)[0], Notification("notifications/message", Raw(b'{"a":1}'))]
    assert read(b" [" + ANSWER + b"," + TOLD + b"]") == expected


@pytest.mark.parametrize("text", [b"[1", b"hello", b'{"a":1}', b"[1]", b"\xff"])
def test_text_that_is_not_a_message_is_logged_and_skipped(text: bytes) -> None:
    with capture_logs() as logs:
        assert read(text) == []
    assert [entry["event"] for entry in logs] == ["event is not JSON-RPC"]


def test_a_list_of_very_many_messages_is_not_taken_apart() -> None:
    with capture_logs() as logs:
        assert read(b"[" + b"0," * MAX_PARTS + b"0," + ANSWER + b"]") == []
    assert len(logs) == 1


def test_events_of_other_names_are_skipped() -> None:
    assert read(ANSWER, "ping") == []


def test_a_message_that_was_too_large_fails_the_request_that_it_answers() -> None:
    with capture_logs() as logs:
        cut = read(b'{"jsonrpc":"2.0","id":7,"result":{"a":"xxxxxx"}}', is_cut=True)
        assert cut == [messages.lost(7, f"it has more than {messages.MAX_MESSAGE_BYTES} bytes")]
        assert read(b'{"jsonrpc":"2.0","method":"m","params":"xx', is_cut=True) == []
    assert [entry["event"] for entry in logs] == ["message too large, dropped"] * 2


async def refused(body: bytes | Feed) -> Failure | None:
    answer = json_body(body, 400) if isinstance(body, bytes) else json_body(b"", 400)
    if isinstance(body, Feed):
        answer.stream = body
    http = ScriptedHttp(lambda _: answer)
    exchange = await Endpoint(RemoteTarget(URL), http, PeerConduct("far")).open("POST", {})
    found = await refusal_in(exchange)
    await exchange.close()
    return found


async def test_a_json_rpc_error_in_a_refusal_is_found() -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no","data":1.0}}'
    found = await refused(body)
    assert found == Failure(None, Raw(b'{"code":-32602,"message":"no","data":1.0}'))


async def test_an_error_in_a_refusal_may_have_half_a_character() -> None:
    found = await refused(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"\\ud800"}}')
    assert found == Failure(1, Raw(b'{"code":-1,"message":"\\ud800"}'))


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b'{"error":{"code":500,"message":"no"}}',
        b'{"jsonrpc":"2.0","error":"no"}',
        b'{"jsonrpc":"2.0","error":{"code":"no"}}',
        b'{"jsonrpc":"2.0","error":{"code":true}}',
        ANSWER,
        b"",
        Feed(b"{", b"BREAK"),
        b'{"jsonrpc":"2.0","error":{"code":-1,"message":"%b"}}' % (b"x" * LONGEST_REFUSAL),
    ],
)
async def test_any_other_body_of_a_refusal_is_ignored(body: bytes | Feed) -> None:
    assert await refused(body) is None


async def test_the_body_of_a_refusal_is_not_waited_for_long() -> None:
    feed = Feed(b"{")
    http = ScriptedHttp(lambda _: httpx2.Response(500, stream=feed))
    exchange = await Endpoint(RemoteTarget(URL), http, PeerConduct("far")).open("POST", {})
    with anyio.fail_after(20):
        assert await refusal_in(exchange, within=0.01) is None
    await exchange.close()
    assert feed.is_closed


def refusal(code: int, message: str, id_: int | None = None) -> Failure:
    return Failure(id_, {"code": code, "message": message})


@pytest.mark.parametrize(
    ("status", "error", "is_unknown"),
    [
        (404, None, True),
        (404, refusal(-32001, "Session not found"), True),
        (404, refusal(METHOD_NOT_FOUND, "no such method"), False),
        (400, refusal(-32000, "Bad Request: No valid session ID provided"), True),
        (400, refusal(-32000, "Bad Request: Server not initialized"), True),
        (400, refusal(-32000, "Bad Request: Unsupported protocol version"), False),
        (400, refusal(-32000, "no such session in the database", 7), False),
        (400, refusal(-32602, "session: field required"), False),
        (400, None, False),
        (500, refusal(-32000, "Session not found"), False),
    ],
)
def test_a_session_is_unknown_if_that_is_why_a_message_is_refused(
    status: int, error: Failure | None, is_unknown: bool
) -> None:
    assert is_session_unknown(status, error) == is_unknown
