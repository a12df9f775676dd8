from __future__ import annotations

from pathlib import Path

import pytest

from hub.launch.environments import (
    STABLE,
    Inherits,
    inherited,
    is_named_like_a_secret,
    is_withheld,
    mentioned,
    stable,
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


TERMINAL = {
    "TERM": "xterm-256color",
    "TERM_SESSION_ID": "w0t1p0:1234",
    "TERM_PROGRAM": "vscode",
    "COLORTERM": "truecolor",
    "SHLVL": "2",
    "PWD": "/home/u/a",
    "OLDPWD": "/home/u",
    "_": "/usr/bin/env",
    "DISPLAY": ":0",
    "WAYLAND_DISPLAY": "wayland-0",
    "WINDOWID": "12345",
    "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22",
    "SSH_TTY": "/dev/pts/3",
    "XDG_SESSION_ID": "7",
    "XDG_DATA_DIRS": "/usr/share",
    "TMUX": "/run/tmux-0/default,1,0",
    "TMUX_PANE": "%1",
    "STY": "1.pts",
    "INVOCATION_ID": "abc",
    "VSCODE_IPC_HOOK": "/run/x.sock",
    "GIT_ASKPASS": "/vscode/askpass.sh",
    "FNM_MULTISHELL_PATH": "/run/user/0/fnm_multishells/1_2",
    "ITERM_SESSION_ID": "x",
    "CLAUDECODE": "1",
    "npm_config_user_agent": "npm/10",
    "npm_lifecycle_event": "start",
}
STAYS = {
    "PATH": "/usr/bin",
    "HOME": "/home/u",
    "USER": "u",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TZ": "Europe/Berlin",
    "https_proxy": "http://u:p@proxy:3128",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "NVM_DIR": "/home/u/.nvm",
    "FNM_DIR": "/home/u/.fnm",
    "VOLTA_HOME": "/home/u/.volta",
    "ASDF_DIR": "/home/u/.asdf",
    "ASDF_NODEJS_VERSION": "20",
    "MISE_DATA_DIR": "/home/u/.mise",
    "PYENV_ROOT": "/home/u/.pyenv",
    "UV_INDEX_URL": "https://pypi.example",
    "NPM_CONFIG_REGISTRY": "https://npm.example",
    "npm_config_@org:registry": "https://npm.example",
    "CARGO_HOME": "/home/u/.cargo",
    "GOPATH": "/home/u/go",
    "XDG_CONFIG_HOME": "/home/u/.config",
    "SSH_AUTH_SOCK": "/run/user/0/agent",
}


def test_what_a_server_needs_stays_and_what_tells_terminals_apart_does_not() -> None:
    assert stable({**TERMINAL, **STAYS}, Flavour.POSIX) == STAYS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UV_PUBLISH_TOKEN", "pypi-x"),
        ("CARGO_REGISTRY_TOKEN", "x"),
        ("NPM_CONFIG__AUTH", "x"),
        ("PIP_INDEX_URL", "https://u:secret@pypi.example"),
        ("HUB_TOKEN", "x"),
        ("API_KEY", "x"),
        ("LC_ALL", "() { :; }"),
    ],
)
def test_no_secret_and_no_program_is_among_them(name: str, value: str) -> None:
    assert stable({name: value}, Flavour.POSIX) == {}


def test_names_count_in_any_case_on_windows_alone() -> None:
    given = {"Path": "C:\\x", "ProgramFiles": "C:\\p", "uv_cache_dir": "C:\\u", "SESSIONNAME": "x"}
    kept = {key: value for key, value in given.items() if key != "SESSIONNAME"}
    assert stable(given, Flavour.WINDOWS) == kept
    assert stable(given, Flavour.POSIX) == {}


def test_each_variable_is_listed_once() -> None:
    listed = [name for group in STABLE.values() for name in group]
    assert len(listed) == len(set(listed))
