"""Clients with signed tokens before a whole endpoint."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from hub.protocol.http_headers import token_hash
from hub.protocol.listen_filter import LISTEN
from hub.server.http.access import AccessCheck, Refusal, RequestHeaders
from hub.server.http.auth.admission import (
    NO_TOKEN_SENT,
    WELL_KNOWN,
    Admission,
    ProtectedResource,
    TokenRejection,
    Unverified,
)
from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.auth.issuer_metadata import APART, KeySet
from hub.server.http.auth.signed_tokens import Issuer, SignedTokens
from hub.server.http.auth.token_verifier import RECHECK, TokenVerifier
from hub.server.http.bounds.failed_logins import MOST
from hub.server.http.request_heads import HeaderChecks
from tests.kit.asgi import request, scope_of
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeClock
from tests.server.http.auth.issuer import NAME, RESOURCE, public, signed
from tests.server.http.auth.test_signed_tokens import ALGORITHMS, Keys
from tests.server.http.test_app import MODERN, Web, asked, echo, enveloped, initialize, listen, web

READABLE = {
    "host": "localhost:8765",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "content-length": "2",
}
AT = "https://hub.example.com/.well-known/oauth-protected-resource/mcp"


def by(**claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {signed(**{'exp': time.time() + 86_400, **claims})}"}


def credentials(source: Keys, scopes: Sequence[str] = ("mcp:tools",)) -> Credentials:
    keys = KeySet(NAME, source, time.monotonic)
    issuer = Issuer(NAME, RESOURCE, ALGORITHMS, keys)
    resource = ProtectedResource(RESOURCE, (NAME,), tuple(scopes))
    named = BearerTokens(None, {"ci": token_hash("of ci")})
    return Credentials(named, TokenVerifier(resource, SignedTokens([issuer], time.time), time.time))


@asynccontextmanager
async def guarded(source: Keys | None = None) -> AsyncGenerator[Web]:
    async with web(credentials=credentials(source or Keys("rsa-1"))) as site:
        yield site


async def test_who_sends_no_token_is_told_where_to_get_one() -> None:
    async with guarded() as site:
        refused = await site.post(asked("ping"))
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == (
            f'Bearer realm="roots-hub", scope="mcp:tools", resource_metadata="{AT}"'
        )
        for path in (WELL_KNOWN, f"{WELL_KNOWN}/mcp"):
            told = await request(site.app, "GET", {"host": "localhost:8765"}, path=path)
            assert told.status == 200
            assert told.json["resource"] == RESOURCE
            assert told.json["authorization_servers"] == [NAME]
        elsewhere = await request(site.app, "GET", {"host": "evil.example"}, path=WELL_KNOWN)
        assert elsewhere.status == 421
        posted = await request(site.app, "POST", {"host": "localhost:8765"}, path=WELL_KNOWN)
        assert posted.status == 405


async def test_where_no_signed_token_is_taken_nothing_is_told() -> None:
    async with web() as site:
        told = await request(site.app, "GET", {"host": "localhost:8765"}, path=WELL_KNOWN)
        assert told.status == 404


async def test_issuer_and_subject_are_the_principal_in_both_eras() -> None:
    async with guarded() as site:
        key = await site.session(sent=by())
        assert (await site.post(echo(), key, **by(exp=time.time() + 61))).status == 200
        assert (await site.post(echo(), key, **by(sub="ben"))).status == 404
        assert (await site.modern(asked("tools/list"), None, **by(sub="ben"))).status == 200
        assert (await site.post(asked("ping"), None, authorization="Bearer of ci")).status == 400
        found = [connection.session.principal for connection in site.connection_builder]
        assert found == [f"{NAME} anna", f"{NAME} ben"]


async def test_a_token_that_is_not_valid_or_not_enough_is_refused_with_the_reason() -> None:
    async with guarded() as site:
        refused = await site.post(asked("ping"), None, **by(exp=1))
        assert refused.status == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert f'resource_metadata="{AT}"' in refused.headers["www-authenticate"]
        refused = await site.post(asked("ping"), None, **by(scope="other"))
        assert refused.status == 403
        challenge = refused.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="mcp:tools"' in challenge


async def test_after_too_many_wrong_tokens_an_address_has_no_unknown_one_verified() -> None:
    async with guarded() as site:
        known = by()
        assert (await site.post(initialize(), None, **known)).status == 200
        for _ in range(MOST):
            assert (await site.post(asked("ping"), None, **by(exp=1))).status == 401
        refused = await site.post(initialize(), None, **by(sub="new"))
        assert (refused.status, "retry-after" in refused.headers) == (429, True)
        assert (await site.post(initialize(), None, **known)).status == 200
        named = {"authorization": "Bearer of ci"}
        assert (await site.post(initialize(), None, **named)).status == 200


async def test_a_token_that_has_let_in_is_verified_again_beside_wrong_ones_of_its_address() -> None:
    source, clock = Keys("rsa-1"), FakeClock(time.time())
    keys = KeySet(NAME, source, clock)
    signed_ones = SignedTokens([Issuer(NAME, RESOURCE, ALGORITHMS, keys)], clock)
    verifier = TokenVerifier(ProtectedResource(RESOURCE, (NAME,)), signed_ones, clock)
    async with web(credentials=Credentials(BearerTokens(None), verifier, clock=clock)) as site:
        known = by()
        assert (await site.post(initialize(), None, **known)).status == 200
        for _ in range(MOST):
            assert (await site.post(asked("ping"), None, **by(exp=1))).status == 401
        clock.now += RECHECK
        assert (await site.post(initialize(), None, **known)).status == 200
        assert (await site.post(initialize(), None, **by(sub="new"))).status == 429
        source.keys = []
        clock.now += RECHECK
        await keys.refresh()
        statuses = [(await site.post(initialize(), None, **known)).status for _ in range(2)]
        assert statuses == [429, 429]


async def test_a_key_that_is_gone_ends_its_tokens_for_heads_that_were_checked_before() -> None:
    source, clock = Keys("rsa-1", "p256-1"), FakeClock(time.time())
    keys = KeySet(NAME, source, clock)
    signed_ones = SignedTokens([Issuer(NAME, RESOURCE, ALGORITHMS, keys)], clock)
    verifier = TokenVerifier(ProtectedResource(RESOURCE, (NAME,)), signed_ones, clock)
    access = AccessCheck("127.0.0.1", Credentials(BearerTokens(None), verifier, clock=clock))
    heads = HeaderChecks(access, "/mcp", clock=clock)
    post = scope_of("POST", {**READABLE, **by()}, "/mcp")
    assert isinstance(await heads.admission(post, RequestHeaders(post["headers"])), Admission)
    head = heads.of(post)
    assert head is not None
    assert heads.still_counts(head)
    source.keys = [public("p256-1")]
    clock.now += APART
    await keys.refresh()
    assert not heads.still_counts(head)
    assert heads.of(post) is None
    refused = await heads.admission(post, RequestHeaders(post["headers"]))
    assert isinstance(refused, Refusal)
    assert refused.status == 401


async def test_while_keys_cannot_be_had_a_client_is_told_to_come_back() -> None:
    source = Keys("rsa-1")
    source.keys = None
    async with guarded(source) as site:
        refused = await site.post(asked("ping"), None, **by())
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert "www-authenticate" not in refused.headers


class Short(Credentials):
    """Lets everybody in for a moment."""

    def look_at(self, authorization: str | None) -> Admission | TokenRejection | Unverified:
        now = time.time()
        return Admission("anna", now, now + 0.1)


async def test_a_stream_ends_with_the_token_that_opened_it() -> None:
    async with web(credentials=Short(BearerTokens("x"))) as site:
        key = await site.session()
        with anyio.fail_after(20):
            stream = site.start("GET", key, None, accept="text/event-stream")
            await stream.over()
            again = site.start("GET", key, None, accept="text/event-stream")
            await again.began()
            assert again.status == 200
            modern = {"mcp_protocol_version": MODERN, "mcp_method": LISTEN}
            await site.start("POST", None, enveloped(listen()), **modern).over()


async def test_a_response_that_a_client_came_back_for_ends_with_its_token() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with web(child, credentials=Short(BearerTokens("x"))) as site:
        key = await site.session()
        call = site.start("POST", key, echo(9, {"progressToken": "mine"}))
        link = await child.connected()
        token = (await link.request("tools/call"))["params"]["_meta"]["progressToken"]
        link.notify("notifications/progress", {"progressToken": token, "progress": 1})
        await call.heard(1)
        seen = {"last_event_id": call.ids[-1], "accept": "text/event-stream"}
        call.disconnect()
        resumed = site.start("GET", key, None, **seen)
        await resumed.began()
        assert resumed.status == 200
        await resumed.served()


async def test_a_request_whose_body_comes_after_its_token_has_ended_is_refused() -> None:
    class EndingCredentials(Credentials):
        is_over = False

        def look_at(self, authorization: str | None) -> Admission | TokenRejection | Unverified:
            return NO_TOKEN_SENT if self.is_over else Admission("anna", recheck=0)

    credentials = EndingCredentials(BearerTokens("x"))
    async with web(credentials=credentials) as site:
        request = site.start("POST", None, initialize())
        request.sends = anyio.Event()
        await request.awaited()
        credentials.is_over = True
        request.sends.set()
        assert (await request.over()).status == 401
        assert not site.connection_builder
