"""`roots-hub tools` and `roots-hub call`, with real servers."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.cli import tools
from hub.errors import ConfigError, RouteError
from tests.kit.trees import PROJECT, plant
from tests.live.programs import RECORDER

pytestmark = [
    pytest.mark.live,
    # What a stopped child's pipe leaves to the collector is not these tests' concern.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
RECORDS = {"command": RECORDER[0], "args": [*RECORDER[1:], "${roots}"]}
GONE = {"command": "no-such-program"}


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    return plant(tmp_path, *PROJECT)


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Any:
    def write(servers: dict[str, Any], **keys: Any) -> None:
        config = {"version": 1, "servers": servers, **keys}
        monkeypatch.setenv("HUB_CONFIG", json.dumps(config))

    return write


def run(*arguments: str) -> int:
    return run_and_log(*arguments)[0]


def run_and_log(*arguments: str) -> tuple[int, list[Any]]:
    parser = ArgumentParser()
    tools.register(parser.add_subparsers(required=True))
    options = parser.parse_args(arguments)
    with capture_logs() as logged:
        code: int = options.perform(options)
    return code, [*logged]


def test_the_tools_are_listed_as_clients_see_them(
    configure: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    override = {"title": "Look", "description": "Reads.\nMore."}
    files = {**RECORDS, "tools": {"deny": ["exit"], "overrides": {"read_file": override}}}
    configure({"files": files, "gone": GONE}, expose="search")
    assert run("tools") == 1
    out, err = capsys.readouterr()
    assert "files__read_file  (Look)\n    Reads.\n" in out
    assert "files__pid" in out
    assert "exit" not in out
    assert "get-roots" not in out
    assert "gone: " in err
    assert "there is no command 'no-such-program'" in err


def test_the_tools_can_be_read_by_a_program(
    configure: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"files": RECORDS})
    assert run("tools", "--json") == 0
    listed = {tool["name"]: tool for tool in json.loads(capsys.readouterr().out)}
    assert listed["read_file"]["inputSchema"]["properties"]["path"]


@pytest.mark.parametrize("name", ["files.read_file", "files__read_file"])
def test_a_call_goes_through_the_whole_hub(
    name: str, configure: Any, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tree / "audit.jsonl"
    configure({"files": RECORDS, "other": GONE}, audit={"file": str(audit)})
    given = ("--root", f"{tree}/project", "--arguments")
    assert run("call", name, *given, json.dumps({"path": f"{tree}/project/a.txt"})) == 0
    assert capsys.readouterr().out == "x\n"
    assert run("call", name, *given, '{"path": "/etc/passwd"}') == 1
    uri = (tree / "project").as_uri()
    assert capsys.readouterr().out == (
        "Access denied: Path '/etc/passwd' is outside the allowed roots boundaries. "
        f'Current roots: ["{uri}"]\n'
    )
    verdicts = [json.loads(line)["verdict"] for line in audit.read_text().splitlines()]
    assert verdicts == ["admitted", "refused"]


def test_a_text_is_printed_with_one_end_of_its_last_line(
    configure: Any, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"files": RECORDS})
    (tree / "project/b.txt").write_text("a\nb\n")
    given = ("--root", f"{tree}/project", "--arguments", '{"path": "b.txt"}')
    assert run("call", "read_file", *given) == 0
    assert capsys.readouterr().out == "a\nb\n"


def test_a_result_can_be_read_by_a_program(
    configure: Any, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"files": RECORDS})
    given = ("--root", f"{tree}/project", "--arguments", '{"path": "/etc/passwd"}')
    assert run("call", "read_file", "--json", *given) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["isError"] is True
    assert result["_meta"]["roots-hub/refusal"]["path"] == "/etc/passwd"


def test_a_server_that_does_not_start_says_why(
    configure: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"gone": GONE})
    assert run("call", "gone.x") == 1
    assert "there is no command 'no-such-program'" in capsys.readouterr().out
    configure({"ends": {"command": sys.executable, "args": ["-c", ""]}})
    assert run("call", "ends.x") == 1
    assert capsys.readouterr().out == "server 'ends' is not running: exited with code 0\n"


def test_a_call_hears_of_its_own_server_alone(configure: Any) -> None:
    configure({"files": RECORDS, "bare": {"command": "x", "args": ["${NOT_SET}"]}})
    code, logged = run_and_log("call", "files.pid")
    assert code == 0
    assert "bare" not in [one.get("server") for one in logged]
    with pytest.raises(ConfigError, match="the variable NOT_SET is not set"):
        run("call", "bare.x")


def test_an_unknown_tool_is_an_error_that_says_where_to_look(configure: Any) -> None:
    configure({"files": RECORDS})
    with pytest.raises(RouteError, match="Unknown tool: nope\n`roots-hub tools` lists"):
        run("call", "files.nope")


REFUSING = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"error": {"code": -32000, "message": "boom"}}
    if asked["method"] == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}
        answer = {"result": {"protocolVersion": "2025-11-25", **about}}
    elif asked["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def test_an_error_of_the_server_itself_sends_nobody_to_the_list(configure: Any) -> None:
    configure({"a": {"command": sys.executable, "args": ["-c", REFUSING]}})
    with pytest.raises(RouteError, match="boom\nClients get this as an error, with code -32000"):
        run("call", "a.x")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nope",), "'nope' is no SERVER.TOOL; the servers are: a, b"),
        (("c.d",), "'c.d' is no SERVER.TOOL; the servers are: a, b"),
        (("a.b", "--arguments", "{"), "--arguments: not JSON: "),
        (("a.b", "--arguments", "7"), "--arguments: not a JSON object, like "),
    ],
)
def test_bad_usage_ends_with_two(
    arguments: tuple[str, ...], said: str, configure: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    configure({"a": GONE, "b": GONE})
    with pytest.raises(SystemExit) as ended:
        run("call", *arguments)
    assert ended.value.code == 2
    assert f"error: {said}" in capsys.readouterr().err


def test_without_a_config_the_embedded_file_server_is_called(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tree / "project")
    assert run("call", "files.read_file", "--arguments", '{"path": "a.txt"}') == 0
    assert capsys.readouterr().out == "x\n"
    outside = json.dumps({"path": f"{tree}/docs/b.md"})
    assert run("call", "files.read_file", "--arguments", outside) == 1
    assert "is outside the allowed roots boundaries" in capsys.readouterr().out
    given = ("--root", str(tree / "docs"), "--arguments", outside)
    assert run("call", "files.read_file", *given) == 0
    assert run("tools") == 0
    assert "read_file" in capsys.readouterr().out


def test_a_config_in_this_directory_has_to_be_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "hub.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tree)
    for command in (("tools",), ("call", "a.b")):
        with pytest.raises(ConfigError, match=r"no config\nThere is one here: --config hub\.yaml"):
            run(*command)
