"""`roots-hub roots add`, `remove` and `rename`, through the whole command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hub.cli.main import main
from hub.config.fields import LoadContext
from hub.config.load import load_config
from tests.kit.trees import asked_as_another_user, plant

HEAD = "version: 1  # required\n\n# what is shared\n"
TAIL = "servers: {files: {command: x}}  # mine\n"
NOTED = (
    "A running hub with this config applies the change, or keeps it waiting for "
    "`roots-hub reload`.\n"
)


def quiet(*_: object, **__: object) -> None:
    """Leave the logs to pytest."""


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS"):
        monkeypatch.delenv(variable, raising=False)
    top = plant(tmp_path, "conf/data/", "docs/", "more docs/", "file.txt", "home/.ssh/", "home/x/")
    monkeypatch.setenv("HOME", str(top / "home"))
    monkeypatch.chdir(top)
    write(top, "roots: {}\n")
    return top


def write(top: Path, roots: str) -> None:
    (top / "conf/hub.yaml").write_text(HEAD + roots + TAIL)


def read(top: Path) -> str:
    text = (top / "conf/hub.yaml").read_text()
    assert text.startswith(HEAD)
    assert text.endswith(TAIL)
    return text.removeprefix(HEAD).removesuffix(TAIL)


def identity(file: Path) -> tuple[int, int]:
    """What another write of the file changes, and a read of it does not: inode, nanoseconds."""
    status = file.stat()
    return status.st_ino, status.st_mtime_ns


def roots(*arguments: str, config: str = "conf/hub.yaml") -> int:
    return main(["roots", *arguments, "--config", config])


def shared(top: Path) -> list[tuple[str, str | None]]:
    context = LoadContext(top, str(top / "home"), {})
    entries = load_config("conf/hub.yaml", context).config.roots.fallback
    return [(os.path.relpath(entry.path, top), entry.name) for entry in entries]


def test_a_root_is_added_relative_to_the_config(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert roots("add", "docs") == roots("add", "conf/data", "--name", "Data") == 0
    lines = "    - ../docs\n    - {path: ./data, name: Data}\n"
    assert read(top) == f"roots:\n  fallback:\n{lines}"
    assert shared(top) == [("docs", None), ("conf/data", "Data")]
    added = f"added {top}/docs (docs) to conf/hub.yaml\n{NOTED}"
    assert (
        capsys.readouterr().out == f"{added}added {top}/conf/data (Data) to conf/hub.yaml\n{NOTED}"
    )


def test_an_empty_word_names_no_root(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert roots("add", "docs") == 0
    before = read(top)
    monkeypatch.chdir(top / "docs")
    assert roots("remove", "", config="../conf/hub.yaml") == 1
    assert "roots.fallback has no " in capsys.readouterr().err
    assert read(top) == before


def test_other_spellings_of_a_path_stay_too(top: Path) -> None:
    for path in (f"{top}/more docs", "~/x", "./file.txt", f"file://{top}/docs"):
        assert roots("add", path) == 0
    paths = (f"{top}/more docs", "~/x", "../file.txt", f"{top}/docs")
    lines = "".join(f"    - {path}\n" for path in paths)
    assert read(top) == f"roots:\n  fallback:\n{lines}"


def test_a_name_with_a_placeholder_in_it_is_only_a_name(top: Path) -> None:
    plant(top, "${HOME}/", "~x/")
    assert roots("add", "${HOME}") == roots("add", "./~x") == 0
    assert shared(top) == [("${HOME}", None), ("~x", None)]


def test_a_path_over_a_link_is_stored_as_the_checked_target(top: Path) -> None:
    plant(top, "deep/er/target/", "link => deep/er")
    assert roots("add", "link/../er/target") == 0
    assert shared(top) == [("deep/er/target", None)]


def test_a_root_that_is_listed_already_is_not_added_again(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(top, "link => docs")
    write(top, "roots: {fallback: [{path: ../docs, name: Documents}]}\n")
    before = identity(top / "conf/hub.yaml")
    for path in ("docs", f"{top}/docs/", "link", "conf/../docs"):
        assert roots("add", path) == 0
        said = f"{top}/docs is in conf/hub.yaml already, as Documents: nothing to do\n"
        assert capsys.readouterr().out == said
    assert identity(top / "conf/hub.yaml") == before


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gone", "there is no such file or directory"),
        ("/etc", "Path is not safe for sharing"),
        ("~/.ssh", "Path is not safe for sharing"),
        ("https://example.com/x", "Only file:// URIs are supported"),
    ],
)
def test_only_what_can_be_shared_is_added(
    top: Path, path: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert roots("add", path) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"roots-hub: {path}: {reason}")
    assert shown.err.count("\n") == 2
    assert (shown.out, read(top)) == ("", "roots: {}\n")


def test_nothing_unreadable_is_added(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (top / "docs").chmod(0o000)
    with asked_as_another_user():
        assert roots("add", "docs") == 1
    assert "it may not be read" in capsys.readouterr().err
    assert read(top) == "roots: {}\n"


LIST = "roots:\n  fallback:\n    - ../docs  # D\n    - {path: ./data, name: Data}\n    - ~/x\n"


@pytest.mark.parametrize("which", ["docs", "../docs", "conf/../docs", "TOP/docs"])
def test_a_root_is_removed_by_path_or_name(top: Path, which: str) -> None:
    write(top, LIST)
    assert roots("remove", which.replace("TOP", str(top))) == 0
    assert read(top) == LIST.replace("    - ../docs  # D\n", "")


def test_a_root_that_is_gone_can_be_removed(top: Path) -> None:
    write(top, LIST)
    (top / "docs").rmdir()
    assert roots("remove", "docs") == 0
    assert shared(top) == [("conf/data", "Data"), ("home/x", None)]


def test_the_same_root_said_twice_is_removed_twice(top: Path) -> None:
    write(top, f"roots: {{fallback: [../docs, ./data, {top}/docs]}}\n")
    assert roots("remove", "docs") == 0
    assert read(top) == "roots: {fallback: [./data]}\n"


def test_the_last_root_leaves_a_list_that_grants_nothing(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(top, "roots:\n  fallback:\n    - ../docs\n")
    assert roots("remove", "docs") == 0
    assert read(top) == "roots:\n  fallback: []\n"
    last = "It was the last one: clients without roots of their own reach nothing now.\n"
    assert capsys.readouterr().out.endswith(last)
    assert roots("contains", "docs/a") == 1


def test_a_root_gets_another_name(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(top, LIST)
    assert roots("rename", "docs", "Papers") == roots("rename", "Data", "Numbers") == 0
    assert shared(top) == [("docs", "Papers"), ("conf/data", "Numbers"), ("home/x", None)]
    assert "# D\n" in read(top)
    capsys.readouterr()
    assert roots("rename", "Papers", "Papers") == 0
    assert capsys.readouterr().out == f"{top}/docs is called Papers already: nothing to do\n"


@pytest.mark.parametrize("command", [("remove", "Nope"), ("rename", "Nope", "x")])
def test_a_root_that_is_not_there_is_an_error(
    top: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write(top, LIST)
    assert roots(*command) == 1
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "roots-hub: conf/hub.yaml: roots.fallback has no Nope"
    assert fix.startswith(f"It has: {top}/docs (docs), {top}/conf/data (Data), ")


def test_a_name_of_two_roots_is_an_error(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(top, "other/docs/")
    write(top, "roots: {fallback: [../docs, ../other/docs]}\n")
    (top / "docs").rename(top / "conf/docs")
    write(top, "roots: {fallback: [./docs, ../other/docs]}\n")
    assert roots("remove", "docs") == 1
    error, fix = capsys.readouterr().err.splitlines()
    assert error == f"roots-hub: docs: is ambiguous: {top}/conf/docs, {top}/other/docs"
    assert fix == "Write the whole path."


def test_an_empty_name_is_an_error(top: Path) -> None:
    write(top, LIST)
    assert roots("rename", "docs", " ") == roots("add", "file.txt", "--name", "") == 1
    assert read(top) == LIST


def test_a_config_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roots", "add", "docs"]) == 3
    said = "no config\nName one by --config or HUB_CONFIG, or make one: roots-hub init.\n"
    assert capsys.readouterr().err == f"roots-hub: {said}"
    Path("hub.yaml").write_text(HEAD + TAIL)
    assert main(["roots", "add", "docs"]) == 3
    assert "There is one here: --config hub.yaml" in capsys.readouterr().err


def test_the_environment_can_name_the_config(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_CONFIG", "conf/hub.yaml")
    assert main(["roots", "add", "docs"]) == 0
    assert shared(top) == [("docs", None)]


@pytest.mark.parametrize("name", ["mcp.json", "mcp.yaml", "hub.json"])
def test_no_other_programs_config_is_written(
    top: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    section = '"version": 1, "servers"' if name == "hub.json" else '"mcpServers"'
    text = f'{{{section}: {{"files": {{"command": "x"}}}}}}'
    (top / name).write_text(text)
    for source in (name, text):
        assert roots("add", "docs", config=source) == 3
        error, fix = capsys.readouterr().err.splitlines()
        assert error.endswith(" is not a hub.yaml; configs of other programs are not edited")
        assert fix.startswith("Make a hub.yaml ")
    assert (top / name).read_text() == text


def test_a_config_that_does_not_load_is_not_written(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(top, "bogus: 1\n")
    assert roots("add", "docs") == 3
    assert capsys.readouterr().err.startswith("roots-hub: conf/hub.yaml: bogus: unknown key\n")
    assert read(top) == "bogus: 1\n"


def test_a_list_that_cannot_be_edited_safely_is_refused(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "roots:\n  fallback: &all [../docs]\n  ceiling: *all\n"
    write(top, text)
    assert roots("add", "conf/data") == 3
    assert "cannot be edited safely" in capsys.readouterr().err
    assert read(top) == text


def test_a_list_that_another_program_changes_meanwhile_is_not_edited(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.cli.roots.entries", str.splitlines)
    assert roots("add", "docs") == 1
    assert read(top) == "roots: {}\n"
