"""What the parser makes of a command is what shells make of it: its words, and whom they go to."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hub.guard.budget import TooManyWaysError
from hub.guard.text.shell import parsed, without_remarks
from hub.guard.text.sure_commands import CommandLine

COMMANDS = 400
SECONDS = 60
EXPANSIONS = {
    "$v-": "v",
    "${w}": "w",
    "${x:-a b}": "x",
    "${y:-'c  d'}": "y",
    '${z:-"e f"}': "z",
    "${u:-${w}}": "u",
    "$(k1)": "k1",
    "$(k2 'a b' c)": "k2",
    '$(k3 "a ) b" $(k1))': "k3",
    "$(k4; : # it's\n)": "k4",
    "$(k5 $((1 + 2)))": "k5",
    "`k6`": "k6",
    "`k7 'a b'`": "k7",
}
"""Each is printed as it stands here, so that nothing but quotes is missing from a word."""
PLAIN = [*"abcdefgh", "-x", "k=v", "%", "@", "1", "é", "a#b", "{a}", "!", "~", "^", "=", "*", "?"]
QUOTED = [*"ab cd", " ", "'", ">", ";", "&", "|", "#", "(", ")", "\\", "{", "\t", "<<E", "\n"]
REDIRECTIONS = [">", ">>", "2>", "2> ", "> ", ">|", "<>", ">\t", "3>", "2>> "]
ENDS = ["; ", " ;", " && ", "\n", " # it's a ` remark \" \n", "\n\n", "&&\n", ";\\\n "]


def single_quoted(any_of: random.Random) -> str:
    signs = (sign for sign in any_of.choices([*QUOTED, '"', "`", "$", "$("], k=3) if sign != "'")
    return f"'{''.join(signs)}'"


def double_quoted(any_of: random.Random) -> str:
    escapes = ['\\"', "\\\\", "\\$", "\\`", "\\a", "\\\n"]
    pieces = [*(sign for sign in QUOTED if sign != "\\"), *escapes, *EXPANSIONS]
    return f'"{"".join(any_of.choices(pieces, k=3))}"'


def piece(any_of: random.Random) -> str:
    kind = any_of.randrange(7)
    if kind < 2:
        return any_of.choice(PLAIN)
    if kind == 2:
        return any_of.choice(list(EXPANSIONS))
    if kind == 3:
        return "\\" + any_of.choice([*" '\"$`;&|<>()#\\a*{", "\n"])
    return single_quoted(any_of) if kind == 4 else double_quoted(any_of)


def word(any_of: random.Random) -> str:
    # A digit before a redirection would be the number of a stream.
    return "".join(piece(any_of) for _ in range(any_of.randint(1, 3))) + "w"


def file_name(any_of: random.Random) -> str:
    return shlex.quote("".join(any_of.choices([*"abc $'\"&;#`\\("], k=4))) + "f"


def simple_command(any_of: random.Random) -> str:
    parts = [f"n={word(any_of)}"] if any_of.random() < 0.2 else []
    parts.append(any_of.choice(["show", "sh\\ow", "'show'", 's"ho"w', "sh\\\now"]))
    for _ in range(any_of.randint(0, 4)):
        is_word = any_of.random() < 0.75
        parts.append(word(any_of) if is_word else any_of.choice(REDIRECTIONS) + file_name(any_of))
    return any_of.choice([" ", "  ", "\t", " \\\n"]).join(parts)


def document(any_of: random.Random) -> str:
    end = any_of.choice(["E", "'E'", '"E"', "\\E"])
    lines = any_of.choice(["it's\n", '"\n', "a `\n" if end != "E" else "a\n", "(\n", "\tE \n"])
    return f"show {word(any_of)} <<{end} {word(any_of)}\n{lines}E\nshow w"


def script(any_of: random.Random) -> str:
    made = [any_of.choice([simple_command] * 4 + [document])(any_of) for _ in range(2)]
    # What ends a document ends its line.
    return ("\n" if "<<" in made[0] else any_of.choice(ENDS)).join(made)


def scripts() -> list[str]:
    any_of = random.Random(20)  # noqa: S311 - it need not be secret
    return [script(any_of) for _ in range(COMMANDS)]


SHOW = "show() { for each; do printf '%s\\0' \"$each\" >&9; done; printf '\\1\\0' >&9; }"


def preamble() -> str:
    """Return what makes each expansion print its spelling, and `show` the words that it gets."""
    lines = ["IFS=", "set -f", "exec 9>&1", SHOW]
    for spelling, name in EXPANSIONS.items():
        value = shlex.quote(spelling.removesuffix("-"))
        is_function = name[0] == "k"
        lines.append(f"{name}() {{ printf %s {value}; }}" if is_function else f"{name}={value}")
    return "\n".join(lines)


class Shown(NamedTuple):
    """The words that each command got, and the files that redirections made."""

    words: list[list[str]]
    files: set[str]


def by_parser(text: str) -> Shown:
    commands = [one for one in parsed(text, remarks=True).commands if one.depth == 0]
    run = [one for one in commands if one.lines_of is None]
    words = [[word.text for word in one.given] for one in run]
    files = {word.text for one in run for word in one.words if word.operator[-1:] in {">", "|"}}
    # What is assigned stands before the program.
    return Shown([given[given.index("show") + 1 :] for given in words], files)


def by_shell(name: str, texts: list[str], yard: Path) -> Iterator[Shown]:
    """Yield what a shell makes of each text; it has no programs, and no rights in the machine."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"there is no {name} here: install it to hold the parser against it")
    setpriv = shutil.which("setpriv") if os.geteuid() == 0 else None
    nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"] if setpriv else []
    script = [preamble()]
    for number, text in enumerate(texts):
        (yard / str(number)).mkdir()
        (yard / str(number)).chmod(0o777)
        script.append(f"(cd {number} && eval {shlex.quote(text)})\nprintf '\\2\\0' >&9")
    done = subprocess.run(  # noqa: S603 - it runs nothing but what is built into the shell
        [*nobody, program],
        input="\n".join(script).encode(),
        cwd=yard,
        env={"PATH": "", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=SECONDS,
    )
    for number, shown in enumerate(done.stdout.decode().split("\2\0")[: len(texts)]):
        words = [one.split("\0")[:-1] for one in shown.split("\1\0")[:-1]]
        yield Shown(words, {one.name for one in (yard / str(number)).iterdir()})


@pytest.fixture
def yard() -> Iterator[Path]:
    """Yield an empty folder that every user of the machine may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.live
@pytest.mark.parametrize("name", ["bash", "dash"])
def test_the_words_and_files_of_commands_are_those_of_a_shell(name: str, yard: Path) -> None:
    texts = scripts()
    found = by_shell(name, texts, yard)
    differing = [
        (text, one, mine)
        for text, one in zip(texts, found, strict=True)
        if one != (mine := by_parser(text))
    ]
    assert differing[:3] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("say 'it", [["say"], ["it"]]),
        ('a "$(b', [["a"], ["$"], ["b"]]),
        ("a ${b", [["a", "${b"]]),
        ("a `b", [["a"], ["b"]]),
        ("a >(b", [["a"], ["b"]]),
        ("x=(a 'b c'; d", [["x="], ["a", "b c"], ["d"]]),
        ("cat <<E\nit's\n", [["cat"], ["it"], ["s"]]),
        ("cat <<E\n$(a '\nE", [["cat"], ["$"], ["a"]]),
    ],
)
def test_what_no_shell_would_take_is_split_at_each_sign(text: str, words: list[list[str]]) -> None:
    assert [[word.text for word in one.given] for one in parsed(text).commands] == words


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 30 + ")" * 30,
        '"${x:-' * 30,
        "`" + "$(" * 30 + ")" * 30 + "`",
        "$(" * 24 + "`a`" + ")" * 24,
    ],
)
def test_what_is_too_deep_in_one_another_is_not_read(text: str) -> None:
    with pytest.raises(TooManyWaysError):
        parsed(text)


def test_here_documents_are_found_with_who_reads_them() -> None:
    text = "a <<-X; b <<'Y z' >c\n1\n\tX\n2\nY z\nd"
    script = parsed(text)
    documents = [(one.owner.words[0].raw, text[one.start : one.end]) for one in script.documents]
    assert documents == [("a", "1\n"), ("b", "2\n")]
    assert [one.is_literal for one in script.documents] == [False, True]
    assert [one.words[0].raw for one in script.commands if one.lines_of is None] == ["a", "b", "d"]


def test_a_remark_ends_with_its_line() -> None:
    assert without_remarks('a #\'\nb "#" c#d # e') == 'a \nb "#" c#d '


@pytest.mark.parametrize(
    "text",
    [
        *("a 'b", "a $(b 'c')", "a # b'\n# c'", 'a #"', "a\rb", "a >&b", "a > $x", "a $'b'"),
        *("a <<E\n$(b)\nE", "a <<'E F'\nE F", "a <<E\n'\nE\nb\r'"),
    ],
)
def test_what_shells_may_read_in_several_ways_is_not_sure(text: str) -> None:
    assert CommandLine.of(text).commands == []
    assert len(CommandLine.of("a 'b c' && $d \"$e\" 2>&1 > f # g").commands) == 2
    assert len(CommandLine.of("a <<'E' > x && \"b\\\"c\"\n$(x 'y')\nE\nd").commands) == 3


def test_reading_takes_time_in_proportion_to_the_length() -> None:
    for text in ("cat <<a\n$(cat <<b\n" * 2000, "cat <<a\n" * 9000, "\"'" * 9000, "(" * 50_000):
        with contextlib.suppress(TooManyWaysError):
            assert len(parsed(text).commands) < len(text)


def test_what_each_shell_reads_alike_is_sure() -> None:
    (command,) = CommandLine.of('a $(b -c d) "${x%.*}/$y" ${z:-e}').commands
    assert [word.raw for word in command.words] == ["a", "$(b -c d)", '"${x%.*}/$y"', "${z:-e}"]
