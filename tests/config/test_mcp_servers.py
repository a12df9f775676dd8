from typing import Any

import pytest

from hub.config.mcp_servers import Translated, translated
from hub.errors import ConfigError


def read(raw: dict[str, Any], *, plain_servers: bool = True) -> Translated:
    found = translated(raw, home="/home/u", plain_servers=plain_servers)
    assert found is not None
    return found


def server(**entry: Any) -> Any:
    return read({"mcpServers": {"a": entry}}).raw["servers"]["a"]


def test_h14_mcp_servers_are_taken_as_they_are() -> None:
    entry = {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "cwd": "/srv"}
    assert server(**entry) == entry
    assert server(url="https://x/", headers={"A": "b"}) == {
        "url": "https://x/",
        "headers": {"A": "b"},
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"type": "stdio", "command": "x", "url": "https://x/"}, {"command": "x"}),
        ({"type": "http", "url": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "streamable-http", "url": "u"}, {"url": "u", "transport": "http"}),
        ({"type": "sse", "url": "u", "command": "x"}, {"url": "u", "transport": "sse"}),
        ({"transport": "sse", "url": "u", "args": []}, {"url": "u", "transport": "sse"}),
        ({"serverUrl": "u"}, {"url": "u"}),
        ({"httpUrl": "u", "url": "v"}, {"url": "v"}),
        ({"command": "x", "headers": {}, "env": None}, {"command": "x"}),
        ({"command": "x", "url": "u"}, {"command": "x", "url": "u"}),
        ({"type": "local", "command": "x"}, {"command": "x"}),
        ({"source": "custom", "command": "x"}, {"command": "x"}),
        (
            {"command": {"path": "x", "args": ["y"], "env": {"A": "b"}}},
            {"command": "x", "args": ["y"], "env": {"A": "b"}},
        ),
    ],
)
def test_the_spellings_of_clients_are_understood(
    entry: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert server(**entry) == expected


@pytest.mark.parametrize("way", [{"command": "x"}, {"url": "u"}])
def test_tools_that_a_client_hides_stay_hidden(way: dict[str, Any]) -> None:
    assert server(**way, disabledTools=["a"]) == {**way, "tools": {"deny": ["a"]}}
    assert server(**way, includeTools=["a"], excludeTools=["b"]) == {
        **way,
        "tools": {"allow": ["a"], "deny": ["b"]},
    }
    assert server(**way, excludeTools=["a"], disabledTools=["b"]) == {
        **way,
        "tools": {"deny": ["a", "b"]},
    }
    assert server(**way, tools=["*"]) == {**way, "tools": {"allow": ["*"]}}


def test_an_env_file_is_said_not_to_be_read() -> None:
    found = read({"mcpServers": {"a": {"command": "x", "envFile": ".env"}}})
    assert found.warnings == ("mcpServers.a: envFile is not read: write its variables into env",)


def test_zed_has_context_servers() -> None:
    found = read({"theme": "x", "context_servers": {"a": {"source": "custom", "command": "x"}}})
    assert (found.section, found.raw["servers"]) == ("context_servers", {"a": {"command": "x"}})
    assert found.warnings == ("ignored: theme",)


def test_vs_code_has_servers_in_json_only() -> None:
    raw: dict[str, Any] = {"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}
    found = read(raw)
    assert found.section == "servers"
    assert found.raw["servers"] == {"a": {"command": "x"}}
    assert found.warnings == ("ignored: inputs",)
    assert translated(raw, home=None, plain_servers=False) is None
    assert translated({**raw, "version": 1}, home=None, plain_servers=True) is None
    assert translated({"version": 1}, home=None, plain_servers=True) is None


def test_a_disabled_server_is_left_out() -> None:
    found = read(
        {
            "mcpServers": {
                "a": {"command": "x", "disabled": True},
                "b": {"command": "x", "enabled": False},
                "c": {"command": "x", "disabled": False, "enabled": True},
                "d": {"command": "x", "disabled": None, "enabled": False, "envFile": "x"},
            }
        }
    )
    assert list(found.raw["servers"]) == ["c"]


def test_unknown_keys_are_ignored_with_a_warning() -> None:
    found = read({"mcpServers": {"a": {"command": "x", "autoApprove": [], "alwaysAllow": []}}})
    assert found.raw["servers"] == {"a": {"command": "x"}}
    assert found.warnings == ("mcpServers.a: ignored: autoApprove, alwaysAllow",)


def test_the_placeholders_of_clients_become_ours() -> None:
    assert server(
        command="${env:BIN}",
        args=["${workspaceFolder}/x", "${userHome}${/}x${pathSeparator}", "${input:key}", 7],
    ) == {"command": "${BIN}", "args": ["${root}/x", "/home/u/x/", "${input:key}", 7]}


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"mcpServers": []}, "mcpServers: "),
        ({"mcpServers": {"a": "x"}}, "mcpServers.a: "),
        ({"mcpServers": {"a": {"type": "ws", "url": "u"}}}, "mcpServers.a.type: "),
        ({"servers": {"a": {"type": 7, "url": "u"}}}, "servers.a.type: "),
        ({"mcpServers": {"a": {"command": "x", "disabled": "true"}}}, "mcpServers.a.disabled: "),
        ({"mcpServers": {"a": {"url": "u", "disabledTools": "x"}}}, "mcpServers.a.disabledTools: "),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "mcpServers: every server is "),
        ({"mcpServers": {"a": {"command": "x", "enabled": 0}}}, "mcpServers.a.enabled: "),
    ],
)
def test_an_invalid_server_is_an_error_with_its_place(raw: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(raw)
    assert raised.value.where.startswith(where)
