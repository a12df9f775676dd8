"""What servers of a shared hub inherit: the same in all sessions of one user."""

import pytest

from hub.launch.environments import STABLE, stable
from hub.paths.resolve import Flavour

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
