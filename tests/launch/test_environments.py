from __future__ import annotations

from pathlib import Path

import pytest

from hub.launch.environments import (
    Inherits,
    inherited,
    is_named_like_a_secret,
    is_withheld,
    mentioned,
)
from hub.paths.resolve import Flavour

NAMES = [
    line.split()
    for line in (Path(__file__).parent / "data/variable_names.txt").read_text().splitlines()
]
SECRETS = [name for kind, name in NAMES if kind == "secret"]
HARMLESS = [name for kind, name in NAMES if kind == "harmless"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_known_by_the_words_of_its_name(name: str) -> None:
    assert is_named_like_a_secret(name)
    assert is_named_like_a_secret(name.lower()) or name != name.upper()


@pytest.mark.parametrize("name", HARMLESS)
def test_a_word_within_a_word_says_nothing(name: str) -> None:
    assert not is_withheld(name, "value")


@pytest.mark.parametrize(
    "value",
    [
        "postgres://user:pw@host/db",
        "postgres://user:p/w@host/db",
        "redis://:pw@host:6379",
        "http://one.example, git+https://user:pw@host/x",
        "amqp://one amqp://user:pw@two",
        "x://y://:p@host",
        "https://user:pw@registry.example.com/simple",
        "https://ghp_abcdefghijklmnopqrst@github.com/x",
        "https://host/x?api_key=abc",
        "Server=a;Password=b;",
        "-Xmx1g -Djavax.net.ssl.keyStorePassword=xyz",
        "-----BEGIN RSA PRIVATE KEY-----\nx",
    ],
)
def test_a_login_in_a_value_is_a_secret_but_for_proxies(value: str) -> None:
    assert is_withheld("ANYTHING", value)
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        assert not is_withheld(name, value)


@pytest.mark.parametrize(
    "value",
    [
        "http://host:4873/@scope/pkg",
        "ssh://git@host/x",
        "https://example.com:8080/a?b=c@d",
        "rs=0:di=01;34:*.key=01;33:ln=01;36",
        "unix:path=/run/user/1000/bus",
        "git@github.com:x/y",
        "redis://:@host",
        "redis://host:6379 me@host",
        "http://host:80/redis;a@b",
    ],
)
def test_a_url_without_a_password_is_not_a_secret(value: str) -> None:
    assert not is_withheld("ANYTHING", value)


@pytest.mark.parametrize(
    "repeated", ["a.", "a:", "x://", "x://:", "http://a:", "http://", "a+b@", "//'"]
)
def test_a_long_value_is_looked_through_once(repeated: str) -> None:
    """With one look for each place in the text this would take an hour."""
    assert not is_withheld("ANYTHING", "x://" + repeated * 500_000)


ENVIRONMENT = {
    "PATH": "/bin",
    "HOME": "/h",
    "LANG": "C",
    "GITHUB_TOKEN": "t",
    "AWS_REGION": "r",
    "AWS_SECRET_ACCESS_KEY": "s",
    "HUB_ANYTHING": "x",
    "TERM": "() { evil; }",
}


def test_each_choice_inherits_its_own() -> None:
    def names(choice: Inherits) -> set[str]:
        return set(inherited(ENVIRONMENT, choice, Flavour.POSIX))

    assert names("all") == set(ENVIRONMENT)
    assert names("default") == {"PATH", "HOME", "LANG", "AWS_REGION", "TERM"}
    assert names("minimal") == {"PATH", "HOME"}
    assert names(()) == names("minimal")
    assert names(("LANG", "AWS_*")) == {
        *("PATH", "HOME", "LANG", "AWS_REGION", "AWS_SECRET_ACCESS_KEY")
    }


def test_windows_needs_other_variables() -> None:
    environment = {"SYSTEMROOT": "C:\\Windows", "HOME": "x", "PATH": "p"}
    assert set(inherited(environment, "minimal", Flavour.WINDOWS)) == {"SYSTEMROOT", "PATH"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("curl -H $GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("echo ${GITHUB_TOKEN:-x}", ["GITHUB_TOKEN"]),
        ("echo %GITHUB_TOKEN% $env:GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("process.env.GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("GITHUB_TOKEN", ["GITHUB_TOKEN"]),
        ("LANG", ["LANG"]),
        ("the LANG of it", []),
        ("$LANG", ["LANG"]),
        ("$UNSET_SECRET $unset $1 $$", ["UNSET_SECRET"]),
        ("MY_GITHUB_TOKEN GITHUB_TOKENS", []),
        ("$PATH", []),
    ],
)
def test_variables_that_a_text_names_and_does_not_get_are_found(
    text: str, found: list[str]
) -> None:
    assert list(mentioned((text,), ENVIRONMENT, {"PATH"})) == found
