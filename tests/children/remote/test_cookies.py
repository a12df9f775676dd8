from __future__ import annotations

import httpx2
import pytest
from structlog.testing import capture_logs

from hub.children.remote.http_client import MAX_BYTES, MAX_COOKIES, MAX_LINE, Endpoint
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.specs import RemoteTarget
from tests.kit.scripted_http import URL, ScriptedHttp, Sent


class CookieSetter:
    """A server that sets the cookies of its next script with each response."""

    def __init__(self, *scripts: list[bytes]) -> None:
        self._scripts = iter(scripts)
        self._http = ScriptedHttp(self._answer)
        self._endpoint = Endpoint(RemoteTarget(URL), self._http, PeerConduct("files"))

    def _answer(self, _: Sent) -> httpx2.Response:
        lines = next(self._scripts, list[bytes]())
        return httpx2.Response(200, headers=[(b"Set-Cookie", one) for one in lines])

    async def cookies_after(self, requests: int) -> list[str]:
        """Return the cookies of the request that follows on `requests` others."""
        for _ in range(requests + 1):
            await (await self._endpoint.open("POST", {}, b"")).close()
        sent = self._http.sent[-1].headers.get("cookie", "")
        return sent.split("; ") if sent else []


async def test_a_flood_of_cookies_is_dropped_and_what_was_there_before_stays() -> None:
    flood = [[b"c%d-%d=x" % (turn, one) for one in range(200)] for turn in range(5)]
    with capture_logs() as logs:
        found = await CookieSetter([b"node=7"], *flood).cookies_after(6)
    assert len(found) == MAX_COOKIES
    assert "node=7" in found
    assert [(one["event"], one["server"]) for one in logs] == [("cookies dropped", "files")]


async def test_the_bytes_of_all_cookies_are_limited() -> None:
    large = [b"c%d=" % one + b"x" * (MAX_LINE - 10) for one in range(20)]
    found = await CookieSetter([b"node=7"], large).cookies_after(2)
    assert "node=7" in found
    assert len(found) == MAX_BYTES // MAX_LINE


@pytest.mark.parametrize("line", [b"a=" + b"x" * MAX_LINE, b"a=b; junk=" + b"x" * MAX_LINE])
async def test_a_cookie_that_is_too_long_is_dropped_alone(line: bytes) -> None:
    assert await CookieSetter([line, b"node=7"]).cookies_after(1) == ["node=7"]


async def test_cookies_are_replaced_and_taken_back_within_the_limits() -> None:
    full = [b"c%d=x" % one for one in range(MAX_COOKIES)]
    with capture_logs() as logs:
        found = await CookieSetter(full, [b"c0=y", b"c1=; Max-Age=0"], [b"new=1"]).cookies_after(3)
    assert found == ["c0=y", *(f"c{one}=x" for one in range(2, MAX_COOKIES)), "new=1"]
    assert logs == []


async def test_a_cookie_that_no_header_can_have_breaks_no_request() -> None:
    assert await CookieSetter([b"a=\xe9", b"node=7"]).cookies_after(1) == ["node=7"]
