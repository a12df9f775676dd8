import pytest

from hub.protocol.http_headers import token_hash
from hub.server.http.auth.credentials import BearerTokens

ANNA, CI = token_hash("of anna"), token_hash("of ci")
NAMED = BearerTokens("s3cret", {"anna": ANNA, "ci": CI})


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
    later = [frozenset[str](), frozenset({"anna"}), frozenset({"anna", "ci"})]
    assert [tokens.next_end(over) for over in later] == [100, 200, None]
    assert [tokens.let_in("anna", now) for now in (99.9, 100)] == [True, False]
    assert [tokens.over_at(now) for now in (99, 100, 200)] == [set(), {"anna"}, {"anna", "ci"}]
    # It is compared as before: the time that takes tells nobody that it has ended.
    assert tokens.principal_of(b"of anna") == "anna"
    assert tokens
