"""A folder's name on the disk need not be text, what clients and children are told must be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.hubs import flow_hub, text_of
from tests.kit.trees import plant


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    plant(tmp_path, "plain/")
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    return folder


async def test_a_child_is_told_of_a_root_whose_name_is_no_text(odd: Path) -> None:
    async with flow_hub(given=[str(odd)]) as hub:
        client = await hub.connected(capabilities={})
        await client.read("a.txt")
        answer = await hub.child.ask("roots/list")
        uri = f"{odd.parent.as_uri()}/odd%FF"
        assert answer["result"] == {"roots": [{"uri": uri, "name": "odd\ufffd"}]}


async def test_a_refusal_that_names_such_a_folder_is_given_in_text(odd: Path) -> None:
    (odd.parent / "link").symlink_to(odd)
    server = {"command": "mcp-server-filesystem", "args": [str(odd.parent / "link")]}
    async with flow_hub({"servers": {"files": server}}, given=[str(odd.parent / "plain")]) as hub:
        client = await hub.connected(capabilities={})
        refused = await client.call("read_file", path="/etc/passwd")
        assert refused["isError"] is True
        assert f"({odd.parent}/odd\ufffd) do not overlap" in text_of(refused)
        report = await client.get_roots()
        assert "odd\ufffd" in str(report["recentRefusals"])
