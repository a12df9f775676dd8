from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from hub.attach.runtime_directory import HubPlace, RuntimeDirectory
from hub.server.attached.server import AttachServer, HubFacts, TakenOver
from hub.server.connection import ConnectionFactory
from hub.system.shutdown import Shutdown
from hub.values import JsonObject
from tests.kit.fakes import no_descriptor_free
from tests.kit.loops import all_tasks_blocked


class UnusedHub:
    """A hub that serves nobody."""

    def client(
        self, environment: Mapping[str, str], directory: str, given: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[ConnectionFactory]:
        raise NotImplementedError

    async def reload(self) -> TakenOver:
        raise NotImplementedError

    def status(self) -> JsonObject:
        raise NotImplementedError


@asynccontextmanager
async def served(directory: Path) -> AsyncGenerator[HubPlace]:
    """Serve the socket of a hub until the context ends."""
    opened = RuntimeDirectory.opened({"XDG_RUNTIME_DIR": str(directory)})
    place, shutdown = HubPlace(opened, "hub"), Shutdown()
    facts = HubFacts(version="1", serves="", log=None, began=0.0, memory=lambda: None)
    ready = anyio.Event()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            server = AttachServer(UnusedHub(), place, facts, shutdown, linger=None)
            tasks.start_soon(server.serve, ready.set)
            await ready.wait()
            yield place
            shutdown.begin()
    opened.close()


async def turn_away(place: HubPlace) -> None:
    """Connect a client while the hub can open nothing at all, not even its spare descriptor."""
    with socket.socket(socket.AF_UNIX) as client, capture_logs() as logs:
        with no_descriptor_free():
            client.connect(place.address)
            while not logs:
                await anyio.lowlevel.checkpoint()
        assert "a client was turned away" in logs[0]["event"]


def descriptors() -> set[Path]:
    """Return what this process has open."""
    return set(Path("/dev/fd").iterdir())


async def test_a_hub_without_its_spare_descriptor_closes_nobody_elses(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        await turn_away(place)
        pipe = os.pipe()  # gets the number that the spare descriptor had
        await turn_away(place)
        assert os.write(pipe[1], b"x") == 1
    for end in pipe:
        os.close(end)


async def test_a_hub_that_lost_its_spare_descriptor_opens_another(tmp_path: Path) -> None:
    async with served(tmp_path) as place:
        await all_tasks_blocked()
        before = descriptors()
        await turn_away(place)
        while descriptors() != before:  # the spare descriptor's number is missing
            await anyio.lowlevel.checkpoint()
        with socket.socket(socket.AF_UNIX) as client, no_descriptor_free(but=1):
            taken = os.dup(0)
            client.connect(place.address)
            await anyio.wait_readable(client)
            assert client.recv(1) == b""
            os.close(taken)


async def test_a_client_that_is_gone_before_it_is_accepted_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, gone = socket.socket.accept, [ConnectionAbortedError()]

    def accepted(listener: socket.socket) -> tuple[socket.socket, object]:
        """Fail once, as BSD's and macOS's kernels do where Linux accepts."""
        connection, address = accept(listener)
        if gone:
            connection.close()
            raise gone.pop()
        return connection, address

    monkeypatch.setattr(socket.socket, "accept", accepted)
    async with served(tmp_path) as place:
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as client, capture_logs():
                client.connect(place.address)
                client.sendall(b"\0\0\0\1x")
                client.setblocking(False)
                await anyio.wait_readable(client)
        assert not gone
