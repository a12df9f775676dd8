from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hub.guard.arguments import PathCandidate
from hub.guard.decide import Admitted, compile_tool, decide
from hub.guard.keys.nodes import node_of_key
from hub.guard.keys.vocabulary import Kind
from hub.guard.plain_paths import PlainPathCheck, is_plain, is_plain_url, reads_as_one_path
from hub.guard.policy import Access, AccessRule, DenyPatterns, Policy, ToolPolicy
from hub.guard.text.readings import Reader, readings
from hub.paths.resolve import PathError, parts_of
from hub.roots.roots import RootSet, UnsafePaths
from hub.system.machine import OsDisk
from hub.values import Json
from tests.kit.fakes import FakeLinks
from tests.kit.trees import PROJECT, grow, plant
from tests.kit.worlds import MACOS, POSIX, Directories, context, share, tool_call


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
        ("/Über/文件 1.txt", True),
        ("/e\u0301", False),
        ("/\uff0e\uff0e/a", False),
        ("/a\u3164b", False),
        ("/a²", False),
        ("/a" * 300, False),
    ],
)
def test_a_plain_path_has_one_reading(text: str, *, plain: bool) -> None:
    assert is_plain(text) is plain


KINDS = [("path", Kind.PATH), ("source", Kind.WEAK), ("thing", Kind.NEUTRAL), ("glob", Kind.GLOB)]
SIGNS = st.sampled_from(
    [
        *"//  ..ab1_-@+()[]*?",
        *"~$%:,;=\\'\"`{}<>!#&|\t\né文\u0301\u3164\uff0f²\u2215",
        "file:",
        "%2e",
    ]
)


@given(st.lists(SIGNS, max_size=12).map("".join), st.sampled_from([kind for _, kind in KINDS]))
def test_a_path_that_the_check_admits_has_no_other_reading(text: str, kind: Kind) -> None:
    everywhere = Directories()
    on = plain_check(share("/r", links=everywhere), cwd="/r")
    assert on is not None
    for borne in (text, f"/r/{text}", f"file:///r/{text}"):
        if on.admits([candidate(borne, kind)], everywhere):
            path = borne.removeprefix("file://")
            read = [*readings(borne, Reader({"a": "/etc"}, POSIX, folders=("/r",)))]
            assert read[0] == path
            # What is taken from it lies below the root as well, or starts nowhere else.
            assert all(one[:3] == "/r/" or one[0] not in "/~" for one in read)
            assert not any(".." in one.split("/") for one in read)
            assert read == [path] or re.search(r"[ @+()\[\]]|(?:^|/)-", path)
            assert read == [path] or not reads_as_one_path(path)
            assert ".." not in borne.split("/")
            assert "." not in borne.removeprefix("./").split("/")[borne == "." :]


def candidate(value: Json, kind: Kind = Kind.PATH) -> PathCandidate:
    return PathCandidate("/path", "path", kind, value, "its name says so")


def plain_check(
    roots: RootSet,
    *bounds: RootSet,
    policy: Policy | None = None,
    needs_write: bool = False,
    cwd: Path | str | None = None,
) -> PlainPathCheck | None:
    within = [root for bound in bounds for root in bound.roots]
    return PlainPathCheck.of(
        context(roots, cwd), within, policy or Policy(), needs_write=needs_write
    )


def admits(on: PlainPathCheck | None, *paths: Path | str, kind: Kind = Kind.PATH) -> bool:
    assert on is not None
    return on.admits([candidate(str(path), kind) for path in paths], OsDisk())


def test_plain_paths_straight_below_a_root_are_admitted(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/evil => ../private", "project/way => src")
    on = plain_check(share(top / "docs", top / "project"))
    for inside in (
        *("", "/", "src", "src/", "a.txt", "src/deep/b.txt"),
        *("new", "new/", "src/new/deep/x", "way-not"),
    ):
        assert admits(on, f"{top}/project/{inside}".replace("//", "/")), inside
    assert admits(on, top / "project")
    assert admits(on, top / "docs/b.md", top / "project/a.txt", f"file://{top}/docs/b.md")
    assert not admits(on, f"file://{top}/private/x")
    assert not admits(on, f"file://{top}/docs/../private/x")
    assert not admits(on, f"file://{top}/docs/a%20b"), "it is decoded first"
    for other in (
        "project/evil",
        "project/evil/x",
        "project/way/a.py",
        "project/a.txt/x",
        "project/a.txt/",
        "project/way/",
        "project2/x.txt",
        "private/secret.txt",
    ):
        assert not admits(on, f"{top}/{other}"), other
        assert not admits(on, top / "project/a.txt", f"{top}/{other}"), other


def test_a_relative_path_must_be_straight_below_every_base(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "docs/way => ../project", "docs/src/x")
    both = share(top / "docs", top / "project")
    one, two = (
        plain_check(share(top / "project"), cwd=top / "project"),
        plain_check(both, cwd=top / "docs"),
    )
    for path in (".", "./src", "src", "src/", "src/a.py", "./new/x", ".github/a b.yml", "[a]"):
        own = path[0] in ".srcnew"
        assert admits(one, path) is own, path
        assert admits(two, path) is own, path
    assert admits(one, "way")
    assert not admits(two, "way"), "in one of them it is a link"
    for path in ("..", "../project/a.txt", "./../x", "-src", "@src", "+src", "", " src", ".//src"):
        assert not admits(one, path), path
    assert not admits(plain_check(share(top / "project"), cwd=top), "src"), "it may start elsewhere"
    assert admits(plain_check(share(top / "project")), "src")


def test_the_parts_that_a_child_may_split_off_are_plain_paths_themselves(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "my docs/")
    on = plain_check(share(top / "project", top / "my docs"), cwd=top / "project")
    for inside in ("project/a b", "project/a@./x", "my docs/a b", "my docs/new"):
        assert admits(on, top / inside), inside
    for split in (
        "a(/x)",
        "a(.)",
        "a(..)",
        "a@..",
        "a@.",
        "a@/y",
        "a@-x",
        "a+../x",
        "a -x",
        "..+x",
    ):
        assert not admits(on, f"{top}/project/{split}"), split
        assert not admits(on, split), split
    for signs in ("a (1) [x]@y", "a/-x b", "a [/b]"):
        assert not admits(on, f"{top}/project/{signs}"), signs


def test_where_a_relative_path_may_start_is_a_plain_path_itself(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/way => ../private")
    project = top / "project"
    for cwd in ("..", "../private", "src/..", "src/../..", "way", "way/new", "."):
        on = plain_check(share(project), cwd=f"{project}/{cwd}")
        for path in ("secret.txt", "private/secret.txt", "."):
            assert not admits(on, path), (cwd, path)
        assert not admits(on, "private/*", kind=Kind.GLOB), cwd
        assert admits(on, project / "a.txt"), cwd
    assert admits(plain_check(share(project), cwd=project / "src"), "a.txt")


def test_where_a_relative_path_may_start_in_many_places_it_is_left_to_others(
    tmp_path: Path,
) -> None:
    folders = [tmp_path / str(number) for number in range(9)]
    for folder in folders:
        folder.mkdir()
    assert admits(plain_check(share(*folders[:8]), cwd=folders[0]), "a")
    assert not admits(plain_check(share(*folders), cwd=folders[0]), "a")
    assert admits(plain_check(share(*folders), cwd=folders[0]), folders[8] / "a")
    assert admits(plain_check(share(*folders), cwd=folders[0]), folders[8] / "*", kind=Kind.GLOB)


def test_a_relative_path_beside_several_folders_is_left_to_the_judge(tmp_path: Path) -> None:
    top = plant(tmp_path, "root/a/", "root/b/leak => ../../out", "root/f", "out") / "root"
    on = plain_check(share(top), cwd=top)
    assert admits(on, top / "a", "f")
    assert not admits(on, top / "a", top / "b", "f")
    assert not admits(on, top / "b", "leak")
    assert not admits(on, top / "a", top / "b", "leak")


def test_of_a_glob_the_names_before_the_first_wildcard_count(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/way => ../private")
    on = plain_check(share(top / "project"), cwd=top / "project")
    for glob in ("*", "**/*.py", "src/**/x*.txt", "src/deep", "./src/*.py"):
        assert admits(on, glob, kind=Kind.GLOB), glob
        assert admits(on, f"{top}/project/{glob.removeprefix('./')}", kind=Kind.GLOB), glob
    for glob in (
        *("way/*", "../*", "**/../..", "/*", "/etc/*", "*/..", "{a,b}/*", "~/*", "src/*,/etc/*"),
        *(f"{top}/*", f"{top}/p*/../private", f"{top}/project/way/*", "-x*", "[a]*", "https?://x"),
        *("src (1)/*", "src/[ab]"),  # some take patterns apart there
        "src/**/?.txt",  # for whoever takes it for a URL it ends before the `?`
    ):
        assert not admits(on, glob, kind=Kind.GLOB), glob
    assert not admits(on, "*"), "a path may have that name"


def test_a_glob_of_wildcards_alone_starts_where_a_relative_path_does(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    for cwd, expected in ((None, True), (top / "project", True), (top, False)):
        on = plain_check(share(top / "project"), cwd=cwd)
        assert admits(on, "**/*.py", kind=Kind.GLOB) is expected, cwd
    on = plain_check(share(top / "project"))
    (top / "project").rename(top / "elsewhere")
    (top / "project").symlink_to(top / "private")
    assert not admits(on, "*", kind=Kind.GLOB)
    assert not admits(plain_check(RootSet(())), "*", kind=Kind.GLOB)


def test_a_value_that_may_be_a_mount_is_left_to_the_judge(tmp_path: Path) -> None:
    on = plain_check(share(tmp_path))
    for kind, expected in ((Kind.PATH, True), (Kind.NEUTRAL, True), (Kind.WEAK, False)):
        assert admits(on, f"file://{tmp_path}/a", kind=kind) is expected, "of a place named `file`"


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("note://one", True),
        ("https://example.com/a/b.c", True),
        ("note://../x", False),
        ("note://a/../x", False),
        ("note://a/.", False),
        ("note://a/%2e%2e/x", False),
        ("note://a?b=/etc", False),
        ("note://a::/etc", False),
        ("note:///etc", False),
        ("note://a\n/etc", False),
        ("file://a/etc", False),
        ("unix://a/b", False),
        ("sqlite://a", False),
        ("zip://a/b", False),
        ("postgres://h/d?sslkey=/etc", False),
    ],
)
def test_a_plain_url_is_no_path_where_its_name_does_not_say_so(
    tmp_path: Path, url: str, *, plain: bool
) -> None:
    on = plain_check(share(tmp_path))
    assert admits(on, url, kind=Kind.NEUTRAL) is plain
    assert not admits(on, url, kind=Kind.WEAK)
    assert is_plain_url(url) is plain


@given(st.from_regex(r"[a-z+.]{1,9}://[\w.:/-]{1,20}", fullmatch=True))
def test_the_judge_admits_every_plain_url(url: str) -> None:
    guard = compile_tool({}, read_only=False, policy=ToolPolicy(Policy()))
    if is_plain_url(url):
        world = context(share(Path(gettempdir())))
        assert isinstance(decide(tool_call({"item": url}), guard, world), Admitted)


def test_a_value_that_is_not_plain_is_left_to_the_judge(tmp_path: Path) -> None:
    on = plain_check(share(tmp_path))
    assert on is not None
    for text in (
        f"{tmp_path}/a/../b",
        f"{tmp_path}/a,b",
        "",
        f"{tmp_path}//",
        "$HOME",
        f"file:{tmp_path}",
    ):
        assert not admits(on, text), text
    whole = {Kind.PATH, Kind.WEAK, Kind.NEUTRAL, Kind.GLOB}
    for kind in Kind:
        assert on.admits([candidate(f"{tmp_path}/a", kind)], OsDisk()) is (kind in whole), kind
    assert not on.admits([candidate(5)], OsDisk())


@pytest.mark.parametrize(
    ("patterns", "shared", "most"),
    [(0, 1, 1000), (31, 1, 1000), (32, 1, 500), (0, 2, 500), (16, 2, 250), (1024, 1, 30)],
)
def test_many_paths_are_left_to_the_judge_with_its_budget(
    tmp_path: Path, patterns: int, shared: int, most: int
) -> None:
    folders = [tmp_path / name for name in "ab"[:shared]]
    for folder in folders:
        folder.mkdir()
    policy = Policy(deny=DenyPatterns(tuple(f"x{number}" for number in range(patterns))))
    on = plain_check(share(*folders), policy=policy, cwd=folders[0])
    paths = [folders[0] / str(number) for number in range(most + 1)]
    assert admits(on, *paths[:-1])
    assert not admits(on, *paths)


@pytest.mark.parametrize("moved", ["project", ""])
def test_a_moved_root_or_ceiling_admits_nothing(tmp_path: Path, moved: str) -> None:
    top = plant(tmp_path / "top", *PROJECT)
    on = plain_check(share(top / "project"), share(top))
    assert admits(on, top / "project/a.txt")
    (top / moved).rename(tmp_path / "elsewhere")
    assert not admits(on, top / "project/a.txt")
    (top / moved).symlink_to(tmp_path / "elsewhere")
    assert not admits(on, top / "project/a.txt")
    (top / moved).unlink()
    (tmp_path / "elsewhere").rename(top / moved)
    assert admits(on, top / "project/a.txt")


def test_no_link_may_be_between_a_bound_and_a_root(tmp_path: Path) -> None:
    top = plant(tmp_path / "top", "bound/way/project/a.txt")
    project = top / "bound/way/project"
    on = plain_check(share(project), share(top / "bound"), share(top))
    assert admits(on, project / "a.txt")
    (top / "bound/way").rename(tmp_path / "elsewhere")
    (top / "bound/way").symlink_to(tmp_path / "elsewhere")
    assert not admits(on, project / "a.txt"), "it leads out of the bound"
    assert admits(
        plain_check(share(tmp_path / "elsewhere/project")), tmp_path / "elsewhere/project/a.txt"
    )


def test_a_bound_may_be_spelled_otherwise_than_the_root_below_it() -> None:
    disk = FakeLinks("/ééé/", "/ééé/a/b/c/x", "/e\u0301e\u0301e\u0301/")
    roots, bound = (
        share(path, links=disk, flavour=MACOS) for path in ("/ééé/a/b/c", "/e\u0301e\u0301e\u0301")
    )
    world = replace(context(roots), flavour=MACOS)
    on = PlainPathCheck.of(world, bound.roots, Policy(), needs_write=False)
    assert on is not None
    assert on.admits([candidate("/ééé/a/b/c/x")], disk)
    disk.plant("/ééé/a => /elsewhere")
    assert not on.admits([candidate("/ééé/a/b/c/x")], disk)


def test_a_bound_that_is_not_above_a_root_does_not_count(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    on = plain_check(
        share(top / "docs", top / "project"), share(top / "docs"), share(top / "project")
    )
    (top / "docs").rename(top / "elsewhere")
    assert admits(on, top / "project/a.txt")
    assert not admits(on, top / "docs/b.md")


def test_a_disk_that_does_not_answer_is_an_error() -> None:
    disk = FakeLinks("/r/d/f")
    on = plain_check(share("/r", links=disk))
    assert on is not None
    disk.unreadable.add("/r/d")
    with pytest.raises(PathError):
        on.admits([candidate("/r/d/f")], disk)


@pytest.mark.long
def test_some_policies_have_no_quick_check(tmp_path: Path) -> None:
    roots = share(tmp_path)
    patterns = tuple(str(number) for number in range(1025))
    assert plain_check(roots, policy=Policy(deny=DenyPatterns(patterns[:-1]))) is not None
    assert plain_check(roots, policy=Policy(deny=DenyPatterns(patterns))) is None
    assert plain_check(roots, policy=Policy(rewrite="canonical")) is None
    assert plain_check(roots, policy=Policy(deny=DenyPatterns(("*.a", "!b.a")))) is None
    for many, expected in ((512, True), (513, False)):
        on = plain_check(
            roots, policy=Policy(deny=DenyPatterns(patterns[:many])), cwd=tmp_path / "b"
        )
        assert admits(on, "a") is expected, "it is held against all of them from each directory"
        assert admits(on, tmp_path / "a")
    assert plain_check(roots, policy=Policy(symlinks="deny")) is not None


def test_a_path_that_a_deny_pattern_may_match_is_left_to_the_judge(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT, "project/src/.env")
    deny = Policy(deny=DenyPatterns(("**/.env", "/deep/", "*.key")))
    on = plain_check(share(top / "project", top / "project/src"), policy=deny)
    for free in ("src/a.py", "a.txt", "deeper/b", "new/a.txt", "a.keys", "src/env"):
        assert admits(on, top / "project" / free), free
    for denied in (".env", "new/.env", ".env/x", "src/.env", "a.key", "deep/b", "src/deep/b.txt"):
        assert not admits(on, top / "project" / denied), denied
        assert not admits(on, top / "project/a.txt", top / "project" / denied), denied


def test_patterns_know_no_case_where_names_do_not(tmp_path: Path) -> None:
    policy = Policy(deny=DenyPatterns((".ENV",)))
    for flavour, expected in ((POSIX, True), (MACOS, False)):
        world = replace(context(share(tmp_path, flavour=flavour)), flavour=flavour)
        on = PlainPathCheck.of(world, (), policy, needs_write=False)
        assert admits(on, tmp_path / ".Env") is expected


def test_a_read_only_path_is_not_admitted_for_a_tool_that_writes(tmp_path: Path) -> None:
    top = plant(tmp_path, *PROJECT)
    roots = share(top / "project")
    rules = (
        AccessRule(parts_of(str(top / "project/src"), POSIX), "read"),
        AccessRule(parts_of(str(top / "project/src/deep"), POSIX), "write"),
        AccessRule(parts_of(str(top / "project/a.txt"), POSIX), "write"),
    )
    reads = plain_check(roots, policy=Policy(access=rules))
    writes = plain_check(roots, policy=Policy(access=rules), needs_write=True)
    for path, may_write in (("src/a.py", False), ("src", False), ("srcs", True), ("a.txt", True)):
        assert admits(reads, top / "project" / path)
        assert admits(writes, top / "project" / path) is may_write, path


def test_a_root_above_an_unsafe_place_admits_nothing() -> None:
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
        on = plain_check(share(path, links=disk), policy=policy)
        assert on is not None
        assert bool(on.folders) is expected, path


def test_a_shared_file_and_the_top_of_all_are_left_to_others(tmp_path: Path) -> None:
    file = plant(tmp_path, "f") / "f"
    on = plain_check(share(file, "/"))
    assert on is not None
    assert on.folders == ()
    assert not admits(on, file)


STEPS = st.lists(st.sampled_from(["a", "b", "c d", "é*", "..", "."]), min_size=1, max_size=4)
WAYS = st.tuples(st.sampled_from(["", "./", "top", "uri"]), STEPS, st.sampled_from(["", "/"]))
"""Where a path starts, its names, and what it ends in."""
NAMES = st.lists(st.sampled_from(["a", "b", "c d", "éa"]), min_size=1, max_size=4)
TREES = st.lists(st.tuples(NAMES, st.none() | STEPS), max_size=8)


PATTERNS = st.sampled_from(["a", "b/", "/a/b", "**/b/a", "a*/c d", "c?d", "*"])
STARTS = st.none() | st.tuples(st.integers(0, 2), st.just([]) | STEPS)
"""The directory that a child runs in: one of those that are shared, or where steps in it lead."""


@given(
    st.tuples(TREES, st.lists(NAMES, min_size=1, max_size=3), STARTS),
    st.lists(WAYS, min_size=1, max_size=4),
    st.sampled_from(KINDS),
    st.lists(PATTERNS, max_size=2),
    st.lists(st.tuples(NAMES, st.sampled_from(["read", "write"])), max_size=2),
)
def test_the_check_admits_only_what_the_guard_admits(
    grown: tuple[
        list[tuple[list[str], list[str] | None]],
        list[list[str]],
        tuple[int, list[str]] | None,
    ],
    ways: list[tuple[str, list[str], str]],
    named: tuple[str, Kind],
    denied: list[str],
    rights: list[tuple[list[str], Access]],
) -> None:
    tree, shared, start = grown
    key, kind = named
    assert node_of_key(key).kind is kind
    with TemporaryDirectory() as made:
        top = Path(made).resolve()
        grow(top, [*tree, *((names, None) for names in shared)])
        folders = [top.joinpath(*names) for names in shared if top.joinpath(*names).is_dir()]
        cwd = None
        if start is not None and folders:
            cwd = "/".join([str(folders[start[0] % len(folders)]), *start[1]])
        world = context(share(*folders), cwd)
        rules = [AccessRule((*parts_of(str(top), POSIX), *at), may) for at, may in rights]
        policy = Policy(deny=DenyPatterns(tuple(denied)), access=tuple(rules))
        on = plain_check(world.roots, policy=policy, needs_write=True, cwd=cwd)
        assert on is not None
        guard = compile_tool({}, read_only=False, policy=ToolPolicy(policy))
        for begin, names, end in ways:
            starts = {"top": f"{top}/", "uri": f"file://{top}/"}
            path = starts.get(begin, begin) + "/".join(names) + end
            verdict = decide(tool_call({key: path}), guard, replace(world, links=OsDisk()))
            if on.admits([candidate(path, kind)], OsDisk()):
                assert isinstance(verdict, Admitted), path
