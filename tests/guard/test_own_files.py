"""What no call gets at: held by the fast path, by the judge, in every mode and without roots."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.config.own_files import OwnInodes
from hub.guard.consent import enough, judgement_of
from hub.guard.containment import CallContext
from hub.guard.decide import Admitted, Refused, compile_tool, decide, explain
from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OWN, OwnFiles, OwnPlace, by_proc, own_names_in
from hub.guard.plain_paths import PlainPathCheck
from hub.guard.policy import AccessRule, Mode, Policy, ToolPolicy
from hub.system.machine import OsDisk
from hub.values import Call, Json, JsonObject
from tests.guard.test_plain_paths import candidate
from tests.kit.trees import plant
from tests.kit.worlds import at_once, context, share

TREE = (
    *("root/a.txt", "root/conf/hub.yaml", "root/conf/other.yaml", "root/audit.jsonl", "root/deep/"),
    *(
        "root/state/roots-hub/key",
        "root/state/other",
        "root/link => conf",
        "root/to => conf/hub.yaml",
        "root/AUDIT.jsonl => audit.jsonl",
        "root/pl => /proc/self/cwd",
    ),
)
PATH: Json = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plant the tree once: what is judged is not done."""
    top = plant(tmp_path_factory.mktemp("top"), *TREE)
    os.link(top / "root/conf/hub.yaml", top / "root/hard.yaml")
    os.link(top / "root/state/roots-hub/key", top / "root/hard-key")
    return top


def place(path: Path, *, keys: bool = False) -> OwnPlace:
    return OwnPlace(str(path), path.parts[1:], keys)


def own_of(top: Path) -> OwnFiles:
    config, audit, keys = (
        top / "root" / name for name in ("conf/hub.yaml", "audit.jsonl", "state/roots-hub")
    )
    return OwnFiles(
        secret=(place(keys, keys=True),),
        kept=(place(config), place(audit), place(Path(f"{audit}.1"))),
        inodes=OwnInodes([str(keys)], [str(config), str(audit)], lambda: 0.0),
    )


def judged(  # noqa: PLR0913 - each is one thing that must not matter
    top: Path,
    arguments: JsonObject,
    *,
    tool: str = "write_file",
    read_only: bool = False,
    policy: Policy | None = None,
    world: CallContext | None = None,
) -> Admitted | Refused:
    policy = replace(policy or Policy(), own=own_of(top))
    guard = compile_tool(PATH, read_only=read_only, policy=ToolPolicy(policy))
    world = world or context(share(top / "root"), top / "root")
    call = Call("tools/call", tool, arguments, {"name": tool, "arguments": arguments})
    return decide(call, guard, world)


def is_own(verdict: Admitted | Refused) -> bool:
    if isinstance(verdict, Refused):
        assert verdict.reason == OWN
        return True
    return False


SPELLED = [
    *("conf/hub.yaml", "/R/conf/hub.yaml", "./conf/../conf/hub.yaml", "link/hub.yaml", "to"),
    *("hard.yaml", "audit.jsonl", "audit.jsonl.1", "conf%2Fhub.yaml", "conf/hub.yaml "),
    *("file:///R/conf/hub.yaml", "deep/../audit.jsonl", "conf\\hub.yaml", "a.txt,audit.jsonl"),
]
MODES = [Policy(mode=mode) for mode in Mode]


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("policy", MODES, ids=lambda policy: policy.mode.value)
@pytest.mark.parametrize("enforcing", [True, False])
def test_a_tool_that_writes_cannot_name_config_or_audit_in_any_spelling(
    top: Path, spelled: str, policy: Policy, enforcing: bool
) -> None:
    world = context(share(top / "root"), top / "root", enforcing=enforcing)
    value = spelled.replace("/R", f"{top}/root")
    assert is_own(judged(top, {"path": value}, policy=policy, world=world))
    verdict = judged(top, {"path": value}, read_only=True, policy=policy, world=world)
    assert isinstance(verdict, Admitted), "reading it is for the roots to allow"


@pytest.mark.parametrize("spelled", ["state/roots-hub/key", "state/roots-hub", "hard-key"])
@pytest.mark.parametrize("policy", MODES, ids=lambda policy: policy.mode.value)
@pytest.mark.parametrize("enforcing", [True, False])
@pytest.mark.parametrize("read_only", [True, False])
def test_keys_are_not_even_read(
    top: Path, spelled: str, policy: Policy, *, enforcing: bool, read_only: bool
) -> None:
    world = context(share(top / "root"), top / "root", enforcing=enforcing)
    for value in (spelled, f"{top}/root/{spelled}"):
        assert is_own(judged(top, {"path": value}, policy=policy, world=world, read_only=read_only))


@pytest.mark.parametrize(
    "arguments",
    [
        {"edits": [{"file": "conf/hub.yaml"}]},
        {"workbook": "audit.jsonl"},
        {"sheets": [{"into": " AUDIT.jsonl "}], "audit.jsonl": 1},
        {"command": "tee conf/hub.yaml"},
        {"target": '{"path": "audit.jsonl"}'},
    ],
)
def test_own_files_are_found_in_any_argument(top: Path, arguments: JsonObject) -> None:
    assert is_own(judged(top, arguments))


def test_text_that_is_its_name_is_text(top: Path) -> None:
    for key, value in (("content", "audit.jsonl"), ("query", "audit.jsonl"), ("n", "b.jsonl")):
        assert isinstance(judged(top, {key: value}), Admitted)


@pytest.mark.parametrize(
    ("tool", "directory", "refused"),
    [
        ("move_file", "conf", True),
        ("move_file", "", True),
        ("deleteDirectory", "link", True),
        ("rename", "state", True),
        ("rm", "deep", False),
        ("move_file", "conf/other.yaml", False),
        ("list_directory", "conf", False),
        ("search_files", "", False),
        ("git_delete_branch", "conf", False),
        ("git_status", "", False),
        ("copy_folder", "conf", False),
        ("copy_folder", "state", True),
        ("zip", "", True),
    ],
)
def test_a_directory_around_them_is_not_taken_as_a_whole(
    top: Path, tool: str, directory: str, *, refused: bool
) -> None:
    for path in (f"{top}/root/{directory}".rstrip("/"), f"./{directory}"):
        assert is_own(judged(top, {"path": path}, tool=tool)) is refused
        on = plain_check(top, tool)
        assert on is not None
        if refused:
            assert not on.admits([candidate(path, Kind.PATH)], OsDisk())


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"directory": "conf", "filename": "hub.yaml"}, True),
        ({"directory": "R/conf", "workbook": "hub.yaml"}, True),
        ({"source": "deep/hub.yaml", "destination": "R/conf"}, True),
        ({"url": "https://example.com/hub.yaml", "output_dir": "R/conf"}, True),
        ({"source": "deep/other", "destination": "R/conf"}, False),
        ({"directory": "deep", "filename": "hub.yaml"}, False),
        ({"cwd": "R/conf", "content": "see docs"}, False),
        ({"directory": "R/state", "filename": "roots-hub/key"}, True),
        ({"directory": "R", "filename": "./state/roots-hub/key"}, True),
    ],
)
def test_a_name_that_can_be_put_behind_a_directory_counts_with_it(
    top: Path, arguments: JsonObject, *, refused: bool
) -> None:
    filled: JsonObject = {
        key: re.sub(r"^R", f"{top}/root", str(value)) for key, value in arguments.items()
    }
    assert is_own(judged(top, filled, tool="save")) is refused
    policy = Policy(own=own_of(top))
    guard = compile_tool(PATH, read_only=False, policy=ToolPolicy(policy))
    on, around = plain_check(top, "save"), context(share(top / "root"), top / "root")
    quick = at_once(Call("tools/call", "save", filled, {}), guard, around, on)
    assert not isinstance(quick, Admitted) or not refused


def test_a_command_that_moves_a_directory_counts_as_a_tool_that_does(top: Path) -> None:
    assert is_own(judged(top, {"command": "mv conf/ elsewhere"}, tool="run"))
    assert is_own(judged(top, {"command": "mv", "args": ["conf/", "x"]}, tool="run"))
    assert not is_own(judged(top, {"command": "ls conf/"}, tool="run"))


def plain_check(
    top: Path, tool: str = "write_file", *, needs_write: bool = True
) -> PlainPathCheck | None:
    world = context(share(top / "root"), top / "root")
    return PlainPathCheck.of(world, (), Policy(own=own_of(top)), needs_write=needs_write, tool=tool)


def test_the_fast_path_admits_nothing_that_the_judge_refuses(top: Path) -> None:
    on, reading = plain_check(top), plain_check(top, needs_write=False)
    assert on is not None
    assert reading is not None
    for name in (*SPELLED, "state/roots-hub/key", "hard-key", "state/roots-hub/new"):
        for value in (name.replace("/R", f"{top}/root"), f"{top}/root/{name}"):
            for kind in (Kind.PATH, Kind.WEAK, Kind.GLOB):
                assert not on.admits([candidate(value, kind)], OsDisk()), value
    for name in ("a.txt", "conf/other.yaml", "conf", "new", "state/other"):
        assert on.admits([candidate(f"{top}/root/{name}", Kind.PATH)], OsDisk()), name
    assert reading.admits([candidate(f"{top}/root/conf/hub.yaml", Kind.PATH)], OsDisk())
    assert not reading.admits([candidate(f"{top}/root/state/roots-hub/key", Kind.PATH)], OsDisk())
    assert not reading.admits([candidate(f"{top}/root/hard-key", Kind.PATH)], OsDisk())


def test_with_the_guard_off_or_no_roots_nothing_else_is_refused(top: Path) -> None:
    rootless = context(share(), top / "root", enforcing=False)
    odd: list[Json] = [
        "/etc/passwd",
        "../x",
        "~bob/x",
        "$(id)",
        "/proc/cpuinfo",
        7,
        "a\x1bb",
        "conf",
    ]
    for value in odd:
        assert isinstance(judged(top, {"path": value}, world=rootless), Admitted), value
        assert isinstance(judged(top, {"path": value}, policy=Policy(mode=Mode.OFF)), Admitted)
        reported = judged(top, {"path": value}, policy=Policy(mode=Mode.REPORT))
        assert isinstance(reported, Admitted), value


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/proc/self/cwd/conf/hub.yaml", True),
        ("/proc/self/cwd/to", True),
        ("/proc//self/./task/7/cwd/link/hub.yaml", True),
        ("/proc/self/rootR/to", True),
        ("/proc/self/root/proc/self/cwd/to", True),
        ("/proc/self/fd/5/hub.yaml", True),
        ("pl/conf/hub.yaml", True),
        ("/proc/self/root/proc/1/task/1/cwd/deep/../to", True),
        ("/proc/self/../self/cwd/to", True),
        ("/proc/../R/to", True),
        ("/proc/self/root/..R/to", True),
        ("/proc/self/root/../etc/passwd", False),
        ("/proc/..", False),
        ("/proc/self/root", False),
        ("/proc/self/root/etc/passwd", False),
        ("/proc/self/cwd/a.txt", False),
        ("/proc/self/fd/5", False),
        ("/dev/stdin", False),
    ],
)
def test_by_proc_they_are_reached_as_little(top: Path, path: str, *, refused: bool) -> None:
    value = path.replace("R", f"{top}/root")
    rootless = context(share(), top / "root", enforcing=False)
    assert is_own(judged(top, {"path": value}, world=rootless)) is refused
    assert is_own(judged(top, {"path": value}, policy=Policy(mode=Mode.OFF))) is refused


def test_rights_and_consent_do_not_open_it(top: Path) -> None:
    rule = AccessRule((*top.parts[1:], "root"), "write")
    policy = Policy(access=(rule,), on_refused="ask")
    assert is_own(judged(top, {"path": f"{top}/root/audit.jsonl"}, policy=policy))
    guard = compile_tool(PATH, read_only=False, policy=ToolPolicy(Policy(own=own_of(top))))
    world = context(share(top / "root/deep"), top / "root/deep")
    for name, count in (("a.txt", 1), ("audit.jsonl", 0), ("state/roots-hub/key", 0)):
        arguments: JsonObject = {"path": f"{top}/root/{name}"}
        call = Call("tools/call", "write", arguments, {"arguments": arguments})
        refused = judgement_of(call, guard, world)
        assert isinstance(refused.verdict, Refused)
        found = enough(refused, ())
        assert found is not None
        assert len(found.places) == count, name


def test_a_call_is_explained_with_it(top: Path) -> None:
    guard = compile_tool(PATH, read_only=False, policy=ToolPolicy(Policy(own=own_of(top))))
    arguments: JsonObject = {"path": "to", "workbook": "audit.jsonl"}
    call = Call("tools/call", "write", arguments, {"arguments": arguments})
    world = context(share(top / "root"), top / "root")
    one, other = explain(call, guard, world)
    assert [reading.objection for reading in one.readings] == [OWN]
    assert (other.pointer, other.kind) == ("/workbook", Kind.NEUTRAL)


def test_arguments_that_are_nested_too_deeply_are_refused_in_any_mode(top: Path) -> None:
    deep: Json = "conf/hub.yaml"
    for _ in range(70):
        deep = {"path": deep}
    for policy in MODES:
        assert isinstance(judged(top, {"path": deep}, policy=policy), Refused)


@pytest.mark.parametrize(
    ("value", "begins"),
    [("keys", True), ("other/x", True), (" ./KEYS/x", True), ("x/keys", False), ("key", False)],
)
def test_each_secret_place_is_known_by_its_name(value: str, *, begins: bool) -> None:
    own = OwnFiles(secret=(place(Path("/state/keys")), place(Path("/state/other"))))
    assert own_names_in(own, {"path": value}).begins is begins


def test_own_files_that_are_not_there_yet_close_no_other_path(tmp_path: Path) -> None:
    own = OwnFiles(kept=(place(tmp_path / "hub.yaml"),))
    rules = own.rules_for("write_file", writes=True)
    for name, closed in (("hub.yaml", True), ("a.txt", False)):
        path = tmp_path / name
        assert rules.has(str(path), path.parts[1:], OsDisk()) is closed


@pytest.mark.parametrize(
    ("reading", "reached"),
    [
        ("/proc/1/root/etc", "/etc"),
        ("/proc/self/cwd/a", "./a"),
        ("/proc/self/status", None),
        ("/etc/proc/1/root", None),
        ("proc/1/root/etc", None),
    ],
)
def test_a_process_leads_elsewhere_by_its_root_and_directory(
    reading: str, reached: str | None
) -> None:
    assert by_proc(reading) == reached
