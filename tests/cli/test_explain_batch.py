import json
from io import BytesIO
from pathlib import Path

import pytest

from hub.cli.explain import NoDisk, answers, read_lines
from hub.paths.resolve import PathError
from hub.values import Json, JsonObject
from tests.kit.trees import PROJECT, plant


def answer(**row: Json) -> JsonObject:
    (line,) = answers([b"\n", json.dumps(row).encode()])
    return json.loads(line)


def test_each_row_is_judged_in_its_own_surroundings(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    roots: Json = [f"file://{top}/project"]
    row: JsonObject = {"roots": roots, "cwd": f"{top}/project", "platform": "linux"}
    assert answer(id=1, arguments={"path": "a.txt"}, **row) == {
        "id": 1,
        "verdict": "allow",
        "pointer": None,
        "reason": None,
    }
    assert answer(id="b", arguments={"files": ["../private"]}, **row) == {
        "id": "b",
        "verdict": "deny",
        "pointer": "/files/0",
        "reason": "outside the allowed roots boundaries",
    }


def test_a_row_may_name_its_tool() -> None:
    row: JsonObject = {
        "arguments": {"index": "logs", "body": {"path": "/etc/hosts"}},
        "schema": {"properties": {"index": {"type": "string"}, "body": {"type": "object"}}},
    }
    assert answer(**row)["verdict"] == answer(tool=7, **row)["verdict"] == "deny"
    assert answer(tool="search", **row)["verdict"] == "allow"


@pytest.mark.parametrize("home", [None, "/home/u", "relative"])
def test_home_is_known_from_the_rows_environment(tmp_path: Path, home: str | None) -> None:
    env: Json = {} if home is None else {"HOME": home, "n": 1}
    row = answer(arguments={"path": f"{tmp_path}/x"}, roots=[f"file://{tmp_path}"], env=env)
    assert row["verdict"] == "allow"


def test_another_platforms_rows_are_pure_path_logic() -> None:
    row = answer(
        arguments={"path": "c:\\r\\PROJECT\\a.txt"}, roots=["file:///C:/R"], platform="windows"
    )
    assert row["verdict"] == "allow"
    row = answer(arguments={"path": "/r/../x"}, roots=["file:///R"], platform="darwin")
    assert row["verdict"] == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "7",
        "{}",
        '{"arguments": {}, "platform": "beos"}',
        '{"arguments": {}, "platform": []}',
        '{"arguments": {}, "roots": 7}',
        '{"arguments": {}, "env": 7}',
        "[" * 100_000,
        "\udcff",  # not UTF-8
    ],
)
def test_a_row_that_cannot_be_used_is_refused(line: str) -> None:
    (text,) = answers([line.encode(errors="surrogateescape")])
    assert json.loads(text)["verdict"] == "deny"


def test_rows_come_from_a_file_or_the_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("a\nb\n")
    assert list(read_lines(str(file))) == [b"a\n", b"b\n"]
    assert list(read_lines("-", BytesIO(b"c\n"))) == [b"c\n"]


def test_a_disk_that_is_not_here_has_no_links() -> None:
    with pytest.raises(PathError):
        NoDisk().target("/x")
