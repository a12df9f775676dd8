"""Tokens that say nothing themselves: an issuer is asked about them (RFC 7662)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import anyio
import httpx2
import pytest

from hub.server.http.auth.admission import SKEW, Admission, ProtectedResource, TokenRejection
from hub.server.http.auth.introspection import (
    AT_ONCE,
    COUNTS,
    STREAMS_END,
    IntrospectionClient,
    IntrospectionEndpoint,
    OpaqueTokens,
)
from hub.server.http.auth.issuer_metadata import IssuerUnavailableError, KeySet
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.auth.token_verifier import MOST_CHARACTERS, TokenVerifier
from tests.kit.fakes import FakeClock
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.server.http.auth.issuer import CLAIMS, NAME, NOW, RESOURCE, signed
from tests.server.http.auth.test_signed_tokens import ALGORITHMS, Keys

ASKED_AT = f"{NAME}/introspect"
ACTIVE: dict[str, Any] = {**CLAIMS, "active": True, "token_type": "Bearer", "exp": NOW + 3600}


class Desk:
    """An issuer's introspection endpoint: what it says of which token, and what it was asked."""

    def __init__(self, said: Mapping[str, Any] | None = None) -> None:
        self.tokens: dict[str, Any] = {"good": ACTIVE if said is None else said}
        self.asked: list[str] = []
        self.requests: list[httpx2.Request] = []
        self.status = 200
        self.at = ASKED_AT
        self.answers: anyio.Event | None = None
        self.under_way = self.most = 0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if request.method == "GET":
            told = {"issuer": NAME, "introspection_endpoint": self.at}
            return httpx2.Response(200, json=told)
        (token,) = parse_qs(request.content.decode())["token"]
        self.asked.append(token)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.answers is not None:
                await self.answers.wait()
        finally:
            self.under_way -= 1
        said = self.tokens.get(token, {"active": False})
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        return httpx2.Response(self.status, content=content)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self), timeout=None)


class IntrospectionBench:
    """A verifier that asks a desk, and its clock."""

    def __init__(
        self,
        desk: Desk | None = None,
        *,
        url: str | None = ASKED_AT,
        wanted: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.desk = desk or Desk()
        self.clock = FakeClock(NOW)
        client = IntrospectionClient("hub :/", "a secret%", url)
        self.endpoint = IntrospectionEndpoint(NAME, client, self.desk.client)
        opaque = OpaqueTokens(NAME, RESOURCE, wanted or {}, self.endpoint, self.clock)
        issuer = Issuer(NAME, RESOURCE, ALGORITHMS, KeySet(NAME, Keys("rsa-1"), self.clock))
        resource = ProtectedResource(RESOURCE, (NAME,), ("mcp:tools",))
        tokens = SignedTokens([issuer], self.clock)
        self.verifier = TokenVerifier(resource, tokens, self.clock, opaque)

    async def verify(self, sent: str = "good") -> Admission | TokenRejection:
        return await self.verifier.verify(sent.encode("latin-1"))

    async def admitted(self, sent: str = "good") -> Admission:
        found = await self.verify(sent)
        assert isinstance(found, Admission)
        return found

    async def status(self, sent: str = "good") -> int:
        found = await self.verify(sent)
        return found.status if isinstance(found, TokenRejection) else 200


async def test_the_issuer_is_asked_as_the_rfc_says() -> None:
    bench = IntrospectionBench()
    found = await bench.admitted()
    assert found.principal == f"{NAME} anna"
    assert found.claims is not None
    assert found.claims["iss"] == NAME
    (request,) = bench.desk.requests
    assert (request.method, str(request.url)) == ("POST", ASKED_AT)
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["accept"] == "application/json"
    asked = parse_qs(request.content.decode())
    assert asked == {"token": ["good"], "token_type_hint": ["access_token"]}
    scheme, _, encoded = request.headers["authorization"].partition(" ")
    assert (scheme, base64.b64decode(encoded)) == ("Basic", b"hub+%3A%2F:a+secret%25")


async def test_without_an_address_its_metadata_says_where_and_is_read_once() -> None:
    bench = IntrospectionBench(url=None)
    assert await bench.status() == 200
    assert await bench.status("other") == 401
    metadata, *asked = [str(request.url) for request in bench.desk.requests]
    assert metadata == f"{NAME}/.well-known/oauth-authorization-server"
    assert asked == [ASKED_AT, ASKED_AT]


async def test_the_metadata_is_read_again_after_a_failure() -> None:
    bench = IntrospectionBench(url=None)
    assert await bench.status() == 200
    bench.desk.status, bench.desk.at = 404, f"{NAME}/v2/introspect"
    assert await bench.status("other") == 503
    bench.desk.status = 200
    assert await bench.status("other") == 401
    assert str(bench.desk.requests[-1].url) == f"{NAME}/v2/introspect"


async def test_each_of_several_failures_names_the_address_that_was_asked() -> None:
    desk = Desk()
    bench = IntrospectionBench(desk, url=None)
    await bench.admitted()
    desk.status, desk.answers = 500, anyio.Event()
    said: list[str] = []

    async def fail() -> None:
        with pytest.raises(IssuerUnavailableError) as failed:
            await bench.endpoint("other")
        said.append(str(failed.value))

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(fail)
        await all_tasks_blocked()
        desk.answers.set()
    assert said == [f"{ASKED_AT}: HTTP status 500"] * 2


async def test_signed_tokens_are_verified_and_nobody_is_asked() -> None:
    bench = IntrospectionBench()
    assert await bench.status(signed()) == 200
    assert await bench.status(f"{signed()[:-6]}AAAAAA") == 401
    assert bench.desk.asked == []


def said(**more: Any) -> dict[str, Any]:
    return {name: value for name, value in {**ACTIVE, **more}.items() if value is not None}


BAD: dict[str, Any] = {
    "not active": {"active": False},
    "not active, with claims": said(active=False),
    "active is a text": said(active="true"),
    "active is 1": said(active=1),
    "active is not said": said(active=None),
    "of another issuer": said(iss="https://evil.example"),
    "issuer with a slash": said(iss=f"{NAME}/"),
    "issuer is a list": said(iss=[NAME]),
    "no audience": said(aud=None),
    "for another audience": said(aud="https://other.example"),
    "audience is longer": said(aud=f"{RESOURCE}/more"),
    "audience is a mapping": said(aud={RESOURCE: 1}),
    "audience of numbers": said(aud=[1]),
    "expired": said(exp=NOW - SKEW),
    "end is a text": said(exp=str(NOW + 60)),
    "end is true": said(exp=True),
    "not yet": said(nbf=NOW + SKEW + 1),
    "made in the future": said(iat=NOW + SKEW + 1),
    "no subject": said(sub=None),
    "empty subject": said(sub=""),
    "subject with a line end": said(sub="a\nb"),
    "subject is a number": said(sub=7),
    "of another kind": {**ACTIVE, "token_type": "refresh_token"},
    "kind is a list": {**ACTIVE, "token_type": ["Bearer"]},
    "for DPoP": {**ACTIVE, "token_type": "DPoP"},
    "bound to a key": said(cnf={"jkt": "AAAA"}),
    "bound to a certificate": said(cnf={"x5t#S256": "AAAA"}),
    "another tenant": said(tenant="c"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_the_issuer_says_is_checked(kind: str) -> None:
    bench = IntrospectionBench(Desk(BAD[kind]), wanted={"tenant": ("a", "b")})
    bench.desk.tokens["other"] = said(tenant="b")
    found = await bench.verify()
    assert isinstance(found, TokenRejection)
    assert (found.status, found.error) == (401, "invalid_token")
    assert await bench.status("other") == 200


@pytest.mark.parametrize("token", ["", "a b", "a\0", "é", "a=b", "a" * (MOST_CHARACTERS + 1), "{}"])
async def test_what_cannot_be_a_token_is_not_asked_about(token: str) -> None:
    bench = IntrospectionBench()
    assert await bench.status(token) == 401
    assert bench.desk.asked == []


async def test_one_scope_too_few_is_said_as_with_signed_tokens() -> None:
    bench = IntrospectionBench(Desk(said(scope="other")))
    found = await bench.verify()
    assert isinstance(found, TokenRejection)
    assert (found.status, found.error) == (403, "insufficient_scope")


# How long an answer counts


async def test_an_answer_counts_for_seconds_and_then_the_issuer_is_asked_again() -> None:
    bench = IntrospectionBench()
    for _ in range(5):
        assert await bench.status() == 200
    assert bench.verifier.known(b"good") is not None
    assert len(bench.desk.asked) == 1
    bench.desk.tokens.clear()
    bench.clock.now += COUNTS
    assert bench.verifier.known(b"good") is None
    assert await bench.status() == 401


async def test_a_refused_token_is_refused_without_another_question() -> None:
    bench = IntrospectionBench()
    for _ in range(5):
        assert await bench.status("bad") == 401
    assert bench.desk.asked == ["bad"]
    bench.desk.tokens["bad"] = ACTIVE
    bench.clock.now += COUNTS
    assert await bench.status("bad") == 200


async def test_a_token_with_too_few_scopes_is_refused_without_another_question() -> None:
    bench = IntrospectionBench(Desk(said(scope="other")))
    for _ in range(3):
        assert await bench.status() == 403
        assert bench.verifier.known(b"good") is None
    assert bench.desk.asked == ["good"]
    bench.desk.tokens["good"] = ACTIVE
    bench.clock.advance(COUNTS)
    assert await bench.status() == 200
    assert bench.desk.asked == ["good", "good"]


async def test_no_answer_counts_for_longer_than_its_token_lasts() -> None:
    bench = IntrospectionBench(Desk(said(exp=NOW + 1)))
    found = await bench.admitted()
    assert found.recheck == NOW + COUNTS
    bench.clock.now += 1 + SKEW
    assert await bench.status() == 401


@pytest.mark.parametrize(("exp", "end"), [(None, STREAMS_END), (NOW + 60, 60 + SKEW)])
async def test_streams_end_in_time_for_a_token_that_was_taken_back(
    exp: int | None, end: float
) -> None:
    assert (await IntrospectionBench(Desk(said(exp=exp))).admitted()).expires == NOW + end


# Many at once, and an issuer that does not answer


async def test_a_token_is_asked_about_once_however_many_requests_send_it() -> None:
    bench = IntrospectionBench()
    bench.desk.answers = anyio.Event()
    found: list[int] = []

    async def send(token: str) -> None:
        found.append(await bench.status(token))

    async with anyio.create_task_group() as tasks:
        for token in ["good", "bad"] * 20:
            tasks.start_soon(send, token)
        await anyio.wait_all_tasks_blocked()
        bench.desk.answers.set()
    assert sorted(found) == [200] * 20 + [401] * 20
    assert sorted(bench.desk.asked) == ["bad", "good"]


async def test_a_request_that_goes_leaves_the_question_to_the_others() -> None:
    bench = IntrospectionBench()
    bench.desk.answers = anyio.Event()
    found: list[int] = []
    first = anyio.CancelScope()

    async def send(scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await bench.status())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, first)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            tasks.start_soon(send, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        bench.desk.answers.set()
    assert found == [200, 200, 200]
    assert len(bench.desk.asked) == 2


async def test_so_many_questions_are_under_way_and_others_wait() -> None:
    bench = IntrospectionBench()
    bench.desk.answers = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for number in range(AT_ONCE * 3):
            tasks.start_soon(bench.status, f"token-{number}")
        await anyio.wait_all_tasks_blocked()
        assert bench.desk.under_way == AT_ONCE
        bench.desk.answers.set()
    assert bench.desk.most == AT_ONCE
    assert len(bench.desk.asked) == AT_ONCE * 3


@virtual_time
@pytest.mark.parametrize("how", ["status", "no JSON", "no object", "silence"])
async def test_while_the_issuer_says_nothing_known_tokens_go_on_and_others_get_503(
    how: str,
) -> None:
    bench = IntrospectionBench()
    assert await bench.status() == 200
    bench.desk.tokens["later"] = ACTIVE
    match how:
        case "status":
            bench.desk.status = 401  # the hub's own secret is wrong
        case "silence":
            bench.desk.answers = anyio.Event()
        case _:
            bench.desk.tokens["later"] = b"{" if how == "no JSON" else b"[]"
    found = await bench.verify("later")
    assert isinstance(found, TokenRejection)
    assert (found.status, found.error) == (503, "")
    assert await bench.status() == 200
    bench.desk.status, bench.desk.answers = 200, None
    bench.desk.tokens["later"] = ACTIVE
    assert await bench.status("later") == 200


async def test_an_issuer_that_breaks_ends_nothing() -> None:
    class BrokenDesk(Desk):
        async def __call__(self, request: httpx2.Request) -> httpx2.Response:
            raise TypeError("strange")

    assert await IntrospectionBench(BrokenDesk()).status() == 503


async def test_its_connections_are_closed_at_the_end() -> None:
    desk, opened = Desk(), list[httpx2.AsyncClient]()

    def client() -> httpx2.AsyncClient:
        opened.append(desk.client())
        return opened[-1]

    asking = IntrospectionClient("hub", "secret", ASKED_AT)
    opaque = OpaqueTokens(
        NAME, RESOURCE, {}, IntrospectionEndpoint(NAME, asking, client), FakeClock(NOW)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opaque.endpoint.serve)
        await opaque.verified("good")
        await opaque.verified("good")
        assert [one.is_closed for one in opened] == [False]
        tasks.cancel_scope.cancel()
    assert [one.is_closed for one in opened] == [True]


async def test_the_secret_is_shown_nowhere() -> None:
    client = IntrospectionClient("hub", "of the hub")
    assert "of the hub" not in repr(client)
