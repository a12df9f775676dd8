from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hub.core.claims import Claim
from hub.core.guard import Admitted, compile_tool, decide
from hub.core.paths import PathError, parts_of
from hub.core.plain_paths import Ground, is_plain
from hub.core.policy import Access, AccessRule, DenyPatterns, Policy, ToolPolicy
from hub.core.readings import Reader, readings
from hub.core.roots import RootSet, UnsafePaths
from hub.core.shapes import node_of_key
from hub.core.values import Json
from hub.core.vocabulary import Kind
from hub.runtime.links import OsLinks
from tests.core.worlds import MACOS, POSIX, around, share, tool_call
from tests.fakes import FakeLinks
from tests.trees import PROJECT, grow, plant


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("/a/b-c_d.e", True),
        ("/", False),
        ("a/b", False),
        ("/a/", False),
        ("/a//b", False),
        ("/a/../b", False),
        ("/a/./b", False),
        ("/a/.", False),
        ("/..", False),
        ("/a/..b/.c/...", True),
        ("/My Files/a (1) b.txt", True),
        ("/app/[id]/@x+y/page.tsx", True),
        ("/a ", False),
        ("/a /b", False),
        ("/a /etc/passwd", False),
        ("/a ~", False),
        ("/a ../b", False),
        ("/a  b", False),
        ("/é", False),
        ("/a" * 300, False),
    ],
)
def test_a_plain_path_reads_in_one_way(text: str, *, plain: bool) -> None:
    assert is_plain(text) is plain


SIGNS = st.sampled_from([*"//  ..ab1_-@+()[]", *"~$%:,;=\\'\"`{}<>!#&*?|\t\né", "file:", "%2e"])


@given(st.lists(SIGNS, max_size=12).map(lambda signs: "/" + "".join(signs)))
def test_nobody_reads_a_plain_path_in_another_way(text: str) -> None:
    if is_plain(text):
        assert [*readings(text, Reader({"a": "/etc"}, POSIX))] == [text]
        assert "" not in text[1:].split("/")
        assert not {".", ".."} & {*text.split("/")}


def claim(value: Json, kind: Kind = Kind.PATH) -> Claim:
    return Claim("/path", "path", kind, value, "its name says so")


def ground(
    roots: RootSet, *bounds: RootSet, policy: Policy | None = None, needs_write: bool = False
) -> Ground | None:
    around = [root for bound in bounds for root in bound.roots]
    return Ground.of(roots, around, policy or Policy(), needs_write=needs_write, flavour=POSIX)


def bears(on: Ground | None, *paths: Path | str) -> bool:
    assert on is not None
    return on.bears([claim(str(path)) for path in paths], OsLinks())


def test_it_bears_plain_paths_that_lead_straight_down_from_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private", "project/way => src")
    on = ground(share(top / "docs", top / "project"))
    for inside in ("src", "a.txt", "src/deep/b.txt", "new", "src/new/deep/x", "way-not"):
        assert bears(on, top / "project" / inside), inside
    assert bears(on, top / "docs/b.md", top / "project/a.txt")
    for other in (
        "project/evil",
        "project/evil/x",
        "project/way/a.py",
        "project/a.txt/x",
        "project",
        "project2/x.txt",
        "private/secret.txt",
    ):
        assert not bears(on, top / other), other
        assert not bears(on, top / "project/a.txt", top / other), other


def test_what_is_no_plain_path_is_left_to_others(tmp_path: Path) -> None:
    on = ground(share(tmp_path))
    assert on is not None
    for text in (f"{tmp_path}/a/../b", f"{tmp_path}/a,b", "a", "", f"{tmp_path}/", "$HOME"):
        assert not bears(on, text), text
    whole = {Kind.PATH, Kind.WEAK, Kind.NEUTRAL}
    for kind in Kind:
        assert on.bears([claim(f"{tmp_path}/a", kind)], OsLinks()) is (kind in whole), kind
    assert not on.bears([claim(5)], OsLinks())


def test_many_paths_are_left_to_who_keeps_account(tmp_path: Path) -> None:
    on = ground(share(tmp_path))
    assert bears(on, *[tmp_path / str(number) for number in range(64)])
    assert not bears(on, *[tmp_path / str(number) for number in range(65)])


@pytest.mark.parametrize("moved", ["project", ""])
def test_a_root_or_a_bound_that_was_moved_bears_nothing(tmp_path: Path, moved: str) -> None:
    top = plant(tmp_path / "top", *PROJECT)
    on = ground(share(top / "project"), share(top))
    assert bears(on, top / "project/a.txt")
    (top / moved).rename(tmp_path / "elsewhere")
    assert not bears(on, top / "project/a.txt")
    (top / moved).symlink_to(tmp_path / "elsewhere")
    assert not bears(on, top / "project/a.txt")
    (top / moved).unlink()
    (tmp_path / "elsewhere").rename(top / moved)
    assert bears(on, top / "project/a.txt")


def test_no_link_may_be_between_a_bound_and_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path / "top", "bound/way/project/a.txt")
    project = top / "bound/way/project"
    on = ground(share(project), share(top / "bound"), share(top))
    assert bears(on, project / "a.txt")
    (top / "bound/way").rename(tmp_path / "elsewhere")
    (top / "bound/way").symlink_to(tmp_path / "elsewhere")
    assert not bears(on, project / "a.txt"), "it leads out of the bound"
    assert bears(
        ground(share(tmp_path / "elsewhere/project")), tmp_path / "elsewhere/project/a.txt"
    )


def test_a_bound_that_is_not_above_a_root_does_not_count(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    on = ground(share(top / "docs", top / "project"), share(top / "docs"), share(top / "project"))
    (top / "docs").rename(top / "elsewhere")
    assert bears(on, top / "project/a.txt")
    assert not bears(on, top / "docs/b.md")


def test_a_disk_that_does_not_answer_is_an_error() -> None:
    disk = FakeLinks("/r/d/f")
    on = ground(share("/r", links=disk))
    assert on is not None
    disk.unreadable.add("/r/d")
    with pytest.raises(PathError):
        on.bears([claim("/r/d/f")], disk)


def test_there_is_none_where_a_policy_has_more_to_say(tmp_path: Path) -> None:
    roots = share(tmp_path)
    patterns = tuple(str(number) for number in range(1025))
    assert ground(roots, policy=Policy(deny=DenyPatterns(patterns[:-1]))) is not None
    assert ground(roots, policy=Policy(deny=DenyPatterns(patterns))) is None
    assert ground(roots, policy=Policy(rewrite="canonical")) is None
    assert ground(roots, policy=Policy(symlinks="deny")) is not None


def test_what_the_operator_denies_below_any_of_the_roots_is_left_to_others(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/src/.env")
    deny = Policy(deny=DenyPatterns(("**/.env", "/deep/", "*.key")))
    on = ground(share(top / "project", top / "project/src"), policy=deny)
    for free in ("src/a.py", "a.txt", "deeper/b", "new/a.txt", "a.keys", "src/env"):
        assert bears(on, top / "project" / free), free
    for denied in (".env", "new/.env", ".env/x", "src/.env", "a.key", "deep/b", "src/deep/b.txt"):
        assert not bears(on, top / "project" / denied), denied
        assert not bears(on, top / "project/a.txt", top / "project" / denied), denied


def test_patterns_know_no_case_where_names_do_not(tmp_path: Path) -> None:
    policy = Policy(deny=DenyPatterns((".ENV",)))
    roots = share(tmp_path, flavour=MACOS)
    for flavour, expected in ((POSIX, True), (MACOS, False)):
        on = Ground.of(roots, (), policy, needs_write=False, flavour=flavour)
        assert bears(on, tmp_path / ".Env") is expected


def test_where_a_tool_may_only_read_it_bears_none_that_writes(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    roots = share(top / "project")
    rules = (
        AccessRule(parts_of(str(top / "project/src"), POSIX), "read"),
        AccessRule(parts_of(str(top / "project/src/deep"), POSIX), "write"),
        AccessRule(parts_of(str(top / "project/a.txt"), POSIX), "write"),
    )
    reads = ground(roots, policy=Policy(access=rules))
    writes = ground(roots, policy=Policy(access=rules), needs_write=True)
    for path, may_write in (("src/a.py", False), ("src", False), ("srcs", True), ("a.txt", True)):
        assert bears(reads, top / "project" / path)
        assert bears(writes, top / "project" / path) is may_write, path


def test_a_root_with_a_place_in_it_that_is_not_shared_bears_nothing() -> None:
    disk = FakeLinks("/home/u/.ssh/key", "/home/u/code/x", "/dev/fd/", "/dev/other/x/")
    unsafe = Policy(unsafe=UnsafePaths("/home/u", POSIX))
    for path, policy, expected in (
        ("/home/u", unsafe, False),
        ("/home/u/code", unsafe, True),
        ("/home/u/.ssh", unsafe, False),
        ("/home/u", Policy(), True),
        ("/dev", Policy(), False),
        ("/dev/other", Policy(), True),
        ("/dev/other/x", unsafe, False),
    ):
        on = ground(share(path, links=disk), policy=policy)
        assert on is not None
        assert bool(on.folders) is expected, path


def test_a_shared_file_and_the_top_of_all_are_left_to_others(tmp_path: Path) -> None:
    file = plant(tmp_path, "f") / "f"
    on = ground(share(file, "/"))
    assert on is not None
    assert on.folders == ()
    assert not bears(on, file)


STEPS = st.lists(st.sampled_from(["a", "b", "c d", "..", "."]), min_size=1, max_size=4)
NAMES = st.lists(st.sampled_from(["a", "b", "c d"]), min_size=1, max_size=4)
TREES = st.lists(st.tuples(NAMES, st.none() | STEPS), max_size=8)


PATTERNS = st.sampled_from(["a", "b/", "/a/b", "**/b/a", "!b", "a*/c d", "c?d", "*"])


@given(
    TREES,
    st.lists(NAMES, min_size=1, max_size=3),
    st.lists(STEPS, min_size=1, max_size=4),
    st.sampled_from([("path", Kind.PATH), ("source", Kind.WEAK), ("thing", Kind.NEUTRAL)]),
    st.lists(PATTERNS, max_size=2),
    st.lists(st.tuples(NAMES, st.sampled_from(["read", "write"])), max_size=2),
)
def test_what_it_bears_is_what_the_guard_would_admit(
    tree: list[tuple[list[str], list[str] | None]],
    shared: list[list[str]],
    paths: list[list[str]],
    named: tuple[str, Kind],
    denied: list[str],
    rights: list[tuple[list[str], Access]],
) -> None:
    key, kind = named
    assert node_of_key(key).kind is kind
    with TemporaryDirectory() as made:
        top = Path(made).resolve()
        grow(top, [*tree, *((names, None) for names in shared)])
        folders = [top.joinpath(*names) for names in shared if top.joinpath(*names).is_dir()]
        world = around(share(*folders))
        rules = [AccessRule((*parts_of(str(top), POSIX), *at), may) for at, may in rights]
        policy = Policy(deny=DenyPatterns(tuple(denied)), access=tuple(rules))
        on = ground(world.roots, policy=policy, needs_write=True)
        assert on is not None
        guard = compile_tool({}, read_only=False, policy=ToolPolicy(policy))
        for names in paths:
            path = "/".join([str(top), *names])
            verdict = decide(tool_call({key: path}), guard, replace(world, links=OsLinks()))
            if on.bears([claim(path, kind)], OsLinks()):
                assert isinstance(verdict, Admitted), path
