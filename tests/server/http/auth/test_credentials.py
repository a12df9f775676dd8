from collections.abc import Callable
from typing import Any

import pytest

from hub.protocol.http_headers import token_hash
from hub.server.http.auth.admission import NO_TOKEN_SENT, Admission, Unverified
from hub.server.http.auth.credentials import TOKEN_ENDED, TOKEN_UNKNOWN, BearerTokens, Credentials
from tests.kit.fakes import FakeClock

ANNA, CI = token_hash("of anna"), token_hash("of ci")
NAMED = BearerTokens("s3cret", {"anna": ANNA, "ci": CI})
ONLY_ANNA = BearerTokens(None, {"anna": ANNA})


@pytest.mark.parametrize(
    ("token", "principal"),
    [
        (b"of anna", "anna"),
        (b"of ci", "ci"),
        (b"s3cret", "token"),
        (b"anna", None),
        (ANNA.encode(), None),
        (b"", None),
    ],
)
def test_a_token_says_whose_a_request_is(token: bytes, principal: str | None) -> None:
    assert NAMED.principal_of(token) == principal
    assert BearerTokens().principal_of(token) is None


def test_an_empty_token_is_none() -> None:
    assert not BearerTokens()
    assert not BearerTokens("")


@pytest.mark.parametrize(
    ("later", "ended"),
    [
        (NAMED, set[str]()),
        (BearerTokens("s3cret", {"anna": ANNA}), {"ci"}),
        (BearerTokens("s3cret", {"anna": CI, "ci": CI}), {"anna"}),
        (BearerTokens("other", {"anna": ANNA, "ci": CI, "new": ANNA}), {"token"}),
        (BearerTokens(), {"anna", "ci", "token"}),
    ],
)
def test_a_token_ends_when_it_is_taken_out_or_replaced(
    later: BearerTokens, ended: set[str]
) -> None:
    assert NAMED.ended_by(later) == ended


def test_a_principal_is_known_while_it_has_a_token() -> None:
    assert all(NAMED.let_in(one, 0) for one in ("anna", "ci", "token"))
    assert not NAMED.let_in("local", 0)
    assert not BearerTokens().let_in("local", 0)
    assert not BearerTokens().let_in("anna", 0)


def test_a_token_that_ends_is_a_token_until_and_after() -> None:
    tokens = BearerTokens(None, {"anna": ANNA, "ci": CI}, {"anna": 100.0, "ci": 200.0})
    assert [tokens.let_in("anna", now) for now in (99.9, 100)] == [True, False]
    # It is compared as before: the time that takes tells nobody that it has ended.
    assert tokens.principal_of(b"of anna") == "anna"
    assert tokens


def test_where_no_token_is_wanted_all_are_local() -> None:
    open_to_all = Credentials(BearerTokens())
    assert not open_to_all
    for sent in (None, "", "Bearer of anna"):
        assert open_to_all.look_at(sent) == Admission("local")
    assert open_to_all.know("local")
    assert not open_to_all.know("anna")


@pytest.mark.parametrize("sent", [None, "", "Bearer", "Bearer ", "Basic of anna", "of anna"])
def test_who_sends_no_token_is_refused(sent: str | None) -> None:
    assert Credentials(ONLY_ANNA).look_at(sent) == NO_TOKEN_SENT
    assert "`Authorization: Bearer TOKEN`" in NO_TOKEN_SENT.text


def test_who_sends_a_token_that_is_none_of_the_config_is_told_so() -> None:
    assert Credentials(ONLY_ANNA).look_at("Bearer of ben") == TOKEN_UNKNOWN


def test_who_has_one_is_let_in_until_it_ends() -> None:
    credentials = Credentials(ONLY_ANNA)
    assert credentials.look_at("bearer of anna") == Admission("anna")
    assert credentials.follow(BearerTokens("other")) == {"anna"}
    assert credentials.look_at("Bearer of anna") == TOKEN_UNKNOWN
    assert not credentials.know("anna")


def test_a_token_lets_in_until_it_ends_and_then_tells_why_it_does_not() -> None:
    clock = FakeClock(99.0)
    ending = BearerTokens(None, {"anna": ANNA}, {"anna": 100.0})
    credentials = Credentials(ending, clock=clock)
    assert credentials.look_at("Bearer of anna") == Admission("anna", recheck=100, expires=100)
    assert (credentials.until_next_end(), credentials.lapsed()) == (1, set())
    clock.advance(1)
    assert credentials.look_at("Bearer of anna") == TOKEN_ENDED
    assert credentials.look_at("Bearer of ann") == TOKEN_UNKNOWN
    assert (credentials.until_next_end(), credentials.lapsed()) == (0, {"anna"})
    assert credentials.lapsed() == set()
    assert not credentials.know("anna")


def test_when_all_tokens_have_ended_nobody_is_let_in_without_one() -> None:
    ended = BearerTokens(None, {"anna": ANNA}, {"anna": 1.0})
    credentials = Credentials(ended)
    assert credentials
    assert credentials.look_at(None) == NO_TOKEN_SENT
    assert not credentials.know("local")
    assert Credentials(BearerTokens()).follow(ended) == {"local"}


def test_the_first_token_ends_what_everybody_could_do() -> None:
    credentials = Credentials(BearerTokens())
    assert credentials.follow(BearerTokens()) == set()
    assert credentials.follow(ONLY_ANNA) == {"local"}
    assert not credentials.know("local")


def test_a_token_that_ended_between_two_looks_is_told_of() -> None:
    clock = FakeClock(1000)
    tokens = BearerTokens(None, {"anna": ANNA, "ci": CI}, {"anna": 1010, "ci": 1020})
    credentials = Credentials(tokens, clock=clock)
    assert credentials.lapsed() == frozenset()
    assert credentials.until_next_end() == 10
    clock.now = 1011
    assert credentials.until_next_end() == 0
    assert credentials.lapsed() == {"anna"}
    assert credentials.until_next_end() == 9
    clock.now = 1020
    assert credentials.lapsed() == {"ci"}
    assert credentials.until_next_end() is None


class Verifier:
    """Lets everybody in, after something has happened."""

    def __init__(self, principal: str, meanwhile: Callable[[], object]) -> None:
        self.principal = principal
        self.meanwhile = meanwhile

    async def verify(self, token: bytes) -> Admission:
        self.meanwhile()
        return Admission(self.principal)

    def trusts(self, principal: str) -> bool:
        return principal == self.principal


async def test_what_is_verified_while_others_are_trusted_is_verified_again_by_these() -> None:
    credentials = Credentials(BearerTokens("x"))
    last: Any = Verifier("new", lambda: None)
    first: Any = Verifier("old", lambda: credentials.trust(last))
    credentials.trust(first)
    assert await credentials.verified(Unverified(b"t")) == Admission("new")
    gone: Any = Verifier("old", lambda: credentials.trust(None))
    credentials.trust(gone)
    assert await credentials.verified(Unverified(b"t")) == TOKEN_UNKNOWN


def test_whose_tokens_do_not_count_any_more_is_known() -> None:
    credentials = Credentials(BearerTokens("x"))
    old: Any = Verifier("old", lambda: None)
    assert "old" not in credentials.trust(old)
    assert "old" not in credentials.trust(old)
    assert credentials.know("old")
    ended = credentials.trust(None)
    assert ("old" in ended, "token" in ended) == (True, False)
    assert not credentials.know("old")
