from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.config.clients.secrets import SecretVariables, hidden, looks_secret, variables_of


def made(server: dict[str, Any], name: str = "git") -> tuple[dict[str, Any], dict[str, str | None]]:
    found, needs = hidden(name, server, SecretVariables({}))
    return found, {need.name: need.value for need in needs}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_TOKEN", "x"),
        ("PGPASSWORD", "y"),
        ("OPENAI_API_KEY", "<your key>"),
        ("DSN", "https://u:p@h/1"),
        ("DATABASE_URL", "postgres://me:pw@db/x"),
        ("OPTIONS", "a=1;password=pw"),
        ("X", "sk-ant-0123456789"),
        ("X", "ghp_0123456789abcdefABCDEF"),
        ("X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc"),
        ("X", "0123456789abcdef0123456789abcdef"),
        ("X", "4Jx0aQ9rT2vB7nM5kL8pZ1cW"),
        ("X", '{"Authorization": "Bearer abcdef123"}'),
        ("X", "-----BEGIN RSA PRIVATE KEY-----\nx"),
    ],
)
def test_secrets_are_recognised(name: str, value: str) -> None:
    assert looks_secret(value, name)
    server, needs = made({"command": "x", "env": {name: value}})
    assert server["env"] == {name: f"${{{name}}}"}
    assert needs == {name: value}


DEFAULT = "${T:-ghp_0123456789abcdefABCDEF}"


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "env": {"X": DEFAULT}},
        {"command": "x", "env": {"GIT_TOKEN": f"a {DEFAULT}"}},
        {"command": "x", "args": ["--token", DEFAULT]},
        {"command": "x", "args": [f"--token={DEFAULT}", "-e", f"A={DEFAULT}", DEFAULT]},
        {"command": "x", "args": ["--header", f"Authorization: Bearer {DEFAULT}"]},
        {"url": "https://x/", "headers": {"Authorization": f"Bearer {DEFAULT}", "X-Key": DEFAULT}},
        {"url": f"https://x/{DEFAULT}?key={DEFAULT}"},
        {"url": f"https://me:{DEFAULT}@x/"},
    ],
)
def test_the_default_of_a_placeholder_may_be_a_secret(server: dict[str, Any]) -> None:
    assert looks_secret(DEFAULT)
    found, needs = made(server)
    assert "ghp_" not in str(found)
    assert "${T}" in str(found) or found["env"] == {"GIT_TOKEN": "${GIT_TOKEN}"}
    assert needs["T"] == "ghp_0123456789abcdefABCDEF"
    # Where the variable is set its default does not count.
    found, needs = hidden("git", server, SecretVariables({"T": "another"}))
    assert "ghp_" not in str(found)
    assert "T" not in {need.name for need in needs}


def test_the_default_of_an_input_may_be_a_secret() -> None:
    default = DEFAULT.replace("${T:", "${input:my key:")
    found, needs = made({"url": "https://x/", "headers": {"X-Key": default}})
    assert found["headers"] == {"X-Key": "${HUB_INPUT_MY_KEY}"}
    assert needs == {"HUB_INPUT_MY_KEY": "ghp_0123456789abcdefABCDEF"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODE_ENV", "production"),
        ("HOME_DIR", "/home/kim/papers-2024/inbox"),
        ("API_URL", "https://api.example.com/v1?page=2"),
        ("MAX_TOKENS", "4096"),
        ("GIT_TOKEN", "${GIT_TOKEN}"),
        ("GIT_TOKEN", "${GIT_TOKEN:-}"),
        ("GIT_TOKEN", ""),
        ("PATH", "/usr/bin:/bin"),
    ],
)
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    server: dict[str, Any] = {"command": "x", "env": {name: value}}
    assert made(server) == (server, {})


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--token", "t", "x"], ["--token", "${GIT_TOKEN}", "x"]),
        (["--api-key=k"], ["--api-key=${GIT_API_KEY}"]),
        (["--git-api-key=k"], ["--git-api-key=${GIT_API_KEY}"]),
        (["-e", "API_KEY=k"], ["-e", "API_KEY=${API_KEY}"]),
        (
            ["--header", "Authorization: Bearer t"],
            ["--header", "Authorization: Bearer ${GIT_TOKEN}"],
        ),
        (["--header", "X-Api-Key:k"], ["--header", "X-Api-Key:${GIT_X_API_KEY}"]),
        (["https://x/s?key=k&a=b"], ["https://x/s?key=${GIT_KEY}&a=b"]),
        (["https://me:pw@x/s"], ["https://me:${GIT_PASSWORD}@x/s"]),
        (["postgresql://me:pw@db/x"], ["${GIT_SECRET}"]),
        (["-c", "TOKEN=x server"], ["-c", "TOKEN=${TOKEN}"]),
        (["sk-ant-0123456789"], ["${GIT_SECRET}"]),
    ],
)
def test_secrets_in_arguments_get_variables(args: list[str], expected: list[str]) -> None:
    server, needs = made({"command": "x", "args": args})
    assert server["args"] == expected
    assert len(needs) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/srv/Data2024/AbC"],
        ["--from", "git+https://github.com/kim/a-long-name-2024-with-Digits", "run"],
        ["--token", "${TOKEN}", "--key", "--verbose"],
        ["--timezone=Europe/Berlin", "--port=8080", "C:\\Users\\kim\\x.py"],
        ["https://mcp.example.com/mcp?project=shop&tools=a,b", "Content-Type: application/json"],
    ],
)
def test_ordinary_arguments_stay(args: list[str]) -> None:
    server = {"command": "x", "args": args}
    assert made(server) == (server, {})


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Authorization": "Bearer t"}, {"Authorization": "Bearer ${GIT_TOKEN}"}),
        ({"Authorization": "t"}, {"Authorization": "${GIT_TOKEN}"}),
        ({"authorization": "Basic dTpw"}, {"authorization": "Basic ${GIT_TOKEN}"}),
        ({"X-API-Key": "k"}, {"X-API-Key": "${GIT_X_API_KEY}"}),
        ({"X-Opaque": "abcdefgh12345678"}, {"X-Opaque": "${GIT_X_OPAQUE}"}),
        ({"Cookie": "a=b"}, {"Cookie": "${GIT_TOKEN}"}),
    ],
)
def test_secrets_in_headers_get_variables(
    headers: dict[str, str], expected: dict[str, str]
) -> None:
    server, needs = made({"url": "https://x/", "headers": headers})
    assert server["headers"] == expected
    assert len(needs) == 1


def test_ordinary_headers_stay() -> None:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer ${T}",
        "X-Team": "shop",
        "X-API-Key": "${K}",
    }
    server = {"url": "https://x/", "headers": headers}
    assert made(server) == (server, {})


@pytest.mark.parametrize("url", ["https://me:${PW}@x/", "https://${A_VERY_LONG_NAME_OF_IT}@x/"])
def test_a_placeholder_in_a_url_stays(url: str) -> None:
    assert made({"url": url}) == ({"url": url}, {})


def test_keys_in_the_path_of_a_url_get_variables() -> None:
    server, needs = made({"url": "https://x.example/s/4Jx0aQ9rT2vB7nM5kL8pZ1cW/mcp"})
    assert server["url"] == "https://x.example/s/${GIT_URL_KEY}/mcp"
    assert needs == {"GIT_URL_KEY": "4Jx0aQ9rT2vB7nM5kL8pZ1cW"}


def test_a_variable_stands_for_one_value_only() -> None:
    variables = SecretVariables({"SET": "theirs"})
    named = [variables.named("SET", "my server", value) for value in ("a", "b", "a", "theirs")]
    assert named == ["MY_SERVER_SET", "MY_SERVER_SET_2", "MY_SERVER_SET", "SET"]
    assert variables.named("1ST-key", "s", "x") == "S_1ST_KEY"
    # No name of a variable begins with a digit.
    digits = SecretVariables({})
    found = [digits.named("1MCP_TOKEN", "1mcp", value) for value in "abc"]
    assert found == ["MCP_TOKEN", "MCP_TOKEN_2", "MCP_TOKEN_3"]
    assert digits.named("0_1", "0", "x") == "SECRET"


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_any_server_can_be_looked_at(name: str, key: str, value: str) -> None:
    server = {"command": value, "args": [key, value], "env": {key: value}}
    found, needs = hidden(name, server, SecretVariables({}))
    assert set(found) == set(server)
    for need in needs:
        assert need.name.isidentifier()
        assert need.value


def test_the_variables_of_placeholders_are_named() -> None:
    server = {
        "command": "${A}/x",
        "args": ["${roots}", "${B:-b}", "${input:key}", "${", "$${C}"],
        "env": {"D": "${E}", "HOME": "${HOME}", "PWD": "${PWD}"},
    }
    names = [need.name for need in variables_of("s", server)]
    assert names == ["A", "HUB_INPUT_KEY", "E"]


def test_a_long_value_is_looked_at_before_the_test_is_given_up() -> None:
    assert not looks_secret("x" * 300_000)
    assert looks_secret("x" * 300_000 + "X1")
    server = {"url": "https://h/mcp", "headers": {"X-A": "x" * 300_000}}
    assert hidden("a", server, SecretVariables({})) == (server, [])


def test_a_variable_that_the_server_fills_in_is_no_secret() -> None:
    args = ["--header", "Authorization:$${AUTH}", "--token", "$${AUTH}", "--key=$${AUTH}"]
    entry = {"command": "x", "args": args, "env": {"AUTH": "Bearer s3cr3t"}}
    made, needed = hidden("s", entry, SecretVariables({}))
    assert made == {"command": "x", "args": args, "env": {"AUTH": "${AUTH}"}}
    assert [need.name for need in needed] == ["AUTH"]
