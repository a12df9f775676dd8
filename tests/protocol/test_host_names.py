import pytest

from hub.protocol.http_headers import host_name, is_loopback, name_in

EVERYWHERE = "0.0.0.0"  # noqa: S104 - not bound


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        (EVERYWHERE, False),
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.example.com", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_a_loopback_address_is_known(host: str, *, is_one: bool) -> None:
    assert is_loopback(host) is is_one


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hub.Example.com", "hub.example.com"),
        ("hub", "hub"),
        ("192.168.1.4", "192.168.1.4"),
        ("[2001:DB8::0001]", "2001:db8::1"),
        ("https://hub.example.com", None),
        ("hub.example.com:443", None),
        ("hub.example.com/mcp", None),
        ("*.example.com", None),
        ("hub..example.com", None),
        ("", None),
        ("a." * 130, None),
    ],
)
def test_a_host_name_has_no_scheme_port_or_path(text: str, name: str | None) -> None:
    assert host_name(text) == name


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Hub.example:8765", "hub.example"),
        ("localhost", "localhost"),
        ("127.0.0.1:", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("[2001:DB8::0001]", "2001:db8::1"),
        ("[fe80::1%eth0]:80", "fe80::1%eth0"),
        ("[", None),
        ("", None),
        (":80", None),
        ("::1", None),
        ("[::1", None),
        ("[::1]x", None),
        ("[localhost]", None),
        ("[127.0.0.1]", None),
        ("someone@localhost", None),
        ("other.example:80@localhost", None),
        ("localhost/other", None),
        ("localhost?other", None),
        ("localhost#other", None),
        ("localhost\\other", None),
        ("loc\talhost", None),
        ("localhost:80:90", None),
        ("localhost:other", None),
        ("localhost:123456", None),
        ("a" * 254, None),
    ],
)
def test_the_name_in_a_host_header_has_no_port(host: str, name: str | None) -> None:
    assert name_in(host) == name
