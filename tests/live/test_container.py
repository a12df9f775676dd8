"""The hub as the first process of all that it can see, as it is in a container."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.kit.warm import ROOTS_HUB
from tests.live.programs import RECORDER, SOON, call, config_file, connected, program

ALONE = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
ORPHANS = 3


@pytest.fixture(scope="module", autouse=True)
def _containers() -> None:
    """Skip what needs a namespace of its own where there is none to be had."""
    tried = [*ALONE, "true"]
    if shutil.which(ALONE[0]) is None or subprocess.run(tried, check=False).returncode:  # noqa: S603 - ours
        pytest.skip("needs unshare (util-linux), and a kernel that lets users have namespaces")


@contextmanager
def contained_hub(directory: Path, server: list[str]) -> Generator[tuple[str, int]]:
    """Run a hub as process 1; yield its URL, and its id out here."""
    config = config_file(directory, {"server": {"command": server[0], "args": server[1:]}})
    command = [*ALONE, ROOTS_HUB, "run", "--http", "127.0.0.1:0", "--config", config]
    with program(command, cwd=directory) as outer:
        try:
            url, pid = outer.first_line("roots-hub serves "), outer.process.pid
            hub = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
            yield url, hub
            os.kill(hub, signal.SIGTERM)
            assert outer.process.wait(SOON) == 0
        finally:
            outer.process.kill()


def parting(noted: Path) -> list[str]:
    """Return a server that first starts processes that nobody waits for, and notes their ids."""
    leaving = f"(sh -c 'echo $$ >> {noted}' &);" * ORPHANS
    return ["sh", "-c", f'{leaving} exec "$@"', "sh", *RECORDER]


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(SOON):
        while not holds():  # noqa: ASYNC110 - nothing says what becomes of processes
            await anyio.sleep(0.05)


async def test_no_ended_process_is_left_of_what_servers_leave_behind(tmp_path: Path) -> None:
    noted = tmp_path / "orphans"

    def orphans() -> list[str]:
        return noted.read_text().split()

    with contained_hub(tmp_path, parting(noted)) as (url, hub):
        async with connected(url, [tmp_path]) as client:
            await call(client, "pid")
            await until(lambda: len(orphans()) == ORPHANS)
            seen = [Path(f"/proc/{hub}/root/proc/{orphan}") for orphan in orphans()]
            await until(lambda: not any(process.exists() for process in seen))
            await call(client, "pid")
