from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hub.config.models import HubConfig, check, json_schema
from hub.errors import ConfigError


def config(servers: dict[str, Any] | None = None, **keys: Any) -> HubConfig:
    servers = {"files": {"command": "x"}} if servers is None else servers
    return HubConfig.model_validate({"version": 1, "servers": servers, **keys})


def test_the_defaults_are_available_and_enforce() -> None:
    plain = config()
    check(plain)
    assert plain.guard_of("files").mode == "enforce"
    assert plain.roots.when_empty == "deny"


def test_a_servers_own_guard_keys_go_before_the_hubs_and_leave_the_others() -> None:
    made = config(
        {"a": {"command": "x"}, "b": {"command": "x", "guard": "report"}},
        guard={"mode": "enforce", "symlinks": "deny"},
    )
    assert made.guard_of("a") == made.guard
    assert made.guard_of("b").mode == "report"
    assert made.guard_of("b").symlinks == "deny"


def test_a_fallback_root_can_be_a_path_alone() -> None:
    fallback = config(roots={"fallback": ["/a", {"path": "/b", "name": "B"}]}).roots.fallback
    assert [(root.path, root.name) for root in fallback] == [("/a", None), ("/b", "B")]


def test_no_server_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no servers"):
        check(config({}))


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": ["${root}"]},
        {"command": "mcp-server-filesystem"},
        {"command": "x", "roots": {"args": "append"}},
    ],
)
def test_one_child_for_all_cannot_have_the_roots_of_each(server: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"servers\.a\.share: "):
        check(config({"a": {**server, "share": "all"}}))


def test_one_child_for_all_is_fine_without_roots() -> None:
    check(
        config({"a": {"command": "x", "share": "all"}, "b": {"url": "https://x", "share": "all"}})
    )


def test_the_schema_accepts_what_the_config_accepts() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)

    def valid(instance: dict[str, Any]) -> bool:
        validator: Any = Draft202012Validator(schema)
        return validator.is_valid(instance)

    server: dict[str, Any] = {"command": "x", "guard": "report", "confine": {"mode": "auto"}}
    assert valid({"version": 1, "guard": "off", "servers": {"a": server}})
    assert valid({"version": 1, "listen": {"token": "${T}"}, "roots": {"fallback": ["./a"]}})
    assert not valid({"version": 1, "gaurd": "off"})
    assert not valid({"version": 1, "guard": "of"})


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        (
            "origins",
            ["HTTP://LocalHost:6274", "https://a.example:443"],
            ("http://localhost:6274", "https://a.example"),
        ),
        ("names", ["Hub.Example.com", "[::1]"], ("hub.example.com", "::1")),
        (
            "trusted_proxies",
            ["10.1.2.3/8", "::1", "192.0.2.1"],
            ("10.0.0.0/8", "::1/128", "192.0.2.1/32"),
        ),
    ],
)
def test_names_trusted_proxies_and_origins_are_normalised(
    key: str, given: list[str], kept: tuple[str, ...]
) -> None:
    assert getattr(config(listen={key: given}).listen, key) == kept
    assert getattr(config().listen, key) == ()


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("origins", "*"),
        ("origins", "null"),
        ("origins", "localhost:6274"),
        ("origins", "http://localhost/path"),
        ("names", "https://hub.example.com"),
        ("names", "*.example.com"),
        ("trusted_proxies", "*"),
        ("trusted_proxies", "proxy.example"),
        ("trusted_proxies", "10.0.0.0/33"),
    ],
)
def test_invalid_names_proxies_and_origins_are_refused(key: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        config(listen={key: [wrong]})
