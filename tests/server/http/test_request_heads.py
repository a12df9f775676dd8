from __future__ import annotations

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Scope

from hub.jsonrpc.messages import MAX_MESSAGE_BYTES, Notification, Request
from hub.protocol.http_headers import token_hash
from hub.server.http import request_heads as module
from hub.server.http.access import AccessCheck
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.bounds.forwarded import Proxies
from hub.server.http.request_heads import (
    KEPT,
    MAX_KEPT_BYTES,
    CheckedHeaders,
    HeaderChecks,
    RepeatedHead,
    RequestHead,
)
from hub.values import JsonObject
from tests.kit.asgi import scope_of
from tests.kit.fakes import FakeClock

TOKEN = "s3cret"  # noqa: S105 - it opens nothing
LEGACY, MODERN = "2025-11-25", "2026-07-28"
FIELDS = {
    "host": "localhost:8765",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "content-length": "2",
}


class Looked(HeaderChecks):
    """Counts how often a head is looked at anew."""

    def __init__(self, token: str | None = None) -> None:
        super().__init__(AccessCheck("127.0.0.1", Credentials(BearerTokens(token))), "/mcp")
        self.times = 0

    def looked_at(
        self, scope: Scope, headers: module.RequestHeaders
    ) -> module.Admission | module.Refusal | module.Unverified:
        self.times += 1
        return super().looked_at(scope, headers)


def post(path: str = "/mcp", method: str = "POST", **changes: str) -> Scope:
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    return scope_of(method, {**FIELDS, **named}, path)


def checked(heads: HeaderChecks, scope: Scope) -> CheckedHeaders:
    head = heads.of(scope)
    assert head is not None
    return head.checked


def test_the_same_headers_are_looked_at_once() -> None:
    heads = Looked(TOKEN)
    first = checked(heads, post(authorization=f"Bearer {TOKEN}"))
    assert checked(heads, post(authorization=f"Bearer {TOKEN}")) is first
    assert heads.times == 1


def test_the_length_of_a_body_and_whose_session_it_is_are_read_anew() -> None:
    heads = Looked()
    first = heads.of(post(content_length="7", mcp_session_id="one"))
    other = heads.of(post(content_length="8", mcp_session_id="other"))
    assert first is not None
    assert other is not None
    assert (first.session, other.session) == ("one", "other")
    assert first.checked is other.checked
    assert heads.of(post(content_length=str(MAX_MESSAGE_BYTES + 1))) is None
    assert heads.times == 1


def test_a_head_that_is_shown_shows_no_secrets() -> None:
    shown = repr(Looked(TOKEN).of(post(authorization=f"Bearer {TOKEN}", mcp_session_id="one")))
    assert "RoutingHeaders" in shown
    assert TOKEN not in shown
    assert "one" not in shown.replace("None", "")


@pytest.mark.parametrize("first", ["one", "", "other"])
def test_a_head_that_names_two_sessions_is_for_the_endpoint_to_refuse(first: str) -> None:
    heads, scope = Looked(), post(mcp_session_id=first)
    assert heads.of(scope) is not None
    scope["headers"].append((b"mcp-session-id", b"other"))
    assert heads.of(scope) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": "Bearer other"},
        {"authorization": ""},
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"accept": "application/json"},
        {"content_type": "text/plain"},
        {"path": "/other"},
        {"method": "GET"},
    ],
)
def test_one_change_is_enough_to_be_turned_away_again(changes: dict[str, str]) -> None:
    heads, sent = Looked(TOKEN), {"authorization": f"Bearer {TOKEN}"}
    for _ in range(2):
        assert heads.of(post(**sent)) is not None
        assert heads.of(post(**{**sent, **changes})) is None


def test_a_header_that_comes_again_is_a_change() -> None:
    heads, scope = Looked(), post(mcp_protocol_version=MODERN)
    assert checked(heads, post(mcp_protocol_version=MODERN)).told.twice is None
    scope["headers"].append((b"mcp-protocol-version", MODERN.encode()))
    assert checked(heads, scope).told.twice == "mcp-protocol-version"


def test_a_head_counts_no_more_once_what_lets_clients_in_has_changed() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens(TOKEN)))
    heads = HeaderChecks(keeper, "/mcp")
    head = heads.of(post(authorization=f"Bearer {TOKEN}"))
    assert head is not None
    assert heads.still_counts(head)
    keeper.follow(BearerTokens("other"), (), ())
    assert not heads.still_counts(head)


def test_a_head_counts_no_more_once_its_token_has_ended() -> None:
    clock = FakeClock(99.0)
    tokens = BearerTokens(None, {"anna": token_hash(TOKEN)}, {"anna": 100.0})
    keeper = AccessCheck("127.0.0.1", Credentials(tokens, clock=clock))
    heads, sent = HeaderChecks(keeper, "/mcp", clock=clock), post(authorization=f"Bearer {TOKEN}")
    head = heads.of(sent)
    assert head is not None
    assert heads.still_counts(head)
    again = heads.of(sent)
    assert again is not None
    assert again.checked is head.checked, "it is cached until then"
    clock.advance(1)
    assert not heads.still_counts(head)
    assert heads.of(sent) is None


def test_who_is_turned_away_is_looked_at_every_time() -> None:
    heads = Looked(TOKEN)
    for _ in range(3):
        assert heads.of(post(authorization="Bearer other")) is None
    assert heads.times == 3


def test_another_endpoint_lets_nobody_in_for_having_been_let_in_here() -> None:
    sent = post(authorization=f"Bearer {TOKEN}")
    assert Looked(TOKEN).of(sent) is not None
    assert Looked("other").of(sent) is None


def test_a_body_of_unknown_length_is_not_waited_for() -> None:
    scope = post()
    scope["headers"] = [field for field in scope["headers"] if field[0] != b"content-length"]
    assert Looked().of(scope) is None


def test_long_headers_are_let_in_and_not_kept() -> None:
    heads = Looked()
    for _ in range(2):
        checked(heads, post(x_more="x" * MAX_KEPT_BYTES))
    assert heads.times == 2


def test_ever_new_headers_are_not_kept_for_ever() -> None:
    heads = Looked()
    for number in range(KEPT + 1):
        checked(heads, post(x_more=str(number)))
    checked(heads, post(x_more=str(KEPT)))
    assert heads.times == KEPT + 1
    checked(heads, post(x_more=str(KEPT - 1)))
    assert heads.times == KEPT + 2


def test_what_a_proxy_may_say_nobody_else_is_believed_for_having_said_it_too() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens(TOKEN)), names=["hub.example.com"])
    heads = HeaderChecks(keeper, "/mcp", Proxies(["10.0.0.1"]))
    sent = {"authorization": f"Bearer {TOKEN}", "x_forwarded_host": "evil.example"}
    direct, proxied = post(**sent), {**post(**sent), "client": ("10.0.0.1", 4711)}
    assert heads.of(direct) is not None
    assert heads.of(proxied) is None
    assert heads.of(direct) is not None


def test_a_head_let_in_by_a_token_is_not_let_in_by_it_once_there_is_another() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens(TOKEN)))
    heads, sent = HeaderChecks(keeper, "/mcp"), post(authorization=f"Bearer {TOKEN}")
    assert heads.of(sent) is not None
    keeper.follow(BearerTokens("other"), (), ())
    assert heads.of(sent) is None
    assert heads.of(post(authorization="Bearer other")) is not None


def test_a_message_belongs_to_a_session_by_its_version_or_by_its_envelope() -> None:
    heads = Looked()
    meta: JsonObject = {"io.modelcontextprotocol/protocolVersion": MODERN}
    enveloped = Request(1, "tools/list", {"_meta": meta})
    plain, told = Request(1, "tools/list", {}), Notification("notifications/initialized", {})
    of_legacy = checked(heads, post(mcp_protocol_version=LEGACY))
    of_modern = checked(heads, post(mcp_protocol_version=MODERN))
    unknown = checked(heads, post())
    for message in (enveloped, plain, told):
        assert not of_modern.is_legacy(message)
        for headers in (of_legacy, unknown):
            assert headers.is_legacy(message) is (message is not enveloped)


class Parsed:
    """What httptools makes of some bytes: the requests, each as target, fields and body."""

    def __init__(self, data: bytes) -> None:
        self.whole: list[tuple[bytes, list[tuple[bytes, bytes]], bytes]] = []
        self._is_begun = False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        assert parser.get_method() == b"POST"
        assert parser.should_keep_alive()

    def on_message_begin(self) -> None:
        self._url, self._body, self._fields = b"", b"", list[tuple[bytes, bytes]]()
        self._is_begun = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() != b"content-length":
            self._fields.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.whole.append((self._url, self._fields, self._body))
        self._is_begun = False

    @property
    def only(self) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
        """The one request that the bytes are, with nothing behind it."""
        assert len(self.whole) == 1
        assert not self._is_begun
        return self.whole[0]


def let_in() -> RequestHead:
    head = Looked().of(post())
    assert head is not None
    return head


PLAIN = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nAccept: b\r\n\r\nbody"


def repeated(data: bytes = PLAIN, body: bytes = b"body") -> RepeatedHead | None:
    return RepeatedHead.of(let_in(), data, body)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PLAIN.replace(b"4\r\n", b"11\r\n").replace(b"body", b"longer body"),
        PLAIN.replace(b"4\r\n", b"0\r\n").replace(b"body", b""),
        PLAIN.replace(b"4\r\n", b"0004\r\n"),
    ],
)
def test_the_body_behind_the_same_head_is_read_whatever_its_length(data: bytes) -> None:
    head = repeated()
    assert head is not None
    assert head.body_in(data) == Parsed(data).only[2]


@pytest.mark.parametrize(("size", "is_kept"), [(4096, True), (9000, False)])
def test_the_bytes_of_a_large_head_are_not_kept(size: int, *, is_kept: bool) -> None:
    head = repeated(PLAIN.replace(b"Accept: b", b"Accept: " + b"b" * size))
    assert (head is not None) is is_kept


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1],
        PLAIN + b"P",
        2 * PLAIN,
        b"\r\n" + PLAIN,
        PLAIN.replace(b"4", b"+4"),
        PLAIN.replace(b" 4", b" "),
        PLAIN.replace(b"4", b"4 "),
        PLAIN.replace(b"4", "\N{SUPERSCRIPT FOUR}".encode()),
        PLAIN.replace(b"4", b"000000004"),
        PLAIN.replace(b"4\r\n", b"4\r\nContent-Length: 4\r\n"),
        PLAIN.replace(b"4\r\n", b"4\r\nTransfer-Encoding: chunked\r\n"),
        PLAIN.replace(b"4\r\n", b"4\r\n\r\n"),
        PLAIN.replace(b"4\r\n", b"4\n"),
        PLAIN.replace(b"Host: a", b"Host: b"),
        PLAIN.replace(b"Accept: b", b"Accept: c"),
        PLAIN.replace(b"/mcp", b"/mcp/"),
        PLAIN[:40],
        b"",
    ],
)
def test_what_is_not_one_request_with_the_same_head_is_left_to_the_parser(data: bytes) -> None:
    head = repeated()
    assert head is not None
    assert head.body_in(data) is None


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"", b"body"),  # it came in pieces
        (PLAIN, b"bod"),
        (PLAIN, b""),
        (2 * PLAIN, b"body"),
        (b"\r\n" + PLAIN, b"body"),
        (PLAIN.replace(b"4\r\n", b"4\r\nContent-Length: 4\r\n"), b"body"),
        (
            PLAIN.replace(b"Content-Length: 4", b"Transfer-Encoding: chunked").replace(
                b"body", b"4\r\nbody\r\n0\r\n\r\n"
            ),
            b"body",
        ),
    ],
)
def test_only_a_request_that_came_whole_tells_how_its_head_is_written(
    data: bytes, body: bytes
) -> None:
    assert repeated(data, body) is None


fields = st.lists(
    st.tuples(
        st.sampled_from([b"Host", b"Content-Length", b"content-length", b"X", b"Connection"]),
        st.sampled_from([b"1", b"4", b"a", b"keep-alive", b"", b" 4", b"4 "]),
    ),
    max_size=4,
)
ends = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r\n "])
bodies = st.sampled_from([b"", b"a", b"body", b"\r\n\r\n", b"X: 1\r\n\r\nbody", PLAIN])


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Return what may be a request, and its body."""
    body = draw(bodies)
    length = draw(st.sampled_from([b"%d" % len(body), b"%d" % len(body), b"4"]))
    told = [(b"Host", b"a"), (b"Content-Length", length), *draw(fields)]
    lines = [name + b": " + value + draw(ends) for name, value in draw(st.permutations(told))]
    return b"POST /mcp HTTP/1.1\r\n" + b"".join(lines) + b"\r\n" + body, body


@given(requests(), st.lists(requests(), max_size=3), st.integers(1, 4))
def test_a_repeated_head_is_what_a_parser_reads(
    first: tuple[bytes, bytes], others: list[tuple[bytes, bytes]], times: int
) -> None:
    data, body = first
    try:
        url, told, read = Parsed(data).only
    except (AssertionError, httptools.HttpParserError):
        return  # the hub has let in no such request
    if read != body or (head := RepeatedHead.of(let_in(), data, body)) is None:
        return
    changed = data.replace(b"Content-Length: ", b"Content-Length: " + b"0" * times)
    for other in [data, changed, data * times, *(sent for sent, _ in others)]:
        found = head.body_in(other)
        if found is not None:
            assert Parsed(other).only == (url, told, found)
