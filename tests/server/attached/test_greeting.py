from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from hub.attach.frames import hello
from hub.server.attached.admission import Greeting, NotAdmittedError, close_all, greeting

SECRET, VERSION = "s3cret", "1"


async def greeted(said: bytes, passed: Sequence[int] = ()) -> Greeting:
    """Return what the hub takes from a client that says this and passes descriptors along."""
    hub, client = socket.socketpair()
    with hub, client:
        hub.setblocking(False)
        socket.send_fds(client, [said], passed)
        return await greeting(hub, os.getpid(), SECRET, VERSION)


def open_files() -> list[str]:
    return sorted(str(one.readlink()) for one in Path("/dev/fd").iterdir() if one.is_symlink())


async def test_a_clients_stdin_and_stdout_come_with_its_hello() -> None:
    pipe = os.pipe()
    try:
        said = await greeted(hello("attach", SECRET, VERSION), pipe)
        assert [os.fstat(one).st_ino for one in said.descriptors] == [
            os.fstat(one).st_ino for one in pipe
        ]
        close_all(said.descriptors)
    finally:
        close_all(pipe)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_an_inquiry_leaves_nothing_open_that_came_along() -> None:
    pipe = os.pipe()
    try:
        before = open_files()
        said = await greeted(hello("status", SECRET, VERSION), pipe)
        assert said.kind == "status"
        assert open_files() == before
    finally:
        close_all(pipe)


async def test_a_secret_that_is_no_text_is_a_wrong_one() -> None:
    with pytest.raises(NotAdmittedError, match="does not know the secret"):
        await greeted(hello("status", "\ud800", VERSION))
