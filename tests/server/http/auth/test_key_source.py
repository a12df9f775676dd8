"""Fetches keys from a real web server, and reads them from files."""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from hub.server.http.auth.issuer_metadata import (
    MOST_BYTES,
    TIMEOUT,
    IssuerUnavailableError,
    keys_in_file,
    keys_on_web,
    metadata_urls,
)
from tests.kit.loops import virtual_time
from tests.server.http.auth.issuer import IssuerSite, public, site

KEYS = {"keys": [public("rsa-1"), public("p256-1")]}


@pytest.fixture
def served() -> Generator[IssuerSite]:
    with site() as found:
        yield found


async def names(source: Any) -> list[str]:
    return [key["kid"] for key in await source()]


async def unavailable(source: Any) -> str:
    with pytest.raises(IssuerUnavailableError) as caught:
        await source()
    return str(caught.value)


async def test_keys_are_fetched_from_where_the_config_says(served: IssuerSite) -> None:
    served.pages["/keys"] = KEYS
    assert await names(partial(keys_on_web, "https://x.example", f"{served.url}/keys")) == [
        "rsa-1",
        "p256-1",
    ]
    assert served.asked == ["/keys"]


@pytest.mark.parametrize("below", ["", "/tenant"])
async def test_else_from_where_the_issuers_metadata_says(served: IssuerSite, below: str) -> None:
    issuer = f"{served.url}{below}"
    served.pages["/keys"] = KEYS
    for url in metadata_urls(issuer):
        served.asked.clear()
        path = url.removeprefix(served.url)
        served.pages[path] = {"issuer": issuer, "jwks_uri": f"{served.url}/keys"}
        assert await names(partial(keys_on_web, issuer, None)) == ["rsa-1", "p256-1"]
        assert served.asked[-2:] == [path, "/keys"]
        del served.pages[path]


async def test_the_metadata_of_another_issuer_counts_for_nothing(served: IssuerSite) -> None:
    for named in (f"{served.url}/", "https://evil.example", None):
        served.pages["/.well-known/oauth-authorization-server"] = {
            "issuer": named,
            "jwks_uri": f"{served.url}/keys",
        }
        assert "another issuer" in await unavailable(partial(keys_on_web, served.url, None))


async def test_metadata_of_another_issuer_hides_none_that_is_of_this_one(
    served: IssuerSite,
) -> None:
    issuer = f"{served.url}/tenant"
    other, _, own = (url.removeprefix(served.url) for url in metadata_urls(issuer))
    served.pages["/keys"] = KEYS
    served.pages[other] = {"issuer": served.url, "jwks_uri": "https://evil.example/keys"}
    served.pages[own] = {"issuer": issuer, "jwks_uri": f"{served.url}/keys"}
    assert await names(partial(keys_on_web, issuer, None)) == ["rsa-1", "p256-1"]
    del served.pages[own]
    assert "another issuer" in await unavailable(partial(keys_on_web, issuer, None))


@pytest.mark.parametrize("keys_at", ["http://keys.example/", "file:///etc/passwd", None, 7, ""])
async def test_keys_come_by_no_way_that_others_can_change(served: IssuerSite, keys_at: Any) -> None:
    served.pages["/.well-known/openid-configuration"] = {"issuer": served.url, "jwks_uri": keys_at}
    assert "https" in await unavailable(partial(keys_on_web, served.url, None))


async def test_an_issuer_that_signs_nothing_needs_no_keys(served: IssuerSite) -> None:
    optional = partial(keys_on_web, served.url, None, is_optional=True)
    assert "HTTP status 404" in await unavailable(optional)
    served.pages["/.well-known/openid-configuration"] = {"issuer": served.url}
    assert await names(optional) == []
    assert "names no jwks_uri" in await unavailable(partial(keys_on_web, served.url, None))


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (404, "HTTP status 404"),
        (500, "HTTP status 500"),
        ("/elsewhere", "HTTP status 302"),
        (b"{", "is no JSON"),
        (b"[]", "is no JSON object"),
        (b"[" * 100_000, "is no JSON"),
        ({}, "is no JSON Web Key Set"),
        ({"keys": {}}, "is no JSON Web Key Set"),
        (b" " * (MOST_BYTES + 1), f"over {MOST_BYTES} bytes"),
    ],
)
async def test_what_is_no_key_set_is_said(served: IssuerSite, page: Any, why: str) -> None:
    served.pages |= {"/keys": page, "/elsewhere": KEYS}
    assert why in await unavailable(partial(keys_on_web, "https://x.example", f"{served.url}/keys"))


async def test_an_issuer_that_is_not_there_is_said(served: IssuerSite) -> None:
    served.pages.clear()
    assert "HTTP status 404" in await unavailable(partial(keys_on_web, served.url, None))
    said = await unavailable(partial(keys_on_web, "x", "http://127.0.0.1:9/keys"))
    assert said == "http://127.0.0.1:9/keys: cannot be reached (All connection attempts failed)"


@virtual_time
async def test_one_that_does_not_answer_is_given_up() -> None:
    async def never(request: httpx2.Request) -> httpx2.Response:
        await anyio.sleep_forever()
        raise AssertionError

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(never), timeout=None)

    source = partial(keys_on_web, "https://x.example", "https://x.example/keys", client)
    assert f"no answer in {TIMEOUT:g} s" in await unavailable(source)


async def test_keys_that_do_not_sign_and_secrets_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys: list[Any] = [
        public("rsa-1", use="sig", key_ops=["verify"]),
        public("rsa-2", use="enc"),
        public("p256-1", key_ops=["deriveKey"]),
        public("p256-2", key_ops="verify"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kid": "of no kind"},
        {"kty": ["RSA"], "kid": "of kinds"},
        {"kty": {}, "kid": "of a mapping"},
        public("rsa-3", d="AAAA"),
        "text",
        None,
    ]
    file.write_text(json.dumps({"keys": keys}))
    assert await names(partial(keys_in_file, str(file))) == ["rsa-1"]


async def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert "No such file" in await unavailable(partial(keys_in_file, str(tmp_path / "none")))
    (tmp_path / "bad").write_text("{")
    assert "is no JSON" in await unavailable(partial(keys_in_file, str(tmp_path / "bad")))
