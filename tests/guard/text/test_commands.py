import pytest

from hub.guard.text.commands import uncut_words, with_short_roots, words_in, words_of
from hub.guard.text.readings import Reader
from hub.paths.resolve import Flavour
from tests.kit.worlds import POSIX, WINDOWS


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat /etc/passwd", ["cat", "/etc/passwd"]),
        ("echo x >/etc/x", ["echo", "x", "/etc/x"]),
        ("a;b|c&&d", ["a", "b", "c", "d"]),
        ("cat '/et'c\"/x\" a\\ b", ["cat", "/etc/x", "a b"]),
        ("echo $(cat /etc/x) `id`", ["echo", "$", "cat", "/etc/x", "id"]),
        ("/usr/bin/env python3 a.py", ["python3", "a.py"]),
        ("A=1 sudo /bin/ls /bin/x", ["A=1", "sudo", "/bin/x"]),
        ("ls | /usr/local/bin/x", ["ls"]),
        ("cp a /usr/bin/x", ["cp", "a", "/usr/bin/x"]),
        ("x 2>/dev/null >/dev/stderr </dev/sda", ["x", "2", "/dev/sda"]),
        ("x </usr/bin/y", ["x", "/usr/bin/y"]),
        ("say 'it", ["say", "it"]),
        ("", []),
    ],
)
def test_a_command_is_taken_apart_as_a_shell_would(command: str, words: list[str]) -> None:
    assert list(words_of(command, starts=True)) == words


def test_arguments_name_no_program() -> None:
    assert list(words_of("/bin/x", starts=False)) == ["/bin/x"]


@pytest.mark.parametrize(
    ("flavour", "command", "words"),
    [
        (POSIX, "cat ${X:-/etc/x}", {"/etc/x"}),
        (POSIX, "cat $'\\x2fetc'", {"/etc"}),
        (POSIX, "cat a\\b", {"ab", "a/b"}),
        (WINDOWS, "type a\\b", {"a/b"}),
    ],
)
def test_words_are_judged_as_any_shell_reads_them(
    flavour: Flavour, command: str, words: set[str]
) -> None:
    assert words <= set(words_in(command, Reader({}, flavour), starts=True))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat a", ["cat a"]),
        ("cat 'a b'", ["'a", "b'", "cat 'a b'"]),
        ("/bin/cat a", []),
        ("cat " + "a" * 512, []),
        ("", []),
    ],
)
def test_without_a_shell_words_keep_their_quotes(command: str, words: list[str]) -> None:
    assert list(uncut_words(command)) == words


def test_the_path_of_a_root_with_a_space_is_not_split() -> None:
    reader = Reader({}, POSIX, folders=("/my root", "/plain"))
    assert with_short_roots("cat '/my root/a' /my\\ root/b", reader) == "cat './a' ./b"
    assert with_short_roots("cat /plain/a '/my roots/a'", reader) == "cat /plain/a '/my roots/a'"
    assert with_short_roots("/my root/a", Reader({}, POSIX)) == "/my root/a"
