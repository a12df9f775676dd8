import pytest

from hub.protocol.bearer import token_hash
from hub.server.http.bearer_tokens import BearerTokens

ANNA, CI = token_hash("of anna"), token_hash("of ci")
NAMED = BearerTokens("s3cret", {"anna": ANNA, "ci": CI})


@pytest.mark.parametrize(
    ("sent", "principal"),
    [
        ("Bearer of anna", "anna"),
        ("bearer of ci", "ci"),
        ("Bearer s3cret", "token"),
        ("Bearer anna", None),
        (f"Bearer {ANNA}", None),
        ("Bearer ", None),
        ("Bearer", None),
        ("Basic of anna", None),
        ("of anna", None),
        ("", None),
        (None, None),
    ],
)
def test_a_token_says_whose_a_request_is(sent: str | None, principal: str | None) -> None:
    assert NAMED.principal_of(sent) == principal


def test_where_there_is_no_token_all_are_local() -> None:
    assert not BearerTokens()
    assert not BearerTokens("")
    assert BearerTokens().principal_of(None) == "local"
    assert BearerTokens().principal_of("Bearer of anna") == "local"


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


def test_the_first_token_ends_what_everybody_could_do() -> None:
    assert BearerTokens().ended_by(NAMED) == {"local"}
    assert BearerTokens().ended_by(BearerTokens()) == set()


def test_a_principal_is_known_while_it_has_a_token() -> None:
    assert all(map(NAMED.has, ("anna", "ci", "token")))
    assert not NAMED.has("local")
    assert BearerTokens().has("local")
    assert not BearerTokens().has("anna")
