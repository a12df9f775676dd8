"""Servers with child processes of every kind, and a hub that ends in every way: none is left.

`ORPHAN_ROUNDS=20` (`make orphans`) repeats each way so often, with hubs that start as users' do.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import httpx2
import pytest

from hub.children.process.supervised import ForkServerClient
from tests.kit.terminal import controlling_terminal
from tests.kit.warm import ROOTS_HUB, WARM_HUB, AnyProcess
from tests.live.programs import SOON, config_file, environment
from tests.live.test_http_endpoint import post, session
from tests.live.test_processes import Piped

# ruff: noqa: T201 - how long each round took is what a run with many rounds is for
pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are told by /proc"),
    pytest.mark.usefixtures("hangups"),
]

ROUNDS = range(int(os.environ.get("ORPHAN_ROUNDS", "1")))
HUB = ROOTS_HUB if len(ROUNDS) > 1 else WARM_HUB
CHILDREN = (
    ("child=plain",),
    ("noeof", "noterm", "child=noterm"),
    ("busy", "child=plain", "child=setsid"),
    ("noeof", "noterm", "busy", "child=bare"),
    ("child=lost",),
    ("noeof", "child=setsid", "child=noterm"),
    ("noeof", "noterm", "child=bare", "child=lost"),
    ("busy", "noterm", "child=setsid"),
    ("noeof", "noterm", "child=evader"),
    ("child=evader", "child=evader"),
)
ALL = 2 * len(CHILDREN) + 14
"""How many processes there are before anybody calls: more come with calls."""
TERM, INT, HUP, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL
WAYS = {
    "SIGTERM": (TERM,),
    "SIGTERM twice": (TERM, TERM),
    "SIGINT and SIGTERM": (INT, TERM),
    "SIGHUP": (HUP,),
}
_CALLS = 20


class ProcessTree:
    """All processes that carry a mark on their command line, and those that watch over them."""

    def __init__(self) -> None:
        self.mark = f"mark-{secrets.token_hex(8)}"
        self.hub: int = 0
        self._beside: list[str] | None = None
        """The command line of the program that forks, and of each subreaper that it has forked."""

    def config(self, directory: Path) -> str:
        program = str(Path(__file__).with_name("forking_child.py"))
        servers = {
            f"s{number}": {
                "command": sys.executable,
                "args": ["-I", "-S", program, self.mark, *kinds],
                "confine": "off" if number % 2 else "auto",
            }
            for number, kinds in enumerate(CHILDREN)
        }
        # Most calls are not answered by the end: to wait for them longer shows nothing more.
        return config_file(directory, servers, drain=1)

    def left(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    words = (folder / "cmdline").read_text().split("\0")
                    if ForkServerClient.program in words and _parent(folder) == f"{self.hub}":
                        self._beside = words
                    if self.mark in words or words == self._beside:
                        found[int(folder.name)] = " ".join(words)
        return found

    def kill(self, process: AnyProcess) -> None:
        """Kill the hub, and with it what it has to outlive it."""
        process.send_signal(signal.SIGSTOP)
        (beside,) = self.below(process.pid)
        os.kill(beside, signal.SIGKILL)
        process.kill()

    def below(self, parent: int) -> list[int]:
        """Return the processes of a parent; another may end while this looks."""
        found = list[int]()
        for pid in self.left():
            with suppress(OSError):
                if _parent(Path("/proc", str(pid))) == f"{parent}":
                    found.append(pid)
        return found

    def until(self, reached: Callable[[dict[int, str]], bool], patience: float) -> dict[int, str]:
        deadline = time.monotonic() + patience
        while not reached(found := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def is_loaded(self) -> None:
        """Wait until calls have made more processes; most of them are still under way then."""
        assert len(self.until(lambda found: len(found) > ALL + 4, SOON)) > ALL + 4

    def clear(self) -> None:
        while found := self.left():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def _parent(folder: Path) -> str:
    return (folder / "stat").read_text().rpartition(")")[2].split()[1]


@contextmanager
def hub(directory: Path, *arguments: str) -> Generator[tuple[AnyProcess, ProcessTree]]:
    tree = ProcessTree()
    with (
        (directory / "stderr.log").open("w") as log,
        controlling_terminal() as terminal,  # without one a SIGHUP asks to reload
        terminal.start(
            [HUB, "run", *arguments, "--config", tree.config(directory)],
            cwd=directory,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        tree.hub = process.pid
        try:
            yield process, tree
        finally:
            process.kill()
            tree.clear()


@contextmanager
def stdio_hub(directory: Path) -> Generator[tuple[Piped, ProcessTree]]:
    """Run a hub on pipes, and load it with calls that nobody waits for."""
    with hub(directory, "--stdio") as (process, tree):
        piped = Piped(process, tree.mark)
        piped.begin()
        assert len(tree.until(lambda found: len(found) > ALL, SOON)) > ALL
        for number in range(_CALLS):
            params = {"name": f"s{number % len(CHILDREN)}__work"}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            piped.stdin.write(json.dumps(call) + "\n")
            piped.stdin.flush()
        tree.is_loaded()
        time.sleep(random.uniform(0, 0.3))  # noqa: S311 - the moment of the end
        yield piped, tree


@contextmanager
def http_hub(directory: Path) -> Generator[tuple[AnyProcess, ProcessTree]]:
    with (
        ThreadPoolExecutor(_CALLS) as pool,
        hub(directory, "--http", "127.0.0.1:0") as (process, tree),
    ):
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("roots-hub serves ").strip()
        key, ids = session(url), count(1)

        def ask(method: str, **params: object) -> None:
            message = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
            with suppress(httpx2.HTTPError):
                post(url, message, mcp_session_id=key)

        ask("tools/list")
        assert len(tree.until(lambda found: len(found) > ALL, SOON)) > ALL
        for number in range(_CALLS):
            pool.submit(ask, "tools/call", name=f"s{number % len(CHILDREN)}__work", arguments={})
        tree.is_loaded()
        time.sleep(random.uniform(0, 0.3))  # noqa: S311 - the moment of the end
        yield process, tree


def send(process: AnyProcess, *signs: signal.Signals) -> None:
    for number, sign in enumerate(signs):
        time.sleep(0.2 * bool(number))
        process.send_signal(sign)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_hub_that_is_killed_leaves_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with stdio_hub(tmp_path) as (piped, tree):
        assert [*temporary.glob("roots-hub.*/*")], "confined servers have folders of their own"
        piped.process.kill()
        began = time.monotonic()
        assert tree.until(lambda found: not found, SOON) == {}
        print(f"round {number}: none left after {time.monotonic() - began:.2f} s")
        assert piped.process.wait(SOON) == -signal.SIGKILL
        assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("number", ROUNDS)
def test_who_watches_over_children_ends_them_also_when_it_was_stopped(
    number: int, tmp_path: Path
) -> None:
    with stdio_hub(tmp_path) as (piped, tree):
        (forks,) = tree.below(piped.process.pid)
        subreapers = tree.below(forks)
        assert len(subreapers) == len(CHILDREN)
        for pid in subreapers:
            os.kill(pid, signal.SIGSTOP)
        piped.process.kill()
        assert tree.until(lambda found: not found, SOON) == {}, number
        assert piped.process.wait(SOON) == -signal.SIGKILL


@pytest.mark.parametrize("number", ROUNDS)
def test_a_hub_that_is_killed_with_its_watchdog_leaves_only_folders_to_the_next(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with stdio_hub(tmp_path) as (piped, tree):
        tree.kill(piped.process)
        began = time.monotonic()
        assert tree.until(lambda found: not found, SOON) == {}
        print(f"round {number}: none left after {time.monotonic() - began:.2f} s")
        assert piped.process.wait(SOON) == -signal.SIGKILL
    (left,) = temporary.iterdir()
    with stdio_hub(tmp_path):
        tree.until(lambda _: not left.exists(), SOON)
        assert not left.exists()
        assert [*temporary.glob("roots-hub.*/*")], "nor are those of the hub that runs"


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_hub_that_is_told_to_end_leaves_nothing(way: str, number: int, tmp_path: Path) -> None:
    with stdio_hub(tmp_path) as (piped, tree):
        began = time.monotonic()
        send(piped.process, *WAYS[way])
        assert piped.process.wait(SOON) == 0
        assert tree.left() == {}
        print(f"{way}, round {number}: ended after {time.monotonic() - began:.2f} s")


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("signs", [(), (TERM,), (TERM, TERM)], ids=["", "SIGTERM", "twice"])
def test_a_client_that_goes_leaves_nothing(
    signs: tuple[signal.Signals, ...], number: int, tmp_path: Path
) -> None:
    with stdio_hub(tmp_path) as (piped, tree):
        began = time.monotonic()
        piped.stdin.close()
        if signs:
            time.sleep(2.0)  # as the SDK's client does
            send(piped.process, *signs)
        assert piped.process.wait(SOON) == 0
        assert tree.left() == {}
        print(f"stdin, {len(signs)} signals, {number}: {time.monotonic() - began:.2f} s")


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("way", [*WAYS, "SIGKILL"])
def test_a_hub_on_http_leaves_nothing(way: str, number: int, tmp_path: Path) -> None:
    with http_hub(tmp_path) as (process, tree):
        began = time.monotonic()
        send(process, *WAYS.get(way, (KILL,)))
        killed = way == "SIGKILL"
        assert process.wait(SOON) == (-KILL if killed else 0)
        assert tree.until(lambda found: not found, SOON if killed else 0) == {}
        print(f"http, {way}, round {number}: {time.monotonic() - began:.2f} s")
