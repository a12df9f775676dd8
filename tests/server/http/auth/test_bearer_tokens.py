import pytest

from hub.protocol.bearer import token_hash
from hub.server.http.auth.bearer_tokens import BearerTokens

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
    assert all(map(NAMED.has, ("anna", "ci", "token")))
    assert not NAMED.has("local")
    assert not BearerTokens().has("local")
    assert not BearerTokens().has("anna")
