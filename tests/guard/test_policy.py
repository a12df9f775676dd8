import shutil
import subprocess
from pathlib import Path

import pytest

from hub.guard.decide import Admitted, Refused, compile_tool, decide
from hub.guard.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy
from hub.values import JsonObject
from tests.kit.worlds import context, share, tool_call

PATH: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}


def test_the_default_enforces_and_adds_nothing() -> None:
    policy = ToolPolicy().policy
    assert policy == Policy()
    assert policy.mode is Mode.ENFORCE
    assert policy.access_at(("a",)) == "write"
    assert not policy.deny.lines


def test_the_innermost_rule_decides_what_a_place_allows() -> None:
    policy = Policy(
        access=(AccessRule(("a",), "read"), AccessRule(("a", "b"), "write")),
    )
    assert policy.access_at(("a", "x")) == "read"
    assert policy.access_at(("a", "b", "c")) == "write"
    assert policy.access_at(("ab",)) == "write"


@pytest.mark.parametrize(
    ("lines", "relative", "refused"),
    [
        ((), ".env", False),
        (("**/.env",), ".env", True),
        (("**/.env",), "deep/down/.env", True),
        (("**/.env",), ".envrc", False),
        (("secrets/",), "secrets", True),
        (("secrets/",), "a/secrets/x", True),
        (("*.pem", "!public.pem"), "public.pem", False),
        (("a/b/", "!a/b/f"), "a/b/f", True),
        (("a/b/*", "!a/b/f"), "a/b/f", False),
        (("a", "!f"), "a/b/c/f", True),
        (("a/*", "!a/b", "a/b/c/", "!f"), "a/b/c/f", True),
        (("a/*", "!a/b", "!f"), "a/b/c/f", False),
        (("/build",), "build/x", True),
        (("/build",), "src/build", False),
        (("# a comment", ""), "a", False),
    ],
)
def test_deny_patterns_are_those_of_gitignore(
    lines: tuple[str, ...], relative: str, *, refused: bool
) -> None:
    assert DenyPatterns(lines).refuses(tuple(relative.split("/")), folded=False) is refused


def test_negated_patterns_cost_more_at_greater_depth() -> None:
    path = ("a", "b", "c", "d", "e")
    assert DenyPatterns(("a", "b")).effort(path) == 3
    assert DenyPatterns(("a", "!b")).effort(path) == 15


SLOW = [
    (("**/a/**/b/**/*.pem",), "a/b/" * 900),
    (("**/**/**/**/x",), "a/" * 1500),
    (("*.log", "*a*a*a*a*x"), "a" * 250),
]


@pytest.mark.parametrize(("lines", "path"), SLOW)
def test_patterns_that_try_many_ways_are_not_matched_with_long_paths(
    tmp_path: Path, lines: tuple[str, ...], path: str
) -> None:
    guard = compile_tool(PATH, read_only=True, policy=ToolPolicy(Policy(deny=DenyPatterns(lines))))
    verdict = decide(
        tool_call({"path": path.strip("/")}), guard, context(share(tmp_path), tmp_path)
    )
    assert isinstance(verdict, Refused)
    assert "too long to match against the operator's deny patterns" in verdict.reason


@pytest.mark.parametrize(
    ("line", "is_slow"),
    [
        *(("*.pem", False), ("**/x", False), ("a/*/b", False), ("a/**/b", False)),
        *(("*a*", True), ("**/a/**", True), ("a/*b*/c", True)),
    ],
)
def test_patterns_with_several_wildcards_are_slow(line: str, *, is_slow: bool) -> None:
    assert DenyPatterns(("x", line)).is_slow is is_slow


@pytest.mark.parametrize("line", ["**/node_modules/**", "*.pem", "a/**/b/*.key", "*_*_*.log"])
def test_patterns_as_people_write_them_are_matched_with_common_paths(
    tmp_path: Path, line: str
) -> None:
    guard = compile_tool(
        PATH, read_only=True, policy=ToolPolicy(Policy(deny=DenyPatterns((line,))))
    )
    for path in ("src/main.py", "/".join(["directory"] * 30), f"src/{'long_name_' * 20}.py"):
        call = tool_call({"path": path})
        assert isinstance(decide(call, guard, context(share(tmp_path), tmp_path)), Admitted)


def test_deny_patterns_are_those_that_git_itself_has(tmp_path: Path) -> None:
    lines = ("a/b/", "!a/b/f", "*.log", "!keep.log", "/top", "d/*", "!d/e")
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed: install it")
    (tmp_path / ".gitignore").write_text("\n".join(lines))
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True)  # noqa: S603 - ours
    paths = ["a/b/f", "a/c", "x.log", "keep.log", "x/keep.log", "top", "x/top", "d/f", "d/e/f"]
    told = subprocess.run(  # noqa: S603 - ours
        [git, "check-ignore", "--no-index", *paths],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    patterns = DenyPatterns(lines)
    ours = [path for path in paths if patterns.refuses(tuple(path.split("/")), folded=False)]
    assert ours == told.stdout.split()
    assert len(ours) == 4


def test_deny_patterns_have_no_case_where_names_have_none() -> None:
    patterns = DenyPatterns(("Secret/**",))
    assert patterns.refuses(("secret", "x"), folded=True)
    assert not patterns.refuses(("secret", "x"), folded=False)


def test_deny_patterns_are_equal_by_their_lines() -> None:
    assert DenyPatterns(("a",)) == DenyPatterns(("a",))
    assert DenyPatterns(("a",)) != DenyPatterns(("b",))
    assert DenyPatterns() != "a"
    assert len({DenyPatterns(("a",)), DenyPatterns(("a",))}) == 1
