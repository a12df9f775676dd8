import pytest

from hub.guard.text.overlong import is_one_path, paths_in, shortened, straightened
from hub.guard.text.readings import Reader
from hub.paths.resolve import PATH_MAX, PathError
from tests.kit.worlds import POSIX

READER = Reader({"HOME": "/h"}, POSIX)
MANY = 5000


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("/etc/x" + " " * MANY, "/etc/x"),
        ("\n" * MANY + "/etc/x", "/etc/x"),
        ('"' + " " * MANY + '/etc/x"', "/etc/x"),
        ("/etc/" + "./" * MANY + "x", "/etc/x"),
        ("/etc" + "/" * MANY + "x", "/etc/x"),
        ("./" * MANY + "../x", "./../x"),
        ("..\\" + ".\\" * MANY + "x", "../x"),
        ("/etc/" + "\n" * MANY + "x", "/etc/\nx"),
        ("/etc/x" + "\u200b" * MANY, "/etc/x"),
        ("/etc" + "\uff0f\uff0e" * MANY + "/x", "/etc/x"),
        ("%2e/" * MANY + "x", "./x"),
        ("%252e/" * MANY + "x", "./x"),
        ("/etc" + "$NO" * MANY + "/x", "/etc/x"),
        ("/etc/" + "${NO}" * MANY + "x", "/etc/x"),
        ("//host/" + "./" * MANY + "x", "//host/x"),
    ],
)
def test_padding_that_a_child_may_remove_is_removed(text: str, form: str) -> None:
    assert shortened(text, READER) == ([form], "")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("/api/" + "a/../" * MANY + "etc", "/api/etc"),
        ("a/../" * MANY + "../x", "../x"),
        ("/etc/" + "a" * MANY + "/../x", "/etc/x"),
        ("one two three four/" + "\n" * 2 + "a" * MANY + "/../../x", "x"),
    ],
)
def test_detours_are_taken_out(text: str, form: str) -> None:
    forms, rest = shortened(text, READER)
    assert form in forms
    assert len(rest) >= PATH_MAX


@pytest.mark.parametrize(
    "text",
    [
        "x/" * MANY,
        "words and more words, " * MANY,
        "let me see " * MANY + "require('../../../x')",
        "$HOME" * MANY,
        "QUJD" * MANY,
    ],
)
def test_text_that_stays_too_long_is_returned(text: str) -> None:
    forms, rest = shortened(text, READER)
    assert forms == []
    assert len(rest) >= PATH_MAX


def test_escapes_of_escapes_have_an_end() -> None:
    with pytest.raises(PathError):
        shortened("%" + "25" * MANY + "41", READER)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("a", True), ("a b c", True), ("a b c d", False), ("a\nb\nc\nd\n" * MANY, False)],
)
def test_a_text_of_many_words_is_no_path(text: str, *, is_one: bool) -> None:
    assert is_one_path(text) is is_one


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a,/b;~/c,../d,/b", ["/b", "~/c", "../d"]),
        ("k=/etc", ["/etc"]),
        ("a:/b:c:\\d", ["/b", "\\d"]),
        ("https://x/y,z", []),
        ("/a", []),
    ],
)
def test_the_paths_of_a_list(text: str, paths: list[str]) -> None:
    assert paths_in(text) == paths


@pytest.mark.parametrize(
    ("text", "straight"),
    [("/a//./b/../c/", "/a/c"), ("../../a", "../../a"), ("a/../..", ".."), ("/../x", "/../x")],
)
def test_a_straight_path(text: str, straight: str) -> None:
    assert straightened(text) == straight
