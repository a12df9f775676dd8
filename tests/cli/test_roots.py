import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from hub.cli import roots
from hub.errors import ConfigError, StartError
from hub.legible import on_one_line
from tests.kit.trees import plant


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    top = plant(
        tmp_path, "home/", "team/app/.git/", "team/lib/x.code-workspace", "team/loop => loop"
    )
    monkeypatch.setenv("HOME", str(top / "home"))
    monkeypatch.chdir(top / "team")
    return top


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    roots.register(parser.add_subparsers(required=True))
    options = parser.parse_args(["roots", *arguments])
    code: int = options.perform(options)
    return code


def test_projects_are_detected_here(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("detect") == 0
    assert capsys.readouterr().out == (
        f"{top}/team/app  (app, .git)\n{top}/team/lib  (x, x.code-workspace)\n"
    )


def test_projects_are_detected_elsewhere_for_programs(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("detect", "app", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"path": f"{top}/team/app", "name": "app", "marker": ".git"}
    ]
    assert run("detect", "../home", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_names_of_folders_cannot_control_the_terminal(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = plant(top, "team/a\n\x1b[2J/.git/") / "team" / "a\n\x1b[2J"
    shown = f"{top}/team/" + r"a\n\x1b[2J"
    config = top / "hub.yaml"
    config.write_text("version: 1\nservers: {a: {command: x}}\n")
    named = ("--config", str(config))
    for arguments, said in (
        (("detect", str(folder)), f"{shown}  ("),
        (("list", "--root", str(folder)), f"{shown}  ("),
        (("contains", "--root", str(folder), str(folder)), f"{shown}: inside {shown}\n"),
        (("add", *named, str(folder)), f"added {shown} ("),
        (("rename", *named, str(folder), "x\x1b"), rf"{shown} is now called x\x1b in "),
        (("remove", *named, str(folder)), rf"removed {shown} (x\x1b) from "),
    ):
        assert run(*arguments) == 0
        assert capsys.readouterr().out.startswith(said)


def test_where_no_project_is_detected_that_is_said(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("detect", "../home") == 0
    assert capsys.readouterr().out.startswith("No project in ")
    with pytest.raises(StartError, match="/nowhere: is no directory"):
        run("detect", "/nowhere")


def test_the_list_says_if_no_root_is_usable(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = top / "hub.yaml"
    config.write_text(
        "version: 1\nroots: {when_missing: deny}\nservers: {a: {command: x}}\n", encoding="utf-8"
    )
    assert run("list", "--config", str(config)) == 0
    assert capsys.readouterr().out == "No roots: a client without roots of its own reaches none.\n"


def test_without_roots_the_list_says_what_that_means(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_CONFIG", '{"version": 1, "servers": {"a": {"command": "x"}}}')
    assert run("list") == 0
    assert capsys.readouterr().out == (
        "No roots: a client without roots of its own is not restricted by the hub "
        "(roots.when_missing: allow).\n"
    )
    assert run("list", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"source": "none", "enforcing": False, "roots": []}


def test_without_a_config_the_roots_are_what_run_would_serve(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("list") == 0
    assert capsys.readouterr().out == f"{top}/team  (team, --root)\n"
    assert run("contains", "app") == 0
    assert run("contains", "../home") == 1
    assert run("contains", Path("app").absolute().as_uri()) == 0
    assert run("contains", "file:///etc") == 1
    (top / "team" / "hub.yaml").write_text("version: 1\nservers: {a: {command: x}}\n")
    with pytest.raises(ConfigError, match=r"no config\nThere is one here: --config hub\.yaml"):
        run("list")


def test_the_roots_in_force_are_listed_with_their_source(
    top: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("list", "--root", "app", "--root", "lib") == 0
    assert capsys.readouterr().out == (
        f"{top}/team/app  (app, --root)\n{top}/team/lib  (lib, --root)\n"
    )
    monkeypatch.setenv("HUB_ROOTS", f"{top}/team/lib")
    assert run("list", "--json") == 0
    path = f"{top}/team/lib"
    assert json.loads(capsys.readouterr().out) == {
        "source": "HUB_ROOTS",
        "enforcing": True,
        "roots": [{"uri": Path(path).as_uri(), "name": "lib", "path": path}],
    }


def test_the_configs_roots_and_ceiling_count(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (top / "hub.yaml").write_text(
        "version: 1\nservers: {s: {command: x}}\n"
        "roots: {fallback: [{path: team/app, name: App}, home], ceiling: [team]}\n"
    )
    assert run("list", "--config", f"{top}/hub.yaml") == 0
    assert capsys.readouterr().out == f"{top}/team/app  (App, config)\n"


@pytest.mark.parametrize(
    ("path", "code", "shown"),
    [
        ("app/src/new.txt", 0, "{top}/team/app/src/new.txt: inside {top}/team/app\n"),
        ("app", 0, "{top}/team/app: inside {top}/team/app\n"),
        ("app/../lib", 1, "{top}/team/lib: outside of the roots\n"),
        ("/etc/passwd", 1, "/etc/passwd: outside of the roots\n"),
    ],
)
def test_a_path_is_inside_or_outside(
    top: Path, capsys: pytest.CaptureFixture[str], path: str, code: int, shown: str
) -> None:
    assert run("contains", "--root", "app", path) == code
    assert capsys.readouterr().out == shown.format(top=top)


@pytest.mark.parametrize("path", ["loop", "a\0b", "gone/../app"])
def test_a_path_that_cannot_be_resolved_is_not_inside(
    capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert run("contains", "--root", ".", path) == 1
    assert capsys.readouterr().out.startswith(f"{on_one_line(path)}: ")


def test_an_unusable_root_is_an_error(top: Path) -> None:
    with pytest.raises(StartError, match="--root gone: there is no /"):
        run("list", "--root", "gone")


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("contains",), ("detect", "a", "b")])
def test_bad_usage_ends_with_two(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
