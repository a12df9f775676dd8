import pytest

from hub.core.policy import AccessRule, DenyPatterns, Mode, Policy, ToolPolicy


def test_the_default_enforces_and_adds_nothing() -> None:
    policy = ToolPolicy().policy
    assert policy == Policy()
    assert policy.mode is Mode.ENFORCE
    assert policy.access_at(("a",)) == "write"
    assert not policy.deny


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
        (("/build",), "build/x", True),
        (("/build",), "src/build", False),
        (("# a comment", ""), "a", False),
    ],
)
def test_deny_patterns_are_those_of_gitignore(
    lines: tuple[str, ...], relative: str, *, refused: bool
) -> None:
    assert DenyPatterns(lines).refuses(tuple(relative.split("/")), folded=False) is refused


def test_deny_patterns_have_no_case_where_names_have_none() -> None:
    patterns = DenyPatterns(("Secret/**",))
    assert patterns.refuses(("secret", "x"), folded=True)
    assert not patterns.refuses(("secret", "x"), folded=False)


def test_deny_patterns_are_equal_by_their_lines() -> None:
    assert DenyPatterns(("a",)) == DenyPatterns(("a",))
    assert DenyPatterns(("a",)) != DenyPatterns(("b",))
    assert DenyPatterns() != "a"
    assert len({DenyPatterns(("a",)), DenyPatterns(("a",))}) == 1
