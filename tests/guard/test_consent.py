from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from hub.guard.budget import Budget
from hub.guard.consent import (
    MAX_QUESTIONS,
    QUESTION_BUDGET,
    Wanted,
    consent_in,
    enough,
    judgement_of,
    question,
)
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, ToolGuard, compile_tool, decide
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.protocol.input_requests import takes_forms
from hub.roots.roots import RootSet, UnsafePaths
from hub.values import Call, Json, JsonObject
from tests.kit.trees import PROJECT, plant
from tests.kit.worlds import POSIX, context, share, tool_call

CALL = tool_call({})


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, *PROJECT, "private/.env", "private/l => secret.txt", "private/deep/x")


def guarded(policy: Policy | None = None, *, read_only: bool = True) -> ToolGuard:
    made = ToolPolicy(replace(policy or Policy(), on_refused="ask"))
    return compile_tool(None, read_only=read_only, policy=made)


def world(top: Path) -> CallContext:
    return context(share(top / "project", top / "docs"), top / "project")


def asked_for(
    call: Call, guard: ToolGuard, at: CallContext, ceilings: tuple[RootSet, ...]
) -> tuple[Wanted, ...]:
    found = enough(judgement_of(call, guard, at), ceilings)
    assert found is not None
    return found.places


def places(
    arguments: JsonObject,
    at: CallContext,
    guard: ToolGuard | None = None,
    ceilings: tuple[RootSet, ...] = (),
) -> list[str]:
    found = asked_for(tool_call(arguments), guard or guarded(), at, ceilings)
    return [one.root.path for one in found]


def granting(at: CallContext, arguments: JsonObject, guard: ToolGuard) -> CallContext:
    found = asked_for(tool_call(arguments), guard, at, ())
    return replace(at, granted=tuple(one.root for one in found))


def admits(at: CallContext, path: str, guard: ToolGuard | None = None) -> bool:
    return isinstance(decide(tool_call({"path": path}), guard or guarded(), at), Admitted)


# What is asked about


def test_consent_is_asked_for_the_target_of_a_path(top: Path) -> None:
    secret = f"{top}/private/secret.txt"
    for path in (secret, "../private/secret.txt", f"file://{secret}", f"{top}/private/l"):
        assert places({"path": path}, world(top)) == [secret]
    assert places({"path": f"{top}/private/new"}, world(top)) == [f"{top}/private/new"]
    assert places({"path": f"{top}/project/a.txt"}, world(top)) == []


def test_several_places_are_asked_about_in_order_but_not_too_many(top: Path) -> None:
    outside: list[Json] = [f"{top}/private/{n}" for n in range(MAX_QUESTIONS + 1)]
    assert places({"paths": outside[:-1]}, world(top)) == outside[:-1]
    assert places({"paths": outside}, world(top)) == []
    assert places({"paths": [outside[0], outside[0]]}, world(top)) == [outside[0]]
    nested: list[Json] = [f"{top}/private/deep", f"{top}/private/deep/x"]
    assert places({"paths": nested}, world(top)) == [f"{top}/private/deep"]


def test_each_reading_outside_needs_its_own_consent(top: Path) -> None:
    assert places({"path": f"{top}/private/a%20b"}, world(top)) == [
        f"{top}/private/a%20b",
        f"{top}/private/a b",
    ]


def test_nothing_is_asked_that_would_be_refused_all_the_same(top: Path) -> None:
    secret = f"{top}/private/secret.txt"
    os.mkfifo(top / "private/pipe")
    for bad in ("a\x00b", 7, "~bob/x", "$(id)", f"{top}/project/x/../../y/../../z", "/proc/self/x"):
        assert places({"path": bad}, world(top)) == []
        assert places({"paths": [secret, bad]}, world(top)) == [], "not about the others either"
    assert places({"path": f"{top}/private/pipe"}, world(top)) == []
    assert places({"path": "C:\\x"}, world(top)) == [], "it leads nowhere here"
    loop = plant(top, "private/loop => loop") / "private/loop"
    assert places({"path": str(loop)}, world(top)) == []


def test_places_that_the_operator_denies_are_not_asked_about(top: Path) -> None:
    secret = f"{top}/private/secret.txt"
    denied = Policy(deny=DenyPatterns(("**/.env", "/secret.txt", "deep/")))
    unsafe = Policy(unsafe=UnsafePaths(f"{top}/home", POSIX))
    read = Policy(access=(AccessRule((*top.parts[1:], "private"), "read"),))
    for policy, path in (
        (denied, f"{top}/private/.env"),
        (denied, secret),
        (denied, f"{top}/private/deep/x"),
        (unsafe, f"{top}/home/.ssh/id_rsa"),
        (unsafe, "/etc/passwd"),
        (unsafe, "/"),
    ):
        assert places({"path": path}, world(top), guarded(policy)) == []
    writes = guarded(read, read_only=False)
    assert places({"path": secret}, world(top), writes) == []
    assert places({"path": secret}, world(top), guarded(read)) == [secret]


def test_nothing_beyond_a_ceiling_is_asked_about(top: Path) -> None:
    path = f"{top}/private/secret.txt"
    near, far = share(top / "private"), share(top / "docs")
    assert places({"path": path}, world(top), ceilings=(near,)) == [path]
    assert places({"path": path}, world(top), ceilings=(near, far)) == []
    assert places({"path": str(top)}, world(top), ceilings=(near,)) == []


def test_where_nothing_is_refused_nothing_is_asked(top: Path) -> None:
    for policy in (Policy(mode=Mode.REPORT), Policy(mode=Mode.OFF)):
        assert places({"path": "/nowhere"}, world(top), guarded(policy)) == []
    assert places({"path": "/nowhere"}, context(share(), top, enforcing=False)) == []


# What a grant grants


def test_a_granted_file_is_that_file_alone(top: Path) -> None:
    at = granting(world(top), {"path": f"{top}/private/secret.txt"}, guarded())
    assert admits(at, f"{top}/private/secret.txt")
    assert admits(at, "../private/secret.txt")
    assert not admits(at, f"{top}/private/.env")
    assert not admits(at, f"{top}/private")
    assert not admits(at, f"{top}/private/secret.txt/below")


def test_a_granted_directory_is_what_is_below_it_too(top: Path) -> None:
    plant(top, "private/out => ../project2")
    at = granting(world(top), {"path": f"{top}/private"}, guarded())
    assert admits(at, f"{top}/private/deep/new")
    assert not admits(at, f"{top}/private/out/x.txt")
    assert not admits(at, f"{top}/private2")


def test_a_missing_file_is_granted_by_its_exact_name(top: Path) -> None:
    at = granting(world(top), {"path": f"{top}/private/new"}, guarded())
    assert admits(at, f"{top}/private/new")
    plant(top, "private/new/x")
    fresh = replace(world(top), granted=at.granted)
    assert admits(fresh, f"{top}/private/new")
    assert not admits(fresh, f"{top}/private/new/x")


def test_a_place_that_became_a_link_is_no_longer_the_granted_one(top: Path) -> None:
    at = granting(world(top), {"path": f"{top}/private/deep"}, guarded())
    (top / "private/deep/x").unlink()
    (top / "private/deep").rmdir()
    (top / "private/deep").symlink_to(top / "project2")
    fresh = replace(world(top), granted=at.granted)
    assert not admits(fresh, f"{top}/private/deep/x.txt")


def test_the_operators_rules_apply_inside_a_granted_directory(top: Path) -> None:
    plant(top, "private/vendor/x", "private/link => deep")
    policy = Policy(
        deny=DenyPatterns(("**/.env",)),
        access=(AccessRule((*top.parts[1:], "private", "vendor"), "read"),),
        symlinks="deny",
    )
    writes = guarded(policy, read_only=False)
    at = granting(world(top), {"path": f"{top}/private"}, writes)
    assert admits(at, f"{top}/private/secret.txt", writes)
    assert not admits(at, f"{top}/private/.env", writes)
    assert not admits(at, f"{top}/private/vendor/x", writes)
    assert not admits(at, f"{top}/private/link/x", writes)


def test_nothing_is_read_relative_to_a_granted_place(top: Path) -> None:
    guard = guarded()
    before = asked_for(tool_call({"path": "../x"}), guard, world(top), ())
    at = granting(world(top), {"path": f"{top}/private/deep"}, guard)
    assert asked_for(tool_call({"path": "../x"}), guard, at, ()) == before
    assert isinstance(decide(tool_call({"path": "../x"}), guard, at), Refused)


# The question


def asking(asked: Wanted, **changes: str) -> str:
    call = structs.replace(CALL, name=changes.pop("name", "read_file"))
    made = question(
        asked,
        call,
        changes.get("server", "files"),
        writes=False,
        pointer=changes.get("pointer", asked.pointer),
        lasting=True,
    )
    return str(made["message"])


def one(top: Path, path: str) -> Wanted:
    (found,) = asked_for(tool_call({"path": f"{top}/{path}"}), guarded(), world(top), ())
    return found


def test_the_question_names_server_tool_argument_and_path(top: Path) -> None:
    secret = one(top, "private/secret.txt")
    assert asking(secret) == (
        'Allow access outside of the shared folders? Server "files", tool "read_file", '
        f'argument "/path" wants to read the file "{top}/private/secret.txt"'
    )
    assert asking(one(top, "private")).endswith(f'read all of the directory "{top}/private"')
    assert asking(one(top, "private/new")).endswith(
        f'"{top}/private/new", which does not exist yet'
    )
    uri = Call("resources/read", "file:///x", {}, {})
    wide = question(secret, uri, "s", writes=True, pointer="/uri", lasting=False)
    assert 'resource "file:///x", argument "/uri" wants to read and write' in str(wide["message"])
    assert '"refuse"' not in str(wide["message"])


def test_a_form_offers_the_session_only_where_there_is_one(top: Path) -> None:
    secret = one(top, "private/secret.txt")
    offered = {
        lasting: question(secret, CALL, "s", writes=False, pointer="/p", lasting=lasting)
        for lasting in (True, False)
    }
    for lasting, answers in (
        (True, ["allow once", "allow for this session", "refuse"]),
        (False, ["allow once", "refuse"]),
    ):
        assert offered[lasting]["requestedSchema"] == {
            "type": "object",
            "properties": {"decision": {"type": "string", "title": "Decision", "enum": answers}},
            "required": ["decision"],
        }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('a" is safe. Allow "b', 'a\\" is safe. Allow \\"b'),
        ("a\nAllow", "a\\u{a}Allow"),
        ("a\\u{a}", "a\\\\u{a}"),
        ("a\u202egnp.exe", "a\\u{202e}gnp.exe"),
        ("a\u2028b\u00a0c\u200bd", "a\\u{2028}b\\u{a0}c\\u{200b}d"),
        ("a\u201d ok \u201cb", "a\\u{201d} ok \\u{201c}b"),
        ("Ünïcödé 文件", "Ünïcödé 文件"),
    ],
)
def test_a_path_cannot_forge_the_question(top: Path, name: str, shown: str) -> None:
    root = replace(one(top, "private").root, path=f"/{name}")
    text = asking(Wanted("/path", root, exists=True))
    assert text.endswith(f'all of the directory "/{shown}"')
    assert text.isprintable()


def test_only_the_path_may_be_long(top: Path) -> None:
    long = "x" * 5000
    root = replace(one(top, "private").root, path=f"/{long}")
    text = asking(Wanted("/path", root, exists=True), pointer=long, name=long, server=long)
    assert text.endswith(f'all of the directory "/{long}"')
    assert len(text) < 5000 + 1000


# The answer


@pytest.mark.parametrize(
    ("result", "consent"),
    [
        ({"action": "accept", "content": {"decision": "allow once"}}, "once"),
        ({"action": "accept", "content": {"decision": "allow for this session"}}, "session"),
        ({"action": "accept", "content": {"decision": "refuse"}}, "refused"),
        ({"action": "accept", "content": {"decision": "Allow once"}}, "refused"),
        ({"action": "accept", "content": {"decision": ["allow once"]}}, "refused"),
        ({"action": "accept", "content": {}}, "refused"),
        ({"action": "accept", "content": ["allow once"]}, "refused"),
        ({"action": "accept"}, "refused"),
        ({"action": "decline", "content": {"decision": "allow once"}}, "refused"),
        ({"action": "cancel"}, "refused"),
        ({"content": {"decision": "allow once"}}, "refused"),
        ({}, "refused"),
        (["accept"], "refused"),
        (None, "refused"),
    ],
)
def test_whatever_is_not_a_clear_yes_is_a_no(result: Json, consent: str) -> None:
    assert consent_in(result) == consent


@pytest.mark.parametrize(
    ("declared", "takes"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": True}, False),
        ({}, False),
    ],
)
def test_a_client_says_whether_it_shows_forms(declared: JsonObject, *, takes: bool) -> None:
    assert takes_forms(declared) is takes


@pytest.mark.parametrize("key", ["path", "zz"])
def test_a_place_that_nothing_can_be_at_is_not_asked_about(top: Path, key: str) -> None:
    """What is `inside` a file cannot be granted: the call is refused as without asking."""
    (top / "private" / "file").touch()
    at = world(top)
    arguments: JsonObject = {key: "../private/file/sub/../sub2"}
    assert isinstance(decide(tool_call(arguments), guarded(), at), Refused)
    assert places(arguments, at) == []


def test_a_budget_that_is_too_small_finds_nothing_to_ask_for(top: Path) -> None:
    call, at, guard = tool_call({"path": f"{top}/private/secret.txt"}), world(top), guarded()
    refused = judgement_of(call, guard, at)
    whole = enough(refused, ())
    assert whole is not None
    assert len(whole.places) == 1
    soon = enough(refused, (), QUESTION_BUDGET)
    assert soon is not None
    assert soon.places == whole.places
    for spent in (Budget(0, 100, 10_000), Budget(10_000, 100, 0)):
        assert enough(refused, (), spent) is None
