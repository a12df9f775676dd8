import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.cli import explain
from hub.errors import ConfigError, RouteError, StartError
from tests.kit.changes import Setup
from tests.kit.trees import PROJECT, plant
from tests.live.programs import RECORDER


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    return plant(tmp_path, *PROJECT)


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    explain.register(parser.add_subparsers(required=True))
    options = parser.parse_args(["explain", *arguments])
    code: int = options.perform(options)
    return code


def test_a_refused_call_is_explained_reading_by_reading(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = '{"path": "%2e%2e", "text": "x"}'
    assert run("files.read", "--arguments", arguments, "--root", f"{tree}/project") == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    outside, uri = "outside the allowed roots boundaries", (tree / "project").as_uri()
    assert lines == [
        "files.read: refused",
        f"Access denied: Path '%2e%2e' is {outside}. Current roots: [\"{uri}\"]",
        "",
        "/path (path: 'path' is a word for a path)",
        f'"%2e%2e" as given {tree}/project/%2e%2e fine',
        f'".." percent-decoded {tree} {outside}',
        f"\"{tree}\" percent-decoded, '..' removed first {tree} {outside}",
        "",
        # A relative path is read from each root: '..' leaves every one.
        "No change that is known would let this call pass.",
    ]


def test_a_search_for_a_text_is_judged_as_in_the_hub(tree: Path) -> None:
    schema = tree / "schema.json"
    schema.write_text('{"properties": {"pattern": {"type": "string"}}}')
    given = ("--arguments", '{"pattern": "/etc/x|\\\\.\\\\./"}', "--schema", str(schema))
    ends = [run(f"files.{name}", *given, "--root", str(tree)) for name in ("grep", "glob")]
    assert ends == [0, 1]


def test_an_allowed_call_says_so(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("files.read", "--arguments", '{"q": "words"}', "--root", f"{tree}/project") == 0
    assert capsys.readouterr().out == ("files.read: allowed\nNo argument is judged as a path.\n")


def test_equal_results_of_a_value_are_shown_once(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"version": 1, "roots": {"deny": ["*.key"]}, "servers": {"files": {"command": "x"}}}
    (tree / "hub.json").write_text(json.dumps(config))
    given = ("--config", f"{tree}/hub.json", "--root", f"{tree}/project")
    assert run("files.read", "--arguments", '{"path": "a.txt"}', *given) == 0
    assert capsys.readouterr().out.count("as given") == 1
    assert run("files.read", "--arguments", '{"path": "/a"}', *given) == 1
    assert "fine" not in capsys.readouterr().out, "no pattern names it, but it is outside"


def test_without_roots_the_output_says_that_paths_are_not_compared(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_CONFIG", '{"version": 1, "servers": {"a": {"command": "x"}}}')
    arguments = ("a.b", "--arguments", '{"path": "/etc/passwd"}')
    assert run(*arguments) == 0
    told = "No roots are set, so paths are not compared with any; set one with --root DIR.\n"
    assert capsys.readouterr().out.endswith(f"/etc/passwd  fine\n\n{told}")
    assert run(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["enforcing"] is False
    assert run(*arguments, "--root", str(tree)) == 1
    assert told not in capsys.readouterr().out


def test_without_a_config_a_call_is_judged_as_it_would_be_made(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `call`: in this directory, unless folders are named."""
    monkeypatch.chdir(tree / "project")
    outside = ("files.read_file", "--arguments", json.dumps({"path": f"{tree}/other"}))
    assert run(*outside) == 1
    uri = (tree / "project").as_uri()
    assert f'Current roots: ["{uri}"]' in capsys.readouterr().out
    assert run("files.read_file", "--arguments", '{"path": "a.txt"}') == 0
    assert run(*outside, "--root", str(tree)) == 0
    monkeypatch.setenv("HUB_ROOTS", str(tree))
    assert run(*outside) == 0


def test_without_a_config_there_is_the_embedded_file_server_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run("nope.zzz")
    assert "'nope.zzz': without a config the only server is files" in capsys.readouterr().err


def test_without_a_config_that_of_the_directory_is_named(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says would count: nothing may be said to be allowed without it."""
    monkeypatch.chdir(tree)
    (tree / "hub.yaml").write_text("version: 1\nservers: {files: {command: x}}\n")
    with pytest.raises(ConfigError, match=r"no config\nThere is one here: --config hub\.yaml"):
        run("files.read_file", "--arguments", '{"path": "/etc/passwd"}')


def test_it_can_be_read_by_a_program(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ("--root", f"{tree}/project/a.txt")
    assert run("files.b.c", "--arguments", '{"path": 7}', "--json", *root) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["call"], shown["verdict"], shown["pointer"]) == ("files.b.c", "deny", "/path")
    assert shown["arguments"][0]["readings"][0]["objection"] == "a number is not a path"
    assert run("files.b", "--json", *root) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["verdict"], shown["message"], shown["pointer"]) == ("allow", None, None)


def test_arguments_that_are_nested_too_deeply_are_refused(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = '{"a":' * 70 + "1" + "}" * 70
    assert run("files.b", "--arguments", deep, "--root", str(tree)) == 1
    assert "nested too deeply" in capsys.readouterr().out


def test_a_schema_from_a_file_counts(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = tree / "schema.json"
    schema.write_text('{"properties": {"x": {"description": "Path to the file"}}}')
    arguments = ("files.b", "--arguments", '{"x": "/nowhere/x"}', "--root", f"{tree}/project")
    assert run(*arguments) == 0
    assert run(*arguments, "--schema", str(schema)) == 1
    assert "described as 'Path to'" in capsys.readouterr().out
    with pytest.raises(StartError) as raised:
        run(*arguments, "--schema", f"{tree}/none")
    assert str(raised.value) == (
        f"--schema {tree}/none: No such file or directory\nName a JSON Schema."
    )


def test_a_config_decides_about_modes_roots_and_directories(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tree / "hub.yaml"
    config.write_text(
        "version: 1\n"
        f"roots: {{fallback: ['{tree}/project', '{tree}/docs']}}\n"
        "guard: report\n"
        "servers:\n"
        f"  files: {{command: x, cwd: '{tree}/docs'}}\n"
        "  far: {url: 'https://example.com/mcp'}\n"
    )
    named = ("--config", str(config))
    assert run("files.read", "--arguments", '{"path": "/etc"}', *named) == 1
    assert "files.read: allowed, because refusals are only reported" in capsys.readouterr().out
    assert run("files.read", "--arguments", '{"path": "b.md"}', *named) == 0
    assert f"{tree}/docs/b.md" in capsys.readouterr().out
    assert run("far.read", "--arguments", '{"path": "b.md"}', *named) == 0
    with pytest.raises(ConfigError, match="Configured: files, far"):
        run("other.read", *named)


def test_a_tool_that_clients_are_not_offered_is_not_said_to_be_callable(tree: Path) -> None:
    server = {"command": "x", "tools": {"deny": ["*_reset"]}}
    config = tree / "hub.json"
    config.write_text(json.dumps({"version": 1, "servers": {"git": server}}))
    assert run("git.git_log", "--config", str(config)) == 0
    with pytest.raises(RouteError, match=r"^servers\.git\.tools: hides 'git_reset'"):
        run("git.git_reset", "--config", str(config))


FILES = {"command": "mcp-server-filesystem"}
PERMISSIONS: list[tuple[dict[str, Any], list[str], dict[str, Any], list[str]]] = [
    ({"roots": {"fallback": ["TOP/docs"]}}, [], {"path": "TOP/project/a.txt"}, ["roots.fallback"]),
    ({}, ["TOP/docs"], {"path": "TOP/project/a.txt"}, ["--root"]),
    ({}, ["TOP/docs"], {"path": "/etc/passwd"}, ["--root", "roots.allow_unsafe"]),
    (
        {"roots": {"fallback": ["TOP/docs"], "ceiling": ["TOP/docs"], "deny": ["*.txt", "a*"]}},
        [],
        {"path": "TOP/project/a.txt"},
        ["roots.fallback", "roots.ceiling", "roots.deny", "roots.deny"],
    ),
    (
        {"roots": {"fallback": ["TOP"], "access": [{"path": "TOP/project", "access": "read"}]}},
        [],
        {"source": "TOP/project/a.txt", "path": "TOP/docs/b.md"},
        ["roots.access"],
    ),
    (
        {"roots": {"fallback": ["TOP/docs"]}},
        [],
        {"paths": ["TOP/project/a.txt", "TOP/docs/b.md", "/etc/passwd"], "cwd": 7},
        [
            "roots.fallback",
            "roots.fallback",
            "roots.allow_unsafe",
            "servers.files.tools.overrides.read.arguments",
        ],
    ),
    (
        {"servers": {"files": {**FILES, "args": ["TOP/docs"]}}},
        [],
        {"path": "TOP/project/a.txt"},
        ["servers.files.args"],
    ),
    (
        {
            "roots": {"fallback": ["TOP"]},
            "servers": {"files": {"command": "x", "guard": {"refuse_options": True}}},
        },
        [],
        {"branch": "-x"},
        ["servers.files.guard.refuse_options"],
    ),
    (
        {"roots": {"fallback": ["TOP/t m p/a"]}},
        [],
        {"path": "TOP/t m p/b/c.md"},
        ["roots.fallback"],
    ),
    (
        {"roots": {"fallback": ["TOP"]}, "guard": {"symlinks": "deny"}},
        [],
        {"path": "TOP/link"},
        ["servers.files.guard.symlinks"],
    ),
]


@pytest.mark.parametrize(("config", "given", "arguments", "keys"), PERMISSIONS)
def test_the_changes_that_are_named_let_the_call_pass(  # noqa: PLR0913, PLR0917 - one case
    config: dict[str, Any],
    given: list[str],
    arguments: dict[str, Any],
    keys: list[str],
    tree: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tree / "link").symlink_to("docs")
    (tree / "t").mkdir()
    for name in ("a", "b"):
        (tree / "t m p" / name).mkdir(parents=True)
    raw = {"version": 1, "servers": {"files": {"command": "x"}}, **config}
    filled = json.loads(json.dumps([raw, given, arguments]).replace("TOP", str(tree)))
    setup = Setup(filled[0], filled[1])

    def explained(setup: Setup) -> tuple[int, list[str]]:
        (tree / "hub.json").write_text(json.dumps(setup.config))
        roots = [text for folder in setup.given for text in ("--root", folder)]
        named = ("--config", f"{tree}/hub.json", "--arguments", json.dumps(filled[2]))
        code = run("files.read", *named, *roots)
        shown = capsys.readouterr().out
        changes = shown.partition("It passes after:\n")[2].splitlines()
        return code, [line[2:] for line in changes if line.startswith("  ")]

    code, changes = explained(setup)
    assert (code, [change.partition(": ")[0] for change in changes]) == (1, keys)
    assert explained(setup.after(changes)) == (0, [])


def test_a_change_that_is_only_tried_is_not_warned_of(tree: Path) -> None:
    raw = {"version": 1, "servers": {"files": {"command": "x"}}, "roots": {"fallback": [str(tree)]}}
    given = ("--config", json.dumps(raw), "--arguments", '{"path": "/etc/hosts"}')
    with capture_logs() as logs:
        assert run("files.read", *given) == 1
    assert logs == []


def test_what_nothing_allows_is_said_to_be_so(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = '{"a":' * 70 + "1" + "}" * 70
    for arguments in (deep, '{"path": "/etc/passwd"}'):
        assert run("files.b", "--arguments", arguments, "--root", str(tree)) == 1
        out = capsys.readouterr().out
        assert out.endswith("No change that is known would let this call pass.\n")
        assert run("files.b", "--json", "--arguments", arguments, "--root", str(tree)) == 1
        assert json.loads(capsys.readouterr().out)["allowedBy"] is None


def test_a_program_reads_the_changes(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = json.dumps({"path": f"{tree}/docs/b.md"})
    assert run("files.b", "--json", "--arguments", path, "--root", f"{tree}/project") == 1
    change = {"key": "--root", "op": "add", "value": f"{tree}/docs"}
    assert json.loads(capsys.readouterr().out)["allowedBy"] == [change]


def test_the_scopes_that_a_token_needs_are_said(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issuers = [{"issuer": "https://i.example"}]
    auth = {"resource": "https://h.example/mcp", "issuers": issuers, "scopes": ["base"]}
    files = {"command": "x", "tools": {"overrides": {"write": {"scopes": ["more"]}}}}
    config = {"version": 1, "listen": {"auth": auth}, "servers": {"files": files}}
    file = tree / "scoped.yaml"
    file.write_text(json.dumps(config))
    assert run("files.write", "--config", str(file)) == 0
    assert "A token of an issuer needs the scopes base more." in capsys.readouterr().out
    assert run("files.read", "--config", str(file)) == 0
    assert "scopes" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("servers", "call"),
    [(["files"], "read"), (["files"], "files.read"), (["files", "git"], "files__read")],
)
def test_a_call_may_be_named_as_clients_name_it(
    servers: list[str], call: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"version": 1, "servers": {name: {"command": "x"} for name in servers}}
    (tree / "hub.json").write_text(json.dumps(config))
    given = ("--config", f"{tree}/hub.json", "--root", f"{tree}/project")
    assert run(call, "--arguments", '{"path": "a.txt"}', *given) == 0
    assert capsys.readouterr().out.startswith("files.read: allowed\n")


@pytest.mark.live
def test_a_server_is_asked_for_its_own_schema(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tree / "hub.yaml"
    server = {"command": RECORDER[0], "args": RECORDER[1:]}
    config.write_text(json.dumps({"version": 1, "servers": {"files": server}}))
    asked = ("--connect", "--config", str(config), "--root", f"{tree}/project")
    assert run("files.read_file", "--arguments", '{"path": "a.txt"}', *asked) == 0
    assert "/path  (path: " in capsys.readouterr().out
    with pytest.raises(RouteError, match="Unknown tool"):
        run("files.nonsense", *asked)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give SERVER.TOOL and --arguments '{...}', or --batch FILE"),
        (("server",), "'server' is not SERVER.TOOL, like files.read_file"),
        (("files__read",), "'files__read' is not SERVER.TOOL, like files.read_file"),
        (("files.b", "--arguments", "{"), "--arguments: not JSON: "),
        (("files.b", "--arguments", "7"), "--arguments: not a JSON object, like "),
        (("files.b", "--connect"), "--connect needs a config with the server"),
    ],
)
def test_bad_usage_ends_with_two_and_says_what_is_wrong(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert f"error: {said}" in capsys.readouterr().err


def test_a_batch_is_answered_line_by_line(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tree / "rows.jsonl"
    rows.write_text('{"id": 1, "arguments": {"path": "/etc"}}\n{"id": 2, "arguments": {}}\n')
    assert run("--batch", str(rows)) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(answer["id"], answer["verdict"]) for answer in answers] == [(1, "deny"), (2, "allow")]


def test_a_row_of_a_batch_may_name_its_tool(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = {"properties": {"values": {"type": "object"}}}
    row = {"arguments": {"values": {"path": "/etc"}}, "schema": schema}
    rows = tree / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps({**row, 'tool': of})}\n" for of in ("helm_install", 7)))
    assert run("--batch", str(rows)) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["verdict"] for answer in answers] == ["allow", "deny"]


def test_a_batch_that_cannot_be_read_says_so(tree: Path) -> None:
    rows = tree / "rows.jsonl"
    with pytest.raises(StartError) as raised:
        run("--batch", str(rows))
    fix = "Name a file of JSON lines, or - for stdin."
    assert str(raised.value) == f"--batch {rows}: No such file or directory\n{fix}"


def test_what_is_the_hubs_own_is_refused_to_what_writes(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"version": 1, "audit": {"file": "a.log"}, "servers": {"files": {"command": "x"}}}
    (tree / "hub.json").write_text(json.dumps(config))
    monkeypatch.chdir(tree)
    given = ("--config", "hub.json", "--root", str(tree))
    for name in ("hub.json", "a.log", "a.log.1"):
        assert run("files.write", "--arguments", json.dumps({"path": name}), *given) == 1
        assert "is refused: it is one of the hub's own files" in capsys.readouterr().out
    monkeypatch.setenv("HOME", str(tree))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    arguments = json.dumps({"path": ".local/state/roots-hub/key"})
    assert run("files.read", "--arguments", arguments, "--root", str(tree)) == 1


PROFILED = """\
version: 1
listen: {tokens: [{name: ci, token: "0123456789abcdef"}, {name: eve, token: "0123456789abcdeg"}]}
servers: {files: {command: x}, git: {command: y}}
profiles:
  robots:
    match: {tokens: [ci]}
    servers: [files]
    tools: {deny: [write]}
    roots: {deny: ["*.env"], ceiling: [project], access: [{path: project/ro, access: read}]}
"""


@pytest.mark.parametrize("name", ["robots", "ci"])
def test_a_call_is_explained_as_for_the_clients_of_a_profile(
    tree: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tree / "hub.yaml").write_text(PROFILED)
    given = ("--config", f"{tree}/hub.yaml", "--root", str(tree))
    for path, code, own in (
        ("project/a.txt", 0, 0),
        ("project/.env", 0, 1),
        ("other/x", 0, 1),
    ):
        asked = ("files.read", "--arguments", json.dumps({"path": f"{tree}/{path}"}), *given)
        assert run(*asked) == code
        assert run(*asked, "--as", name) == own
    assert "would let this call pass. The rules of profiles.robots count" in capsys.readouterr().out
    (tree / "project/ro").mkdir()
    asked = ("files.read", "--arguments", json.dumps({"path": f"{tree}/project/ro"}), *given)
    assert run(*asked, "--as", name) == 1
    assert "--connect asks the server" in capsys.readouterr().out
    for call, why in (
        ("files.write", "profiles.robots.tools"),
        ("git.log", "profiles.robots.servers"),
    ):
        with pytest.raises(RouteError, match=why):
            run(call, *given, "--as", name)


@pytest.mark.parametrize(
    ("name", "why"),
    [("eve", "none is for the token eve"), ("robot", "there is no such profile or token")],
)
def test_who_has_no_profile_is_told(tree: Path, name: str, why: str) -> None:
    (tree / "hub.yaml").write_text(PROFILED)
    with pytest.raises(ConfigError, match=why):
        run("files.read", "--config", f"{tree}/hub.yaml", "--as", name)


@pytest.mark.parametrize(
    ("server", "said"),
    [("nobody", "servers.nobody: there is no such server"), ("b", "the variable NOT_SET is not")],
)
def test_a_server_that_cannot_be_asked_is_named(
    server: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"a": {"command": "x"}, "b": {"command": "x", "env": {"N": "${NOT_SET}"}}}
    monkeypatch.setenv("HUB_CONFIG", json.dumps({"version": 1, "servers": servers}))
    with pytest.raises(ConfigError, match=said):
        run(f"{server}.read", "--connect")


def test_names_cannot_control_the_terminal(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "project/link").symlink_to(f"{tree}/\x1b[31m")
    given = ("--root", f"{tree}/project", "--arguments", json.dumps({"\x1b[1mpath": "link"}))
    assert run("files.\x1b[2m", *given) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert all(rf"\x1b[{one}m" in shown for one in ("31", "1", "2"))
