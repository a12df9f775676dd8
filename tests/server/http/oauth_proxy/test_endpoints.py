"""The OAuth proxy before a whole endpoint: paths, methods, pages, cookies and statuses."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

from hub.server.http.auth.credentials import BearerTokens, Credentials
from hub.server.http.auth.signed_tokens import SignedTokens
from hub.server.http.auth.token_verifier import TokenVerifier
from hub.server.http.bounds.failed_logins import MOST
from hub.server.http.oauth_proxy.browsers import MOST_BYTES
from hub.server.http.oauth_proxy.endpoints import OAuthEndpoints
from tests.kit.asgi import Connection, request
from tests.kit.loops import all_tasks_blocked
from tests.server.http.auth.issuer import RESOURCE
from tests.server.http.oauth_proxy.provider import BROWSER, CALLBACK, ProxyBench, fields_of
from tests.server.http.test_app import Web, asked, initialize, web

HOST = {"host": "hub.example.com"}
COOKIE = f"__Host-roots-hub-login={BROWSER}"
FORM = "application/x-www-form-urlencoded"


class Proxied:
    """A hub through which people log in."""

    def __init__(self, site: Web, bench: ProxyBench) -> None:
        self.site = site
        self.bench = bench

    async def get(self, path: str, query: str = "", **headers: str) -> Connection:
        return await request(self.site.app, "GET", HOST | headers, path=f"{path}?{query}")

    async def post(self, path: str, body: bytes | str, **headers: str) -> Connection:
        content = body if isinstance(body, bytes) else body.encode()
        return await request(self.site.app, "POST", HOST | headers, content, path=path)

    async def registered(self) -> str:
        said = {"redirect_uris": [CALLBACK], "client_name": "<b>test</b>"}
        answer = await self.post("/mcp/oauth/register", json.dumps(said))
        assert answer.status == 201
        return str(answer.json["client_id"])

    async def asked(self, **headers: str) -> Connection:
        """Return the page with the question."""
        query = urlencode(self.bench.asking(await self.registered()))
        return await self.get("/mcp/oauth/authorize", query, **headers)


@asynccontextmanager
async def proxied(**more: Any) -> AsyncGenerator[Proxied]:
    bench = ProxyBench()
    bench.clock.now = time.time()
    signed = SignedTokens([], time.time)
    verifier = TokenVerifier(bench.proxy.resource, signed, time.time, own=bench.own)
    credentials = Credentials(BearerTokens(), verifier)
    oauth = OAuthEndpoints(bench.proxy, "/mcp")
    names = ["hub.example.com"]
    async with web(credentials=credentials, names=names, oauth=oauth, **more) as site:
        yield Proxied(site, bench)


def ticket_in(page: Connection) -> str:
    found = re.search(rb'name="ticket" value="([^"]+)"', page.body)
    assert found is not None
    return unescape(found[1].decode())


async def test_clients_find_the_hub_itself_as_authorization_server() -> None:
    async with proxied() as hub:
        resource = await hub.get("/.well-known/oauth-protected-resource/mcp")
        assert resource.json["authorization_servers"] == [RESOURCE]
        for path in ("/mcp", "", "/"):
            told = await hub.get(f"/.well-known/oauth-authorization-server{path}")
            assert told.status == 200
            assert told.json["issuer"] == RESOURCE
            assert told.json["registration_endpoint"] == f"{RESOURCE}/oauth/register"
            assert told.json["code_challenge_methods_supported"] == ["S256"]
        assert (await hub.get("/.well-known/oauth-authorization-server/other")).status == 401


async def test_without_a_proxy_there_is_nothing_of_it() -> None:
    async with web(names=["hub.example.com"]) as site:
        for path in ("/.well-known/oauth-authorization-server", "/mcp/oauth/authorize"):
            answer = await request(site.app, "GET", HOST, path=path)
            assert answer.status == 404


async def test_a_person_is_asked_on_a_page_that_no_other_page_can_use() -> None:
    async with proxied() as hub:
        page = await hub.asked(accept="text/html")
        assert page.status == 200
        assert b"&lt;b&gt;test&lt;/b&gt;" in page.body
        assert b"<b>test" not in page.body
        assert b"a program on this computer" in page.body
        assert page.headers["content-type"].startswith("text/html")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        cookie = page.headers["set-cookie"]
        assert re.fullmatch(
            r"__Host-roots-hub-login=[\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Secure", cookie
        )
        assert "set-cookie" not in (await hub.asked(cookie=f"a=b; {COOKIE}")).headers
        other = await hub.asked(cookie="__Host-roots-hub-login=short")
        assert "set-cookie" in other.headers


async def test_the_answer_leads_to_the_provider_and_back_to_the_client() -> None:
    async with proxied() as hub:
        ticket = ticket_in(await hub.asked(cookie=COOKIE))
        form = urlencode({"ticket": ticket, "answer": "allow"})
        own = {"cookie": COOKIE, "origin": "https://hub.example.com"}
        gone = await hub.post("/mcp/oauth/authorize", form, **own)
        assert gone.status == 303
        assert gone.headers["location"].startswith("https://issuer.example/authorize?")
        answer = hub.bench.provider_answer(fields_of(gone.headers["location"]))
        back = await hub.get("/mcp/oauth/callback", urlencode(answer), cookie=COOKIE)
        assert back.status == 303
        assert back.headers["location"].startswith(f"{CALLBACK}?code=")
        for other in ("", f"__Host-roots-hub-login={'c' * 43}", f"roots-hub-login={BROWSER}"):
            refused = await hub.get("/mcp/oauth/callback", urlencode(answer), cookie=other)
            assert refused.status == 400
            assert b"begin it again" in refused.body
            assert "location" not in refused.headers


async def test_another_page_cannot_answer_for_a_person() -> None:
    async with proxied() as hub:
        form = urlencode({"ticket": ticket_in(await hub.asked(cookie=COOKIE)), "answer": "allow"})
        for origin in ("https://evil.example", "null"):
            own = {"cookie": COOKIE, "origin": origin}
            assert (await hub.post("/mcp/oauth/authorize", form, **own)).status == 403
        assert (await hub.post("/mcp/oauth/authorize", form)).status == 400


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "hub.example.com:80", "localhost"])
async def test_a_person_can_answer_behind_a_proxy_that_sends_another_host(host: str) -> None:
    async with proxied() as hub:
        query = urlencode(hub.bench.asking(await hub.registered()))
        own = {"cookie": COOKIE, "host": host}
        page = await hub.get("/mcp/oauth/authorize", query, **own)
        form = urlencode({"ticket": ticket_in(page), "answer": "allow"})
        for origin, status in (
            ("https://hub.example.com", 303),
            ("http://hub.example.com:81", 403),
            ("https://hub.example.com:444", 403),
            ("https://evil.example", 403),
        ):
            answer = await hub.post("/mcp/oauth/authorize", form, **own, origin=origin)
            assert answer.status == status, origin


async def test_pages_that_the_operator_lists_may_register_and_get_tokens() -> None:
    async with proxied(origins=["https://app.example"]) as hub:
        for path in ("/mcp/oauth/register", "/mcp/oauth/token"):
            for origin, status in (("https://app.example", 204), ("https://evil.example", 403)):
                asks = {"origin": origin, "access-control-request-method": "POST"}
                told = await request(hub.site.app, "OPTIONS", HOST | asks, path=path)
                assert told.status == status
                answer = await hub.post(path, b"", origin=origin)
                assert answer.status == (400 if status == 204 else 403)
                shared = answer.headers.get("access-control-allow-origin")
                assert shared == (origin if status == 204 else None)


async def test_nothing_else_below_the_endpoint_is_open() -> None:
    async with proxied() as hub:
        for path in ("metadata", "", "token/", "../oauth/token", "other"):
            assert (await hub.get(f"/mcp/oauth/{path}")).status == 401


async def test_the_token_is_let_in_and_the_endpoint_says_errors_as_oauth_does() -> None:
    async with proxied() as hub:
        client_id = await hub.registered()
        form = hub.bench.redeeming(client_id, await hub.bench.code(client_id))
        given = await hub.post("/mcp/oauth/token", urlencode(form), **{"content-type": FORM})
        assert (given.status, given.headers["cache-control"]) == (200, "no-store")
        sent = {"authorization": f"Bearer {given.json['access_token']}"}
        assert (await hub.site.post(initialize(), None, **HOST, **sent)).status == 200
        again = await hub.post("/mcp/oauth/token", urlencode(form))
        assert (again.status, again.json["error"]) == (400, "invalid_grant")
        hub.bench.at.is_down = True
        late = hub.bench.redeeming(client_id, await hub.bench.code(client_id))
        down = await hub.post("/mcp/oauth/token", urlencode(late))
        assert (down.status, down.json["error"]) == (503, "temporarily_unavailable")
        wrong = {"authorization": "Bearer rht_AAAA"}
        refused = await hub.site.post(asked("ping"), None, **HOST, **wrong)
        assert refused.status == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


async def test_who_is_refused_too_often_waits_and_others_do_not() -> None:
    """Each code, even one that no provider has given, is a question to the provider."""
    async with proxied(proxies=["192.0.2.1"]) as hub:
        client_id = await hub.registered()
        form = urlencode(hub.bench.redeeming(client_id, await hub.bench.code(client_id)))
        hub.bench.at.codes.clear()
        for _ in range(MOST):
            assert (await hub.post("/mcp/oauth/token", form)).status == 400
        asked = hub.bench.at.asked
        later = await hub.post("/mcp/oauth/token", form)
        assert (later.status, later.json["error"]) == (429, "temporarily_unavailable")
        assert 0 < int(later.headers["retry-after"]) <= 61
        assert hub.bench.at.asked == asked
        assert (await hub.asked()).status == 200
        other = await hub.post("/mcp/oauth/token", form, **{"x-forwarded-for": "198.51.100.7"})
        assert other.status == 400


async def test_a_client_whose_codes_the_hub_refuses_keeps_no_other_out() -> None:
    """All clients behind a company's router have one address."""
    async with proxied() as hub:
        client_id = await hub.registered()
        good = hub.bench.redeeming(client_id, await hub.bench.code(client_id))
        asked = hub.bench.at.asked
        for change in ({"code": "none"}, {"client_id": "gone"}, {"code_verifier": "x" * 43}):
            for _ in range(MOST):
                wrong = await hub.post("/mcp/oauth/token", urlencode({**good, **change}))
                assert wrong.status == 400
        assert hub.bench.at.asked == asked
        assert (await hub.post("/mcp/oauth/token", urlencode(good))).status == 200


async def test_codes_that_come_at_once_count_before_the_provider_has_answered() -> None:
    async with proxied() as hub:
        client_id = await hub.registered()
        form = urlencode(hub.bench.redeeming(client_id, await hub.bench.code(client_id)))
        hub.bench.at.codes.clear()
        hub.bench.at.forms.clear()
        hub.bench.at.answers = anyio.Event()
        statuses = Counter[int]()

        async def redeem() -> None:
            statuses[(await hub.post("/mcp/oauth/token", form)).status] += 1

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for _ in range(2 * MOST):
                    tasks.start_soon(redeem)
                await all_tasks_blocked()
                hub.bench.at.answers.set()
        assert statuses == {400: MOST, 429: MOST}
        assert len(hub.bench.at.forms) == MOST


async def test_nobody_waits_for_having_asked_while_the_provider_was_down() -> None:
    async with proxied() as hub:
        client_id = await hub.registered()
        form = urlencode(hub.bench.redeeming(client_id, await hub.bench.code(client_id)))
        hub.bench.at.is_down = True
        for _ in range(MOST + 1):
            assert (await hub.post("/mcp/oauth/token", form)).status == 503
        hub.bench.at.is_down = False
        hub.bench.clock.advance(6)  # it is looked for again
        assert (await hub.post("/mcp/oauth/token", form)).status == 200


async def test_a_field_without_a_value_counts_as_left_out() -> None:
    """Clients that send all fields that they know are served, too (RFC 6749, 3.1 and 3.2)."""
    async with proxied() as hub:
        client_id = await hub.registered()
        query = hub.bench.asking(client_id, resource="", scope="", redirect_uri="")
        page = await hub.get("/mcp/oauth/authorize", urlencode(query), cookie=COOKIE)
        assert page.status == 200
        code = await hub.bench.code(client_id)
        form = hub.bench.redeeming(client_id, code, redirect_uri="", resource="", refresh_token="")
        given = await hub.post("/mcp/oauth/token", urlencode(form))
        assert (given.status, given.json["token_type"]) == (200, "Bearer")


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("register", b"{", "invalid_client_metadata"),
        ("register", b"[]", "invalid_client_metadata"),
        ("register", b"[" * 50_000, "invalid_client_metadata"),
        ("register", b'{"redirect_uris": []}', "invalid_redirect_uri"),
        ("register", b" " * (MOST_BYTES + 1), "invalid_request"),
        ("token", b"", "unsupported_grant_type"),
        ("token", b"a=1&a=2", "invalid_request"),
        ("token", b"&".join(b"a%d=1" % number for number in range(60)), "invalid_request"),
        ("token", b"\xff=\xfe", "unsupported_grant_type"),
        ("token", b"a" * (MOST_BYTES + 1), "invalid_request"),
    ],
)
async def test_what_cannot_be_read_is_said(path: str, body: bytes, error: str) -> None:
    async with proxied() as hub:
        answer = await hub.post(f"/mcp/oauth/{path}", body)
        assert (answer.status, answer.json["error"]) == (400, error)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/mcp/oauth/register", "POST"),
        ("/mcp/oauth/token", "POST"),
        ("/mcp/oauth/authorize", "GET, POST"),
        ("/mcp/oauth/callback", "GET"),
        ("/.well-known/oauth-authorization-server", "GET, HEAD"),
    ],
)
async def test_other_methods_are_not_there(path: str, allowed: str) -> None:
    async with proxied() as hub:
        for method in ("PUT", "DELETE"):
            answer = await request(hub.site.app, method, HOST, path=path)
            assert (answer.status, answer.headers["allow"]) == (405, allowed)


async def test_another_host_is_not_answered() -> None:
    async with proxied() as hub:
        for path in ("/mcp/oauth/authorize", "/.well-known/oauth-authorization-server"):
            answer = await request(hub.site.app, "GET", {"host": "evil.example"}, path=path)
            assert answer.status == 421
