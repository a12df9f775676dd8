import pytest

from hub.protocol.http_headers import is_own, origin_in


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://localhost:6274", "http://localhost:6274"),
        (" HTTPS://Example.COM:443 ", "https://example.com"),
        ("http://[::1]:80", "http://[::1]"),
        ("vscode-webview://abc", "vscode-webview://abc"),
        ("http://localhost/", None),
        ("http://localhost/path", None),
        ("http://user@localhost", None),
        ("localhost:6274", None),
        ("http://", None),
        ("http://[", None),
        ("null", None),
        ("*", None),
        ("", None),
    ],
)
def test_an_origin_has_one_form(text: str, origin: str | None) -> None:
    assert origin_in(text) == origin


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://localhost:8765", "localhost:8765", True),
        ("https://hub.example", "hub.example", True),
        ("http://hub.example", "hub.example:80", True),
        ("http://localhost:3000", "localhost:8765", False),
        ("http://127.0.0.1:8765", "localhost:8765", False),
        ("chrome-extension://localhost", "localhost", False),
        ("http://localhost", "", False),
    ],
)
def test_a_page_of_the_same_place_is_the_hubs_own(origin: str, host: str, *, own: bool) -> None:
    assert is_own(origin, host) is own
