from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

from hub.server.http.bounds.failed_logins import MOST
from hub.server.http.login_pages.endpoints import LoginPageEndpoints
from hub.server.http.oauth_proxy.endpoints import OAuthEndpoints
from tests.kit.asgi import Connection, request
from tests.server.http.auth.issuer import NAME
from tests.server.http.login_pages.bench import HERE, TOKENS, PageBench
from tests.server.http.oauth_proxy.provider import ProxyBench
from tests.server.http.test_app import Web, web

HOST = {"host": "hub.example.com"}
OWN = {"origin": "https://hub.example.com", "cookie": f"__Host-roots-hub-login={HERE}"}
PAGE = "/mcp/logins/far"


class ServedPages:
    """A hub with the pages."""

    def __init__(self, site: Web, bench: PageBench) -> None:
        self.site = site
        self.bench = bench

    async def get(self, path: str = PAGE, **headers: str) -> Connection:
        return await request(self.site.app, "GET", HOST | headers, path=path)

    async def post(self, form: dict[str, str], **headers: str) -> Connection:
        body = urlencode(form).encode()
        return await request(self.site.app, "POST", HOST | OWN | headers, body, path=PAGE)

    async def ticket(self) -> str:
        page = await self.get(cookie=OWN["cookie"])
        found = re.search(rb'name="ticket" value="([^"]+)"', page.body)
        assert found is not None
        return unescape(found[1].decode())


@asynccontextmanager
async def shown(
    tmp_path: Path, others: OAuthEndpoints | None = None
) -> AsyncGenerator[ServedPages]:
    async with anyio.create_task_group() as tasks:
        bench = PageBench(tasks, tmp_path)
        bench.clock.now = time.time()
        pages = LoginPageEndpoints(bench.steps, "/mcp", others)
        names = ["hub.example.com"]
        async with web(credentials=bench.credentials, names=names, oauth=pages) as site:
            yield ServedPages(site, bench)
        tasks.cancel_scope.cancel()


async def test_a_person_is_asked_who_it_is_on_a_page_that_no_other_page_can_use(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path) as hub:
        page = await hub.get(accept="text/html")
        assert page.status == 200
        assert b'type="password"' in page.body
        assert f"Log in at {NAME}".encode() in page.body
        for secret in (b"anna", b"rh_", b"<script", b"style"):
            assert secret not in page.body
        assert page.headers["cache-control"] == "no-store"
        policy = page.headers["content-security-policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'"
        assert page.headers["x-frame-options"] == "DENY"
        assert re.fullmatch(
            "__Host-roots-hub-login=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Lax; Secure",
            page.headers["set-cookie"],
        )


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
async def test_pages_of_others_and_other_names_are_refused(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with shown(tmp_path) as hub:
        assert (await hub.get(**headers)).status in {403, 421}
        ticket = await hub.ticket()
        answer = await hub.post({"ticket": ticket, "token": TOKENS["anna"]}, **headers)
        assert answer.status in {403, 421}


async def test_who_has_shown_who_it_is_is_named_and_asked_to_go_on(tmp_path: Path) -> None:
    async with shown(tmp_path) as hub:
        page = await hub.post({"ticket": await hub.ticket(), "token": TOKENS["anna"]})
        assert page.status == 200
        assert b"you are <strong>anna</strong>" in page.body
        assert b'action="/mcp/logins/far"' in page.body
        assert TOKENS["anna"].encode() not in page.body


async def test_another_browser_cannot_answer(tmp_path: Path) -> None:
    async with shown(tmp_path) as hub:
        form = {"ticket": await hub.ticket(), "token": TOKENS["anna"]}
        for cookie in ("", "__Host-roots-hub-login=x", f"__Host-roots-hub-login={'x' * 43}"):
            assert (await hub.post(form, cookie=cookie)).status == 400
        assert (await hub.post(form, cookie=f"roots-hub-login={HERE}")).status == 400


async def test_wrong_tokens_are_counted_for_their_address(tmp_path: Path) -> None:
    async with shown(tmp_path) as hub:
        ticket = await hub.ticket()
        for _ in range(MOST):
            assert (await hub.post({"ticket": ticket, "token": "guessed"})).status == 403
        later = await hub.post({"ticket": ticket, "token": TOKENS["anna"]})
        assert later.status == 429
        assert int(later.headers["retry-after"]) > 0
        assert (await hub.post({"ticket": ticket, "issuer": NAME})).status == 303


async def test_wrong_codes_are_counted_too_and_the_issuer_is_not_asked_about_more(
    tmp_path: Path,
) -> None:
    async with shown(tmp_path) as hub:
        asked = await hub.bench.at_issuer("anna", await hub.ticket())

        async def back(code: str) -> Connection:
            query = urlencode({**asked, "code": code})
            return await hub.get(f"/mcp/oauth/callback?{query}", cookie=OWN["cookie"])

        for _ in range(MOST):
            assert (await back("guessed")).status == 400
        before = hub.bench.at.asked
        later = await back(asked["code"])
        assert later.status == 429
        assert int(later.headers["retry-after"]) > 0
        assert hub.bench.at.asked == before


async def test_forms_that_are_none_are_refused(tmp_path: Path) -> None:
    async with shown(tmp_path) as hub:
        ticket = await hub.ticket()
        for form in ({}, {"ticket": ticket, "issuer": "https://evil.example"}, {"shown": ticket}):
            answer = await hub.post(form)
            assert answer.status == 400
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "location" not in answer.headers
        twice = b"ticket=a&ticket=b"
        answer = await request(hub.site.app, "POST", HOST | OWN, twice, path=PAGE)
        assert answer.status == 400


async def test_an_issuer_that_cannot_be_asked_is_told(tmp_path: Path) -> None:
    async with shown(tmp_path) as hub:
        hub.bench.at.is_down = True
        answer = await hub.post({"ticket": await hub.ticket(), "issuer": NAME})
        assert answer.status == 503


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD"])
async def test_other_methods_are_not_allowed(tmp_path: Path, method: str) -> None:
    async with shown(tmp_path) as hub:
        for path in (PAGE, f"{PAGE}/callback"):
            answer = await request(hub.site.app, method, HOST, path=path)
            assert answer.status == 405


@pytest.mark.parametrize("path", ["/mcp/logins", "/mcp/logins/", "/mcp/logins/a/b", "/logins/far"])
async def test_other_paths_are_no_pages(tmp_path: Path, path: str) -> None:
    async with shown(tmp_path) as hub:
        assert (await hub.get(path)).status == 401


async def test_logins_through_the_hub_go_on_beside_the_pages(tmp_path: Path) -> None:
    proxied = ProxyBench()
    proxied.clock.now = time.time()
    others = OAuthEndpoints(proxied.proxy, "/mcp")
    async with shown(tmp_path, others) as hub:
        told = await hub.get("/.well-known/oauth-authorization-server/mcp")
        assert told.status == 200
        client = proxied.registered()
        page = await hub.get(f"/mcp/oauth/authorize?{urlencode(proxied.asking(client))}", **OWN)
        assert b"wants to use this hub" in page.body
        asked = await hub.bench.at_issuer("anna", await hub.ticket())
        mine = await hub.get(f"/mcp/oauth/callback?{urlencode(asked)}", cookie=OWN["cookie"])
        assert b"Go on and log in" in mine.body
        theirs = await hub.get("/mcp/oauth/callback?state=x", cookie=OWN["cookie"])
        assert b"This login has ended: begin it again" in theirs.body
