"""A hub whose config, audit log and keys lie in what its client shares."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.watch import Watched
from hub.guard.own_files import OWN
from hub.values import JsonObject
from tests.kit.hubs import READ_FILE, FakeClient, flow_hub, text_of
from tests.kit.trees import plant

WRITE_FILE: JsonObject = {**READ_FILE, "name": "write_file", "annotations": {}}
MOVE_FILE: JsonObject = {
    "name": "move_file",
    "inputSchema": {
        "type": "object",
        "properties": {"source": {"type": "string"}, "destination": {"type": "string"}},
    },
}


@asynccontextmanager
async def sharing(
    tmp_path: Path, *, is_rootless: bool = False, **keys: Any
) -> AsyncGenerator[tuple[FakeClient, Path]]:
    """Run a hub with all that is its own in the client's root; yields a client and that root."""
    top = plant(tmp_path, "a.txt", "conf/x", ".local/state/roots-hub/key")
    config = top / "conf/hub.yaml"
    raw: Mapping[str, Any] = {
        "version": 1,
        "audit": {"file": "../audit.jsonl"},
        "servers": {"files": {"command": "files-server"}},
        **keys,
    }
    config.write_text(json.dumps(raw))
    watched = Watched.now("conf/hub.yaml", LoadContext(top, str(top)))
    loaded = load_config("conf/hub.yaml", LoadContext(top, str(top))).config
    async with flow_hub(
        loaded=loaded,
        watched=watched,
        given=[] if is_rootless else [str(top)],
        environment={"HOME": str(top)},
        tools=(READ_FILE, WRITE_FILE, MOVE_FILE),
    ) as hub:
        yield await hub.connected(capabilities={}), top


async def is_own(client: FakeClient, tool: str, **arguments: Any) -> bool:
    answer = cast("Any", await client.call(tool, **arguments))
    refused = text_of(answer).endswith(f"is refused: {OWN}")
    assert refused is bool(answer.get("isError"))
    return refused


MODES = [
    {},
    {"roots": {"allow_unsafe": True}},
    {"guard": "report"},
    {"guard": "off"},
    {"guard": {"on_refused": "ask"}},
]


@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("keys", MODES, ids=json.dumps)
@pytest.mark.parametrize("is_rootless", [True, False])
async def test_no_call_writes_or_moves_what_is_the_hubs_own(
    tmp_path: Path, keys: dict[str, Any], *, is_rootless: bool
) -> None:
    async with sharing(tmp_path, is_rootless=is_rootless, **keys) as (client, top):
        for _ in range(2):  # and the way that is kept after the first call
            assert not await is_own(client, "write_file", path=f"{top}/a.txt")
            assert not await is_own(
                client, "move_file", source=f"{top}/a.txt", destination=f"{top}/b"
            )
            for name in ("conf/hub.yaml", "audit.jsonl", "audit.jsonl.1"):
                assert await is_own(client, "write_file", path=f"{top}/{name}"), name
                assert await is_own(
                    client, "move_file", source=f"{top}/a.txt", destination=f"{top}/{name}"
                )
            assert await is_own(client, "move_file", source=f"{top}/conf", destination=f"{top}/d")
            assert not await is_own(client, "read_file", path=f"{top}/conf/hub.yaml")
            assert await is_own(client, "read_file", path=f"{top}/.local/state/roots-hub/key")
            assert await is_own(client, "write_file", path=f"{top}/.cache/roots-hub/new")


@pytest.mark.filterwarnings("ignore:.*FileIO:pytest.PytestUnraisableExceptionWarning")
async def test_a_key_is_no_resource_and_no_root_is_taken_among_keys(tmp_path: Path) -> None:
    async with sharing(tmp_path, roots={"allow_unsafe": True}) as (client, top):
        uri = f"{top.as_uri()}/.local/state/roots-hub/key"
        answer = await client.end(await client.begin("resources/read", {"uri": uri}))
        assert OWN in cast("Any", answer["error"])["message"]
