from pathlib import Path
from typing import Any

import pytest

from hub.config.fields import LoadContext
from hub.config.listening.auth import Auth
from hub.config.load import load_config
from hub.errors import ConfigError

HEAD = "version: 1\nservers: {files: {command: npx}}\n"
ISSUER = "{issuer: 'https://login.example.com'}"
RESOURCE = "https://hub.example.com/mcp"


def load(folder: Path, listen: str, **environment: str) -> Auth:
    file = folder / "hub.yaml"
    file.write_text(f"{HEAD}listen: {listen}\n")
    loaded = load_config(str(file), LoadContext(folder, "/home/u", environment))
    assert loaded.config.listen.auth is not None
    return loaded.config.listen.auth


def auth(**keys: str) -> str:
    said = {"resource": RESOURCE, "issuers": f"[{ISSUER}]", **keys}
    return f"{{auth: {{{', '.join(f'{key}: {value}' for key, value in said.items())}}}}}"


def asking(issuer: str, part: str = "introspection", **more: str) -> str:
    keys = {"client_id": "hub", "client_secret": "secret", **more}
    asks = ", ".join(f"{key}: '{value}'" for key, value in keys.items())
    return f"{{issuer: '{issuer}', {part}: {{{asks}}}}}"


def test_an_issuer_alone_is_enough(tmp_path: Path) -> None:
    (issuer,) = load(tmp_path, auth()).issuers
    assert (issuer.audience, issuer.jwks, issuer.wanted_claims) == (None, None, {})
    assert "HS256" not in issuer.algorithms
    assert "none" not in issuer.algorithms


def test_keys_are_a_url_or_a_file_beside_the_config(tmp_path: Path) -> None:
    def keys(at: str) -> str | None:
        return (
            load(tmp_path, auth(issuers=f"[{{issuer: 'https://x.example', jwks: '{at}'}}]"), K="k")
            .issuers[0]
            .jwks
        )

    assert keys("https://x.example/keys") == "https://x.example/keys"
    assert keys("http://127.0.0.1:9/keys") == "http://127.0.0.1:9/keys"
    assert keys("keys.json") == f"{tmp_path}/keys.json"
    assert keys("~/${K}.json") == "/home/u/k.json"


def test_a_wanted_claim_is_a_text_or_several(tmp_path: Path) -> None:
    issuers = "[{issuer: 'https://x.example', claims: {tenant: a, groups: [b, c]}}]"
    (issuer,) = load(tmp_path, auth(issuers=issuers)).issuers
    assert issuer.wanted_claims == {"tenant": ("a",), "groups": ("b", "c")}


def test_the_hub_asks_about_tokens_with_a_secret_that_may_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the hub\n")
    asks = "{client_id: hub, client_secret: '${file:secret}', url: 'https://x.example/ask'}"
    found = load(
        tmp_path, auth(issuers=f"[{{issuer: 'https://x.example', introspection: {asks}}}]")
    )
    asked = found.issuers[0].introspection
    assert asked is not None
    assert (asked.client_id, asked.client_secret.get_secret_value()) == ("hub", "of the hub")
    assert asked.url == "https://x.example/ask"
    assert [one.get_secret_value() for one in found.secrets] == ["of the hub"]
    assert "of the hub" not in repr(found)


def test_the_issuers_name_is_kept_letter_by_letter(tmp_path: Path) -> None:
    names = ["https://x.example/", "https://x.example", "https://X.example/a/"]
    issuers = ", ".join(f"{{issuer: '{name}'}}" for name in names)
    assert [one.issuer for one in load(tmp_path, auth(issuers=f"[{issuers}]")).issuers] == names


@pytest.mark.parametrize(
    ("keys", "where", "why"),
    [
        ({"resource": "http://hub.example.com"}, "listen.auth.resource", "https://"),
        ({"resource": "hub.example.com"}, "listen.auth.resource", "URL"),
        ({"resource": f"{RESOURCE}/"}, "listen.auth.resource", "slash at its end"),
        ({"resource": "https://Hub.example.com/x"}, "listen.auth.resource", "capital letters"),
        ({"resource": "https://hub.example.com:443"}, "listen.auth.resource", "usual port"),
        ({"resource": "'https://hub.example.com/?a'"}, "listen.auth.resource", "query"),
        (
            {"issuers": "[{issuer: 'https://u:p@x.example'}]"},
            "listen.auth.issuers[0].issuer",
            "user",
        ),
        (
            {"issuers": "[{issuer: 'https://x.example/a b'}]"},
            "listen.auth.issuers[0].issuer",
            "blank",
        ),
        ({"issuers": "[]"}, "listen.auth.issuers", "is an empty list"),
        (
            {
                "issuers": "[{issuer: 'https://x.example', proxy: {client_id: a, client_secret: b},"
                " pages: {client_id: a, client_secret: b}}]"
            },
            "listen.auth.issuers[0]",
            "has proxy and pages",
        ),
        ({"issuers": f"[{ISSUER}, {ISSUER}]"}, "listen.auth.issuers", "is there twice"),
        ({"issuers": "[{issuer: 'http://x.example'}]"}, "listen.auth.issuers[0].issuer", "https"),
        (
            {"issuers": "[{issuer: 'https://x.example', jwks: 'http://x.example/keys'}]"},
            "listen.auth.issuers[0].jwks",
            "https://",
        ),
        (
            {"issuers": "[{issuer: 'https://x.example', algorithms: [HS256]}]"},
            "listen.auth.issuers[0].algorithms[0]",
            "RS256",
        ),
        (
            {"issuers": "[{issuer: 'https://x.example', algorithms: [none]}]"},
            "listen.auth.issuers[0].algorithms[0]",
            "RS256",
        ),
        (
            {"issuers": "[{issuer: 'https://x.example', algorithms: []}]"},
            "listen.auth.issuers[0].algorithms",
            "is an empty list",
        ),
        (
            {"issuers": f"[{asking('https://x.example')}, {asking('https://y.example')}]"},
            "listen.auth.issuers",
            "https://x.example and https://y.example have introspection",
        ),
        (
            {"issuers": f"[{asking('https://x.example', url='http://x.example/ask')}]"},
            "listen.auth.issuers[0].introspection.url",
            "https://",
        ),
        (
            {"issuers": f"[{','.join(asking(f'https://{at}.example', 'proxy') for at in 'xy')}]"},
            "listen.auth.issuers",
            "https://x.example and https://y.example have proxy",
        ),
        (
            {
                "issuers": "[{issuer: 'https://x.example', proxy: "
                "{client_id: a, client_secret: b, parameters: {state: c}}}]"
            },
            "listen.auth.issuers[0].proxy.parameters",
            "has state, which the hub sets",
        ),
        (
            {"issuers": "[{issuer: 'https://x.example', introspection: {client_id: hub}}]"},
            "listen.auth.issuers[0].introspection: client_secret is missing",
            "",
        ),
        ({"scopes": "['a b']"}, "listen.auth.scopes[0]", ""),
        ({"scopes": "['a\"']"}, "listen.auth.scopes[0]", ""),
    ],
)
def test_what_others_could_use_is_an_error(
    tmp_path: Path, keys: dict[str, Any], where: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, auth(**keys))
    assert where in str(caught.value)
    assert why in str(caught.value)
    assert caught.value.faults[0].fix


def test_a_public_name_needs_no_other_token_beside_it(tmp_path: Path) -> None:
    assert load(tmp_path, auth().replace("{auth", "{names: [hub.example.com], auth", 1))
