from pathlib import Path

import pytest

from hub.cli.setup.showing import difference, table, without_secrets


def test_a_table_has_columns_and_cuts_long_cells() -> None:
    lines = table(("a", "b"), [("x", "y"), ("n" * 99, "\x1b[31m")])
    assert lines == [
        f"a{' ' * 59}  b",
        f"x{' ' * 59}  y",
        f"{'n' * 59}…  \\x1b[31m",
    ]


def test_a_difference_has_the_line_numbers_of_the_file() -> None:
    old = "".join(f"{n}\n" for n in range(100_000))
    lines = difference(Path("/x"), old, old.replace("\n70000\n", "\n70000\nnew\n"))
    assert lines == [
        "--- /x",
        "+++ /x (new)",
        "@@ -69999,6 +69999,7 @@",
        " 69998",
        " 69999",
        " 70000",
        "+new",
        " 70001",
        " 70002",
        " 70003",
    ]


def test_of_a_long_line_that_changed_only_the_change_is_shown() -> None:
    old = "a" * 100_000 + "END"
    new = "a" * 50_000 + "NEW" + "a" * 50_000 + "END"
    shown = difference(Path("/x"), old, new)
    assert sum(map(len, shown)) < 1000
    assert "NEW" in shown[-1]
    assert shown[-1].startswith("+…a")


def test_a_secret_is_not_shown_though_its_key_is_cut_off() -> None:
    old = '{"accessToken": "' + "secret words " * 20 + '", "mcpServers": {}}'
    shown = difference(Path("/x"), old, old.replace("{}}", '{"hub": 1}}'))
    assert "secret" not in "".join(shown)
    assert '"hub": 1' in shown[-1]


@pytest.mark.parametrize("before", [1900, 1940, 1960, 4900, 4940, 4960])
def test_a_secret_where_a_long_line_is_cut_is_not_shown(before: int) -> None:
    secret = "not-to-be-seen " * 4
    line = '{"a": "' + "x y " * (before // 4) + f'", "env": {{"API_TOKEN": "{secret}"}}}}'
    for old, new in ((f"{line}\nb\n", f"{line}\nb\nc\n"), (f"{line}\nb\n", "b\n")):
        shown = difference(Path("/x"), old, new)
        assert "not-to-be" not in "\n".join(shown)
        assert max(map(len, shown)) < 2100
    assert any(len(one) > 1900 for one in shown)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('  "GIT_TOKEN": "abc",', '  "GIT_TOKEN": "…",'),
        ('+  "Authorization": "Bearer x"', '+  "Authorization": "…"'),
        ("      API_KEY: abc", "      API_KEY: …"),
        ('TOKEN = "abc"', 'TOKEN = "…"'),
        ('"args": ["--key", "sk-ant-0123456789"]', '"args": ["--key", "…"]'),
        ('"args": ["--api-key", "abc", "x"]', '"args": ["--api-key", "…", "x"]'),
        ("args: ['--api-key', 'abc']", "args: ['--api-key', '…']"),
        ('"args": ["--api-key", "--x", "y"]', '"args": ["--api-key", "--x", "y"]'),
        ("env: {A: b, API_KEY: abc d, B: c}", "env: {A: b, API_KEY: …, B: c}"),
        ("{API_KEY: abc}", "{API_KEY: …}"),
        ('  "command": "npx",', '  "command": "npx",'),
        ('  "GIT_TOKEN": "",', '  "GIT_TOKEN": "",'),
    ],
)
def test_values_of_secrets_are_not_shown(line: str, expected: str) -> None:
    assert without_secrets(line) == expected
