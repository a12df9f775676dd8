import pytest
from msgspec.structs import replace

from hub.guard.budget import MAX_WAYS
from hub.guard.text.readings import Reader, readings
from hub.guard.text.uris import is_local_uri, is_remote
from hub.paths.resolve import PathError
from tests.kit.worlds import POSIX, WINDOWS

READER = Reader({"HOME": "/h", "X": "x"}, POSIX)


@pytest.mark.parametrize("text", ["/a/b.txt", "a/b", "a", "/", "a-b_c", "/a/", ""])
def test_a_plain_path_has_one_reading(text: str) -> None:
    assert readings(text, READER) == {text: "as given"}


@pytest.mark.parametrize(
    ("text", "other", "how"),
    [
        (" /etc ", "/etc", "trimmed and unquoted"),
        ('"/etc"', "/etc", "trimmed and unquoted"),
        ("%2fetc", "/etc", "percent-decoded"),
        ("%252fetc", "/etc", "percent-decoded"),
        ("%252e%252e/x", "../x", "percent-decoded"),
        ("..\\x", "../x", "with '\\' as '/'"),
        ("\uff0e\uff0e\uff0fx", "../x", "in plain characters"),
        (".\u200b./x", "../x", "in plain characters"),
        ("..\u2215x", "../x", "in plain characters"),
        ("$HOME/x", "/h/x", "with variables and '~' expanded"),
        ("${HOME}/x", "/h/x", "with variables and '~' expanded"),
        ("${NO:-/etc}", "/etc", "with variables and '~' expanded"),
        ("${NO-/a/$HOME/b}", "/a/$HOME/b", "with variables and '~' expanded"),
        ("${HOME:+/etc}", "/etc", "with variables and '~' expanded"),
        ("~/x", "/h/x", "with variables and '~' expanded"),
        ("{a,/etc}", "/etc", "one alternative of the braces"),
        ("a,/etc", "/etc", "one item of a list"),
        ("a;/etc", "/etc", "one item of a list"),
        ("['a', '/etc']", "/etc", "what is quoted in it"),
        ("{'path': '/etc'}", "/etc", "what is quoted in it"),
        ("%u002e%u002e/x", "../x", "percent-decoded"),
        (".\u00ad./x", "../x", "in plain characters"),
        ("....//x", "../x", "cleaned"),
        ("..././x", "../x", "cleaned"),
        (".*./.<./x", "../../x", "cleaned"),
        ('.""./x', "../x", "cleaned"),
        ("a/../.?./x", "a/../../x", "cleaned"),
        ("netdoc:///etc", "/etc", "as a local URI"),
        ("file:///a,file:///etc/x", "/etc/x", "as a local URI"),
        ("file:///a|/etc/x", "/etc/x", "one item of a list"),
        ("file:a?mode=ro", "a", "as a local URI"),
        ("file:../a#b", "../a#b", "as a local URI"),
        ("a:/etc", "/etc", "one item of a list"),
        ("see file:///etc", "/etc", "as a local URI"),
        ("k=/etc", "/etc", "the right-hand side"),
        ("--out=/etc", "/etc", "the right-hand side"),
        ("-o/etc", "/etc", "the right-hand side"),
        ("@/etc", "/etc", "the right-hand side"),
        ("a\n/etc", "/etc", "one item of a list"),
        ("a\t/etc", "/etc", "one of several words"),
        ("a.txt|/etc", "/etc", "one item of a list"),
        ("concat:a.ts|../x", "../x", "one item of a list"),
        ("zip://a::/etc", "/etc", "one link of a chain of URLs"),
        ("https://a/b.zip::/etc", "/etc", "one link of a chain of URLs"),
        ('"/etc', "/etc", "trimmed and unquoted"),
        ("/etc'", "/etc", "trimmed and unquoted"),
        ("-d@/etc", "/etc", "the right-hand side"),
        ("-T+/etc", "/etc", "the right-hand side"),
        ("a+/etc", "/etc", "the right-hand side"),
        ("-ox", "x", "the right-hand side"),
        ("a.zip!/etc", "/etc", "the right-hand side"),
        ("++a", "a", "the right-hand side"),
        ("-o a b", "a b", "the right-hand side"),
        ("[/etc]", "/etc", "one item of a list"),
        ('a "b\'c" d', "b'c", "what is quoted in it"),
        ("[x](/etc)", "/etc", "what is quoted in it"),
        ("/etc?x", "/etc", "without what a URL has behind its path"),
        ("a /etc", "/etc", "one of several words"),
        ("fi\nle:///etc", "/etc", "as a local URI"),
        ("file:///etc?x", "/etc", "as a local URI"),
        ("view-source:file:///etc", "/etc", "as a local URI"),
        ("git+file:///etc", "/etc", "as a local URI"),
        ("sqlite:////etc/x", "/etc/x", "as a local URI"),
        ("sqlite:///x?mode=ro", "x", "as a local URI"),
        ("unix:///run/x", "/run/x", "as a local URI"),
        ("postgres://h/d?sslmode=x&sslkey=/etc/x", "/etc/x", "a parameter of a server's URL"),
        ("mysql+pymysql://u:p@h/d?ssl_ca=%2Fetc", "/etc", "percent-decoded"),
        ("MongoDB://h/?a=b;tlsCAFile=../x", "../x", "a parameter of a server's URL"),
        ("mysql://h/d?key=file:/etc", "/etc", "as a local URI"),
        ("postgresql://u@%2Frun%2Fx:5/d", "/run/x", "percent-decoded"),
    ],
)
def test_a_text_has_other_readings(text: str, other: str, how: str) -> None:
    assert readings(text, READER)[other] == how


@pytest.mark.parametrize(
    ("text", "other"),
    [("*/etc/x", "/etc/x"), (".:./bin", "../bin"), (".|./x", "../x"), (".*.", "..")],
)
def test_a_list_or_a_pattern_is_not_cleaned(text: str, other: str) -> None:
    assert other not in readings(text, READER)


def test_a_plus_in_a_pattern_repeats_what_is_before_it() -> None:
    assert "/b" not in readings("a+/b", replace(READER, is_pattern=True))


def test_a_local_uri_is_not_also_a_relative_path() -> None:
    whole = replace(READER, whole=True)
    assert list(readings("file:///a%20b", whole)) == ["/a b"]
    assert list(readings("file:///a#b", whole)) == ["/a", "/a#b"]


@pytest.mark.parametrize("text", ["file:///a,file:///etc/x", "file:///a|file:///etc/x"])
def test_several_uris_are_several_paths_even_in_a_whole_text(text: str) -> None:
    assert "/etc/x" in readings(text, replace(READER, whole=True))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("$NO/etc", "/etc"),
        ("/$1etc", "/etc"),
        ("a$IFS../x", "../x"),
        ("a$IFS$X/etc", "x/etc"),
        (".?/x", "../x"),
        ("a/.[.]/x", "a/../x"),
        (".*/x", "../x"),
        (".''./x", "../x"),
        (".'.'/x", "../x"),
        (".\\./x", "../x"),
        ("/e\\tc", "/etc"),
        ('a\'b\'/../"c\\"d"', 'ab/../c"d'),
    ],
)
def test_a_shell_reads_more_than_others_do(text: str, other: str) -> None:
    assert other in readings(text, replace(READER, as_shell=True))
    assert other not in readings(text, READER)


def test_the_path_of_a_folder_is_not_taken_apart() -> None:
    text = "/my docs, 1/a b,/etc"
    reader = replace(READER, folders=("/my docs, 1",))
    assert "/my" in readings(text, READER)
    read = readings(text, reader)
    assert "/my" not in read
    assert "/my docs, 1" not in read
    assert {"/my docs, 1/a", "b", "/etc"} <= {*read}


def test_in_a_command_the_rest_of_a_folders_path_is_no_absolute_path() -> None:
    read = readings("/my docs/a b;cat /etc", replace(READER, folders=("/my docs",)))
    assert "/a" not in read
    assert "/etc" in read


def test_one_bracket_makes_no_list() -> None:
    assert "/etc" not in readings("x/etc]", READER)
    assert "/et" not in readings("[/etc", READER)


def test_how_a_path_starts_is_no_other_path() -> None:
    read = readings("/out/a b,c", replace(READER, is_path=True, folders=("/r",)))
    assert "/out/a" not in read
    assert {"b", "c"} <= {*read}


def test_quotes_in_a_folders_path_stay() -> None:
    reader = replace(READER, as_shell=True, folders=("/it's/x'y",))
    read = readings("/it's/x'y/l'i'nk", reader)
    assert "/it's/x'y/link" in read
    assert "/its/xy/link" not in read


@pytest.mark.parametrize(
    "text", ["https://h/x?a=/etc", "data:image/png;base64,/9j/", "https?://[^/]+/etc"]
)
def test_a_remote_uri_has_no_other_reading(text: str) -> None:
    assert list(readings(text, READER)) == [text]
    assert is_remote(text)
    assert not is_local_uri(text)


def test_a_whole_text_is_not_taken_apart() -> None:
    reader = Reader({}, POSIX, whole=True)
    assert list(readings("a, /etc", reader)) == ["a, /etc"]


def test_windows_knows_other_variables_and_no_colon_lists() -> None:
    reader = Reader({"TEMP": "C:\\T", "USERPROFILE": "C:\\U"}, WINDOWS)
    assert "C:\\T\\x" in readings("%TEMP%\\x", reader)
    assert "C:\\U\\x" in readings("~\\x", reader)
    assert "/a" not in readings("C:/a", reader)
    assert "100%" in readings("100%", reader)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a " * 20_000, "longer than any path"),
        ("{a,b}" * 9, "too many ways"),
        ("..%c0%afx", "percent-encoding"),
        ("%e0%80%ae", "percent-encoding"),
        ("file://host/x", "another machine"),
    ],
)
def test_an_ambiguous_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PathError, match=reason):
        readings(text, READER)


def test_a_home_directory_that_is_not_set_is_an_error() -> None:
    with pytest.raises(PathError, match="HOME is not set"):
        readings("~/x", Reader({}, POSIX))
    with pytest.raises(PathError, match="%NO% is not set"):
        readings("%NO%", Reader({}, WINDOWS))


def test_a_list_may_be_long() -> None:
    assert len(readings(",".join(f"a{n}" for n in range(100)), READER)) == 101
    with pytest.raises(PathError, match="too many ways"):
        readings(",".join(f"a{n}" for n in range(MAX_WAYS + 1)), READER)
    with pytest.raises(PathError, match="too many ways"):
        readings("a:" * 4000, READER)


@pytest.mark.parametrize(
    "text", ["a+" * 4000, "{" * 8000, "{a" + "," * 8000, "-" * 8000, "....//.*./" * 100]
)
def test_a_text_of_many_signs_has_few_readings(text: str) -> None:
    found = readings(text, READER)
    assert text in found
    assert len(found) < 10


@pytest.mark.parametrize("letter", ["a", "", "\uff0f"])
def test_no_name_has_that_many_marks(letter: str) -> None:
    assert readings(letter + "\u0301\u0327" * 50, READER)
    with pytest.raises(PathError):
        readings(letter + "\u0301\u0327" * 51, READER)
