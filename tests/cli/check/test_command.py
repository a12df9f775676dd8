import gc
import json
import os
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.app import running
from hub.app.machine import this_machine
from hub.children.link import ChildConnection
from hub.cli.check import command, plans
from hub.config.models import json_schema
from hub.config.records import BareNames, names_record, recorded, settled
from hub.errors import ConfigError, StartError
from hub.launch.plan import LaunchPlan
from hub.specs import ServerSpec
from hub.values import ServerName
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.trees import plant
from tests.live.programs import RECORDER


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    top = plant(tmp_path, "a/", "b/", "my files/")
    monkeypatch.chdir(top)
    return top


def configure(monkeypatch: pytest.MonkeyPatch, servers: Mapping[str, Any], **keys: Any) -> None:
    config = {"version": 1, "servers": servers, **keys}
    monkeypatch.setenv("HUB_CONFIG", json.dumps(config))


def run(*arguments: str, logged: list[str] | None = None) -> int:
    parser = ArgumentParser()
    commands = parser.add_subparsers(required=True)
    command.register(commands)
    plans.register(commands)
    options = parser.parse_args(arguments)
    with capture_logs() as lines:
        code: int = options.perform(options)
    if logged is not None:
        logged += [line["event"] for line in lines]
    return code


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run("plan", "--json", *arguments) == 0
    return json.loads(capsys.readouterr().out)


def test_the_plan_of_a_profile_has_its_servers_and_its_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(plant(tmp_path, "a/b/f", "c/"))
    Path("hub.yaml").write_text(
        "version: 1\nservers: {files: {command: x}, git: {command: y}}\n"
        "profiles: {few: {servers: [git], roots: {ceiling: [a/b]}}}\n"
    )
    given = ("--config", "hub.yaml", "--root", "a")
    assert [one["server"] for one in planned(capsys, *given)] == ["files", "git"]
    (own,) = planned(capsys, *given, "--as", "few")
    assert (own["server"], own["roots"]) == ("git", [(tmp_path / "a/b").as_uri()])


def test_the_schema_is_that_of_the_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


@pytest.mark.parametrize(
    ("listen", "token", "is_told"),
    [
        ({"host": "192.0.2.1"}, "", True),
        ({"host": "192.0.2.1"}, "a" * 20, False),
        ({"host": "192.0.2.1", "token": "a" * 20}, "", False),
        ({"host": "::1"}, "", False),
    ],
)
def test_an_address_that_run_will_refuse_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    listen: Mapping[str, str],
    token: str,
    is_told: bool,
) -> None:
    monkeypatch.setenv("HUB_TOKEN", token)
    configure(monkeypatch, {"s": {"command": sys.executable}}, listen=listen)
    assert run("check") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("warning: listen.host: 192.0.2.1 can be reached from other") is is_told


# plan


def test_a_plan_shows_what_is_launched_with_these_roots(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, {"files": {"command": "serve", "args": ["--flag", "${roots}"]}})
    (shown,) = planned(capsys, "--root", "a", "--root", "my files")
    assert shown["server"] == "files"
    assert shown["argv"] == ["serve", "--flag", f"{top}/a", f"{top}/my files"]
    assert shown["cwd"] == f"{top}/a"
    assert shown["roots"] == [(top / "a").as_uri(), (top / "my files").as_uri()]
    assert shown["env"]["MCP_ROOTS_COUNT"] == "2"
    assert shown["env"]["MCP_ROOTS_PATHS"] == f"{top}/a\n{top}/my files"


def test_a_plan_can_be_read_by_people(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {
        "files": {"command": "serve", "args": ["${roots}"], "env": {"LEVEL": "loud"}},
        "far": {"url": "https://example.com/mcp"},
    }
    configure(monkeypatch, servers)
    assert run("plan", "--root", "my files") == 0
    files, far = capsys.readouterr().out.split("\n\n")
    lines = files.splitlines()
    assert lines[0] == "files"
    assert f"  argv   serve '{top}/my files'" in lines
    assert f"  cwd    {top}/my files" in lines
    assert "  env    LEVEL='(set)'" in lines
    assert f"  root   {(top / 'my files').as_uri()}" in lines
    assert far == f"far\n  url    https://example.com/mcp\n  root   {(top / 'my files').as_uri()}\n"


def test_a_plan_moves_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = "x\x1b[2J\n  cwd    /safe\u202e"
    servers = {"files": {"command": "serve", "args": [wild], "env": {"A": wild}, "cwd": wild}}
    configure(monkeypatch, servers)
    assert run("plan") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(map(str.isprintable, lines))
    assert r"  argv   serve 'x\x1b[2J\n  cwd    /safe\u202e'" in lines
    assert "  cwd    /safe" not in lines


def test_a_plan_shows_no_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S_TOKEN", "s3cret")
    servers = {
        "files": {
            "command": "serve",
            "args": ["--token", "${S_TOKEN}"],
            "env": {"TOKEN": "${S_TOKEN}"},
        },
        "far": {"url": "https://example.com/", "headers": {"Authorization": "${S_TOKEN}"}},
    }
    configure(monkeypatch, servers)
    for arguments in ([], ["--json"]):
        assert run("plan", *arguments) == 0
        shown = capsys.readouterr().out
        assert "s3cret" not in shown
        assert "${S_TOKEN}" in shown
        assert "(set)" in shown


def test_a_plan_names_what_a_server_inherits_and_what_not_and_shows_no_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S_TOKEN", "s3cret")
    monkeypatch.setenv("S_REGION", "somewhere")
    configure(monkeypatch, {"s": {"command": "x"}, "t": {"command": "x", "environment": ["S_T*"]}})
    s, t = planned(capsys)
    assert "S_REGION" in s["inherits"]
    assert "S_TOKEN" in s["withheld"]
    assert "S_TOKEN" in t["inherits"]
    assert "S_REGION" in t["withheld"]
    assert "HUB_CONFIG" in s["withheld"]
    assert run("plan") == 0
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    assert "somewhere" not in shown
    assert ", S_REGION" in shown


def test_a_check_names_variables_that_a_server_mentions_and_does_not_get(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S_TOKEN", "s3cret")
    configure(monkeypatch, {"s": {"command": "sh", "args": ["-c", "curl -H $S_TOKEN x"]}})
    assert run("check") == 0
    shown = capsys.readouterr().out
    assert "warning: servers.s: uses S_TOKEN, which its process does not inherit" in shown
    assert "s3cret" not in shown


@pytest.mark.parametrize(
    ("server", "roots", "told"),
    [
        ({}, {"fallback": ["a"], "ceiling": ["b"]}, "roots.fallback is inside roots.ceiling"),
        (
            {"command": "mcp-server-filesystem", "args": ["TOP/b"]},
            {"fallback": ["a"]},
            "roots.fallback is inside the folders in its arguments",
        ),
        ({}, {"fallback": ["a"], "ceiling": ["."]}, None),
        ({}, {"fallback": [], "ceiling": ["b"]}, None),
        ({}, {"ceiling": ["b"], "when_missing": "deny"}, None),
        ({}, {"fallback": ["none"], "ceiling": ["b"]}, None),  # a problem already
    ],
)
def test_a_check_warns_of_folders_that_reach_nothing(  # noqa: PLR0913, PLR0917 - a row and fixtures
    server: dict[str, Any],
    roots: dict[str, Any],
    told: str | None,
    top: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = json.loads(json.dumps({"command": "sh", **server}).replace("TOP", str(top)))
    configure(monkeypatch, {"s": made}, roots=roots)
    run("check")
    lines = [one for one in capsys.readouterr().out.splitlines() if one.startswith("warning: ")]
    start = "warning: servers.s: clients that share no folders reach nothing there: no folder of "
    assert lines == ([] if told is None else [f"{start}{told}"])


def test_a_variable_without_braces_is_to_get_some_where_nobody_fills_it_in(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {"fallback": ["$HOME/work"]}
    configure(monkeypatch, {"s": {"command": "$BIN/x", "cwd": "$DIR"}}, roots=roots)
    assert [one.rpartition(". ")[2] for one in problems(capsys)] == [
        "Write ${BIN} where the variable is meant.",
        "Write ${HOME} where the variable is meant.",
        "Write ${DIR} where the variable is meant.",
    ]


@pytest.mark.parametrize(
    ("server", "written"),
    [
        ({"args": ["{root}"]}, {"{root}": "${root}"}),
        ({"args": ["--dirs={roots}"]}, {"{roots}": "${roots}"}),
        (
            {"args": ["$root/src"], "env": {"X": "$roots"}},
            {"$root": "${root}", "$roots": "${roots}"},
        ),
        ({"cwd": "{root}"}, {"{root}": "${root}"}),
        ({"args": ["${root}", "${roots}", "$${root}", '{"root": 1}', "$rooted", "{rooted}"]}, {}),
    ],
)
def test_a_check_warns_of_placeholders_for_roots_that_are_none(
    server: Any,
    written: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(monkeypatch, {"s": {"command": "sh", **server}})
    run("check")
    told = [one for one in capsys.readouterr().out.splitlines() if one.startswith("warning: ")]
    assert told == [
        f"warning: servers.s: {wrong} is passed on as it is: if the client's roots are meant, "
        f"write {right}"
        for wrong, right in written.items()
    ]


def test_a_check_names_servers_that_are_hubs_themselves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"command": sys.executable, "args": ["-m", "hub", "attach", "--config", "hub.yaml"]}
    wrapped = {"command": sys.executable, "args": ["-m", "hub", "wrap", "--", "x"]}
    config = {"version": 1, "servers": {"one": one, "wrapped": wrapped}}
    monkeypatch.setenv("HUB_CONFIG", json.dumps(config))
    assert run("check") == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "another hub" in line]
    assert told == [
        "warning: servers.one: starts another hub, so each call is judged and passed on twice. "
        "Write that hub's servers here in its place."
    ]


def test_without_roots_a_child_is_planned_where_the_hub_runs_unless_clients_are_denied(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, {"s": {"command": "x"}})
    (shown,) = planned(capsys)
    assert (shown["cwd"], shown["roots"]) == (str(top), [])
    assert run("plan") == 0
    assert "  root   (none: clients without roots are not restricted)" in capsys.readouterr().out
    configure(monkeypatch, {"s": {"command": "x", "args": ["${roots}"]}})
    assert run("plan") == 0
    assert "  root   (none: clients without roots give it no folder)" in capsys.readouterr().out
    configure(monkeypatch, {"s": {"command": "x"}}, roots={"when_missing": "deny"})
    (shown,) = planned(capsys)
    assert shown["cwd"] == "(an empty private directory)"
    assert run("plan") == 0
    assert "  root   (none: clients without roots may name no path)" in capsys.readouterr().out


@pytest.mark.parametrize("bound", ["server", "operator"])
def test_a_plan_says_that_no_root_is_left_where_it_may_be(
    bound: str, top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = [f"{top}/a"] if bound == "server" else []
    command = {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", *args]}
    configure(monkeypatch, {"files": command}, roots={"ceiling": [f"{top}/a"]})
    assert run("plan", "--root", "my files") == 0
    told = "  root   (none: no root is inside the ceilings)"
    assert told in capsys.readouterr().out


def test_a_filesystem_servers_own_directories_bound_its_plan(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ["@modelcontextprotocol/server-filesystem", f"{top}/a"]
    configure(monkeypatch, {"files": {"command": "npx", "args": args}})
    (shown,) = planned(capsys, "--root", ".")
    assert shown["roots"] == [(top / "a").as_uri()]


def test_a_plan_needs_a_config() -> None:
    with pytest.raises(ConfigError, match="no config"):
        run("plan")


# check


def test_a_config_that_is_fine_is_said_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, {"a": {"command": "sh"}, "b": {"url": "http://127.0.0.1:9/"}})
    assert run("check") == 0
    fine, *sharing = capsys.readouterr().out.splitlines()
    assert fine == "2 servers: a, b. The config is fine."
    assert [one.partition(",")[0] for one in sharing] == [
        "a: a process for each session",
        "b: a connection for each session",
    ]


def test_it_is_said_who_shares_a_server_and_why(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (plant(top, "bin/uvx", "bin/sh") / "bin" / "uvx").chmod(0o755)
    (top / "bin" / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{top}/bin")
    git = {"command": "uvx", "args": ["mcp-server-git"]}
    told = {"command": "sh", "share": "roots"}
    url = {"url": "http://127.0.0.1:9/", "share": "all"}
    configure(
        monkeypatch, {"git": git, "think": {"command": "sh"}, "told": told, "url": url, "web": git}
    )
    assert run("check") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "git, web: clients with the same roots share a process (known to keep nothing between "
        "calls)",
        "think: a process for each session, of modern clients over HTTP for each token and roots "
        "(may keep something between calls; if not, `share: roots`)",
        "told: clients with the same roots share a process (`share: roots`)",
        "url: all clients share a connection (`share: all`)",
    ]


def test_a_check_asks_to_set_paths_for_a_remote_server(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(
        monkeypatch,
        {
            "forge": {"url": "https://forge.example.com/mcp"},
            "said": {"url": "https://forge.example.com/mcp", "paths": "remote"},
            "here": {"url": "http://127.0.0.1:9/mcp"},
        },
    )
    assert run("check") == 0
    hints = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hint:")]
    assert len(hints) == 1
    assert hints[0].startswith("hint: servers.forge.paths: ")
    assert "`paths: remote`" in hints[0]


def test_nothing_is_started_by_a_check(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = top / "made"
    servers = {"a": {"command": "touch", "args": [str(made)], "start": "eager"}}
    configure(monkeypatch, servers)
    assert run("check") == 0
    assert not made.exists()


@pytest.mark.parametrize(
    ("servers", "keys", "where"),
    [
        ({"a": {"command": "x", "args": ["${NOT_SET_HERE}"]}}, {}, "servers.a.args[0]"),
        ({"a": {"command": "x", "cmd": 1}}, {}, "servers.a.cmd"),
        ({"a": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}}}, {}, "servers.a.env.A"),
        ({}, {}, "servers"),
        ({"a": {"command": "x"}}, {"guards": "off"}, "guards"),
    ],
)
def test_an_error_names_its_place_in_the_config(
    monkeypatch: pytest.MonkeyPatch, servers: dict[str, Any], keys: dict[str, Any], where: str
) -> None:
    configure(monkeypatch, servers, **keys)
    with pytest.raises(ConfigError) as caught:
        run("check")
    assert f"the config: {where}: " in caught.value.faults[0].said


def test_a_root_that_is_not_there_fails_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, {"a": {"command": "x"}})
    with pytest.raises(StartError, match="--root gone"):
        run("check", "--root", "gone")


def test_tokens_that_can_be_guessed_are_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = "0123456789abcdef" * 2
    tokens = [{"name": "a", "token": fine}, {"name": "b", "token": "b" * 30}]
    servers = {"s": {"command": sys.executable}}
    configure(monkeypatch, servers, listen={"token": "abc", "tokens": tokens})
    assert run("check") == 0
    warned = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert [line.split(": ")[1] for line in warned] == ["listen.token", "listen.tokens[1].token"]


def test_a_folder_that_is_not_there_is_told_once(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"s": {"command": sys.executable}}
    configure(monkeypatch, servers, roots={"fallback": [str(top / "gone")]})
    logged: list[str] = []
    assert run("check", logged=logged) == 1
    assert capsys.readouterr().out.count("gone") == 1
    assert logged == []


def test_tokens_that_have_ended_or_end_soon_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    today = datetime.now(UTC).date()
    ends = {"old": today - timedelta(9), "soon": today + timedelta(3), "new": today + timedelta(30)}
    tokens = [
        {"name": name, "sha256": f"{at:064}", "expires": str(end)}
        for at, (name, end) in enumerate(ends.items())
    ]
    configure(monkeypatch, {"s": {"command": sys.executable}}, listen={"tokens": tokens})
    assert run("check") == 0
    old, soon, fine, _ = capsys.readouterr().out.splitlines()
    assert old.startswith("warning: listen.tokens[0].expires: the token of old has ended (")
    assert soon.startswith("warning: listen.tokens[1].expires: the token of soon ends within 7 ")
    assert soon.endswith(". `roots-hub token new soon --days 90` prints another one.")
    assert fine == "1 server: s. The config is fine."


def test_warnings_are_shown(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"command": "sh", "nonsense": 1}
    (top / "client.json").write_text(json.dumps({"mcpServers": {"a": entry}}))
    assert run("check", "--config", "client.json") == 0
    warning, fine, _ = capsys.readouterr().out.splitlines()
    assert warning.startswith("warning: client.json: ")
    assert fine == "1 server: a. The config is fine."
    assert run("plan", "--config", "client.json") == 0


def test_a_server_that_cannot_be_used_is_down_and_the_check_fails(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = {"good": {"command": "true"}, "bad": {"command": "x", "env": {"K": "${env:NOT_SET}"}}}
    (top / "client.json").write_text(json.dumps({"mcpServers": entries}))
    assert run("check", "--config", "client.json") == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "bad: down, left out:",
        "  client.json: mcpServers.bad.env.K: the variable NOT_SET is not set",
        "  Set the variable NOT_SET for the hub, or write its value here.",
    ]
    assert "1 server: good. Left out: bad. The others run." in lines


def test_other_programs_files_get_no_hints_at_keys_that_they_cannot_have(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (top / "client.json").write_text('{"mcpServers": {"a": {"url": "https://x.example/"}}}')
    assert run("check", "--config", "client.json") == 0
    out = capsys.readouterr().out
    assert out.startswith("1 server: a. The config is fine.\n")
    assert "share: roots" not in out


def play(monkeypatch: pytest.MonkeyPatch, **children: FakeChild) -> None:
    """Let hubs start these instead of processes."""

    def opened(
        spec: ServerSpec, plan: LaunchPlan | None
    ) -> AbstractAsyncContextManager[ChildConnection]:
        return children[spec.name].opened(spec, plan)

    def opener(*_: object) -> object:
        return opened

    monkeypatch.setattr(running, "opener", opener)
    configure(monkeypatch, {name: {"command": "sh"} for name in children})


def test_a_provider_that_lets_in_everybody_gets_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    login = {"client_id": "hub", "client_secret": "secret"}
    issuer: dict[str, Any] = {"issuer": "https://login.example.com", "proxy": login}

    def hints() -> str:
        listen = {"auth": {"resource": "https://hub.example.com/mcp", "issuers": [issuer]}}
        configure(monkeypatch, {"one": {"command": sys.executable}}, listen=listen)
        assert run("check") == 0
        return capsys.readouterr().out

    text = "listen.auth.issuers[0].claims: everybody with an account at https://login.example.com"
    assert text in hints()
    issuer["claims"] = {"groups": ["staff"]}
    assert text not in hints()


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({}, None),
        ({"max_children": 2}, "hint: max_children: of 3 servers at most 2 run"),
        ({"max_children_per_session": 1}, "hint: max_children_per_session: of 3 servers at most 1"),
        (
            {"max_children": 2, "max_children_per_session": 9},
            "hint: max_children: of 3 servers at most 2 run",
        ),
    ],
)
def test_more_servers_than_may_run_get_a_hint(
    keys: dict[str, int],
    hint: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(monkeypatch, {name: {"command": "sh"} for name in "abc"}, **keys)
    assert run("check") == 0
    shown = capsys.readouterr().out
    assert ("hint:" in shown) == (hint is not None)
    assert hint is None or hint in shown


def test_a_public_url_with_a_name_that_the_hub_does_not_answer_to_gets_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    issuers = [{"issuer": "https://login.example.com"}]

    def is_hinted_at(resource: str, **listen: Any) -> bool:
        listen["auth"] = {"resource": resource, "issuers": issuers}
        configure(monkeypatch, {"one": {"command": sys.executable}}, listen=listen)
        assert run("check") == 0
        return "hint: listen.names: add hub.example.com" in capsys.readouterr().out

    public = "https://hub.example.com/mcp"
    assert is_hinted_at(public)
    assert is_hinted_at(public, host="192.0.2.1", names=["other.example.com"])
    assert not is_hinted_at(public, names=["hub.example.com"])
    assert not is_hinted_at(public, host="192.0.2.1"), "it answers to any name"
    assert not is_hinted_at("http://127.0.0.1:8765/mcp")


def test_an_issuer_whose_people_cannot_log_in_at_a_server_gets_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer: dict[str, Any] = {"issuer": "https://login.example.com"}
    far: dict[str, Any] = {"url": "https://far.example.com/mcp", "auth": "oauth"}

    def hints() -> str:
        listen = {"auth": {"resource": "https://hub.example.com/mcp", "issuers": [issuer]}}
        configure(monkeypatch, {"far": far}, listen=listen)
        assert run("check") == 0
        return capsys.readouterr().out

    text = "clients of https://login.example.com cannot log in at far."
    assert text in hints()
    issuer["pages"] = {"client_id": "hub", "client_secret": "secret"}
    assert text not in hints()
    del issuer["pages"]
    far["auth"] = {"shared": True}
    assert text not in hints()


@pytest.mark.live
def test_connecting_shows_what_servers_offer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = FakeChild(ECHO, READ), FakeChild(era="modern", capabilities={})
    play(monkeypatch, one=one, two=two)
    assert run("check", "--connect") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 servers: one, two. The config is fine."
    assert set(lines[2:4]) == {"one: starting", "two: starting"}
    shown = {line.rpartition(", ")[0] for line in lines[4:-1]}
    assert shown == {
        "one: fake 1 (2025-11-25); 2 tools: echo, read; 0 resources, 0 templates, 0 prompts",
        "two: fake 1 (2026-07-28); 0 tools: -; 0 resources, 0 templates, 0 prompts",
    }
    assert lines[-1] == "2 of 2 servers answer."
    assert (one.closed, two.closed) == (1, 1)


@pytest.mark.live
def test_connecting_tells_nothing_twice_and_needs_no_audit_file(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, one=FakeChild(ECHO))
    monkeypatch.setenv("A_TOKEN", "x")
    out = {"command": "sh", "env": {"A": "${NOT_SET}"}}
    servers = {"one": {"command": "sh", "args": ["$A_TOKEN"]}, "out": out}
    configure(monkeypatch, servers, audit={"file": str(top / "none/audit.jsonl")})
    logged: list[str] = []
    assert run("check", "--connect", logged=logged) == 3
    assert logged == ["client", "ready", "ended"]
    assert "1 of 1 servers answer." in capsys.readouterr().out


@pytest.mark.live
def test_connecting_shows_no_tool_that_clients_do_not_see(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, one=FakeChild(ECHO, READ))
    configure(monkeypatch, {"one": {"command": "sh", "tools": {"deny": ["ec*"]}}})
    assert run("check", "--connect") == 0
    assert "; 1 tool (1 more left out): read; " in capsys.readouterr().out


def problems(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return the problems that a check finds, in order; the exit code says whether there are."""
    code = run("check", *arguments)
    shown = capsys.readouterr().out.splitlines()
    found = [line.removeprefix("problem: ") for line in shown if line.startswith("problem: ")]
    assert code == bool(found)
    assert any("The config is fine." in line for line in shown) == (not found) or arguments
    return found


@pytest.fixture
def programs(top: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let there be two programs on the PATH."""
    for name in ("npx", "uvx"):
        program = plant(top, f"bin/{name}") / "bin" / name
        program.chmod(0o755)
    plant(top, "venv/server").joinpath("venv/server").write_text("#!/gone/venv/bin/python -I\n")
    (top / "venv/server").chmod(0o755)
    for name, words in (("by-env", "gone"), ("by-env-s", "-S gone -u"), ("by-env-i", "-i gone")):
        plant(top, f"venv/{name}").joinpath(f"venv/{name}").write_text(f"#!/usr/bin/env {words}\n")
        (top / "venv" / name).chmod(0o755)
    plant(top, "venv/data").joinpath("venv/data").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", f"{top}/bin")
    return top


LONG = "x" * 300
"""No file can have so long a name."""
NO_GONE = "cannot be run. Its first line names gone, which is not on the PATH: install it."
PROGRAMS: list[tuple[dict[str, Any], str | None]] = [
    ({"command": "npx"}, None),
    ({"command": "TOP/bin/npx"}, None),
    ({"command": "bin/npx"}, None),
    ({"command": "npxx"}, "there is no program 'npxx' on the PATH. Did you mean npx?"),
    (
        {"command": "pnpx"},
        "there is no program 'pnpx' on the PATH. Install it, or write its whole path.",
    ),
    (
        {"command": "deno"},
        "there is no program 'deno' on the PATH. Install it, or write its whole path.",
    ),
    (
        {"command": "npx -y 'a b'"},
        'there is no program "npx -y \'a b\'". Write `command: npx` and `args: ["-y", "a b"]`.',
    ),
    (
        {"command": "npx", "env": {"PATH": "/nowhere"}},
        "there is no program 'npx' on the PATH. Install it, or write its whole path.",
    ),
    (
        {"command": "npx -y @scope/server"},
        "there is no program 'TOP/npx -y @scope/server'. "
        'Write `command: npx` and `args: ["-y", "@scope/server"]`.',
    ),
    (
        {"command": f"npx {LONG} a/b"},
        f"there is no program 'TOP/npx {LONG} a/b'. "
        f'Write `command: npx` and `args: ["{LONG}", "a/b"]`.',
    ),
    (
        {"command": "https://a.example/mcp"},
        "there is no program 'TOP/https://a.example/mcp'. "
        "A URL is no command: write `url:` in the place of `command:`.",
    ),
    ({"command": "sub/x"}, "there is no program 'TOP/sub/x'. Install it, or write its whole path."),
    (
        {"command": r"C:\Program Files\nodejs\npx.cmd"},
        r"there is no program 'TOP/C:\\Program Files\\nodejs\\npx.cmd'. "
        "That is a path of Windows: write the path of the program on this machine.",
    ),
    (
        {"command": "c:/nodejs/npx.cmd"},
        "there is no program 'TOP/c:/nodejs/npx.cmd'. "
        "That is a path of Windows: write the path of the program on this machine.",
    ),
    (
        {"command": "venv/server"},
        "'TOP/venv/server' cannot be run. "
        "Its first line names /gone/venv/bin/python, which is not there, as after a move: "
        "install it again.",
    ),
    ({"command": "venv/by-env"}, f"'TOP/venv/by-env' {NO_GONE}"),
    ({"command": "venv/by-env-s"}, f"'TOP/venv/by-env-s' {NO_GONE}"),
    ({"command": "venv/by-env-i"}, None),
    (
        {"command": "venv/data"},
        "'TOP/venv/data' cannot be run. Allow it: chmod +x QUOTED",
    ),
    (
        {"command": "my files/sub/x"},
        "there is no program 'TOP/my files/sub/x'. Install it, or write its whole path.",
    ),
    (
        {"command": r"\\server\share\tool.exe"},
        r"there is no program 'TOP/\\\\server\\share\\tool.exe'. "
        "That is a path of Windows: write the path of the program on this machine.",
    ),
]


@pytest.mark.parametrize(("server", "problem"), PROGRAMS)
def test_a_program_that_is_not_there_is_a_problem(
    server: dict[str, Any],
    problem: str | None,
    programs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filled = json.loads(json.dumps(server).replace("TOP", str(programs)))
    configure(monkeypatch, {"s": filled, "far": {"url": "http://127.0.0.1:9/"}})
    found = problems(capsys)
    if problem is None:
        assert found == []
    else:
        told = problem.replace("TOP", str(programs)).replace(
            "QUOTED", shlex.quote(f"{programs}/venv/data")
        )
        assert found == [f"servers.s.command: {told}"]


@pytest.mark.parametrize(
    ("first_line", "named"),
    [
        ("#!/bin/sh", "/bin/sh"),
        ("#!/bin/sh -e", "-e"),
        ("#! /usr/bin/env sh", "sh"),
        ("#!/usr/bin/env -S sh", None),  # env itself drops what is no part of a word
        ("#!/usr/bin/env -S sh -e", None),
    ],
)
def test_a_script_with_lines_of_windows_is_a_problem_if_the_system_does_not_run_it(
    first_line: str,
    named: str | None,
    top: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = top / "my script"
    script.write_bytes(f"{first_line}\r\nexit 0\n".encode())
    script.chmod(0o755)
    configure(monkeypatch, {"s": {"command": str(script)}})
    found = problems(capsys)
    assert is_run(script) == (named is None)
    if named is None:
        assert found == []
        return
    why, remedy = found[0].split("as its lines end as on Windows: ")
    assert why.startswith(f"servers.s.command: '{script}' cannot be run. Its first line names ")
    subprocess.run(["/bin/sh", "-c", remedy], check=True)  # noqa: S603 - as an operator would
    assert is_run(script)
    assert problems(capsys) == []


def is_run(script: Path) -> bool:
    try:
        done = subprocess.run([script], check=False, stderr=subprocess.DEVNULL)  # noqa: S603 - made above
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.mark.skipif(shutil.which("perl") is None, reason="there is no Perl")
def test_a_script_whose_program_reads_over_line_ends_of_windows_is_none(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = top / "script"
    script.write_text(f"#!{shutil.which('perl')} -w\r\nexit 0;\r\n", newline="")
    script.chmod(0o755)
    configure(monkeypatch, {"s": {"command": str(script)}})
    assert is_run(script)
    assert problems(capsys) == []


def test_folders_that_are_not_there_are_problems(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {"fallback": [f"{top}/a", f"{top}/my file"], "ceiling": [str(top), f"{top}/gone/x"]}
    configure(monkeypatch, {"s": {"command": "sh"}}, roots=roots)
    assert problems(capsys) == [
        f"roots.fallback: {top}/my file: there is no such folder. Did you mean my files?",
        f"roots.ceiling: {top}/gone/x: there is no such folder. Make it, or take it out.",
    ]


def test_a_path_of_windows_is_a_problem_wherever_a_path_is_named(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(top, "bin/mcp-server-filesystem")
    (top / "bin/mcp-server-filesystem").chmod(0o755)
    monkeypatch.setenv("PATH", str(top / "bin"))
    share, drive = r"\\server\share", r"C:\Users\x"
    roots = {"fallback": [share], "ceiling": [drive], "access": [{"path": share, "access": "read"}]}
    server = {
        "command": "mcp-server-filesystem",
        "args": [share, drive],
        "cwd": drive,
        "confine": {"mode": "auto", "read": [share], "write": [drive]},
    }
    own = {"ceiling": [drive], "access": [{"path": share, "access": "read"}]}
    configure(monkeypatch, {"s": server}, roots=roots, profiles={"p": {"roots": own}})
    why = "is a path of Windows. Write the path of the folder on this machine."
    assert problems(capsys) == [
        f"{where}: {path}: {why}"
        for where, path in (
            ("roots.fallback", f"{top}/{share}"),
            ("roots.ceiling", f"{top}/{drive}"),
            ("profiles.p.roots.ceiling", f"{top}/{drive}"),
            ("roots.access", f"{top}/{share}"),
            ("profiles.p.roots.access", f"{top}/{share}"),
            ("servers.s.cwd", f"{top}/{drive}"),
            ("servers.s.args", share),
            ("servers.s.args", drive),
            ("servers.s.confine.read", f"{top}/{share}"),
            ("servers.s.confine.write", f"{top}/{drive}"),
        )
    ]


def test_a_folder_that_is_there_is_none_of_windows_whatever_its_name(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(top, "c:/x/")
    here = f"{top}/c:/x"
    roots = {"fallback": [here], "ceiling": [here], "access": [{"path": here, "access": "read"}]}
    confine = {"mode": "auto", "read": [here], "write": [here]}
    configure(monkeypatch, {"s": {"command": "sh", "cwd": here, "confine": confine}}, roots=roots)
    assert problems(capsys) == []


def test_a_filesystem_servers_folder_that_is_not_there_is_a_problem(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(top, "bin/mcp-server-filesystem")
    (top / "bin/mcp-server-filesystem").chmod(0o755)
    monkeypatch.setenv("PATH", str(top / "bin"))
    args = ["--allow-write", f"{top}/a", f"{top}/gone", "gone", "${roots}"]
    configure(monkeypatch, {"s": {"command": "mcp-server-filesystem", "args": args}})
    told = f"servers.s.args: {top}/gone: there is no such folder. Make it, or take it out."
    assert problems(capsys) == [told]


def test_folders_that_the_hub_leaves_out_are_problems(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    roots: dict[str, Any] = {"fallback": ["/", f"{top}/a"], "ceiling": ["/etc"]}
    configure(monkeypatch, {"s": {"command": "sh"}}, roots=roots)
    why = (
        "Path is not safe for sharing: it is left out. Name a folder that is safe to share; "
        "`roots.allow_unsafe: true` allows all others."
    )
    assert problems(capsys) == [f"roots.fallback: /: {why}", f"roots.ceiling: /etc: {why}"]
    configure(monkeypatch, {"s": {"command": "sh"}}, roots=roots | {"allow_unsafe": True})
    assert problems(capsys) == []


MAKE = "Make it, or take it out."


def test_a_working_directory_that_is_not_there_is_a_problem(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.txt").touch()
    (top / "link").symlink_to("no")
    for cwd, told in (
        (f"{top}/b", []),
        ("my file", [f"{top}/my file: there is no such folder. Did you mean my files?"]),
        ("${root}/none", []),
        ("a.txt", [f"{top}/a.txt: is a file, not a folder. Name a folder."]),
        ("link", [f"{top}/link: there is no such folder, but a link to {top}/no. {MAKE}"]),
    ):
        configure(monkeypatch, {"s": {"command": "sh", "cwd": cwd}})
        assert problems(capsys) == [f"servers.s.cwd: {one}" for one in told]


def test_an_audit_file_that_cannot_be_written_is_a_problem(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "link").symlink_to("a.log")
    for name, problem in (
        ("a/audit.jsonl", None),
        ("none/audit.jsonl", f"there is no directory {top}/none. Make it, or name another file."),
        ("a", "it is a directory. Name a file in it."),
        ("link", "it is a symbolic link. Name the file itself."),
    ):
        configure(monkeypatch, {"s": {"command": "sh"}}, audit={"file": f"{top}/{name}"})
        told = [] if problem is None else [f"audit.file: {top}/{name}: {problem}"]
        assert problems(capsys) == told
    assert not (top / "a" / "audit.jsonl").exists()


def test_a_disk_without_room_for_the_audit_file_is_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, {"s": {"command": "sh"}}, audit={"file": "/proc/audit.jsonl"})
    run("check")
    assert "warning: /proc: only 0 MB are free on its disk. du -xh " in capsys.readouterr().out


TYPOS: list[tuple[dict[str, Any], list[str]]] = [
    ({"allow": ["*"], "deny": ["ec*"], "overrides": {"read": {"title": "R"}}}, []),
    ({"deny": ["ecko"]}, ["deny: 'ecko' is no tool of one. Did you mean echo?"]),
    ({"deny": ["delete_*"]}, ["deny: 'delete_*' is no tool of one. It has: echo, read."]),
    (
        {"overrides": {"raed": {"title": "R"}}},
        ["overrides: 'raed' is no tool of one. Did you mean read?"],
    ),
    (
        {"allow": ["rread"]},
        [
            "allow: 'rread' is no tool of one. Did you mean read?",
            "leaves none of its 2 tools: clients see nothing of one. "
            "Allow some, or take the server out.",
        ],
    ),
]


@pytest.mark.live
@pytest.mark.parametrize(("tools", "found"), TYPOS)
def test_names_that_are_no_tools_are_problems_once_the_server_is_asked(
    tools: dict[str, Any],
    found: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play(monkeypatch, one=FakeChild(ECHO, READ))
    configure(monkeypatch, {"one": {"command": "sh", "tools": tools}})
    assert problems(capsys) == []
    told = [line.removeprefix("servers.one.tools") for line in problems(capsys, "--connect")]
    assert [line.lstrip(".: ") for line in told] == found


@pytest.mark.live
def test_a_server_that_does_not_answer_fails_a_check_and_no_other_server(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FakeChild()
    broken.refuses_to_open = OSError("no such thing")
    play(monkeypatch, fine=FakeChild(ECHO), broken=broken)
    logged: list[str] = []
    assert run("check", "--connect", logged=logged) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fine: fake 1 ") for line in lines)
    (told,) = [line for line in lines if line.startswith("broken: is not running: ")]
    assert "again" not in told, "the hub of this command ends with it"
    assert "down" not in logged, "it is told already"
    assert lines[-1] == "1 of 2 servers answer."


# What a stopped child's pipe leaves to the collector is not this test's concern.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.live
def test_a_real_server_is_started_and_ended(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"command": RECORDER[0], "args": RECORDER[1:]}
    configure(monkeypatch, {"files": server})
    assert run("check", "--connect", "--root", "a") == 0
    assert "read_file" in capsys.readouterr().out
    gc.collect()


@pytest.mark.parametrize(
    "arguments", [("check", "x"), ("plan", "--connect"), ("schema", "--json"), ("plan", "--root")]
)
def test_bad_usage_ends_with_two(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2


def test_check_warns_of_names_that_a_second_server_moves(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(top / "state"))
    config = plant(top, "hub.yaml") / "hub.yaml"
    record, one, two = names_record(this_machine(os.environ)), "files", "git"
    settled(record, config, [ServerName(one)], "auto")
    for names in ([one], [two, one]):
        config.write_text(
            json.dumps({"version": 1, "servers": {n: {"command": "true"} for n in names}})
        )
        assert run("check", "--config", "hub.yaml") == 0
        said = capsys.readouterr().out
        assert ("warning: names: there are several servers" in said) is (len(names) > 1)
    assert recorded(record, config) == BareNames(ServerName(one))  # a check changes nothing
    assert run("check", "--config", config.read_text()) == 0
    assert "warning" not in capsys.readouterr().out


def test_check_and_plan_name_secrets_and_run_nothing(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (top / "token").write_text("t0ken")
    (top / "token").chmod(0o644)
    env = {"A": "Bearer ${file:token}", "B": "${cmd:touch ran}", "C": "${env:HOME}"}
    headers = {"Authorization": "Bearer ${cmd:touch ran}", "X": "${file:token}"}
    servers = {
        "a": {"command": sys.executable, "env": env},
        "b": {"url": "http://127.0.0.1/", "headers": headers, "paths": "local"},
    }
    configure(monkeypatch, servers, listen={"token": "${cmd:touch ran}"})
    assert run("check", "--json") == 0
    out = capsys.readouterr().out
    shown = json.loads(out)
    opened = f"{top}/token is open to other users (mode 0644): `chmod 600` keeps it to its owner"
    assert shown["warnings"] == [f"servers.a.env.A: {opened}"]
    assert shown["problems"] == []
    remote, process = reversed(planned(capsys))
    assert process["env"]["A"] == f"…${{file:{top}/token}}"
    assert process["env"]["B"] == "${cmd:touch ran}"
    assert process["env"]["C"] == "(set)"
    assert remote["headers"] == {
        "Authorization": "…${cmd:touch ran}",
        "X": f"${{file:{top}/token}}",
    }
    assert run("plan") == 0
    lines = capsys.readouterr().out
    assert "  header Authorization='…${cmd:touch ran}'\n" in lines
    assert "t0ken" not in out + lines
    assert not (top / "ran").exists()


def test_check_tells_which_secrets_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], top: Path
) -> None:
    env = {"A": "${file:none}", "B": "${cmd:no-such-command a}", "C": "${keyring:s/u}"}
    auth = {"client_id": "x", "client_secret": "${file:none}", "issuer": "https://i.example"}
    far = {"url": "https://far.example/mcp", "auth": {**auth, "keep": "keyring"}}
    configure(monkeypatch, {"a": {"command": sys.executable, "env": env}, "far": far})
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert run("check", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    keyring = {
        "what": "the package `keyring` is not installed",
        "fix": "Install it: pip install 'roots-hub[keyring]'",
    }
    assert shown["problems"] == [
        {
            "level": "problem",
            "about": "secrets",
            "where": "servers.a.env.A",
            "what": f"there is no file {top}/none",
            "fix": "Write the secret into it, or correct the path.",
        },
        {"level": "problem", "about": "secrets", "where": "servers.a.env.C", **keyring},
        {
            "level": "problem",
            "about": "secrets",
            "where": "servers.far.auth.client_secret",
            "what": f"there is no file {top}/none",
            "fix": "Write the secret into it, or correct the path.",
        },
        {"level": "problem", "about": "secrets", "where": "servers.far.auth.keep", **keyring},
    ]
    assert (
        "servers.a.env.B: there is no program 'no-such-command'. Install it, or write its path."
        in shown["warnings"]
    )
