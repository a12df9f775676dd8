from __future__ import annotations

import pytest

from hub.server.http.access import NOT_PROXIED, ProxiedTo, RequestHeaders
from hub.server.http.bounds.forwarded import UNKNOWN, Proxies, network_of

PROXY = "10.0.0.1"
TRUSTED = Proxies(["10.0.0.0/8", "fd00::/8"])


def headers(*fields: tuple[str, str]) -> RequestHeaders:
    return RequestHeaders((name.encode(), value.encode()) for name, value in fields)


def forwarded_for(*values: str) -> RequestHeaders:
    return headers(*(("x-forwarded-for", value) for value in values))


def test_nobody_is_believed_who_is_not_trusted() -> None:
    said = headers(("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4"))
    assert Proxies().client(PROXY, said) == PROXY
    assert TRUSTED.client("192.0.2.1", said) == "192.0.2.1"
    assert TRUSTED.client(None, said) == UNKNOWN


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["192.0.2.7"], "192.0.2.7"),
        (["6.6.6.6, 192.0.2.7"], "192.0.2.7"),
        (["6.6.6.6", "192.0.2.7, 10.9.9.9"], "192.0.2.7"),
        (["192.0.2.7:4711"], "192.0.2.7"),
        (["::ffff:192.0.2.7"], "192.0.2.7"),
        (["[2001:db8:1:2:3::4]:99"], "2001:db8:1:2::/64"),
        (["10.2.3.4"], PROXY),
        (["6.6.6.6, unknown"], PROXY),
        (["6.6.6.6, 1.2.3"], PROXY),
        ([""], PROXY),
        ([], PROXY),
    ],
)
def test_the_rightmost_that_is_no_proxy_is_the_client(values: list[str], client: str) -> None:
    assert TRUSTED.client(PROXY, forwarded_for(*values)) == client


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("for=192.0.2.7", "192.0.2.7"),
        ('for=6.6.6.6, For="[2001:db8::1]:80";proto=https;by=10.0.0.1', "2001:db8::/64"),
        ("for=192.0.2.7, for=10.1.1.1", "192.0.2.7"),
        ("for=192.0.2.7, proto=http", PROXY),
        ("for=_hidden", PROXY),
    ],
)
def test_the_standard_header_says_it_too(value: str, client: str) -> None:
    assert TRUSTED.client(PROXY, headers(("forwarded", value))) == client


def test_of_two_headers_that_disagree_one_was_written_by_the_client() -> None:
    both = headers(("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=6.6.6.6"))
    assert TRUSTED.client(PROXY, both) == PROXY
    agreed = headers(("x-forwarded-for", "192.0.2.7"), ("forwarded", "for=192.0.2.7"))
    assert TRUSTED.client(PROXY, agreed) == "192.0.2.7"


def test_an_owner_of_many_addresses_is_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::")
    assert network_of("::1") == "::1"
    assert network_of("127.0.0.1") == network_of("::ffff:127.0.0.1") == "127.0.0.1"
    assert network_of("") == network_of("somebody") == UNKNOWN


def test_proxies_are_known_by_their_networks() -> None:
    assert TRUSTED.includes("10.255.0.1")
    assert TRUSTED.includes("fd00::1")
    assert not TRUSTED.includes("11.0.0.1")
    assert not TRUSTED.includes(UNKNOWN)
    assert not Proxies().includes("10.0.0.1")


def test_what_a_trusted_proxy_was_asked_for_is_read_from_the_right() -> None:
    said = headers(
        ("X-Forwarded-Host", "evil.example, Hub.example.com:8443"), ("X-Forwarded-Proto", "https")
    )
    assert TRUSTED.proxied(PROXY, said) == ProxiedTo("hub.example.com:8443", "https")
    assert TRUSTED.proxied("192.0.2.1", said) == NOT_PROXIED
    assert TRUSTED.proxied(None, said) == NOT_PROXIED
    assert Proxies().proxied(PROXY, said) == NOT_PROXIED


def test_the_standard_header_says_the_host_and_the_scheme_too() -> None:
    said = headers(("forwarded", 'for=1.2.3.4;host=evil.example, host="hub.example:1";proto=https'))
    assert TRUSTED.proxied(PROXY, said) == ProxiedTo("hub.example:1", "https")
    both = headers(("forwarded", "host=evil.example"), ("x-forwarded-host", "hub.example.com"))
    assert TRUSTED.proxied(PROXY, both) == ProxiedTo("", None)


def test_only_the_end_of_a_long_chain_is_read() -> None:
    proxies = ", ".join(["10.1.1.1"] * 10)
    assert TRUSTED.client(PROXY, forwarded_for(f"192.0.2.7, {proxies}")) == "192.0.2.7"
    many = ", ".join(["10.1.1.1"] * 6000)
    assert TRUSTED.client(PROXY, forwarded_for(f"192.0.2.7, {many}")) == PROXY
    assert TRUSTED.client(PROXY, forwarded_for(f"{many}, 192.0.2.7")) == "192.0.2.7"
    standard = ", ".join(["for=10.1.1.1"] * 4000)
    assert TRUSTED.client(PROXY, headers(("forwarded", f"for=192.0.2.7, {standard}"))) == PROXY
    assert (
        TRUSTED.client(PROXY, headers(("forwarded", f"{standard}, for=192.0.2.7"))) == "192.0.2.7"
    )
    named = headers(("x-forwarded-host", f"{'x,' * 30_000}hub.example"))
    assert TRUSTED.proxied(PROXY, named) == ProxiedTo("hub.example")
    long = headers(("x-forwarded-host", "x" * 60_000))
    assert len(TRUSTED.proxied(PROXY, long).host or "") < 60_000
