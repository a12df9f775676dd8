"""A person's browser on the hub's pages where principals log in at servers."""

from __future__ import annotations

import re
from html import unescape
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
from anyio import to_thread
from mcp.types import ElicitResult

from tests.live.test_logins import browse


class LoginBrowser:
    """Keeps the hub's cookies; what it asks elsewhere is asked as the user `name` there."""

    def __init__(self, name: str) -> None:
        self.http = httpx2.Client(timeout=60)
        self.page = httpx2.Response(200)
        self._name = name
        self._at = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def open(self, url: str) -> None:
        self._at = url
        self.page = self.http.get(url)

    def send(self, **fields: str) -> httpx2.Response:
        """Send the form of the page with these fields, beside its own."""
        own = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.page.text)
        action = re.search(r'action="([^"]*)"', self.page.text)
        parts = urlsplit(self._at)
        origin = f"{parts.scheme}://{parts.netloc}"
        place = self._at if action is None else f"{origin}{unescape(action[1])}"
        form = {name: unescape(value) for name, value in own} | fields
        self.page = self.http.post(place, data=form, headers={"origin": origin})
        return self.page

    def show_token(self, token: str) -> None:
        self.send(token=token)

    def show_at(self, issuer: str, name: str | None = None) -> None:
        """Show whose browser it is at an issuer, as the user `name` there."""
        there = self.send(issuer=issuer)
        assert there.status_code == 303, there.text
        self.page = self.http.get(browse(there.headers["location"], name or self._name))

    def go_on(self) -> str:
        """Go on to the server's authorization server; return where it sends the browser back."""
        there = self.send()
        assert there.status_code == 303, there.text
        return browse(there.headers["location"], self._name)

    def finish(self) -> None:
        self.page = self.http.get(self.go_on())
        assert "You are logged in" in self.page.text, self.page.text


class PersonWithBrowser:
    """Logs in where a client sends it: at the hub by `token` or at `issuer`, then at the server."""

    def __init__(self, name: str, *, token: str = "", issuer: str = "") -> None:
        self.name = name
        self.asked: list[Any] = []
        self._token = token
        self._issuer = issuer

    async def elicit(self, context: object, params: Any) -> ElicitResult:
        self.asked.append(params)
        await to_thread.run_sync(self.log_in, params.url)
        return ElicitResult(action="accept")

    def log_in(self, url: str) -> None:
        with LoginBrowser(self.name) as browser:
            browser.open(url)
            if self._issuer:
                browser.show_at(self._issuer)
            else:
                browser.show_token(self._token)
            assert "Go on and log in" in browser.page.text, browser.page.text
            browser.finish()
