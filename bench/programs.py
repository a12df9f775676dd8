"""How the programs that are compared are started, each in front of the same child."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from bench.piped import END, WrongAnswerError
from bench.placing import prioritise

HERE = Path(__file__).parent
CHILD = [sys.executable, str(HERE / "child.py")]
HUB = str(Path(sys.executable).with_name("roots-hub"))
START = 60.0
"""Seconds that a server may take until it listens."""
YARD = str(HERE.parent / ".bench" / "yardstick" / "bin" / "python")
"""The Python that has what the bare relays need."""
RELAY = [YARD, str(HERE / "bare_relay.py")]
BARE = [*RELAY, *CHILD]
BATCHED = [*RELAY, "--batch", *CHILD]
STREAMS = [YARD, str(HERE / "bare_streams.py"), *CHILD]


def exit_on_sigterm() -> None:
    """Let SIGTERM end this program as an exception does, so that all it started is ended too."""

    def stopped(_number: int, _frame: FrameType | None) -> None:
        sys.exit(1)

    signal.signal(signal.SIGTERM, stopped)


def keep_memory() -> None:
    """Let this program take what it reads into from its own heap, whatever it has read before.

    glibc does so with pieces up to the largest that was freed, and 32 MiB.
    """
    bytes(31 << 20)


def hub_config(folder: Path, servers: Mapping[str, Sequence[str]], **more: Any) -> Path:
    """Write the config of a hub as its users have it, with the guard and the audit file on.

    A server is a command with its arguments, or a URL. `more`: other keys of the config.
    """
    entries = {
        name: {"share": "roots"}
        | ({"url": one} if isinstance(one, str) else {"command": one[0], "args": list(one[1:])})
        for name, one in servers.items()
    }
    config: dict[str, Any] = {
        "version": 1,
        "guard": "enforce",
        "audit": {"file": str(folder / "audit.jsonl")},
        "servers": entries,
        **more,
    }
    path = folder / "hub.yaml"
    path.write_text(json.dumps(config))
    return path


def hub_on_stdio(config: Path) -> list[str]:
    """Return how a hub for one client is started."""
    return [HUB, "run", "--stdio", "--config", str(config)]


def hub_attached(config: Path) -> list[str]:
    """Return how a client is attached to a hub that other clients may use."""
    return [HUB, "attach", "--config", str(config)]


def hub_on_http(config: Path, port: int, *roots: Path) -> list[str]:
    """Return how a hub for many clients is started."""
    given = [word for root in roots for word in ("--root", str(root))]
    return [HUB, "run", "--http", f"127.0.0.1:{port}", "--config", str(config), *given]


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class HttpProgram:
    """A process that serves on a port of the loopback interface."""

    def __init__(
        self,
        argv: Sequence[str],
        port: int,
        *,
        folder: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.address = ("127.0.0.1", port)
        with (folder / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                # Some keep notes of their own, which are not to stay.
                env={**os.environ, "XDG_STATE_HOME": str(folder), **(environment or {})},
                start_new_session=True,
            )
        prioritise(self.process.pid)

    def ready(self, pause: float = 0.02) -> None:
        """Wait until it takes connections, looking every `pause` seconds.

        Raises: WrongAnswerError if it ends, or never does.
        """
        until = time.monotonic() + START
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError), socket.create_connection(self.address, 1):
                return
            time.sleep(pause)
        raise WrongAnswerError(f"{self.process.args} does not listen")

    def end(self) -> None:
        """End the process, and all that it started."""
        self.process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
