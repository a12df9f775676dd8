import tracemalloc

import pytest

from hub.errors import ConfigError
from hub.server.http.access import NOT_PROXIED, AccessCheck, ProxiedTo, Refusal, RequestHeaders
from hub.server.http.auth.admission import Admission
from hub.server.http.auth.credentials import BearerTokens, Credentials

EVERYWHERE = "0.0.0.0"  # noqa: S104 - not bound


def headers(**fields: str) -> RequestHeaders:
    return RequestHeaders(
        (name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in fields.items()
    )


def status(keeper: AccessCheck, **fields: str) -> int | None:
    found = refusal(keeper, headers(**fields))
    return None if found is None else found.status


def refusal(
    keeper: AccessCheck, sent: RequestHeaders, proxied: ProxiedTo = NOT_PROXIED
) -> Refusal | None:
    found = keeper.admission(sent, proxied)
    return found if isinstance(found, Refusal) else None


def principal(keeper: AccessCheck, **fields: str) -> str:
    found = keeper.admission(headers(host="localhost", **fields))
    assert isinstance(found, Admission)
    return found.principal


def test_what_says_twice_which_page_it_is_of_is_of_none() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()), ["http://page.example"])
    own, other = (b"origin", b"http://page.example"), (b"origin", b"http://evil.example")
    for twice in ([own, other], [other, own], [own, own]):
        found = refusal(keeper, RequestHeaders([(b"host", b"127.0.0.1"), *twice]))
        assert found is not None
        assert found.status == 400


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.168.1.4", "hub.example.com"])
@pytest.mark.parametrize("token", [None, ""])
def test_nobody_else_is_let_in_without_a_token(host: str, token: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        AccessCheck(host, Credentials(BearerTokens(token)))
    assert caught.value.faults[0].said == (
        f"listen: {host} can be reached from other machines, and there is no token"
    )
    assert "listen.token" in caught.value.faults[0].fix
    assert AccessCheck(host, Credentials(BearerTokens("secret"))).needs_token


def test_without_a_token_the_clients_are_local() -> None:
    assert principal(AccessCheck("127.0.0.1", Credentials(BearerTokens()))) == "local"
    assert (
        principal(AccessCheck("127.0.0.1", Credentials(BearerTokens(""))), authorization="Bearer x")
        == "local"
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "LocalHost", "[::1]:8765", "[::1]"]
)
def test_this_machines_names_are_answered(host: str) -> None:
    assert status(AccessCheck("127.0.0.1", Credentials(BearerTokens())), host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.2",
        "",
        "[",
        "127.0.0.2",
        "localhost.",
    ],
)
def test_another_name_is_a_rebound_one(host: str) -> None:
    assert status(AccessCheck("127.0.0.1", Credentials(BearerTokens())), host=host) == 421


def test_a_request_without_a_host_is_not_answered() -> None:
    assert status(AccessCheck("127.0.0.1", Credentials(BearerTokens()))) == 421


def test_the_bound_loopback_address_is_one_of_the_names() -> None:
    assert (
        status(AccessCheck("127.0.0.2", Credentials(BearerTokens())), host="127.0.0.2:80") is None
    )


def test_a_bind_for_others_cannot_know_its_names() -> None:
    keeper = AccessCheck(EVERYWHERE, Credentials(BearerTokens("secret")))
    assert status(keeper, host="hub.example.com", authorization="Bearer secret") is None


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost", "http://localhost"),
        ("LOCALHOST:80", "http://localhost"),
        ("localhost:8765", "http://LOCALHOST:8765"),
        ("[::1]:8", "https://[::1]:8"),
    ],
)
def test_the_hubs_own_pages_may_use_it(host: str, origin: str) -> None:
    assert (
        status(AccessCheck("127.0.0.1", Credentials(BearerTokens())), host=host, origin=origin)
        is None
    )


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8765", "http://localhost:3000", "http://localhost", "ftp://x"]
)
def test_other_pages_of_this_machine_may_use_it_if_they_are_listed(origin: str) -> None:
    sent = {"host": "localhost:8765", "origin": origin}
    refused = refusal(AccessCheck("127.0.0.1", Credentials(BearerTokens())), headers(**sent))
    assert refused is not None
    assert refused.status == 403
    assert "listen.origins" in refused.text
    assert status(AccessCheck("127.0.0.1", Credentials(BearerTokens()), [origin]), **sent) is None
    assert (
        status(
            AccessCheck("127.0.0.1", Credentials(BearerTokens()), ["http://other.example"]), **sent
        )
        == 403
    )


def test_a_page_is_let_read_responses_only_if_it_is_listed() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()), ["http://localhost:6274"])
    assert keeper.shared_with(headers(origin="HTTP://localhost:6274")) == "HTTP://localhost:6274"
    assert keeper.shared_with(headers(origin="http://localhost:8765")) is None
    assert keeper.shared_with(headers(host="localhost")) is None
    assert (
        AccessCheck("127.0.0.1", Credentials(BearerTokens())).shared_with(headers(origin="null"))
        is None
    )


@pytest.mark.parametrize("name", ["Host", "Authorization", "Mcp-Session-Id"])
@pytest.mark.parametrize("other", [b"evil.example", b"localhost"])
def test_what_a_proxy_may_read_otherwise_stands_once(name: str, other: bytes) -> None:
    one = (name.encode(), b"localhost")
    sent = RequestHeaders([(b"host", b"localhost"), one, (name.lower().encode(), other)])
    refused = refusal(AccessCheck("127.0.0.1", Credentials(BearerTokens())), sent)
    assert refused == Refusal(400, f"The {name} header stands more than once")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://[", "http://localhost.evil.example"]
)
def test_pages_of_other_sites_may_not(origin: str) -> None:
    assert (
        status(
            AccessCheck("127.0.0.1", Credentials(BearerTokens())), host="localhost", origin=origin
        )
        == 403
    )


def test_a_bind_for_others_is_used_by_its_own_pages_alone() -> None:
    keeper = AccessCheck(EVERYWHERE, Credentials(BearerTokens("secret")))
    own, other = "https://hub.example.com", "https://evil.example"
    allowed = {"host": "hub.example.com", "authorization": "Bearer secret"}
    assert status(keeper, origin=own, **allowed) is None
    assert status(keeper, origin=other, **allowed) == 403


@pytest.mark.parametrize("authorization", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "])
def test_the_token_lets_in(authorization: str) -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens("s3cret")))
    assert status(keeper, host="localhost", authorization=authorization) is None


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "s3cret",
        "Bearer",
        "Bearer ",
        "Bearer s3cre",
        "Bearer s3cret2",
        "Basic s3cret",
        "B\xfc x",
    ],
)
def test_another_token_does_not(authorization: str) -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens("s3cret")))
    found = refusal(keeper, headers(host="localhost", authorization=authorization))
    assert found is not None
    assert found.status == 401
    assert found.headers == {"www-authenticate": 'Bearer realm="roots-hub"'}
    assert "s3cret" not in found.text
    assert status(keeper, host="localhost") == 401


def test_the_host_is_looked_at_before_the_token() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens("s3cret")))
    assert status(keeper, host="evil.example", authorization="Bearer s3cret") == 421


def test_headers_have_no_case_and_the_first_counts() -> None:
    found = RequestHeaders([(b"X-Name", b"1"), (b"x-name", b"2"), (b"Other", b"\xff")])
    assert found.get("x-name") == "1"
    assert found.get("X-Name") is None
    assert found.get("absent") is None
    assert found.pairs == [("x-name", "1"), ("x-name", "2"), ("other", "\xff")]


def test_blanks_around_a_value_are_no_part_of_it() -> None:
    found = RequestHeaders([(b"mcp-name", b" \t a tool\t "), (b"empty", b"  ")])
    assert found.get("mcp-name") == "a tool"
    assert found.pairs == [("mcp-name", "a tool"), ("empty", "")]


@pytest.mark.parametrize(
    ("accept", "accepts"),
    [
        ("application/json", True),
        ("text/html, Application/JSON;q=0.5", True),
        ("application/*", True),
        ("*/*", True),
        ("text/*", False),
        ("application/jsonx", False),
        ("", False),
    ],
)
def test_a_media_type_is_accepted_by_name_or_by_range(accept: str, *, accepts: bool) -> None:
    assert headers(accept=accept).accepts("application/json") is accepts
    assert not RequestHeaders([]).accepts("application/json")


def test_a_list_of_media_types_may_stand_in_several_headers() -> None:
    told = RequestHeaders([(b"accept", b"application/json"), (b"Accept", b"text/event-stream")])
    assert told.accepts("application/json")
    assert told.accepts("text/event-stream")
    assert not told.accepts("text/html")
    assert not told.prefers_stream
    assert RequestHeaders(told.fields[::-1]).prefers_stream


@pytest.mark.long
def test_of_very_long_headers_nothing_is_kept() -> None:
    begin = headers(accept="application/json, " + "x/y, " * 10_000)
    assert begin.accepts("application/json")
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()))
    tracemalloc.start()
    try:
        for number in range(30):
            many = ",".join(f"{number}/{each}" for each in range(6000))
            assert not headers(accept=many).accepts("application/json")
            assert status(keeper, host=f"{number}{'x' * 60_000}") == 421
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1024 * 1024


def test_headers_are_counted_by_name() -> None:
    twice = RequestHeaders([(b"A", b"1"), (b"a", b"2"), (b"b", b"3")])
    assert [twice.count(name) for name in ("a", "b", "c")] == [2, 1, 0]


def test_a_token_of_any_letters_is_known() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens("größe-文")))
    for token, status in (("größe-文", None), ("größe", 401), ("gr\udcf6", 401)):
        given = b"Bearer " + token.encode("utf-8", "surrogateescape")
        headers = [(b"host", b"127.0.0.1"), (b"authorization", given)]
        found = refusal(keeper, RequestHeaders(headers))
        assert (found and found.status) == status


PUBLIC = "hub.example.com"


@pytest.mark.parametrize("host", [PUBLIC, "HUB.example.com:8443", "localhost:8765", "127.0.0.1"])
@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
def test_a_listed_name_is_answered_beside_this_machines(bound: str, host: str) -> None:
    keeper = AccessCheck(bound, Credentials(BearerTokens("secret")), names=[PUBLIC])
    assert status(keeper, host=host, authorization="Bearer secret") is None


@pytest.mark.parametrize("host", ["evil.example", f"x.{PUBLIC}", f"{PUBLIC}.evil.example", ""])
@pytest.mark.parametrize("bound", ["127.0.0.1", EVERYWHERE])
def test_where_names_are_listed_no_other_is_answered(bound: str, host: str) -> None:
    keeper = AccessCheck(bound, Credentials(BearerTokens("secret")), names=[PUBLIC])
    assert status(keeper, host=host, authorization="Bearer secret") == 421


def test_who_is_sent_away_for_a_name_is_told_what_to_set() -> None:
    refused = refusal(
        AccessCheck("127.0.0.1", Credentials(BearerTokens())), headers(host=f"{PUBLIC}:443")
    )
    assert refused is not None
    assert refused.text == (
        "Invalid Host header: this hub does not answer to the name 'hub.example.com', "
        "unless its operator lists that name in listen.names, and sets a token"
    )


def test_what_a_proxy_was_asked_for_must_be_a_listed_name_too() -> None:
    keeper, sent = (
        AccessCheck("127.0.0.1", Credentials(BearerTokens()), names=[PUBLIC]),
        headers(host="127.0.0.1:8765"),
    )
    assert refusal(keeper, sent, ProxiedTo(PUBLIC, "https")) is None
    refused = refusal(keeper, sent, ProxiedTo("evil.example"))
    assert refused is not None
    assert (refused.status, "X-Forwarded-Host" in refused.text) == (421, True)
    disagreed = refusal(keeper, sent, ProxiedTo(""))
    assert disagreed is not None
    assert (disagreed.status, "Forwarded says another" in disagreed.text) == (421, True)
    rebound = refusal(keeper, headers(host="evil.example"), ProxiedTo(PUBLIC))
    assert rebound is not None
    assert rebound.status == 421


def test_the_hubs_own_pages_behind_a_proxy_are_those_of_the_host_it_was_asked_for() -> None:
    keeper = AccessCheck("127.0.0.1", Credentials(BearerTokens()), names=[PUBLIC])
    sent = headers(host="127.0.0.1:8765", origin=f"https://{PUBLIC}")
    for proxied, expected in [
        (ProxiedTo(PUBLIC, "https"), None),
        (ProxiedTo(PUBLIC), None),
        (ProxiedTo(PUBLIC, "http"), 403),
        (ProxiedTo(f"{PUBLIC}:8443", "https"), 403),
        (ProxiedTo(), 403),
    ]:
        found = refusal(keeper, sent, proxied)
        assert (found and found.status) == expected


def test_another_token_and_other_pages_count_from_the_next_request() -> None:
    keeper = AccessCheck("192.168.1.4", Credentials(BearerTokens("old")), ["http://page.example"])
    host, page = {"host": "192.168.1.4"}, {"origin": "http://page.example"}
    assert status(keeper, **host, **page, authorization="Bearer old") is None
    keeper.follow(BearerTokens("new"), ["http://other.example"], ())
    assert status(keeper, **host, authorization="Bearer old") == 401
    assert status(keeper, **host, authorization="Bearer new") is None
    assert status(keeper, **host, **page, authorization="Bearer new") == 403


def test_a_bind_for_others_keeps_its_token_if_the_new_config_has_none() -> None:
    keeper = AccessCheck("192.168.1.4", Credentials(BearerTokens("old")), ["http://page.example"])
    with pytest.raises(ConfigError):
        keeper.follow(BearerTokens(), (), ())
    assert status(keeper, host="192.168.1.4") == 401
    assert status(keeper, host="192.168.1.4", authorization="Bearer old") is None
