"""What SIGHUP does to a hub that serves over HTTP: with a terminal, and without one."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import anyio
import pytest

from tests.kit.terminal import controlling_terminal
from tests.kit.warm import ROOTS_HUB
from tests.live.programs import SOON, config_file, connected, environment, report

pytestmark = pytest.mark.usefixtures("hangups")


def hub(top: Path, config: str) -> list[str]:
    return [ROOTS_HUB, "--log-format", "json", "run", "--config", config, "--http", "127.0.0.1:0"]


def test_without_a_terminal_the_config_is_loaded_again(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    config = config_file(tmp_path, {"s": {"command": "cat"}}, roots={"when_missing": "deny"})
    with subprocess.Popen(  # noqa: S603 - ours
        hub(tmp_path, config),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            url = process.stdout.readline().removeprefix("roots-hub serves ").strip()
            raw = json.loads(Path(config).read_text())
            Path(config).write_text(json.dumps({**raw, "roots": {"fallback": ["a"]}}))
            process.send_signal(signal.SIGHUP)
            waited = {"asked to reload", "config reloaded"}
            while waited:
                waited.discard(json.loads(process.stderr.readline())["event"])
            assert anyio.run(folders, url) == [str(tmp_path / "a")]
        finally:
            process.terminate()
            assert process.wait(SOON) == 0


async def folders(url: str) -> list[str]:
    async with connected(url) as client:
        return (await report(client))["filePaths"]


def test_with_a_terminal_it_ends(tmp_path: Path) -> None:
    config = config_file(tmp_path, {"s": {"command": "cat"}})
    with (
        controlling_terminal() as terminal,
        subprocess.Popen(  # noqa: S603 - ours
            terminal.command(hub(tmp_path, config)),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            pass_fds=terminal.files,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith("roots-hub serves ")
        process.send_signal(signal.SIGHUP)
        assert process.wait(SOON) == 0
