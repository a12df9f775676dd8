"""Scopes of servers and tools in the config: what is needed for what, and where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.app.machine import place_of, this_machine
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.config.to_specs import usable_servers
from hub.errors import ConfigError
from hub.specs import NeededScopes
from hub.values import CallMethod

AUTH = """listen:
  auth: {resource: "https://h.example/mcp", issuers: [{issuer: "https://i.example"}], scopes: [a]}
"""
SERVERS = """servers:
  files:
    command: x
    scopes: [b, a]
    tools:
      overrides:
        write: {scopes: [c]}
        read: {title: Read}
  other:
    command: y
    tools: {overrides: {erase: {scopes: [d]}}}
  plain: {command: z}
"""


def needed(config: HubConfig) -> list[NeededScopes]:
    place = this_machine({})
    return [
        spec.scopes for spec in usable_servers(config, place_of(place, config, None)).specs.values()
    ]


def load(folder: Path, text: str) -> HubConfig:
    file = folder / "hub.yaml"
    file.write_text(f"version: 1\n{text}")
    return load_config(str(file), LoadContext(folder, "/home/u", {})).config


def test_general_scopes_those_of_a_server_and_those_of_a_tool_count_together(
    tmp_path: Path,
) -> None:
    config = load(tmp_path, AUTH + SERVERS)
    files, other, plain = needed(config)
    call: CallMethod = "tools/call"
    assert (files.of("prompts/get", "write"), files.of(call, "read"), files.of(call, "write")) == (
        ("a", "b"),
        ("a", "b"),
        ("a", "b", "c"),
    )
    assert (other.of("prompts/get", "erase"), other.of(call, "erase")) == ((), ("a", "d"))
    assert (bool(files), bool(other), bool(plain)) == (True, True, False)
    assert config.scopes == ("a", "b", "c", "d")


def test_scopes_that_no_token_can_have_are_an_error_at_each_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, SERVERS)
    assert [fault.said.partition(": ")[2].partition(":")[0] for fault in caught.value.faults] == [
        "servers.files.scopes",
        "servers.files.tools.overrides.write.scopes",
        "servers.other.tools.overrides.erase.scopes",
    ]
    assert "there is no listen.auth" in str(caught.value)


def test_such_scopes_are_told_with_what_is_wrong_in_a_profile(tmp_path: Path) -> None:
    (tmp_path / "hub.yaml").write_text(
        f"version: 1\n{SERVERS}profiles: {{p: {{servers: [gone]}}}}\n"
    )
    with pytest.raises(ConfigError) as raised:
        load_config("hub.yaml", LoadContext(tmp_path))
    assert [one.where.partition(": ")[2] for one in raised.value.faults] == [
        "profiles.p.servers[0]",
        "servers.files.scopes",
        "servers.files.tools.overrides.write.scopes",
        "servers.other.tools.overrides.erase.scopes",
    ]


@pytest.mark.parametrize("scopes", ["[a b]", '["a\\""]', "a", "[1]"])
def test_what_is_no_scope_is_an_error(tmp_path: Path, scopes: str) -> None:
    with pytest.raises(ConfigError, match="scopes"):
        load(tmp_path, f"{AUTH}servers: {{files: {{command: x, scopes: {scopes}}}}}\n")
