from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.remote.exchange import LIGHT, UnfinishedMessages
from hub.children.remote.http_client import Endpoint
from hub.children.remote.streamable_http import HttpLink
from hub.jsonrpc import messages, parsing
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import (
    MAX_MESSAGE_BYTES,
    Failure,
    Lost,
    Message,
    Notification,
    Request,
    Response,
    Untaken,
    lost,
)
from hub.jsonrpc.peer_conduct import MAX_STRAYS, PeerConduct
from hub.jsonrpc.requests import RequestWithin
from hub.launch.templates import FileSecret, SecretText
from hub.logins.access_tokens import LOOK_EVERY, AccessTokens
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from hub.protocol.constants import METHOD_NOT_FOUND, MODERN_VERSIONS, PROTOCOL_VERSION_META
from hub.specs import RemoteTarget
from hub.values import JsonObject
from tests.kit.fakes import FakeClock, taken_into
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.scripted_http import (
    AT_ONCE,
    URL,
    Answer,
    Feed,
    Script,
    ScriptedHttp,
    ScriptedRemote,
    Sent,
    events,
    json_body,
    never,
    steady_pace,
)

MODERN: JsonObject = {"_meta": {PROTOCOL_VERSION_META: MODERN_VERSIONS[-1]}}
CALL = Request(7, "tools/call", {"name": "own name"})
MODERN_CALL = Request(7, "tools/call", {"name": "own name", **MODERN})
TOLD = Notification("notifications/roots/list_changed", {})
CANCELLED = Notification("notifications/cancelled", {"requestId": 7, "reason": "r"})
GREETED = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'
NEWS = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"a":1.0}}'
HEARD = Notification("notifications/message", Raw(b'{"a":1.0}'))
ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"a":1.0}}'
ANSWERED = Response(7, Raw(b'{"a":1.0}'))
TAKEN = httpx2.Response(202)
INITIALIZED = Notification("notifications/initialized", {})


def event(text: bytes, id_: bytes = b"") -> bytes:
    return (b"id: " + id_ + b"\n" if id_ else b"") + b"data: " + text + b"\n\n"


class StreamableRemote(ScriptedRemote[HttpLink]):
    """A link to a scripted child, with the calls that a hub makes on it."""

    async def ask(self, request: Request = CALL) -> Message:
        return await super().ask(request)

    async def nothing_more(self) -> None:
        """Assert that no message is left after all tasks are done."""
        await all_tasks_blocked()
        await self.link.leave()
        with pytest.raises(GoneError, match="the connection ended"):
            await self.next()


@asynccontextmanager
async def scripted_remote(script: Script | Answer) -> AsyncGenerator[StreamableRemote]:
    http = ScriptedHttp(script if callable(script) else lambda _: script)
    async with anyio.create_task_group() as tasks:
        conduct = PeerConduct("far", pace=steady_pace())
        endpoint = Endpoint(RemoteTarget(URL), http, conduct)
        yield StreamableRemote(HttpLink(endpoint, tasks, pauses=AT_ONCE), http)
        tasks.cancel_scope.cancel()


def log_out(directory: Path) -> None:
    for file in directory.rglob("*"):
        if file.is_file():
            file.unlink()


async def test_a_session_is_left_though_its_login_has_ended(tmp_path: Path) -> None:
    files = LoginFiles(tmp_path)
    files.write(URL, Login("https://login.example", "https://login.example/t", "hub", "t", 0.0))
    clock = FakeClock(100.0)
    tokens = AccessTokens("far", URL, files, clock)
    http = ScriptedHttp(legacy(lambda _: json_body(ANSWER)))
    async with anyio.create_task_group() as tasks:
        link = HttpLink(Endpoint(RemoteTarget(URL), http, PeerConduct("far"), tokens), tasks)
        await link.outlet.send(Request(1, "initialize", {}))
        with anyio.fail_after(20):
            await link.next()
            clock.advance(LOOK_EVERY)
            log_out(tmp_path)
            await link.leave()
        assert "DELETE" not in {sent.method for sent in http.sent}
        tasks.cancel_scope.cancel()


async def test_large_events_that_arrive_at_once_fail_before_they_take_all_memory() -> None:
    """None of them is too large, and none need ever end."""
    begun = b"id: 1\ndata: " + b"x" * (LIGHT + 1)
    endpoint = Endpoint(
        RemoteTarget(URL), ScriptedHttp(lambda _: events(Feed(begun))), PeerConduct("far")
    )
    endpoint.unfinished = UnfinishedMessages(3 * LIGHT)
    async with anyio.create_task_group() as tasks:
        link = HttpLink(endpoint, tasks, pauses=AT_ONCE)
        for number in range(3):
            await link.outlet.send(Request(number, "tools/call", {}))
        with anyio.fail_after(20):
            (failed,) = [await link.next()]
        assert isinstance(failed, Lost)
        assert f"its unfinished messages have more than {3 * LIGHT} bytes" in str(failed.error)
        await all_tasks_blocked()
        assert not link.outlet.has(failed.id)
        assert sum(map(link.outlet.has, range(3))) == 2
        tasks.cancel_scope.cancel()


def legacy(
    answer: Callable[[Sent], Answer], stream: Callable[[Sent], Answer] | None = None
) -> Script:
    """Return the script of a child with a session; it uses `answer` after the handshake."""

    def script(sent: Sent) -> Answer:
        if b'"initialize"' in sent.body:
            return json_body(GREETED, mcp_session_id="s1")
        if sent.method == "GET":
            return httpx2.Response(405) if stream is None else stream(sent)
        return TAKEN if b'"notifications/' in sent.body else answer(sent)

    return script


@asynccontextmanager
async def greeted(
    answer: Callable[[Sent], Answer], stream: Callable[[Sent], Answer] | None = None
) -> AsyncGenerator[StreamableRemote]:
    """Yield a child that is greeted and has begun its session."""
    async with scripted_remote(legacy(answer, stream)) as child:
        await child.ask(Request(1, "initialize", {}))
        await child.link.outlet.send(Notification("notifications/initialized", {}))
        await child.http.until_sent(1, "GET")
        yield child


async def test_an_answer_is_carried_as_it_was_written() -> None:
    result = b'{"n":1e400,"m":1.0,"big":123456789012345678901234567890,"?":{"b":1,"a":null}}'
    async with scripted_remote(
        json_body(b'{"jsonrpc":"2.0","id":7,"result":' + result + b"}")
    ) as child:
        assert await child.ask() == Response(7, Raw(result))


async def test_an_answer_of_several_lines_becomes_one() -> None:
    for answer in (
        json_body(b'{\n"jsonrpc":"2.0",\n"id":7,"result":{\r\n"a":1}}'),
        events(b'data: {"jsonrpc":"2.0","id":7,\ndata: "result":{\ndata:  "a":1}}\n\n'),
    ):
        async with scripted_remote(answer) as child:
            assert b"\n" not in messages.to_bytes(await child.ask())


async def test_a_request_goes_out_as_it_was_written() -> None:
    params = messages.as_object(Raw(b'{"n":1e400,"m":1.0,"big":123456789012345678901234567890}'))
    async with scripted_remote(json_body(ANSWER)) as child:
        await child.ask(Request(7, "m", params))
        (sent,) = child.http.sent
    assert sent.body == (
        b'{"jsonrpc":"2.0","id":7,"method":"m",'
        b'"params":{"n":1e400,"m":1.0,"big":123456789012345678901234567890}}'
    )
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/json")
    assert sent.headers["accept"] == "application/json, text/event-stream"
    assert not {name for name in sent.headers if name.startswith("mcp-")}


async def test_every_kind_of_message_goes_out() -> None:
    async with scripted_remote(TAKEN) as child:
        for message in (TOLD, Response("a", {"x": 1}), Failure("a", {"code": -1, "message": "no"})):
            await child.link.outlet.send(message)
        assert [parsing.parse_child(sent.body) for sent in child.http.sent] == [
            Notification(TOLD.method, {}),
            Response("a", Raw(b'{"x":1}')),
            Failure("a", Raw(b'{"code":-1,"message":"no"}')),
        ]


async def test_after_the_greeting_all_carries_the_session_and_the_version() -> None:
    async with greeted(lambda _: json_body(ANSWER)) as child:
        assert await child.ask() == ANSWERED
        await child.link.outlet.send(TOLD)
        await child.link.leave()
        (first, *rest) = child.http.sent
    assert not {name for name in first.headers if name.startswith("mcp-")}
    assert sorted(one.method for one in rest) == ["DELETE", "GET", "POST", "POST", "POST"]
    for sent in rest:
        assert sent.headers["mcp-session-id"] == "s1"
        assert sent.headers["mcp-protocol-version"] == "2025-11-25"


async def test_a_child_without_a_session_is_left_without_a_word() -> None:
    async with scripted_remote(json_body(GREETED)) as child:
        await child.ask(Request(1, "initialize", {}))
        await child.link.leave()
        assert len(child.http.sent) == 1


async def test_a_failed_delete_of_the_session_is_ignored() -> None:
    async with greeted(lambda _: httpx2.ConnectError("refused")) as child:
        await child.link.leave()
        assert child.http.sent[-1].method == "DELETE"


async def test_a_modern_request_names_its_version_its_method_and_its_target() -> None:
    async with scripted_remote(json_body(ANSWER)) as child:
        assert await child.ask(MODERN_CALL) == ANSWERED
        headers = child.http.sent[0].headers
    assert {name: value for name, value in headers.items() if name.startswith("mcp-")} == {
        "mcp-protocol-version": MODERN_VERSIONS[-1],
        "mcp-method": "tools/call",
        "mcp-name": "own name",
    }


async def test_a_modern_call_repeats_the_arguments_that_its_tool_marks() -> None:
    schema = b'{"type":"object","properties":{"at":{"type":"string","x-mcp-header":"Region"}}}'
    listing = b'{"tools":[{"name":"own name","inputSchema":' + schema + b"}]}"
    async with scripted_remote(
        json_body(b'{"jsonrpc":"2.0","id":7,"result":' + listing + b"}")
    ) as child:
        assert await child.ask(Request(7, "tools/list", MODERN)) == Response(7, Raw(listing))
        arguments: JsonObject = {"at": "\u00fc"}
        await child.ask(Request(7, "tools/call", {**MODERN_CALL.params, "arguments": arguments}))
        assert child.http.sent[1].headers["mcp-param-region"] == "=?base64?w7w=?="


async def test_in_the_legacy_era_an_envelope_is_only_carried() -> None:
    async with greeted(lambda _: json_body(ANSWER)) as child:
        await child.ask(MODERN_CALL)
        assert child.http.sent[-1].headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in child.http.sent[-1].headers


async def test_in_the_modern_era_only_requests_are_sent() -> None:
    async with scripted_remote(json_body(ANSWER, mcp_session_id="s1")) as child:
        await child.ask(MODERN_CALL)
        for message in (TOLD, Notification("notifications/initialized", {}), Response(1, {})):
            await child.link.outlet.send(message)
        await all_tasks_blocked()
        await child.link.leave()
        assert len(child.http.sent) == 1


@virtual_time
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_cancelled_request_is_closed_and_a_legacy_child_is_notified(era: str) -> None:
    feed = Feed(event(NEWS))
    async with (
        greeted(lambda _: events(feed))
        if era == "legacy"
        else scripted_remote(events(feed)) as child
    ):
        assert await child.ask(MODERN_CALL) == HEARD
        await child.link.outlet.send(CANCELLED)
        with anyio.fail_after(20):
            await feed.closed()
        told = [sent for sent in child.http.sent if b"notifications/cancelled" in sent.body]
        assert len(told) == (1 if era == "legacy" else 0)
        await child.nothing_more()


async def test_a_request_that_is_cancelled_before_its_response_begins_is_closed_too() -> None:
    """The server hears of it: what answers there ends."""
    ended = anyio.Event()

    async def script(_: Sent) -> Answer:
        try:
            return await never()
        finally:
            ended.set()

    async with scripted_remote(script) as child:
        await child.link.outlet.send(MODERN_CALL)
        await child.http.until_sent(1)
        await child.link.outlet.send(CANCELLED)
        with anyio.fail_after(20):
            await ended.wait()


async def test_a_request_that_is_not_in_progress_is_not_cancelled() -> None:
    async with greeted(lambda _: json_body(ANSWER)) as child:
        await child.ask()
        count = len(child.http.sent)
        await child.link.outlet.send(CANCELLED)
        await child.link.outlet.send(Notification("notifications/cancelled", {}))
        assert len(child.http.sent) == count


async def test_an_answer_may_come_as_an_event_after_others() -> None:
    asked = b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
    stream = b": hello\n\nevent: ping\ndata: x\n\n" + event(NEWS) + event(asked) + event(ANSWER)
    for chunks in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        async with scripted_remote(events(*chunks)) as child:
            await child.link.outlet.send(CALL)
            found = [await child.next() for _ in range(3)]
            assert found == [HEARD, RequestWithin("q", "roots/list", {}, within=7), ANSWERED]


async def test_a_request_on_the_get_stream_belongs_to_no_call() -> None:
    asked = b'{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
    async with greeted(lambda _: TAKEN, lambda _: events(event(asked))) as child:
        assert await child.next() == Request("q", "roots/list", {})


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_an_answer_under_another_id_is_still_the_answer(kind: str) -> None:
    text = ANSWER.replace(b"7", b'"7"')
    async with scripted_remote(json_body(text) if kind == "json" else events(event(text))) as child:
        assert await child.ask() == ANSWERED


async def test_an_error_is_passed_on_as_it_is() -> None:
    text = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no","data":1.0}}'
    expected = Failure(7, Raw(b'{"code":-32602,"message":"no","data":1.0}'))
    for answer in (json_body(text), json_body(text, 400), json_body(text, 500)):
        async with scripted_remote(answer) as child:
            assert await child.ask() == expected
    async with scripted_remote(events(event(text))) as child:
        assert await child.ask() == expected


def html(status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, headers={"content-type": "text/html; x=y"}, content=b"<html>")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (httpx2.ConnectError("refused"), "it cannot be reached (refused)"),
        (httpx2.ReadTimeout(""), "the connection broke (ReadTimeout)"),
        (html(500), "it answered with HTTP status 500"),
        (httpx2.Response(503, json={"error": "no"}), "it answered with HTTP status 503"),
        (httpx2.Response(502, stream=Feed(b"BREAK")), "it answered with HTTP status 502"),
        (httpx2.Response(401), "it answered with HTTP status 401 (check its headers)"),
        (httpx2.Response(204), "it answered with HTTP status 204"),
        (
            httpx2.Response(307, headers={"location": "http://x/?k=s3cret"}),
            "it redirects to http://x/, which is not followed",
        ),
        (html(), "it answered with content of type 'text/html'"),
        (httpx2.Response(200), "it answered with content of type ''"),
        (TAKEN, "it accepted the request but will not answer it (HTTP status 202)"),
        (json_body(NEWS), "it answered with a message that is not a response"),
        (
            json_body(ANSWER.replace(b"7", b"8")),
            "it answered with the response to another request",
        ),
        (
            httpx2.Response(
                200, headers={"content-type": "application/json"}, stream=Feed(b"{", b"BREAK")
            ),
            "the connection broke (reset)",
        ),
        (events(event(NEWS)[:20], b"BREAK"), "the connection broke (reset)"),
        (events(b": nothing\n\n"), "the connection broke off"),
    ],
)
async def test_a_broken_connection_fails_only_its_own_request(answer: Answer, why: str) -> None:
    async with scripted_remote(answer) as child:
        assert await child.ask() == lost(7, why)
        await child.nothing_more()


async def test_an_answer_that_is_no_json_fails_its_request() -> None:
    async with scripted_remote(json_body(b"{")) as child:
        failed = await child.ask()
    assert isinstance(failed, Lost)
    assert "its answer cannot be read: " in str(messages.as_object(failed.error)["message"])


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_an_answer_that_is_too_large_fails_its_request(kind: str) -> None:
    text = ANSWER[:-2] + b',"b":"' + b"x" * MAX_MESSAGE_BYTES + b'"}}'
    async with scripted_remote(json_body(text) if kind == "json" else events(event(text))) as child:
        failed = await child.ask()
    assert isinstance(failed, Lost)
    assert "it has more than " in str(messages.as_object(failed.error)["message"])


async def test_a_notification_that_is_lost_is_logged() -> None:
    for answer in (httpx2.ConnectError("refused"), html(500)):
        async with scripted_remote(answer) as child:
            with capture_logs() as logs:
                await child.link.outlet.send(TOLD)
            assert [entry["event"] for entry in logs] == ["message lost"]


async def test_an_unknown_method_is_no_end_where_there_is_no_session() -> None:
    async with scripted_remote(html(404)) as child:
        failed = await child.ask()
        assert isinstance(failed, Failure)
        assert failed.error == {
            "code": METHOD_NOT_FOUND,
            "message": "it answered with HTTP status 404 (check its url)",
        }


async def test_where_there_is_one_an_unknown_session_is_the_end() -> None:
    unknown = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'
    for answer in (html(404), json_body(unknown, 404)):
        async with greeted(lambda _, answer=answer: answer) as child:
            with pytest.raises(GoneError, match="its session has ended"):
                await child.ask()
            with pytest.raises(GoneError, match="its session has ended"):
                await child.link.outlet.send(TOLD)


async def test_who_waits_for_a_request_of_an_unknown_session_is_told_that_it_was_not_taken() -> (
    None
):
    async with greeted(lambda _: html(404)) as child:
        settled: list[Message] = []
        child.link.hand_answers_to(taken_into(settled))
        await child.link.outlet.send(CALL)
        with pytest.raises(GoneError, match="its session has ended"):
            await child.next()
        (answer,) = settled
        assert isinstance(answer, Untaken)
        assert answer.id == CALL.id


async def test_an_unknown_method_is_no_end_either() -> None:
    unknown = b'{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}'
    async with greeted(lambda _: json_body(unknown, 404)) as child:
        assert await child.ask() == Failure(7, Raw(b'{"code":-32601,"message":"no"}'))


async def test_a_session_may_end_at_a_notification() -> None:
    async with greeted(lambda _: httpx2.Response(404)) as child:
        await child.link.outlet.send(Response(1, {}))
        with pytest.raises(GoneError, match="its session has ended"):
            await child.next()


async def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    begun = [event(NEWS, b"1"), b"BREAK"]
    streams = [events(event(NEWS, b"2")), httpx2.ConnectError("refused"), events(event(ANSWER))]

    def stream(sent: Sent) -> Answer:
        return streams.pop(0) if "last-event-id" in sent.headers else httpx2.Response(405)

    async with greeted(lambda _: events(*begun), stream) as child:
        await child.link.outlet.send(CALL)
        assert [await child.next() for _ in range(3)] == [HEARD, HEARD, ANSWERED]
        ids = [one.headers.get("last-event-id") for one in child.http.sent if one.method == "GET"]
        assert ids == [None, "1", "2", "2"]


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (405, "the connection broke off, and cannot be resumed: it answered with HTTP status 405"),
        (503, "the connection broke off"),
    ],
)
async def test_an_answer_that_cannot_be_resumed_is_lost(status: int, why: str) -> None:
    def stream(_: Sent) -> Answer:
        return httpx2.Response(status)

    async with scripted_remote(legacy(lambda _: events(event(NEWS, b"1")), stream)) as child:
        await child.ask(Request(1, "initialize", {}))
        assert [await child.ask(), await child.next()] == [HEARD, lost(7, why)]


async def test_a_session_may_end_at_a_resumption() -> None:
    async with scripted_remote(
        legacy(lambda _: events(event(NEWS, b"1")), lambda _: html(404))
    ) as child:
        await child.ask(Request(1, "initialize", {}))
        assert await child.ask() == HEARD
        with pytest.raises(GoneError, match="its session has ended"):
            await child.next()


async def test_in_the_modern_era_nothing_is_resumed() -> None:
    async with scripted_remote(events(event(NEWS, b"1"))) as child:
        assert await child.ask(MODERN_CALL) == HEARD
        assert await child.next() == lost(7, "the connection broke off")
        assert len(child.http.sent) == 1


async def test_unsolicited_messages_are_received() -> None:
    first, second = Feed(event(NEWS, b"5")), Feed(event(NEWS))
    feeds = [first, second]
    async with greeted(lambda _: TAKEN, lambda _: events(feeds.pop(0))) as child:
        assert await child.next() == HEARD
        first.end()
        assert await child.next() == HEARD
        assert (await child.http.until_sent(2, "GET")).headers["last-event-id"] == "5"
    assert second.is_closed


async def test_a_session_may_end_on_the_get_stream() -> None:
    async with greeted(lambda _: TAKEN, lambda _: html(404)) as child:
        with pytest.raises(GoneError, match="its session has ended"):
            await child.next()


@virtual_time
async def test_an_answer_on_the_get_stream_completes_its_request() -> None:
    feed, standing = Feed(event(NEWS)), Feed()
    async with greeted(lambda _: events(feed), lambda _: events(standing)) as child:
        assert await child.ask() == HEARD
        standing.write(event(ANSWER))
        assert await child.next() == ANSWERED
        with anyio.fail_after(20):
            await feed.closed()
        await child.nothing_more()


@virtual_time
async def test_after_its_answer_a_stream_is_read_on_and_not_for_long() -> None:
    feed = Feed(event(ANSWER) + event(NEWS))
    async with scripted_remote(events(feed)) as child:
        assert [await child.ask(), await child.next()] == [ANSWERED, HEARD]
    feed = Feed(event(ANSWER))
    async with scripted_remote(events(feed)) as child:
        assert await child.ask() == ANSWERED
        with anyio.fail_after(20):
            await feed.closed()


async def test_many_requests_are_under_way_at_once_and_none_waits_for_another() -> None:
    async def script(sent: Sent) -> Answer:
        id_ = parsing.parse_child(sent.body)
        assert isinstance(id_, Request)
        if id_.id == 0:
            return await never()
        return json_body(ANSWER.replace(b"7", str(id_.id).encode(), 1))

    async with scripted_remote(script) as child:
        for number in range(300):
            await child.link.outlet.send(Request(number, "m", {}))
        found = [await child.next() for _ in range(299)]
        assert sorted(one.id for one in found if isinstance(one, Response)) == list(range(1, 300))


async def test_a_request_can_be_posted_without_waiting_and_nothing_else() -> None:
    async with scripted_remote(json_body(ANSWER)) as child:
        assert child.link.outlet.post(CALL)
        assert await child.next() == ANSWERED
        assert not child.link.outlet.post(TOLD)
        await child.link.leave()
        assert not child.link.outlet.post(CALL)


async def test_answers_are_handed_over_where_they_arrive() -> None:
    settled: list[Message] = []
    async with scripted_remote(json_body(ANSWER)) as child, anyio.create_task_group() as tasks:
        child.link.hand_answers_to(taken_into(settled))
        tasks.start_soon(child.link.next)
        await all_tasks_blocked()
        await child.link.outlet.send(CALL)
        await all_tasks_blocked()
        assert settled == [ANSWERED]
        tasks.cancel_scope.cancel()


async def test_a_message_that_cannot_be_written_is_the_senders_matter() -> None:
    async with scripted_remote(TAKEN) as child:
        with pytest.raises(messages.WireError):
            await child.link.outlet.send(Request(7, "m", {"a": "\ud800"}))
        assert child.http.sent == []


@pytest.mark.parametrize("answers", [True, False])
async def test_a_child_that_streams_useless_events_is_ended(*, answers: bool) -> None:
    flood = b"data: this is no message\n\n" * (MAX_STRAYS + 1)

    def script(sent: Sent) -> Answer:
        if (sent.method == "POST" and answers) or sent.method == "GET":
            return events(flood)
        return TAKEN

    async with scripted_remote(script) as child:
        with capture_logs():
            await child.link.outlet.send(CALL if answers else INITIALIZED)
            with pytest.raises(GoneError, match="the hub ended it because it misbehaved"):
                await child.next()


async def test_a_refused_login_ends_a_connection_whose_secrets_may_have_been_replaced() -> None:
    target = RemoteTarget(URL, secrets={"Authorization": SecretText((FileSecret("/x"),))})
    http = ScriptedHttp(lambda _: httpx2.Response(401, json={"error": "no"}))
    why = (
        r"it answered with HTTP status 401 \(check its headers\), "
        "whose secrets are read again at its next start"
    )
    for message in (CALL, TOLD):
        async with anyio.create_task_group() as tasks:
            link = HttpLink(Endpoint(target, http, PeerConduct("far")), tasks, pauses=AT_ONCE)
            with suppress(GoneError):
                await link.outlet.send(message)
            with anyio.fail_after(20), pytest.raises(GoneError, match=why):
                await link.next()
            tasks.cancel_scope.cancel()
