"""What servers tell of their use reaches the clients that come once it is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.hubs import FakeClient
from tests.kit.loops import virtual_time
from tests.kit.scripted import ROOTS, scripted
from tests.kit.trees import plant

META: JsonObject = {
    PROTOCOL_VERSION_META: MODERN_VERSIONS[0],
    CLIENT_INFO_META: {"name": "modern", "version": "1"},
    CLIENT_CAPABILITIES_META: {},
}


def saying(text: str) -> FakeChild:
    child = FakeChild(ECHO)
    handshake = child.answers["initialize"]
    assert isinstance(handshake, dict)
    child.answers["initialize"] = {**handshake, "instructions": text}
    return child


async def told(client: FakeClient) -> Json:
    return (await client.initialize({})).get("instructions")


async def test_a_single_servers_instructions_are_told_unchanged_once_known() -> None:
    async with scripted(saying(" Read first.\n")) as hub:
        first = hub.client()
        assert await told(first) is None
        await first.initialized()
        await first.request("tools/list", {})
        assert await told(hub.client()) == " Read first.\n"


async def test_the_only_client_is_told_at_once_if_it_has_no_roots_to_wait_for() -> None:
    children = {"git": saying("Commit."), "files": saying("Read.")}
    async with scripted(children, is_for_one=True) as hub:
        assert await told(hub.client()) == "# git\n\nCommit.\n\n# files\n\nRead."


async def test_the_only_client_is_told_when_it_discovers() -> None:
    async with scripted(saying("Read."), is_for_one=True) as hub:
        found = await hub.client().request("server/discover", {"_meta": META})
        assert found["instructions"] == "Read."


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
@virtual_time
async def test_a_server_that_does_not_start_holds_up_no_greeting_for_long(method: str) -> None:
    mute = FakeChild(ECHO)
    mute.answers["initialize"] = SILENT
    async with scripted({"mute": mute, "files": saying("Read.")}, is_for_one=True) as hub:
        client = hub.client()
        if method == "initialize":
            assert await told(client) == "# files\n\nRead."
        else:
            found = await client.request(method, {"_meta": META})
            assert found["instructions"] == "# files\n\nRead."


async def test_several_servers_have_a_heading_each() -> None:
    children = {"git": saying("Commit."), "mute": saying(""), "files": saying("Read.")}
    async with scripted(children, config={"instructions": "Ours."}) as hub:
        assert await told(hub.client()) == "Ours."
        await (await hub.greeted()).request("tools/list", {})
        assert await told(hub.client()) == "Ours.\n\n# git\n\nCommit.\n\n# files\n\nRead."


async def test_a_modern_client_is_told_when_it_discovers() -> None:
    async with scripted(saying("Read.")) as hub:
        await (await hub.greeted()).request("tools/list", {})
        found = await hub.client().request("server/discover", {"_meta": META})
        assert found["instructions"] == "Read."


@pytest.mark.parametrize("shared", ["a", "b"])
async def test_instructions_that_name_a_clients_root_are_told_to_nobody_else(
    shared: str, tmp_path: Path
) -> None:
    top = plant(tmp_path, "a/", "b/")
    async with scripted(saying(f"I serve {top / 'a'}.")) as hub:
        client = await hub.greeted(ROOTS, roots=[{"uri": (top / shared).as_uri()}])
        await client.request("tools/list", {})
        expected = None if shared == "a" else f"I serve {top / 'a'}."
        assert await told(hub.client()) == expected
