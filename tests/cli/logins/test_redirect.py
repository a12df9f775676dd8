from __future__ import annotations

from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from hub.cli.logins.flow import LoginFailedError
from hub.cli.logins.redirect import Redirect, listening


async def get(url: str, method: str = "GET") -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.request(method, url)


async def test_the_browser_comes_back_with_a_code() -> None:
    async with listening(None) as redirect:
        place = urlsplit(redirect.url)
        assert place.hostname == "127.0.0.1"
        answer = await get(f"{redirect.url}?code=c%20d&state=s&iss=https://x.example")
        assert "The answer has come" in answer.text
        assert answer.headers["referrer-policy"] == "no-referrer"
        found = await redirect.come_back()
        assert (found.code, found.state, found.iss) == ("c d", "s", "https://x.example")


async def test_a_port_of_another_program_is_told() -> None:
    async with listening(None) as there:
        port = urlsplit(there.url).port
        with pytest.raises(LoginFailedError, match=f"127.0.0.1:{port}.*: Address already") as told:
            async with listening(port):
                raise AssertionError
        assert "redirect_port" in str(told.value.fix)


async def test_only_the_first_answer_counts() -> None:
    async with listening(None) as redirect:
        await get(f"{redirect.url}?code=first&state=s")
        assert "over" in (await get(f"{redirect.url}?code=second&state=s")).text
        assert (await redirect.come_back()).code == "first"


async def test_what_is_no_answer_does_not_end_the_login() -> None:
    async with listening(None) as redirect:
        place = urlsplit(redirect.url)
        assert (await get(f"http://{place.netloc}/favicon.ico")).status_code == 404
        assert (await get(f"{redirect.url}?code=c", "POST")).status_code == 404
        for query in ("", "?state=s", "?code=", "?code=a&code=b"):
            assert "no answer" in (await get(f"{redirect.url}{query}")).text
        async with await anyio.connect_tcp("127.0.0.1", place.port or 0) as silent:
            await silent.send(b"GET /callback?code=")
        await get(f"{redirect.url}?code=c&state=s")
        assert (await redirect.come_back()).code == "c"


async def test_an_answer_to_another_login_does_not_end_this_one() -> None:
    redirect = Redirect("http://127.0.0.1:1/callback")
    redirect.expect("https://x.example/authorize?response_type=code&state=s")
    for query in (
        "code=c",
        "code=c&state=t",
        "error=no",
        "error=no&state=t",
        "code=c&state=t&state=s",
    ):
        assert "no answer" in redirect.take(query)
    assert "has come" in redirect.take("code=c&state=s")
    assert (await redirect.come_back()).code == "c"


async def test_a_refusal_is_told() -> None:
    redirect = Redirect("http://127.0.0.1:1/callback")
    assert "failed" in redirect.take("error=access_denied&error_description=not%0Ayou&state=s")
    with pytest.raises(LoginFailedError, match="access_denied not you"):
        await redirect.come_back()


async def test_an_address_can_be_pasted() -> None:
    redirect = Redirect("http://127.0.0.1:1/callback")
    found = await redirect.pasted(" http://127.0.0.1:1/callback?code=c&state=s\n")
    assert (found.code, found.state) == ("c", "s")
    with pytest.raises(LoginFailedError, match="no address"):
        await Redirect("http://127.0.0.1:1/callback").pasted("http://127.0.0.1:1/callback")
