import pytest

from hub.server.http.auth.admission import (
    NO_TOKEN_SENT,
    WELL_KNOWN,
    ProtectedResource,
    TokenRejection,
    invalid,
)

HUB = ProtectedResource(
    "https://hub.example.com/team/mcp", ("https://issuer.example",), ("mcp:tools", "mcp:more")
)
AT = "https://hub.example.com/.well-known/oauth-protected-resource/team/mcp"


def test_metadata_names_the_resource_its_issuers_and_its_scopes() -> None:
    assert HUB.metadata == {
        "resource": "https://hub.example.com/team/mcp",
        "authorization_servers": ["https://issuer.example"],
        "bearer_methods_supported": ["header"],
        "resource_name": "roots-hub",
        "scopes_supported": ["mcp:tools", "mcp:more"],
    }
    more = ProtectedResource("https://x.example", (), ("a",), ("a", "b"))
    assert more.metadata["scopes_supported"] == ["a", "b"]
    assert "scopes_supported" not in ProtectedResource("https://x.example", ()).metadata


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("https://hub.example.com/team/mcp", AT),
        ("https://hub.example.com/team/mcp/", AT),
        ("https://hub.example.com:8443", f"https://hub.example.com:8443{WELL_KNOWN}"),
        ("http://127.0.0.1:8765/mcp", f"http://127.0.0.1:8765{WELL_KNOWN}/mcp"),
    ],
)
def test_the_well_known_name_is_between_host_and_path(url: str, at: str) -> None:
    assert ProtectedResource(url, ()).metadata_url == at


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        (WELL_KNOWN, True),
        (f"{WELL_KNOWN}/", True),
        (f"{WELL_KNOWN}/team/mcp", True),
        (f"{WELL_KNOWN}/team/mcp/", True),
        (f"{WELL_KNOWN}/mcp", True),
        (f"{WELL_KNOWN}/other", False),
        (f"{WELL_KNOWN}x", False),
        (f"/team/mcp{WELL_KNOWN}", False),
        ("/mcp", False),
        ("/.well-known/oauth-authorization-server", False),
    ],
)
def test_it_is_found_with_the_path_of_the_resource_and_without(
    path: str, *, is_there: bool
) -> None:
    assert HUB.has_metadata_at(path, "/mcp") is is_there


def test_a_challenge_says_what_is_wrong_and_where_to_look() -> None:
    assert HUB.challenge(NO_TOKEN_SENT) == (
        f'Bearer realm="roots-hub", scope="mcp:tools mcp:more", resource_metadata="{AT}"'
    )
    assert HUB.challenge(invalid("it has expired")) == (
        'Bearer realm="roots-hub", error="invalid_token", '
        'error_description="The token is not valid: it has expired", '
        f'scope="mcp:tools mcp:more", resource_metadata="{AT}"'
    )


def test_nothing_of_a_rejection_leaves_its_quotes() -> None:
    rejection = TokenRejection(401, "invalid_token", 'a "b" \\ c\r\nset-cookie: d\u00e9')
    assert 'error_description="a \\"b\\" \\\\ c??set-cookie: d?"' in HUB.challenge(rejection)
