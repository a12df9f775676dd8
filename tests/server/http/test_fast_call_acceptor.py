from __future__ import annotations

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from hub.calls.in_flight import ReplySink
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.messages import Failure, Request
from hub.jsonrpc.requests import Cancellable
from hub.server.http.access import AccessCheck
from hub.server.http.auth.admission import ProfileRules
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.bounds.bodies import BodyLimit
from hub.server.http.fast_calls import PATIENCE, FastCallAcceptor
from hub.server.http.request_heads import HeaderChecks, RequestHead
from hub.server.http.responses import PostResponse
from hub.usage.principals import ClientUsage, UsageByPrincipal, UsageLimits
from tests.kit.asgi import scope_of

JSON_FIRST, STREAM_FIRST = "application/json, text/event-stream", "text/event-stream, */*"
FIELDS = {"host": "localhost", "content-type": "application/json", "content-length": "2"}


class Unplain:
    """A request that does not go by express."""

    def __init__(self) -> None:
        self.in_flight = self.begun = 0

    def begin(self) -> None:
        self.begun += 1
        self.in_flight += 1

    def end(self) -> None:
        self.in_flight -= 1

    def pass_on(self, reply: ReplySink) -> Cancellable | None:
        return None

    def response(self, send: Send) -> PostResponse:
        raise AssertionError("it has no response here")

    async def converse(self, receive: Receive, response: PostResponse) -> None:
        raise AssertionError("it is not answered here")

    def last_word(self) -> Failure | None:
        return None

    def status_of(self, failure: Failure) -> int:
        return 200


class UnusedConnection:
    """A connection that nothing is written to."""

    def answer(self, status: int, body: bytes) -> bool:
        raise AssertionError("nothing is answered")

    @property
    def send(self) -> Send:
        raise AssertionError("nothing is sent")

    def serve(self, app: ASGIApp) -> None:
        raise AssertionError("nothing is served")


async def unserved(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("there is room")


class Seen:
    """A desk, and the requests that it asked about."""

    def __init__(self, usage: UsageByPrincipal | None = None) -> None:
        self.requests: list[Request] = []
        self.unplain = Unplain()
        self.keeper = AccessCheck(
            "127.0.0.1", Credentials(BearerTokens()), profiles=ProfileRules({"few": None})
        )
        heads = HeaderChecks(self.keeper, "/mcp")
        self.acceptor = FastCallAcceptor(
            heads,
            self._find,
            Deadlines(PATIENCE),
            bodies=BodyLimit(),
            no_room=unserved,
            usage=usage or UsageByPrincipal(),
        )

    def _find(self, request: Request, head: RequestHead) -> Unplain | None:
        self.requests.append(request)
        return self.unplain if request.id == 1 else None

    def head(self, accept: str = JSON_FIRST) -> RequestHead | None:
        return self.acceptor.head(scope_of("POST", {**FIELDS, "accept": accept}))

    def accepts(self, body: bytes) -> bool:
        head = self.head()
        assert head is not None
        is_taken = self.acceptor.take(head, body, UnusedConnection()) is not None
        assert not self.unplain.in_flight
        return is_taken


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'"tools/call"',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"',
        b'{"jsonrpc":"2.0","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"a":"tools/call"}}}',
    ],
)
def test_what_is_no_call_is_left_alone(body: bytes) -> None:
    seen = Seen()
    assert not seen.accepts(body)
    assert seen.requests == []


@pytest.mark.parametrize("id_", [1, 2])
def test_a_call_that_is_not_plain_or_not_allowed_is_left_alone(id_: int) -> None:
    seen = Seen()
    assert not seen.accepts(b'{"jsonrpc":"2.0","id":%d,"method":"tools/call"}' % id_)
    assert [request.id for request in seen.requests] == [id_]


def test_who_wants_a_stream_is_not_answered_at_the_desk() -> None:
    assert Seen().head() is not None
    assert Seen().head(f"text/event-stream, {JSON_FIRST}") is None


def test_a_call_whose_body_comes_after_the_tokens_have_changed_is_left_alone() -> None:
    seen = Seen()
    head = seen.head()
    assert head is not None
    seen.keeper.follow(BearerTokens("s3cret"), (), ())
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
    assert seen.acceptor.take(head, body, UnusedConnection()) is None
    assert seen.requests == []


PLAIN = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'


@pytest.mark.parametrize("profile", [None, "few"])
def test_a_call_over_a_limit_of_its_profile_or_of_all_is_left_to_a_task(
    profile: str | None,
) -> None:
    limits = UsageLimits(calls_per_minute=1)
    usage = UsageByPrincipal()
    usage.follow(lambda _name, asked: limits if asked == profile else None)
    seen = Seen(usage)
    assert not seen.accepts(PLAIN)
    assert seen.unplain.begun == 1, "it is within the limit"
    counting = usage.of("local", "few")
    assert counting is not None
    counting.called()
    assert not seen.accepts(PLAIN)
    assert seen.unplain.begun == 1


def test_without_limits_nobodys_usage_is_looked_up() -> None:
    class UsageUnasked(UsageByPrincipal):
        def of(self, principal: str, profile: str | None = None) -> ClientUsage | None:
            raise AssertionError("nothing is limited")

    seen = Seen(UsageUnasked())
    assert not seen.accepts(PLAIN)
    assert seen.unplain.begun == 1
