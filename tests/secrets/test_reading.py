from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from hub.errors import ChildError
from hub.launch.templates import CommandSecret, FileSecret, SecretText
from hub.secrets.reading import SecretReader


def text(*parts: str | FileSecret | CommandSecret) -> SecretText:
    return SecretText(parts)


async def test_texts_get_their_secrets_as_they_are_at_each_reading(tmp_path: Path) -> None:
    file, reader = tmp_path / "token", SecretReader()
    file.write_text("one\n")
    file.chmod(0o600)
    wanted = {"A": text("Bearer ", FileSecret(str(file))), "B": text("plain")}
    assert await reader.values("at", wanted, {}) == {"A": "Bearer one", "B": "plain"}
    file.write_text("two\n")
    assert (await reader.values("at", wanted, {}))["A"] == "Bearer two"


async def test_a_file_that_others_can_read_is_warned_of_once(tmp_path: Path) -> None:
    file, reader = tmp_path / "token", SecretReader()
    file.write_text("t0ken")
    file.chmod(0o644)
    wanted = {"A": text(FileSecret(str(file)))}
    with capture_logs() as logged:
        await reader.values("at", wanted, {})
        await reader.values("at", wanted, {})
    (line,) = logged
    assert line["event"] == "others can read a secret"
    assert str(file) in line["what"]
    assert "t0ken" not in str(line)


async def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    wanted = {"A": text(FileSecret(str(tmp_path / "none")))}
    with pytest.raises(ChildError) as raised:
        await SecretReader().values("servers.s.env", wanted, {})
    assert str(raised.value) == (
        f"servers.s.env.A: there is no file {tmp_path}/none. "
        "Write the secret into it, or correct the path"
    )


@pytest.mark.live
async def test_a_launch_that_is_given_up_ends_its_command(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command = CommandSecret(f"sh -c 'exec 3>{fifo}; echo on >&3; sleep 60'", "/")
    ended, launch = anyio.Event(), anyio.CancelScope()

    async def wait_for_its_end() -> None:
        async with await anyio.open_file(fifo) as said:
            assert await said.readline() == "on\n"
            launch.cancel()
            assert await said.read() == ""
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_for_its_end)
        with launch:
            await SecretReader().values("at", {"A": text(command)}, dict(os.environ))
        with anyio.fail_after(20):
            await ended.wait()
