from pathlib import Path

import pytest

from hub.core.guard import (
    Admitted,
    Refused,
    Surroundings,
    compile_tool,
    decide,
    names_paths,
)
from hub.core.paths import Flavour
from hub.core.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.core.roots import EMPTY, RootSet, UnsafePaths, root_from_path, root_set
from hub.core.values import Call, Json, JsonObject
from hub.runtime.links import OsLinks
from tests.trees import PROJECT, plant

POSIX = Flavour.POSIX


def call(arguments: JsonObject) -> Call:
    return Call("tools/call", "tool", arguments, {"name": "tool", "arguments": arguments})


def share(*paths: Path) -> RootSet:
    return root_set(
        root_from_path(str(path), name=None, links=OsLinks(), flavour=POSIX, unsafe=None)
        for path in paths
    )


def around(roots: RootSet, cwd: Path | None = None, *, enforcing: bool = True) -> Surroundings:
    return Surroundings(roots, str(cwd) if cwd else None, {}, OsLinks(), POSIX, enforcing=enforcing)


def judge(
    arguments: JsonObject,
    world: Surroundings,
    policy: Policy | None = None,
    *,
    read_only: bool = False,
    schema: Json = None,
) -> Admitted | Refused:
    guard = compile_tool(schema, read_only=read_only, policy=ToolPolicy(policy or Policy()))
    return decide(call(arguments), guard, world)


def test_a_path_is_admitted_only_below_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private")
    world = around(share(top / "project", top / "docs"), top / "project")
    for inside in ("a.txt", f"{top}/docs/b.md", f"file://{top}/project/a.txt", "src/../a.txt"):
        assert isinstance(judge({"path": inside}, world), Admitted)
    for outside in ("../private/secret.txt", f"{top}/project2/x.txt", "evil/secret.txt", "/etc"):
        assert isinstance(judge({"options": [{"filePath": outside}]}, world), Refused)


def test_the_refusal_is_one_line_a_model_can_act_on(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    verdict = judge({"a": {"path/x": "/etc/passwd"}}, around(share(top / "project", top / "docs")))
    assert isinstance(verdict, Refused)
    assert verdict.pointer == "/a/path~1x"
    assert verdict.message() == (
        "Access denied: Path '/etc/passwd' is outside the allowed roots boundaries. "
        f'Current roots: ["file://{top}/project", "file://{top}/docs"]'
    )


def test_no_roots_refuse_everything() -> None:
    verdict = judge({"path": "/a.txt"}, around(EMPTY))
    assert isinstance(verdict, Refused)
    assert verdict.message().endswith("Current roots: []")


def test_only_the_guard_admits() -> None:
    with pytest.raises(TypeError):
        Admitted(call({}))


def test_modes(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    world = around(share(top / "project"))
    refused = judge({"path": "/etc"}, world)
    assert judge({"path": "/etc"}, world, Policy(mode=Mode.OFF)) == judge({}, world) or refused
    reported = judge({"path": "/etc"}, world, Policy(mode=Mode.REPORT))
    assert isinstance(reported, Admitted)
    assert reported.would_refuse == refused


def test_what_the_operator_refuses_stays_refused_below_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/.ssh/id_rsa", "home/a/.env", "home/vendor/x")
    policy = Policy(
        deny=DenyPatterns(("**/.env",)),
        unsafe=UnsafePaths(f"{top}/home", POSIX),
        access=(AccessRule((*top.parts[1:], "home", "vendor"), "read"),),
    )
    for enforcing in (True, False):
        world = around(share(top / "home"), top / "home", enforcing=enforcing)
        assert isinstance(judge({"path": ".ssh/id_rsa"}, world, policy), Refused)
        assert isinstance(judge({"path": "a/.env"}, world, policy), Refused)
        assert isinstance(judge({"path": "vendor/x"}, world, policy), Refused)
        assert isinstance(judge({"path": "vendor/x"}, world, policy, read_only=True), Admitted)


def test_a_client_without_roots_is_not_held_to_any(tmp_path: Path) -> None:
    assert isinstance(judge({"path": "/any/path"}, around(EMPTY, enforcing=False)), Admitted)


def test_a_call_says_whether_it_names_paths() -> None:
    guard = compile_tool(None, read_only=True, policy=ToolPolicy())
    assert names_paths(guard, {"path": "a"})
    assert not names_paths(guard, {"query": "select 1", "limit": 5})
    off = compile_tool(None, read_only=True, policy=ToolPolicy(Policy(mode=Mode.OFF)))
    assert not names_paths(off, {"path": "a"})
