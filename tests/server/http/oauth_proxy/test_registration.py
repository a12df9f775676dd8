from __future__ import annotations

from typing import Any

import pytest

from hub.server.http.oauth_proxy.errors import OAuthError
from hub.server.http.oauth_proxy.tickets import LONGEST_URI, MOST_URIS, ProxiedClient, client_in
from tests.server.http.oauth_proxy.provider import ProxyBench


def of(*uris: Any, **more: Any) -> ProxiedClient:
    return client_in({"redirect_uris": list(uris), **more}, 1.5)


@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example/callback",
        "https://app.example:8443/callback?a=b",
        "http://localhost:33418/",
        "http://127.0.0.1/callback",
        "http://[::1]:7/callback",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "vscode://callback",
        "com.example.app:/callback",
    ],
)
def test_a_client_is_sent_back_to_what_it_registered(uri: str) -> None:
    assert of(uri).takes(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "http://app.example/callback",
        "http://127.0.0.1.evil.example/",
        "http://localhost.evil.example/",
        "https:///callback",
        "https://user@app.example/",
        "https://app.example/#fragment",
        "https://app.example/ a",
        "https://app.example/\r\nset-cookie: a",
        "https://app.example/<script>",
        'https://app.example/"',
        "https://app.example\\@evil.example/",
        "https://[evil/",
        "https://app.example:port/",
        "http://evil.example\\[::1]/",
        "http://evil.example[::1]/",
        "http://[::1].evil.example/",
        "https://app.example[::1]/",
        "https://app.example%2f.evil.example/",
        "http://[::1%25lo]/",
        "https://äpp.example/",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "view-source:https://app.example/",
        "blob:https://app.example/1",
        "feed:javascript:alert(1)",
        "jar:https://app.example/",
        "search-ms:query=a&crumb=location:evil.example",
        "ms-settings:privacy",
        "x:",
        "//app.example/",
        "/callback",
        "",
        f"https://app.example/{'a' * LONGEST_URI}",
        None,
        7,
        ["https://app.example/"],
    ],
)
def test_nobody_is_sent_to_what_others_can_read_or_run(uri: Any) -> None:
    for uris in ([uri], ["https://app.example/", uri]):
        with pytest.raises(OAuthError) as caught:
            of(*uris)
        assert caught.value.code == "invalid_redirect_uri"


@pytest.mark.parametrize(
    "uris", [None, [], "https://app.example/", {}, ["https://a.example/"] * 11]
)
def test_there_are_redirect_uris_and_not_too_many(uris: Any) -> None:
    assert MOST_URIS == 10
    with pytest.raises(OAuthError) as caught:
        client_in({"redirect_uris": uris}, 0)
    assert caught.value.code == "invalid_redirect_uri"


def test_it_is_taken_letter_by_letter_but_for_the_port_of_this_machine() -> None:
    client = of("https://app.example/cb", "http://127.0.0.1:9/cb")
    assert client.takes("http://127.0.0.1:55555/cb")
    assert client.takes("http://127.0.0.1/cb")
    for other in (
        "https://app.example/cb/",
        "https://app.example:8443/cb",
        "https://app.example/cb?a=b",
        "https://APP.example/cb",
        "http://127.0.0.1:9/other",
        "http://127.0.0.1:9/cb?a=b",
        "http://localhost:9/cb",
        "https://127.0.0.1:9/cb",
        "http://evil@127.0.0.1:9/cb",
        "http://127.0.0.1:9@evil.example/cb",
        "http://[::1/cb",
        "",
    ):
        assert not client.takes(other), other


@pytest.mark.parametrize(
    "uri",
    [
        "http://evil.example\\[::1]/cb",
        "http://evil.example[::1]/cb",
        "http://[::1].evil.example/cb",
        "http://[::1]:7\\@evil.example/cb",
        "http://[::1]:port/cb",
        "http://[::1]:7\r\nset-cookie: a/cb",
        "http://[::1]:7/\tcb",
        " http://[::1]:7/cb",
        "\0http://[::1]:7/cb",
        "http://[::1]:7/cb#",
        "http://[::1]:ä/cb",
    ],
)
def test_a_port_cannot_hide_another_place(uri: str) -> None:
    """Browsers read some addresses in another way than Python's urlsplit."""
    assert not of("http://[::1]/cb").takes(uri)


def test_its_name_can_be_shown() -> None:
    assert of("https://a.example/", client_name="a\x1b[31m b\u202e").name == "a[31m b"
    assert of("https://a.example/", client_name="x" * 200).name == "x" * 80
    assert of("https://a.example/", client_name=7).name == ""


def test_a_client_gets_an_id_and_needs_no_secret() -> None:
    bench = ProxyBench()
    said = bench.proxy.register(
        {
            "redirect_uris": ["https://a.example/"],
            "token_endpoint_auth_method": "client_secret_post",
        }
    )
    assert "none" in said.values()
    assert "client_secret" not in said
    client = bench.tickets.client(said["client_id"])
    assert client is not None
    assert client.redirect_uris == ("https://a.example/",)
