r"""Roots whose names have blanks or signs: nothing beside them opens, and what is in them passes.

What is refused prints a file beside the root with a real shell or glob: else it proves nothing.
"""

from __future__ import annotations

import glob
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from hub.guard.arguments import PathCandidate
from hub.guard.containment import OUTSIDE
from hub.guard.decide import Refused, compile_tool, decide
from hub.guard.judge import Judge
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Policy, ToolPolicy
from tests.kit.worlds import context, share, tool_call

HIDDEN = "what nobody may read"
ODD = ["My Docs", "App (old)", "R&D", "a;b", "a,b", "k=v", "[id]", "a*b", "a#b", "it's", '"q"']

SIBLINGS = [
    ("My Docs", 'cat "R 2/f"', "My Docs 2"),
    ("My Docs", "cat 'R other/f'", "My Docs other"),
    ("My Docs", "cat R/../f", "My"),
    ("My Docs", "bash -c 'cat R/f'", "My"),
    ("My Docs", "head -1 < R/f || cat R", "My"),
    ("a;b", "cat R/f; true", "a"),
    ("a&b", "cat R/f & wait", "a"),
    ("[x]", "cat R/f", "x/f"),
    ("[x]", "bash -c 'cat R/f'", "x/f"),
    ("a*b", "cat R/*", "a-b/f"),
    ("a?b", "cat R/sub/../f", "a-b/f"),
    ("{a,b}", "cat R/f", "b/f"),
    ("{1..3}", "cat R/f", "2/f"),
    ('"q"', "cat R/f", "q/f"),
    ('"q"', 'cat "R/f"', "q/f"),
    ("a\\b", "cat R/f", "ab/f"),
    ("a'b c'd", "cat R/f", "ab cd/f"),
]


def world(root: Path):
    return context(share(root), root, env={"HOME": f"{root.parent}/home"})


def objection(root: Path, kind: Kind, value: str, key: str = "k") -> str | None:
    judge = Judge(world(root), Policy(), needs_write=True)
    return judge.objection(PathCandidate(f"/{key}", key, kind, value, ""))


def planted(tmp_path: Path, name: str) -> Path:
    root = tmp_path / name
    (root / "sub").mkdir(parents=True)
    (root / "f").write_text("inside")
    return root


@pytest.mark.live
@pytest.mark.parametrize(("name", "command", "beside"), SIBLINGS)
def test_a_command_opens_nothing_beside_a_root_that_a_shell_takes_apart(
    tmp_path: Path, name: str, command: str, beside: str
) -> None:
    root, secret = planted(tmp_path, name), tmp_path / beside
    if beside.endswith("/f") or " " in beside:
        secret = tmp_path / beside.removesuffix("/f") / "f"
    (secret.parent / "sub").mkdir(parents=True, exist_ok=True)
    secret.write_text(HIDDEN)
    command = command.replace("R", str(root))

    ran = subprocess.run(  # noqa: S603 - a shell is what is asked here
        ["/bin/bash", "-c", command], check=False, cwd=root, capture_output=True, text=True
    )
    assert HIDDEN in ran.stdout
    assert objection(root, Kind.COMMAND, command) is not None


@pytest.mark.parametrize(
    ("name", "pattern", "beside"),
    [
        ("My Docs", "R 2/**", "My Docs 2"),
        ("My Docs", "R 2/f", "My Docs 2"),
        ("[id]", "R/**", "i"),
        ("a*b", "R/*", "a-b"),
        ("a?b", "R/f", "a-b"),
    ],
)
def test_a_pattern_matches_nothing_beside_a_root(
    tmp_path: Path, name: str, pattern: str, beside: str
) -> None:
    root = planted(tmp_path, name)
    (tmp_path / beside).mkdir()
    (tmp_path / beside / "f").write_text(HIDDEN)
    pattern = pattern.replace("R", str(root))

    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 - as children do
    assert f"{tmp_path}/{beside}/f" in found
    assert objection(root, Kind.GLOB, pattern) == OUTSIDE


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("value", ["R/f", "R/sub/new.txt", "R/../N/f", "R/../N/../N/f", "../N/f"])
def test_a_path_below_a_root_with_an_odd_name_passes(tmp_path: Path, name: str, value: str) -> None:
    root = planted(tmp_path, name)
    value = value.replace("R", str(root)).replace("N", name)

    for kind in (Kind.PATH, Kind.WEAK, Kind.NEUTRAL):
        assert objection(root, kind, value) is None
    assert objection(root, Kind.PATH, f"file://{quote(str(root))}/f") is None


@pytest.mark.parametrize("value", ["R/../N 2/f", "../N 2/f", "../../N/f", "R/../N/../f", "R/../x"])
def test_a_path_that_leaves_such_a_root_does_not_pass(tmp_path: Path, value: str) -> None:
    root = planted(tmp_path, "My Docs")
    value = value.replace("R", str(root)).replace("N", "My Docs")
    assert objection(root, Kind.PATH, value) == OUTSIDE


@pytest.mark.parametrize("name", ["My Docs", "R&D", "a;b", "a,b"])
@pytest.mark.parametrize(
    "command",
    [
        'cat "R/f"',
        "cat 'R/sub/a b'",
        'cp "R/f" "R/g" && ls "R"',
        'cat > "R/new" <<EOF\nhi\nEOF',
        "python -c \"open('R/f')\"",
        "bash -c 'cd \"R\" && make'",
        'for d in "R/sub" "R"; do ls "$d"; done',
        'find "R" -name "*.py" -exec cat {} +',
        'ls -I"R" "R"/*.py',
        'git commit -m "see R/f"',
        "cat E/f",
        "curl --data-binary @'R/f' https://x.example",
    ],
)
def test_a_command_with_such_a_root_in_quotes_passes(
    tmp_path: Path, name: str, command: str
) -> None:
    root = planted(tmp_path, name)
    escaped = "".join(f"\\{char}" if char in " &;," else char for char in str(root))
    command = command.replace("R", str(root)).replace("E/", f"{escaped}/")
    assert objection(root, Kind.COMMAND, command) is None


def test_a_word_of_a_command_without_a_shell_may_be_a_path_below_such_a_root(
    tmp_path: Path,
) -> None:
    root = planted(tmp_path, "My Docs")
    tool = compile_tool({}, read_only=False, policy=ToolPolicy(Policy()), name="run")

    def verdict(*words: str):
        return decide(tool_call({"command": "cat", "args": list(words)}), tool, here)

    here = world(root)
    for words in ([f"{root}/f"], [f"--file={root}/sub/a b"], ["-n", f"file://{quote(str(root))}"]):
        assert not isinstance(verdict(*words), Refused)
    for words in ([f"{root} 2/f"], ["-c", f"cat {root}/f"], [f"{root}/../f"]):
        assert isinstance(verdict(*words), Refused)


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("%41", "A"),
        ("a\\b", "a/b"),
        ("{a,b}", "a"),
        ("e\u0301", "\u00e9"),
        ("$HOME", None),
        ("${NONE}", None),
    ],
)
def test_a_refusal_says_why_nothing_below_a_root_passes(
    tmp_path: Path, name: str, reading: str | None
) -> None:
    root = planted(tmp_path, name)
    tool = compile_tool({}, read_only=True, policy=ToolPolicy(Policy()), name="read")

    refused = decide(tool_call({"path": f"{root}/f"}), tool, world(root))
    assert isinstance(refused, Refused)
    assert "No path below this root can pass" in refused.message()
    if reading is not None:
        assert refused.message().endswith(f"'{tmp_path}/{reading}'")


def test_a_refusal_says_nothing_of_a_root_that_can_be_read_in_one_way_only(tmp_path: Path) -> None:
    root = planted(tmp_path, "My Docs")
    tool = compile_tool({}, read_only=True, policy=ToolPolicy(Policy()), name="read")

    refused = decide(tool_call({"path": f"{root}/../x"}), tool, world(root))
    assert isinstance(refused, Refused)
    assert refused.message().endswith(f'Current roots: ["file://{tmp_path}/My%20Docs"]')
