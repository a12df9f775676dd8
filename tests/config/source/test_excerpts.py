import pytest

from hub.config.source.documents import Document
from hub.config.source.places import Path, may_be_shown
from hub.errors import ConfigError

HIDDEN = "hunter2-s3cret"


def shown(text: str, path: Path) -> str:
    return Document("f", text, "yaml").fault(path, "w", "f").excerpt.splitlines()[2]


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a: b # c", ("a",), "1 | a: b"),
        ("- x", (0,), None),
        ("a:\n  - x\n  - y", ("a", 1), "3 |   - y"),
        ("a: [x, y, z]", ("a", 1), "1 | … y …"),
        ("a: {b: 1, c: 2}", ("a", "c"), "1 | … c: 2"),
        (f"env: {{K: {HIDDEN}}}", ("env", "K"), "1 | … K: …"),
        (f"headers:\n  X: Bearer {HIDDEN}", ("headers", "X"), "2 |   X: …"),
        (f"token: {HIDDEN}", ("token",), "1 | token: …"),
        (f"listen: {{tokens: {HIDDEN}}}", ("listen", "tokens"), "1 | … tokens: …"),
        (f"listen:\n  keys:\n    - [{HIDDEN}]", ("listen", "keys", 0, 0), "3 |     - […"),
        ("args:\n  - ghp_0123456789abcdefghij", ("args", 0), "2 |   - …"),
        (f"a: {{token: {HIDDEN}, port: x}}", ("a", "port"), "1 | … port: x"),
        (f"env: {{K: '{HIDDEN} ${{X}}'}}", ("env", "K"), "1 | … K: '…${X}'"),
        (
            f"env: {{K: '{HIDDEN} ${{file:~/a b}} ${{cmd:pass x}}'}}",
            ("env", "K"),
            "1 | … K: '…${file:~/a b}…${cmd:pass x}'",
        ),
        (f"env: {{K: '${{X:-{HIDDEN}}}'}}", ("env", "K"), "1 | … K: '…'"),
        ("url: https://u:pw@host/x", ("url",), "1 | url: …"),
        ("url: localhost:80/x", ("url",), "1 | url: localhost:80/x"),
        ("a: " + "x" * 100, ("a",), "1 | a: " + "x" * 71 + "…"),
        ("a: >\n  x\n  y", ("a",), "1 | a: >"),
    ],
)
def test_a_line_is_shown_without_secrets_and_without_its_neighbours(
    text: str, path: Path, line: str | None
) -> None:
    if line is not None:
        assert shown(text, path) == line


def test_of_a_line_that_is_hidden_as_a_whole_only_the_place_is_told() -> None:
    fault = Document("f", f"a: {{tokens: [{HIDDEN}]}}", "yaml").fault(("a", "tokens", 0), "w", "f")
    assert fault.excerpt == " --> f:1:14"


@pytest.mark.parametrize(
    "text",
    [
        f'env:\n  KEY: "{HIDDEN}\nx: 1',
        f'a: {{API_KEY: "{HIDDEN}", b: [}}',
        f"token: '{HIDDEN}\n",
        f"Authorization: Bearer: {HIDDEN}",
        f"env: {{a: {HIDDEN}: x}}",
        "args: [--key, sk0123456789abcdefghij: b: c]",
    ],
)
def test_a_syntax_error_shows_no_secret(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Document("f", text, "yaml")
    assert HIDDEN not in str(raised.value)
    assert "sk0123456789" not in str(raised.value)
    assert "……" not in str(raised.value)
    assert "^" in str(raised.value)


def test_a_long_line_of_a_syntax_error_is_cut() -> None:
    with pytest.raises(ConfigError) as raised:
        Document("f", '{"a": [' + "1, " * 500 + "x" + ", 1" * 500 + "]}", "json")
    line, caret = raised.value.faults[0].excerpt.splitlines()[2:]
    assert len(line) < 120
    assert line[caret.index("^")] == "x"


@pytest.mark.parametrize(
    ("value", "path", "may"),
    [
        ("5 minutes", ("timeout",), True),
        ("/home/user/project", ("args", 0), True),
        ("@modelcontextprotocol/server-filesystem", ("args", 0), False),
        ("ghp_0123456789abcdefghij", ("args", 0), False),
        ("--key=x", ("args", 0), False),
        ("CONTEXT7_API_KEY", ("a",), True),
        ("AKIAIOSFODNN7EXAMPLE", ("a",), False),
        ("A7F3K9Q2_M4X8B1C6", ("a",), False),
        ("x", ("env", "A"), False),
        ("x", ("a", "password"), False),
    ],
)
def test_what_may_be_a_secret_is_not_shown(value: str, path: Path, may: bool) -> None:
    assert may_be_shown(value, path) is may


def test_the_name_of_a_variable_is_no_secret() -> None:
    text = "headers:\n  CONTEXT7_API_KEY: ${CTX_CONTEXT7_API_KEY}"
    what = "the variable CTX_CONTEXT7_API_KEY is not set"
    fault = Document("f", text, "yaml").fault(("headers", "CONTEXT7_API_KEY"), what, "f")
    assert fault.said == f"f: headers.CONTEXT7_API_KEY: {what}"
    assert fault.excerpt.splitlines()[2] == "2 |   CONTEXT7_API_KEY: ${CTX_CONTEXT7_API_KEY}"
