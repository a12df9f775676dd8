import os
import resource
from pathlib import Path

import pytest

from hub.file_server.files import SharedFiles, SharedFilesError, shared_directory
from tests.kit.trees import asked_as_another_user


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    return top


@pytest.fixture
def files(top: Path) -> SharedFiles:
    return SharedFiles([shared_directory(str(top))])


def test_a_file_is_read_by_absolute_and_by_relative_path(files: SharedFiles, top: Path) -> None:
    (top / "a.txt").write_bytes(b"one\r\ntwo")
    assert files.read("a.txt") == files.read(str(top / "a.txt")) == b"one\r\ntwo"


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/passwd", "link", "folder_link/secret", "", "a\x00b", "gone/../../secret"],
)
def test_a_path_outside_is_refused(files: SharedFiles, top: Path, path: str) -> None:
    (top.parent / "secret").write_text("s")
    (top / "link").symlink_to("../secret")
    (top / "folder_link").symlink_to("..")
    with pytest.raises(SharedFilesError, match="Access denied"):
        files.read(path)
    with pytest.raises(SharedFilesError, match="Access denied"):
        files.write(path, b"x")
    assert (top.parent / "secret").read_text() == "s"


@pytest.mark.parametrize("path", ["../secret", "folder_link/secret", "/etc/"])
def test_a_name_outside_is_neither_moved_nor_deleted(
    files: SharedFiles, top: Path, path: str
) -> None:
    (top.parent / "secret").write_text("s")
    (top / "mine").write_text("m")
    (top / "folder_link").symlink_to("..")
    with pytest.raises(SharedFilesError, match=f"Access denied: Path '{path}'"):
        files.delete(path)
    with pytest.raises(SharedFilesError, match="Access denied"):
        files.move(path, "here")
    with pytest.raises(SharedFilesError, match="Access denied"):
        files.move("mine", path)
    assert (top.parent / "secret").read_text() == "s"


def test_nothing_is_shared_without_directories(tmp_path: Path) -> None:
    none = SharedFiles([])
    with pytest.raises(SharedFilesError, match="outside the shared directories: none"):
        none.listing(str(tmp_path))
    with pytest.raises(SharedFilesError, match="no directory to start from"):
        none.listing(".")


def test_a_single_file_can_be_shared(top: Path) -> None:
    (top / "only").write_text("12")
    (top / "other").write_text("2")
    files = SharedFiles([shared_directory(str(top / "only"))])
    assert files.read(str(top / "only")) == b"12"
    before = (top / "only").stat().st_ino
    files.write(str(top / "only"), b"3")
    assert (top / "only").read_text() == "3"
    assert (top / "only").stat().st_ino == before  # another file would not be shared
    with pytest.raises(SharedFilesError, match="outside"):
        files.read(str(top / "other"))


def test_an_error_names_the_path_and_says_why(files: SharedFiles, top: Path) -> None:
    (top / "folder").mkdir()
    os.mkfifo(top / "pipe")
    for act, path, sentence in [
        (files.read, "gone", "'gone' does not exist"),
        (files.read, "folder", "'folder': Is a directory"),
        (files.read, "pipe", "'pipe' is not a regular file"),
        (files.facts, "gone", "'gone' does not exist"),
        (files.listing, "gone", "'gone' does not exist"),
        (files.delete, "gone", "'gone' does not exist"),
        (files.delete, "folder", "'folder' is a directory"),
        (files.delete, ".", "'.' does not end in a name"),
    ]:
        with pytest.raises(SharedFilesError) as caught:
            act(path)
        assert str(caught.value) == sentence


def test_a_file_over_the_limit_is_read_in_parts(top: Path) -> None:
    files = SharedFiles([shared_directory(str(top))], max_read=10)
    (top / "a").write_bytes(b"12345\n12345\n12345\n")
    with pytest.raises(SharedFilesError, match="larger than 10 bytes"):
        files.read("a")
    with pytest.raises(SharedFilesError, match="over 10 bytes"):
        files.read_lines("a", head=2)
    assert files.read_lines("a", head=1) == b"12345\n"
    (top / "a").write_bytes(b"12345\n12345\nend")
    assert files.read_lines("a", tail=2) == b"12345\nend"


def test_no_part_of_a_line_is_returned_as_a_line(top: Path) -> None:
    files = SharedFiles([shared_directory(str(top))], max_read=10)
    (top / "a").write_bytes(b"12345678901234\n")
    for part in ({"head": 1}, {"tail": 1}):
        with pytest.raises(SharedFilesError, match="over 10 bytes"):
            files.read_lines("a", **part)
    (top / "a").write_bytes(b"1234567890")
    assert files.read_lines("a", tail=3) == files.read_lines("a", head=3) == b"1234567890"
    (top / "a").write_bytes(b"\n\nb\rc\n\n")
    assert files.read_lines("a", tail=2) == b"b\rc\n\n"
    assert files.read_lines("a", head=3) == b"\n\nb\rc\n"
    (top / "a").write_bytes(b"")
    assert files.read_lines("a", tail=1) == files.read_lines("a", head=1) == b""


def test_the_last_lines_of_a_huge_file_come_at_once(files: SharedFiles, top: Path) -> None:
    with (top / "log").open("wb") as log:
        log.truncate(1 << 42)
        log.seek(0, os.SEEK_END)
        log.write(b"\nlast\n")
    assert files.read_lines("log", tail=1) == b"last\n"


def test_a_write_replaces_at_once_and_leaves_nothing_behind(files: SharedFiles, top: Path) -> None:
    (top / "a").write_text("old")
    (top / "a").chmod(0o640)
    with (top / "a").open() as reader:
        files.write("a", b"new")
        assert reader.read() == "old"
    assert (top / "a").read_text() == "new"
    assert (top / "a").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in top.iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_file_alone(files: SharedFiles, top: Path) -> None:
    (top / "a").write_text("old")
    most, limit = 1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))
    try:
        with pytest.raises(SharedFilesError, match="'a': File too large"):
            files.write("a", b"x" * (most + 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (top / "a").read_text() == "old"
    assert [path.name for path in top.iterdir()] == ["a"]


def test_a_write_through_a_link_changes_its_target(files: SharedFiles, top: Path) -> None:
    (top / "link").symlink_to("real")
    files.write("link", b"x")
    assert (top / "link").is_symlink()
    assert (top / "real").read_text() == "x"


def test_a_write_needs_a_directory_and_a_writable_regular_file(
    files: SharedFiles, top: Path
) -> None:
    (top / "folder").mkdir()
    with pytest.raises(SharedFilesError, match="gone' is not a directory; create it first"):
        files.write("gone/a", b"x")
    with pytest.raises(SharedFilesError, match="'new/' names a directory"):
        files.write("new/", b"x")
    assert not (top / "new").exists()
    with pytest.raises(SharedFilesError, match="'folder' is not a regular file"):
        files.write("folder", b"x")
    (top / "a").write_text("old")
    (top / "a").chmod(0o444)
    with asked_as_another_user(), pytest.raises(SharedFilesError, match="'a' is read-only"):
        files.write("a", b"x")
    assert (top / "a").read_text() == "old"


def test_a_listing_tells_links_directories_and_files_apart(files: SharedFiles, top: Path) -> None:
    (top / "b").mkdir()
    (top / "c").write_text("")
    (top / "a").symlink_to("b")
    assert files.listing(".") == [("LINK", "a"), ("DIR", "b"), ("FILE", "c")]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "docs/b.py", "docs/deep/c.py"]),
        ("docs/*.py", ["docs/b.py"]),
        ("docs/**/*.py", ["docs/b.py", "docs/deep/c.py"]),
        ("**/deep/**", ["docs/deep", "docs/deep/c.py"]),
        ("d?cs", ["docs"]),
        ("**/**/**/**/[ab].py", ["a.py", "docs/b.py"]),
        ("../*", []),
        ("", []),
    ],
)
def test_a_search_matches_by_component(
    files: SharedFiles, top: Path, pattern: str, found: list[str]
) -> None:
    (top / "docs" / "deep").mkdir(parents=True)
    for name in ["a.py", "docs/b.py", "docs/deep/c.py"]:
        (top / name).write_text("")
    assert sorted(files.search(".", pattern, [])) == [str(top / name) for name in found]


def test_a_search_leaves_out_follows_no_link_and_has_an_end(top: Path) -> None:
    files = SharedFiles([shared_directory(str(top))], max_found=2)
    (top / "skip").mkdir()
    (top / "loop").symlink_to(".")
    for name in ["skip/x.py", "a.py", "b.py", "c.py", "d.py"]:
        (top / name).write_text("")
    found = [str(top / name) for name in ["a.py", "c.py", "d.py"]]
    assert files.search(".", "*.py", ["skip", "b.*"]) == found
    with pytest.raises(SharedFilesError, match=r"'a.py' is not a directory"):
        files.search("a.py", "*", [])


def test_a_search_goes_as_deep_as_paths_can(files: SharedFiles, top: Path) -> None:
    deep = top
    for _ in range(1200):
        deep /= "d"
        deep.mkdir()
    (deep / "found").touch()
    (deep / "left out").touch()
    (top / "d2").touch()
    found = files.search(".", "[!d]*", ["left*"])
    for name in ("found", "left out"):
        (deep / name).unlink()
    os.removedirs(deep)  # pytest's own way of removing it goes not so deep
    assert found == [str(deep / "found")]


def test_a_search_looks_only_where_something_can_match(files: SharedFiles, top: Path) -> None:
    (top / "docs" / "deep").mkdir(parents=True)
    (top / "docs" / "a.md").touch()
    (top / "others" / "docs").mkdir(parents=True)
    seen = list[None]()

    def counted() -> bool:
        seen.append(None)
        return True

    found = files.search(".", "docs/*.md", [], counted)
    assert (found, len(seen)) == ([str(top / "docs" / "a.md")], 2)


def test_facts_tell_kind_size_and_permissions(files: SharedFiles, top: Path) -> None:
    (top / "a").write_text("123")
    (top / "a").chmod(0o600)
    os.mkfifo(top / "pipe")
    assert (files.facts("a").kind, files.facts("a").size) == ("file", 3)
    assert files.facts("a").permissions == "600"
    assert files.facts(".").kind == "directory"
    assert files.facts("pipe").kind == "other"


def test_directories_are_created_with_those_above_and_again(files: SharedFiles, top: Path) -> None:
    files.create_directory("a/b")
    files.create_directory("a/b")
    assert (top / "a" / "b").is_dir()
    (top / "file").write_text("")
    with pytest.raises(SharedFilesError, match="'file': File exists"):
        files.create_directory("file")


def test_a_move_takes_the_link_itself_and_never_overwrites(files: SharedFiles, top: Path) -> None:
    (top / "real").write_text("r")
    (top / "link").symlink_to("real")
    files.move("link", "moved")
    assert (top / "moved").is_symlink()
    with pytest.raises(SharedFilesError, match="'real' already exists"):
        files.move("moved", "real")
    with pytest.raises(SharedFilesError, match="'gone' does not exist"):
        files.move("gone", "x")
    (top / "folder").mkdir()
    with pytest.raises(SharedFilesError, match="into itself"):
        files.move("folder", "folder/inner")
    with pytest.raises(SharedFilesError, match=r"top/gone' is not a directory; create it first"):
        files.move("real", "gone/b")


def test_a_delete_removes_the_link_and_not_its_target(files: SharedFiles, top: Path) -> None:
    (top.parent / "secret").write_text("s")
    (top / "link").symlink_to("../secret")
    (top / "folder_link").symlink_to("..")
    files.delete("link")
    files.delete("folder_link")
    assert list(top.iterdir()) == []
    assert (top.parent / "secret").exists()


def test_only_what_exists_can_be_shared(tmp_path: Path) -> None:
    with pytest.raises(SharedFilesError, match="does not exist"):
        shared_directory(str(tmp_path / "gone"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SharedFilesError, match="too many symbolic links"):
        shared_directory(str(tmp_path / "loop"))


def test_a_directory_is_created_as_deep_as_paths_can_be(files: SharedFiles, top: Path) -> None:
    (top / "file").write_text("")
    files.create_directory("d/" * 1500)
    deepest = top / ("d/" * 1500)
    assert deepest.is_dir()
    os.removedirs(deepest)  # what cleans up after tests cannot do it either
    for path in ("file", "file/below"):
        with pytest.raises(SharedFilesError, match="file"):
            files.create_directory(path)


def test_repeated_stars_of_a_pattern_match_what_two_do(files: SharedFiles, top: Path) -> None:
    (top / "a/b").mkdir(parents=True)
    (top / "a/b/x.txt").write_text("")
    for stars in ("**", "**/**", "**/./**/**"):
        assert files.search(".", f"{stars}/x.txt", []) == [f"{top}/a/b/x.txt"]
        assert files.search(".", f"a/{stars}", []) == files.search(".", "a/**", [])


def test_patterns_that_are_too_long_are_refused(files: SharedFiles, top: Path) -> None:
    for at in range(300):
        (top / f"{at}").write_text("")
    assert files.search(".", "**/" * 4000 + "x", []) == []
    for pattern, exclude in (("x" * 20_000, list[str]()), ("x", ["**/x"] * 20_000)):
        with pytest.raises(SharedFilesError, match="over 16384 characters"):
            files.search(".", pattern, exclude)
