import pytest

from hub.guard.text.commands import expands, plainly_quoted, words_of
from hub.guard.text.shell import ways_to_parse


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat /etc/passwd", ["cat", "/etc/passwd"]),
        ("echo x >/etc/x", ["echo", "x", "/etc/x"]),
        ("a;b|c&&d", ["a", "b", "c", "d"]),
        ("cat '/et'c\"/x\" a\\ b", ["cat", "/etc/x", "a b"]),
        ("echo $(cat /etc/x) `id`", ["cat", "/etc/x", "id", "echo", "$"]),
        ("/usr/bin/env python3 a.py", ["python3", "a.py"]),
        ("A=1 sudo /bin/ls /bin/x", ["A=1", "sudo", "/bin/x"]),
        ("ls | /usr/local/bin/x", ["ls"]),
        ("cp a /usr/bin/x", ["cp", "a", "/usr/bin/x"]),
        ("x 2>/dev/null >/dev/stderr </dev/sda", ["x", "/dev/sda"]),
        ("x </usr/bin/y", ["x", "/usr/bin/y"]),
        ("x -p /dev/ttyUSB0 --port=/dev/cu.usb-1", ["x", "-p"]),
        ("x /dev/ttyUSB0/../sda /dev/cu.x/y", ["x", "/dev/ttyUSB0/../sda", "/dev/cu.x/y"]),
        ("say 'it", ["say", "it"]),
        ("", []),
    ],
)
def test_a_command_is_taken_apart_as_a_shell_would(command: str, words: list[str]) -> None:
    assert (
        list(
            dict.fromkeys(
                word.text for word in words_of(command, ways_to_parse(command), starts=True)
            )
        )
        == words
    )


def test_arguments_name_no_program() -> None:
    assert [word.text for word in words_of("/bin/x", ways_to_parse("/bin/x"), starts=False)] == [
        "/bin/x"
    ]


@pytest.mark.parametrize(
    ("word", "is_expanded"),
    [
        (".*", True),
        ("'.*'", False),
        ('".?"', False),
        (r"\*", False),
        ("'a'*", True),
        ("'a*'.[b]", True),
        ("'cat .*/x'", True),
        ("'cat<.*'", True),
        ("'{cat,.*}'", True),
        ('"$x.*"', True),
        ("'.*", True),
        ("a", False),
    ],
)
def test_a_shell_expands_no_wildcards_in_quotes(word: str, is_expanded: bool) -> None:
    assert expands(word) is is_expanded


@pytest.mark.parametrize(
    ("command", "quoted"),
    [
        (r"cat $'\x2fetc'", "cat '/etc'"),
        (r"cat $'\057etc'", "cat '/etc'"),
        (r"cat $'\u002fetc'", "cat '/etc'"),
        (r"cat $'a\\b'", r"cat 'a\b'"),
        (r"cat $'\'/etc'", r"cat ''\''/etc'"),
        (r"cat $'a\nb'", "cat 'a b'"),
        (r"cat $'\U0010ffff'", "cat '\U0010ffff'"),
        (r"cat $'\Uffffffff'", "cat '\ufffd'"),
        ("cat 'a'", "cat 'a'"),
    ],
)
def test_a_quoted_string_is_decoded_as_a_shell_would(command: str, quoted: str) -> None:
    assert plainly_quoted(command) == quoted
