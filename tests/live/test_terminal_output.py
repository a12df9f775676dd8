"""What commands show on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.kit.terminal import at_terminal
from tests.kit.warm import WARM_HUB, ran
from tests.live.programs import RECORDER, SOON, environment

pytestmark = pytest.mark.live
ESCAPE = "\x1b["
FILES = {"command": RECORDER[0], "args": [*RECORDER[1:], "${roots}"]}
EXPLAIN = ("explain", "files.read_file", "--arguments", '{"path": "/etc/passwd"}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = {"version": 1, "roots": {"fallback": ["."]}, "servers": {"files": FILES}}
    (tmp_path / "hub.yaml").write_text(json.dumps(config))
    return tmp_path


def piped(folder: Path, *arguments: str, **more: str) -> str:
    command = [WARM_HUB, *arguments, "--config", "hub.yaml"]
    env = {"TERM": "xterm", **environment(**more)}
    return ran(command, timeout=SOON, cwd=folder, env=env).stdout


def at_screen(folder: Path, *arguments: str, **more: str) -> str:
    env = {"TERM": "xterm", **environment(**more)}
    command = [WARM_HUB, *arguments, "--config", "hub.yaml"]
    with at_terminal(command, cwd=folder, env=env) as terminal:
        terminal.end()
        return terminal.shown


def plain(text: str) -> list[str]:
    """Return the lines of a text without colours, times, and what a later line has wiped out."""
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text).replace("\r", "\n").splitlines()
    return [re.sub(r"\d+\.\d s$", "", line).rstrip() for line in lines]


def test_a_terminal_shows_servers_that_start_and_what_they_say(folder: Path) -> None:
    piped(folder, "check", "--connect")  # a first start says less of what is known
    shown = at_screen(folder, "check", "--connect")
    assert ESCAPE in shown
    assert "files: starting" in shown
    in_a_pipe = plain(piped(folder, "check", "--connect"))
    assert "files: starting" in in_a_pipe
    for line in in_a_pipe:
        if line == "files: starting":
            continue  # with a spinner before it
        assert line in plain(shown)


def test_verdicts_have_colours_on_a_terminal(folder: Path) -> None:
    assert "\x1b[1;31mrefused\x1b[0m" in at_screen(folder, *EXPLAIN)
    assert "\x1b[1;32mThe config is fine.\x1b[0m" in at_screen(folder, "check")
    assert "\x1b[1mfiles\x1b[0m\n" in at_screen(folder, "plan")


def test_doctor_shows_the_servers_that_it_starts(folder: Path) -> None:
    home = str(folder)
    assert ESCAPE in at_screen(folder, "doctor", "--connect", HOME=home)
    lines = plain(piped(folder, "doctor", "--connect", HOME=home))
    assert lines[:2] == ["files: starting", "files: answers"]
    found = json.loads(piped(folder, "doctor", "--connect", "--json", HOME=home))
    assert any(one["about"] == "start" for one in found["findings"])


def test_what_an_installation_changes_has_colours(folder: Path) -> None:
    home = folder / "home"
    (home / ".cursor").mkdir(parents=True)
    shown = at_screen(folder, "install", "cursor", "--yes", HOME=str(home))
    assert re.search(r'\x1b\[32m\+ +"roots-hub": \{\x1b\[0m', shown), shown


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
@pytest.mark.parametrize("arguments", [EXPLAIN, ("check", "--connect"), ("plan",)], ids=str)
def test_a_terminal_that_wants_no_colours_gets_none(
    folder: Path, arguments: tuple[str, ...], setting: dict[str, str]
) -> None:
    piped(folder, *arguments)  # a first start says less of what is known
    shown = at_screen(folder, *arguments, **setting)
    assert ESCAPE not in shown
    assert plain(shown) == plain(piped(folder, *arguments, **setting))


@pytest.mark.parametrize("arguments", [EXPLAIN, ("check", "--connect"), ("plan",)], ids=str)
def test_a_pipe_gets_no_colours(folder: Path, arguments: tuple[str, ...]) -> None:
    shown = piped(folder, *arguments)
    assert shown
    assert ESCAPE not in shown


def test_a_check_can_be_read_by_programs(folder: Path) -> None:
    found = json.loads(piped(folder, "check", "--json"))
    assert (found["servers"], found["problems"], found["leftOut"]) == (["files"], [], [])
    assert found["sharing"][0]["servers"] == ["files"]
    assert "answers" not in found
    (answer,) = json.loads(piped(folder, "check", "--json", "--connect"))["answers"]
    assert (answer["server"], answer["error"]) == ("files", None)
    assert "read_file" in answer["tools"]


def test_a_check_that_fails_says_so_as_json_too(folder: Path) -> None:
    servers = {"gone": {"command": "no-such-program"}, "ends": {"command": "false"}}
    (folder / "hub.yaml").write_text(json.dumps({"version": 1, "servers": servers}))
    found = json.loads(piped(folder, "check", "--json", "--connect", "--confine"))
    assert isinstance(found["confinement"]["fine"], bool)
    (problem,) = found["problems"]
    assert "no-such-program" in problem["what"]
    assert [answer["server"] for answer in found["answers"]] == ["gone", "ends"]
    assert all(answer["error"] for answer in found["answers"])
