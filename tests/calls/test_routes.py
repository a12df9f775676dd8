from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from hub.calls.routes import SessionRoute
from hub.jsonrpc.messages import Request
from hub.sessions.client import Client
from tests.kit.fakes import ECHO, READ, FakeChild
from tests.kit.rigs import FakeClient, Rig, remote, rig
from tests.kit.trees import plant

FILES = remote("files")


def resolved(at: Rig, client: FakeClient, name: str = "read") -> SessionRoute | None:
    return at.relay.session_routes.find(client.session, Request(1, "tools/call", {"name": name}))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_child_of_either_era_leaves_one(era: Literal["legacy", "modern"]) -> None:
    async with rig(
        {"files": replace(FILES, era="auto")}, {"files": FakeChild(READ, era=era)}
    ) as at:
        client = at.client()
        await client.call("read", {})
        assert resolved(at, client) is not None


async def test_a_modern_client_leaves_none_to_its_session() -> None:
    async with rig({"files": FILES}, {"files": FakeChild(READ)}) as at:
        client = at.client()
        client.session.greeted(Client("modern", "2026-07-28", {}, {}))
        await client.call("read", {})
        assert resolved(at, client) is None


async def test_without_prefixes_several_servers_leave_none(top: Path) -> None:
    servers = {"files": FILES, "other": remote("other")}
    fakes = {"files": FakeChild(READ), "other": FakeChild(ECHO)}
    for mode, public, kept in (("never", "read", False), ("auto", "files__read", True)):
        async with rig(servers, fakes, names=mode) as at:  # pyright: ignore[reportArgumentType]
            client = at.client(top / "a")
            await client.call(public, {})
            assert (resolved(at, client, public) is not None) is kept
