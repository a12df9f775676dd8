"""A relative value may start in a folder that another argument of its call names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.guard.containment import OUTSIDE, CallContext
from hub.guard.decide import Admitted, Refused, compile_tool, decide
from hub.guard.policy import Policy, ToolPolicy
from hub.values import Json, JsonObject
from tests.kit.trees import plant
from tests.kit.worlds import context, share, tool_call
from tests.oracle.verdicts import at_once_if_plain

GUARD = compile_tool(None, read_only=False, policy=ToolPolicy(Policy()))


@pytest.fixture
def world(tmp_path: Path) -> CallContext:
    top = plant(
        tmp_path,
        *("project/a.txt", "project/src/a.py", "project/src/deep/b.txt", "private/secret.txt"),
        *("project/src/link => ../../private", "project/src/deep/leak => ../../../private/x"),
    )
    return context(share(top / "project"), top / "project", env={"HOME": f"{top}/home"})


def calls(world: CallContext, *arguments: JsonObject) -> list[tuple[JsonObject, bool]]:
    """Return whether each call is admitted; at once only what is admitted later, too."""
    found: list[tuple[JsonObject, bool]] = []
    for one in arguments:
        verdict = decide(tool_call(one), GUARD, world)
        assert isinstance(verdict, Admitted) or verdict.reason == OUTSIDE
        if isinstance(at_once_if_plain(tool_call(one), GUARD, world), Admitted):
            assert isinstance(verdict, Admitted), one
        found.append((one, isinstance(verdict, Admitted)))
    return found


def test_a_value_that_leads_out_of_a_named_folder_is_refused(world: CallContext) -> None:
    src = f"{world.cwd}/src"
    judged = calls(
        world,
        {"cwd": "src", "path": "link/secret.txt"},
        {"path": "link/secret.txt", "cwd": "./src/"},
        {"dir": src, "name": "link"},
        {"uri": f"file://{src}", "name": "link"},
        {"base": "src/deep/..", "name": "link"},
        {"cwd": "src", "command": "cat link/secret.txt"},
        {"cwd": "src", "args": ["cat", "link/secret.txt"]},
        {"path": "src", "pattern": "link/*"},
        {"path": f"{src}/deep", "files": ["b.txt", "leak"]},
        {"dir": "src", "edits": [{"name": "link/x"}]},
        {"a": {"dir": "src", "name": "link"}},
        {"repo": "src", "sub": "deep", "name": "leak"},
        {"repo": "src", "data": '{"item": "link"}'},
        {"work.dir": "src", "name": "link"},
        {"x/y": "src", "name": "link"},
        {"a": {"work.dir": "src", "name": "link"}},
        {"files": {"src": "link"}},
        {"1": "src", "name": "link"},
        {"name": "link", "2": "src"},
        {"x": [{"0": "src", "1": "link"}]},
        {"x": '{"dir": "src", "name": "link",}'},
        {"first": "link", "b": {"dir": "src", "name": "link"}},
        {"first": "link", "b": {"dir": "src", "names": ["link"]}},
        {"a": {"item": "src"}, "b": {"item": "src", "name": "link"}},
        {"rows": [{"item": "lib", "name": "link"}, {"item": "src", "name": "link"}]},
        {"options": {"cwd": "src"}, "files": ["link/secret.txt"]},
        {"path": "link/secret.txt", "options": {"cwd": src}},
        {"where": {"cwd": "src"}, "what": {"path": "link/secret.txt"}},
        {"options": {"cwd": "src"}, "command": "cat link/secret.txt"},
        {"options": '{"cwd": "src"}', "path": "link/secret.txt"},
        {"a": "src", "b": {"c": "deep"}, "name": "leak"},
        {"options": {"run": {"cwd": "src"}}, "files": ["link/secret.txt"]},
        {"a": {"b": {"c": {"cwd": src}}}, "d": {"e": {"path": "link/secret.txt"}}},
        {"steps": [{"run": {"cwd": "src"}, "files": ["link"]}]},
        {"dir": "src", "steps": [{"x": [{"name": "link"}]}]},
        {"name": "link", "steps": [{"name": "link"}, {"run": {"cwd": "src"}, "name": "link"}]},
        {"deep": "src", "src": "deep", "leak": "leak"},
        {"dirs": ["src"], "name": "link"},
        {"paths": ["lib", f"{src}"], "pattern": "link/*"},
        {"options": {"dirs": ["src"]}, "file": "link/secret.txt"},
    )
    assert not [one for one, is_admitted in judged if is_admitted]


def test_other_values_beside_a_folder_are_admitted(world: CallContext) -> None:
    judged = calls(
        world,
        {"cwd": "src", "path": "a.py"},
        {"path": f"{world.cwd}/src", "pattern": "**/*.py"},
        {"path": "src", "name": "new"},
        {"files": [{"path": "src"}, {"path": "link"}]},
        {"source": "src/a.py", "destination": "src/deep/a.py"},
        {"cwd": world.cwd, "path": "src/a.py"},
        {"path": "src", "name": "docs/../a.txt"},
        {"path": "src/a.py", "name": "link"},
        {"paths": ["src", "link"]},
        {"paths": ["src", *"abcdefgh"], "name": "link"},
        {"x": '["src", "link"]'},
        {"cwd": "src", "command": "npm test"},
        {"options": {"cwd": "src"}, "files": ["a.py", "new.py"]},
        {"files": [{"path": "src"}], "path": "link"},
        {"steps": [{"run": {"cwd": "src"}}, {"run": {"files": ["link"]}}], "name": "link"},
    )
    assert not [one for one, is_admitted in judged if not is_admitted]


def test_a_plain_pair_is_admitted_at_once(world: CallContext) -> None:
    src = f"{world.cwd}/src"
    plain: tuple[JsonObject, ...] = (
        {"path": src, "pattern": "*.py"},
        {"path": src, "name": "a.py"},
        {"cwd": "src", "path": "b.py"},
        {"cwd": world.cwd, "path": "src"},
        {"path": f"{src}/a.py", "name": "new"},
    )
    for one in plain:
        assert isinstance(at_once_if_plain(tool_call(one), GUARD, world), Admitted), one


def test_a_call_that_names_very_many_folders_is_refused(world: CallContext, tmp_path: Path) -> None:
    names = [f"d{n}" for n in range(100)]
    plant(tmp_path, *(f"project/{name}/x" for name in names))
    verdict = decide(tool_call({name: name for name in names}), GUARD, world)
    assert isinstance(verdict, Refused)
    assert "too" in verdict.reason


def test_many_texts_beside_some_folders_are_admitted(world: CallContext, tmp_path: Path) -> None:
    names = [f"d{n}" for n in range(20)]
    plant(tmp_path, *(f"project/{name}/x" for name in names))
    rows: JsonObject = {f"r{n}": {"a": f"text {n}", "b": f"t{n}", "c": "x"} for n in range(300)}
    folders: JsonObject = {name: name for name in names}
    assert isinstance(decide(tool_call({"in": folders, "all": rows}), GUARD, world), Admitted)


@pytest.mark.parametrize(
    "command",
    [
        "cd src && cat link/secret.txt",
        "(cd src; cat link/secret.txt)",
        "cd src/deep && cat leak",
        "cd src && cd deep && cat leak",
        "cd $PWD/src && cat link/secret.txt",
        'pushd "src" && ls link/',
        "tar -C src -chf - link",
        "tar -Csrc -chf - link",
        "env --chdir=src cat link/secret.txt",
        "git -C src diff --no-index /dev/null link/secret.txt",
    ],
)
def test_a_command_that_leads_out_of_a_folder_that_it_names_is_refused(
    world: CallContext, command: str
) -> None:
    words: list[Json] = [*command.split()]
    judged = calls(
        world,
        {"command": command},
        {"command": words},
        {"command": words[0], "args": words[1:]},
        {"command": command.replace("link", "deep").replace("leak", "b.txt")},
    )
    assert [is_admitted for _, is_admitted in judged] == [False, False, False, True]


@pytest.mark.long
@pytest.mark.usefixtures("half_a_minute")  # it takes two seconds; comparing each with each, minutes
def test_very_many_values_beside_each_other_are_not_compared_each_with_each(
    world: CallContext,
) -> None:
    values: JsonObject = {f"k{n}": f"src/a{n}" for n in range(9000)}
    assert isinstance(decide(tool_call(values), GUARD, world), Admitted | Refused)
