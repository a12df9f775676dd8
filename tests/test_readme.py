"""README.md: short, and true for a newcomer who reads nothing else."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml

from hub.cli.command_line import parser
from tests.kit.pages import PAGES, README, Block, blocks
from tests.terminal_picture import PICTURE, picture

LINES = 150


def test_it_is_read_in_minutes() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LINES


def test_it_begins_with_what_the_hub_is_for() -> None:
    first = " ".join(README.read_text(encoding="utf-8").split("\n\n")[1].split())
    assert first == (
        "Your MCP client says: work in this folder. MCP servers may ignore that. roots-hub refuses "
        "every call that leaves it, and on Linux holds the servers to it."
    )
    diagram, calls = blocks(README)[:2]
    assert diagram.language == "mermaid"
    assert len(calls.text.splitlines()) == 6


def entries_in(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the command and arguments of each server in a client's config."""
    loaders = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    if block.language not in loaders:
        return
    config: dict[str, Any] = loaders[block.language](block.text)
    for kind in ("mcpServers", "servers", "context_servers", "mcp_servers", "extensions"):
        servers: Any = config.get(kind)
        if not isinstance(servers, dict):
            continue
        for entry in cast("dict[str, Any]", servers).values():
            command = entry.get("command", entry.get("cmd"))
            if command is not None and command.rpartition("/")[2] == "roots-hub":
                yield command, entry["args"]


ENTRIES = [
    (f"{page.name}: {' '.join(args[:3])}", args)
    for page in PAGES
    for block in blocks(page)
    for _, args in entries_in(block)
]


@pytest.mark.parametrize(("where", "args"), ENTRIES)
def test_every_client_config_starts_the_hub(where: str, args: list[str]) -> None:
    assert parser().parse_args(args), where


def test_the_readme_and_the_page_on_clients_have_such_configs() -> None:
    assert len([where for where, _ in ENTRIES if where.startswith("README.md")]) == 1
    assert len([where for where, _ in ENTRIES if where.startswith("connect-a-client.md")]) == 9


def test_the_picture_of_a_terminal_shows_what_the_readme_shows() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture()
