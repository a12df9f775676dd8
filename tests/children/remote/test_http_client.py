from __future__ import annotations

import errno
import gzip
import ssl
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx2
import pytest
from msgspec.structs import replace

from hub.children.remote.exchange import (
    INFLATED,
    LIGHT,
    Exchange,
    ExchangeError,
    UnfinishedMessages,
)
from hub.children.remote.http_client import MAX_REDIRECTS, PIECE, Endpoint
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.peer_conduct import LoopShare, PeerConduct
from hub.logins.access_tokens import AccessTokens
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from hub.specs import RemoteTarget
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted_http import URL, Answer, Feed, Script, ScriptedHttp, Sent, json_body

SECRET = {"Authorization": "Bearer t0ken"}
GZIP = {"content-encoding": "gzip"}


def endpoint_at(
    script: Script | Answer, url: str = URL, headers: Mapping[str, str] = SECRET
) -> tuple[Endpoint, ScriptedHttp]:
    http = ScriptedHttp(script if callable(script) else lambda _: script)
    return Endpoint(RemoteTarget(url, headers), http, PeerConduct("far")), http


def redirecting(status: int, location: str) -> Script:
    def script(sent: Sent) -> httpx2.Response:
        if sent.url in {URL, "https://child.example/mcp"}:
            return httpx2.Response(status, headers={"location": location})
        return json_body(b"{}")

    return script


async def test_a_request_carries_the_operators_headers_and_those_of_the_message() -> None:
    endpoint, http = endpoint_at(json_body(b"{}"), headers={"X-Own": " 1 ", "Accept": "text/html"})
    exchange = await endpoint.open("POST", {b"accept": b"application/json"}, b"body")
    assert (exchange.status, exchange.kind) == (200, "application/json")
    assert await exchange.body(10) == b"{}"
    await exchange.close()
    (sent,) = http.sent
    assert (sent.method, sent.url, sent.body) == ("POST", URL, b"body")
    assert sent.headers == {
        "host": "child.example",
        "accept-encoding": "gzip",
        "user-agent": "roots-hub",
        "x-own": "1",
        "accept": "application/json",
        "content-length": "4",
    }


async def test_a_large_message_goes_out_in_pieces() -> None:
    body = bytes(range(256)) * (PIECE // 100)
    endpoint, http = endpoint_at(json_body(b"{}"))
    await (await endpoint.open("POST", {}, body)).close()
    assert http.sent[0].body == body
    assert http.sent[0].headers["content-length"] == str(len(body))


async def test_a_login_in_the_address_becomes_a_header() -> None:
    endpoint, http = endpoint_at(
        json_body(b"{}"), url="http://me:p%40ss@child.example/mcp", headers={}
    )
    await (await endpoint.open("GET", {})).close()
    assert http.sent[0].headers["authorization"] == "Basic bWU6cEBzcw=="
    assert http.sent[0].headers["host"] == "child.example"


@pytest.mark.parametrize("url", ["http://x:y/", "ftp://child.example/", "http:///mcp", "child"])
async def test_an_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(ChildError, match="its url is not valid"):
        endpoint_at(json_body(b""), url=url)


@pytest.mark.parametrize(("name", "value"), [("X Y", "1"), ("x", "a\nb"), ("x", "\ud800")])
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(
    name: str, value: str
) -> None:
    with pytest.raises(ChildError, match=f"its header '{name}' cannot be sent"):
        endpoint_at(json_body(b""), headers={name: value})


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (httpx2.ConnectError("refused"), "it cannot be reached (refused)"),
        (httpx2.ConnectTimeout(""), "it cannot be reached (ConnectTimeout)"),
        (httpx2.ReadTimeout(""), "the connection broke (ReadTimeout)"),
        (ssl.SSLError(1, "bad record"), "the connection broke (bad record)"),
        (httpx2.LocalProtocolError("Illegal header value b't0ken'"), "its headers cannot be sent"),
    ],
)
async def test_headers_that_cannot_be_sent_are_an_error_without_their_values(
    problem: Exception, said: str
) -> None:
    endpoint, _ = endpoint_at(problem)
    with pytest.raises(ExchangeError) as caught:
        await endpoint.open("POST", {}, b"")
    assert str(caught.value) == said


def caused(cause: Exception, *above: Exception) -> Exception:
    for error in above:
        error.__cause__, cause = cause, error
    return cause


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files (`ulimit -n`)"),
        (ExceptionGroup("", [OSError(errno.EHOSTUNREACH, "No route")]), "No route"),
        (RuntimeError("within"), "All failed"),
    ],
)
async def test_the_reason_that_the_system_gives_is_told(cause: Exception, said: str) -> None:
    problem = caused(cause, OSError("All failed"), httpx2.ConnectError("All failed"))
    with pytest.raises(ExchangeError) as caught:
        await endpoint_at(problem)[0].open("POST", {}, b"")
    assert str(caught.value) == f"it cannot be reached ({said})"


async def test_the_proxy_that_does_not_reach_a_server_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://me:geheim@proxy:3128")
    with pytest.raises(ExchangeError) as caught:
        await endpoint_at(httpx2.ProxyError("403 Forbidden"))[0].open("POST", {}, b"")
    assert (
        str(caught.value)
        == "it cannot be reached through the proxy http://proxy:3128 (403 Forbidden)"
    )


async def test_a_broken_response_is_an_error() -> None:
    endpoint, _ = endpoint_at(httpx2.Response(200, stream=Feed(b"{", b"BREAK")))
    exchange = await endpoint.open("POST", {}, b"")
    with pytest.raises(ExchangeError, match=r"the connection broke \(reset\)"):
        await exchange.body(100)
    await exchange.close()


async def test_a_response_that_is_too_large_is_not_read_to_its_end() -> None:
    feed = Feed(b"x" * 60, b"x" * 60)
    endpoint, _ = endpoint_at(httpx2.Response(200, stream=feed))
    exchange = await endpoint.open("POST", {}, b"")
    with pytest.raises(ExchangeError, match="it has more than 100 bytes"):
        await exchange.body(100)
    await exchange.close()
    assert feed.is_closed


async def test_large_responses_that_arrive_at_once_fail_before_they_take_all_memory() -> None:
    """None of them is too large, and none need ever end."""
    large = b"x" * (LIGHT + 1)
    feeds = [Feed(large) for _ in range(4)]
    waiting = iter([*feeds, Feed(b"small").end(), Feed(large).end()])
    endpoint, _ = endpoint_at(lambda _: httpx2.Response(200, stream=next(waiting)))
    endpoint.unfinished = UnfinishedMessages(3 * LIGHT)
    failed: list[str] = []

    async def read() -> None:
        exchange = await endpoint.open("POST", {}, b"")
        try:
            await exchange.body(2 * LIGHT)
        except ExchangeError as exc:
            failed.append(str(exc))
        finally:
            await exchange.close()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in feeds:
                tasks.start_soon(read)
            await all_tasks_blocked()
            assert failed == [f"its unfinished messages have more than {3 * LIGHT} bytes"] * 2
            await read()
            assert len(failed) == 2, "a small one has its place"
            tasks.cancel_scope.cancel()
        await read()
    assert len(failed) == 2, "what was given up counts no more"


async def test_a_compressed_response_is_limited_by_its_decompressed_size() -> None:
    packed = gzip.compress(b"x" * 1000)
    for limit in (1000, 999):
        answer = httpx2.Response(
            200, headers={"content-encoding": "gzip"}, stream=Feed(packed).end()
        )
        endpoint, _ = endpoint_at(answer)
        exchange = await endpoint.open("GET", {})
        if limit == 1000:
            assert await exchange.body(limit) == b"x" * 1000
        else:
            with pytest.raises(ExchangeError, match="it has more than 999 bytes"):
                await exchange.body(limit)
        await exchange.close()


async def test_each_event_may_be_compressed_by_itself() -> None:
    """RFC 1952, section 2.2: a file is a series of members; `cat a.gz b.gz` is one, too."""
    events = [b"data: 1\n\n", b"data: 2\n\n", b"data: " + bytes(3 * INFLATED) + b"\n\n"]
    packed = [gzip.compress(event) for event in events]
    feed = Feed(packed[0], packed[1] + packed[2][:40], packed[2][40:]).end()
    endpoint, _ = endpoint_at(httpx2.Response(200, headers=GZIP, stream=feed))
    exchange = await endpoint.open("GET", {})
    assert await exchange.body(4 * INFLATED) == b"".join(events)
    await exchange.close()


async def test_a_few_compressed_bytes_are_handed_over_in_pieces() -> None:
    packed = gzip.compress(bytes(64 * INFLATED))
    endpoint, _ = endpoint_at(httpx2.Response(200, headers=GZIP, stream=Feed(packed).end()))
    exchange = await endpoint.open("GET", {})
    sizes = [len(chunk) async for chunk in exchange.chunks()]
    assert max(sizes) <= INFLATED
    assert sum(sizes) == 64 * INFLATED
    await exchange.close()


@pytest.mark.parametrize(
    ("coding", "body", "said"),
    [
        ("gzip", b"no", "its body is not what its content encoding, 'gzip', says"),
        ("br", b"{}", "its content encoding, 'br', is not one that was asked for"),
        ("gzip, gzip", b"{}", "its content encoding, 'gzip, gzip', is not one that was asked for"),
        ("x" * 90, b"{}", f"its content encoding, '{'x' * 40}', is not one that was asked for"),
    ],
)
async def test_a_body_that_cannot_be_decompressed_is_an_error(
    coding: str, body: bytes, said: str
) -> None:
    headers = {"content-encoding": coding}
    endpoint, _ = endpoint_at(httpx2.Response(200, headers=headers, stream=Feed(body).end()))
    exchange = await endpoint.open("GET", {})
    with pytest.raises(ExchangeError) as caught:
        await exchange.body(100)
    assert str(caught.value) == said
    await exchange.close()


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
async def test_a_body_may_say_that_it_is_not_compressed(coding: str) -> None:
    headers = {"content-encoding": coding}
    endpoint, _ = endpoint_at(httpx2.Response(200, headers=headers, stream=Feed(b"{}").end()))
    exchange = await endpoint.open("GET", {})
    assert await exchange.body(100) == b"{}"
    await exchange.close()


@pytest.mark.parametrize(
    ("status", "location", "reached"),
    [
        (307, "/mcp/", "http://child.example/mcp/"),
        (308, "http://child.example/mcp/", "http://child.example/mcp/"),
        (307, "https://child.example/x", "https://child.example/x"),
    ],
)
async def test_a_redirect_within_the_origin_is_followed_with_the_message(
    status: int, location: str, reached: str
) -> None:
    endpoint, http = endpoint_at(redirecting(status, location))
    exchange = await endpoint.open("POST", {b"x": b"y"}, b"body")
    assert exchange.status == 200
    await exchange.close()
    assert [(one.url, one.body, one.headers["x"]) for one in http.sent] == [
        (URL, b"body", "y"),
        (reached, b"body", "y"),
    ]
    await (await endpoint.open("POST", {}, b"")).close()
    assert http.sent[2].url == (reached if status == 308 else URL)


@pytest.mark.parametrize(
    ("method", "status", "location", "said"),
    [
        ("POST", 302, "/mcp/", "http://child.example/mcp/"),
        ("POST", 307, "http://other.example/mcp?key=s3cret", "http://other.example/mcp"),
        ("GET", 302, "http://child.example:81/mcp", "http://child.example:81/mcp"),
        ("POST", 307, "http://who:s3cret@child.example/x", "http://child.example/x"),
        ("DELETE", 303, "/x", "http://child.example/x"),
    ],
)
async def test_a_redirect_to_another_origin_is_not_followed(
    method: str, status: int, location: str, said: str
) -> None:
    endpoint, http = endpoint_at(redirecting(status, location))
    exchange = await endpoint.open(method, {}, b"")
    assert exchange.refusal == f"it redirects to {said}, which is not followed"
    await exchange.close()
    assert [one.url for one in http.sent] == [URL]


async def test_a_redirect_from_tls_to_none_is_not_followed() -> None:
    url = "https://child.example/mcp"
    endpoint, http = endpoint_at(redirecting(307, "http://child.example/x"), url=url)
    exchange = await endpoint.open("POST", {}, b"")
    assert exchange.refusal == "it redirects to http://child.example/x, which is not followed"
    await exchange.close()
    assert len(http.sent) == 1


async def test_an_event_stream_may_be_elsewhere_at_the_origin() -> None:
    endpoint, http = endpoint_at(redirecting(302, "/events"))
    await (await endpoint.open("GET", {})).close()
    assert http.sent[1].url == "http://child.example/events"


async def test_redirects_without_end_are_an_error() -> None:
    endpoint, http = endpoint_at(lambda _: httpx2.Response(307, headers={"location": "/x"}))
    with pytest.raises(ExchangeError, match=f"redirects more than {MAX_REDIRECTS} times"):
        await endpoint.open("POST", {}, b"")
    assert len(http.sent) == MAX_REDIRECTS


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (401, " (check its headers)"),
        (404, " (check its url)"),
        (405, " (check its url and transport)"),
        (500, ""),
    ],
)
async def test_an_error_status_names_the_part_of_the_config_that_may_be_wrong(
    status: int, asked: str
) -> None:
    endpoint, _ = endpoint_at(httpx2.Response(status))
    exchange = await endpoint.open("POST", {}, b"")
    assert exchange.refusal == f"it answered with HTTP status {status}{asked}"
    await exchange.close()
    exchange = await endpoint.open("GET", {})
    assert exchange.refusal == f"it answered with HTTP status {status}"
    await exchange.close()


async def test_a_redirect_to_nowhere_is_a_refusal() -> None:
    for headers in ({}, {"location": "http://x:y/"}):
        endpoint, _ = endpoint_at(httpx2.Response(307, headers=headers))
        exchange = await endpoint.open("POST", {}, b"")
        assert exchange.refusal == "it answered with HTTP status 307"
        await exchange.close()


async def test_cookies_are_sent_only_to_the_origin_that_set_them() -> None:
    def script(sent: Sent) -> httpx2.Response:
        if "cookie" in sent.headers:
            return json_body(b"{}")
        return json_body(b"{}", set_cookie="node=7; Path=/")

    endpoint, http = endpoint_at(script)
    for _ in range(2):
        await (await endpoint.open("POST", {}, b"")).close()
    assert [one.headers.get("cookie") for one in http.sent] == [None, "node=7"]


async def moved(reference: str) -> tuple[Endpoint, ScriptedHttp, Exchange]:
    endpoint, http = endpoint_at(json_body(b"{}"))
    exchange = await endpoint.open("GET", {})
    try:
        endpoint.move(exchange, reference)
    finally:
        await exchange.close()
    return endpoint, http, exchange


async def test_messages_may_go_to_another_place_at_the_same_origin() -> None:
    for reference in ("/messages?id=1", "http://child.example:80/messages?id=1"):
        endpoint, http, _ = await moved(reference)
        await (await endpoint.open("POST", {}, b"")).close()
        assert http.sent[-1].url == "http://child.example/messages?id=1"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("http://other.example/m?k=s3cret", "another server, http://other.example/m, which"),
        ("//other.example/m", "another server, http://other.example/m, which"),
        ("https://child.example/m", "another server, https://child.example/m, which"),
        ("http://me:s3cret@child.example/m", "another server, http://child.example/m, which"),
        ("http://x:y/", "its `endpoint` event has no valid URL"),
    ],
)
async def test_an_endpoint_at_another_origin_is_refused(reference: str, said: str) -> None:
    with pytest.raises(ChildError, match=said) as caught:
        await moved(reference)
    assert "s3cret" not in str(caught.value)


async def test_an_exchange_that_is_given_up_while_it_ends_is_closed() -> None:
    feed = Feed(b"x")
    endpoint, _ = endpoint_at(httpx2.Response(202, stream=feed))
    exchange = await endpoint.open("POST", {}, b"")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.finish)
        await all_tasks_blocked()
        assert not feed.is_closed
        tasks.cancel_scope.cancel()
    assert feed.is_closed


async def test_the_rest_of_an_answered_response_is_not_waited_for() -> None:
    feed = Feed(b"x")
    endpoint, _ = endpoint_at(httpx2.Response(202, stream=feed))
    exchange = await endpoint.open("POST", {}, b"")
    with anyio.fail_after(20):
        await exchange.finish(within=0)
    assert feed.is_closed


# Logins


def logged_in(script: Script, directory: Path) -> tuple[Endpoint, ScriptedHttp, LoginFiles]:
    """Return an endpoint whose login has `old` for a token; it is renewed to `new`, and `newer`."""
    files, made = LoginFiles(directory), iter(("new", "newer"))
    files.write(URL, Login("https://login.example", "https://login.example/t", "hub", "old", 0.0))

    async def renew(login: Login, _now: float) -> Login:
        return replace(login, access_token=next(made))

    http = ScriptedHttp(script)
    tokens = AccessTokens("far", URL, files, lambda: 0.0, renew)
    return Endpoint(RemoteTarget(URL, {}), http, PeerConduct("far"), tokens), http, files


def wanting(token: str) -> Script:
    def script(sent: Sent) -> httpx2.Response:
        is_it = sent.headers["authorization"] == f"Bearer {token}"
        return json_body(b"{}") if is_it else httpx2.Response(401)

    return script


async def test_a_login_is_sent_with_each_request_and_renewed_once_it_is_refused(
    tmp_path: Path,
) -> None:
    endpoint, http, _ = logged_in(wanting("new"), tmp_path)
    for _ in range(2):
        exchange = await endpoint.open("POST", {}, b"body")
        assert exchange.status == 200
        await exchange.close()
    sent = [(one.headers["authorization"], one.body) for one in http.sent]
    assert sent == [(f"Bearer {token}", b"body") for token in ("old", "new", "new")]


async def test_a_server_that_refuses_a_new_token_too_names_the_command(tmp_path: Path) -> None:
    endpoint, http, _ = logged_in(wanting("another"), tmp_path)
    with pytest.raises(GoneError, match=r"refuses a new token.*roots-hub login far"):
        await endpoint.open("POST", {}, b"")
    assert len(http.sent) == 2


async def test_a_scope_that_a_login_lacks_is_told_and_kept_for_the_next_one(tmp_path: Path) -> None:
    asks = {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}
    endpoint, _, files = logged_in(lambda _: httpx2.Response(403, headers=asks), tmp_path)
    exchange = await endpoint.open("POST", {}, b"")
    assert "its token lacks the scope 'files:write': run `roots-hub login far`" in exchange.refusal
    kept = files.read(URL)
    assert kept is not None
    assert kept.wanted == "files:write"


async def test_a_scope_that_a_renewed_token_lacks_is_told_and_kept_too(tmp_path: Path) -> None:
    def script(sent: Sent) -> httpx2.Response:
        if sent.headers["authorization"] == "Bearer old":
            return httpx2.Response(401)
        asks = {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}
        return httpx2.Response(403, headers=asks)

    endpoint, _, files = logged_in(script, tmp_path)
    exchange = await endpoint.open("POST", {}, b"")
    assert "run `roots-hub login far`" in exchange.refusal
    kept = files.read(URL)
    assert kept is not None
    assert kept.wanted == "files:write"


async def test_without_a_login_there_is_no_command_against_a_missing_scope() -> None:
    asks = {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}
    endpoint, _ = endpoint_at(httpx2.Response(403, headers=asks))
    exchange = await endpoint.open("POST", {}, b"")
    assert exchange.refusal.endswith("403 (its token lacks the scope 'files:write')")


def spoil(directory: Path) -> None:
    for file in directory.rglob("*"):
        if file.is_file():
            file.write_bytes(b"no login")


async def test_a_lack_that_cannot_be_kept_leaves_no_connection_open(tmp_path: Path) -> None:
    asks = {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}
    feed = Feed(b"no")
    endpoint, _, _ = logged_in(lambda _: httpx2.Response(403, headers=asks, stream=feed), tmp_path)
    await (await endpoint.open("POST", {}, b"")).close()
    feed.is_closed = False
    spoil(tmp_path)
    with pytest.raises(GoneError, match="its login cannot be read"):
        await endpoint.open("POST", {}, b"")
    assert feed.is_closed


@pytest.mark.parametrize("elsewhere", ["https://other.example/mcp", "http://child.example:81/mcp"])
async def test_a_login_does_not_follow_a_redirect_to_another_origin(
    tmp_path: Path, elsewhere: str
) -> None:
    endpoint, http, _ = logged_in(
        lambda _: httpx2.Response(307, headers={"location": elsewhere}), tmp_path
    )
    assert (await endpoint.open("POST", {}, b"")).status == 307
    assert [one.url for one in http.sent] == [URL]


class RecordingPace(LoopShare):
    """A pace that records what is spent, and never rests."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: list[float] = []

    def spend(self, seconds: float, size: int = 0) -> None:
        self.spent.append(seconds)

    def rest(self) -> float | None:
        return 0.0


async def test_decompressing_gives_others_their_turns_and_counts_as_the_childs_time() -> None:
    packed = gzip.compress(bytes(8 << 20))
    http = ScriptedHttp(lambda _: httpx2.Response(200, headers=GZIP, stream=Feed(packed).end()))
    pace = RecordingPace()
    exchange = await Endpoint(RemoteTarget(URL), http, PeerConduct("far", pace=pace)).open(
        "POST", {}
    )
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        assert len(await exchange.body(16 << 20)) == 8 << 20
        tasks.cancel_scope.cancel()
    assert len(pace.spent) >= 8
    assert turns > 4
    assert all(seconds >= 0 for seconds in pace.spent)
