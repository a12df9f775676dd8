"""Many attached clients with several environments and folders: no answer is another client's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.kit.trees import plant
from tests.live.attaching import AttachedClient, attached, hubs, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")

CALLS = int(os.environ.get("CROSSING_CALLS", "600"))
SESSIONS, SETS = 20, 4
SERVERS = ("one", "two", "three", "four", "five")
PROGRAM = str(Path(__file__).with_name("environment_child.py"))


@pytest.fixture
def config(tmp_path: Path) -> Generator[str]:
    server = {
        "command": sys.executable,
        "args": [PROGRAM, "${PROJECT}", "${roots}"],
        "env": {"KEY": "${API_KEY}"},
        "share": "roots",
    }
    file = tmp_path / "hub.yaml"
    whole = {"version": 1, "linger": 60, "servers": dict.fromkeys(SERVERS, server)}
    file.write_text(json.dumps({**whole, "max_children": 200}), encoding="utf-8")
    yield str(file)
    run("stop", "--config", str(file), cwd=tmp_path)


def _open(client: AttachedClient) -> None:
    client.open()
    client.tools()


def _wrong(client: AttachedClient, number: int, count: int, top: Path) -> list[Any]:
    """Call each server in turn; return the answers that are not those of the client's own set."""
    own, wrong = number % SETS, list[Any]()
    for nth in range(count):
        shown = json.loads(client.call(f"{SERVERS[nth % len(SERVERS)]}__show"))
        said = shown["arguments"], shown["environment"]["KEY"], shown["directory"]
        if said != ([f"project-{own}", f"{top}/{own}"], f"key-{own}", f"{top}/{own}"):
            wrong.append(said)
    return wrong


def test_no_answer_is_another_clients(config: str, tmp_path: Path) -> None:
    top = plant(tmp_path, *(f"{number}/" for number in range(SETS)))
    with ExitStack() as stack, ThreadPoolExecutor(SESSIONS) as pool:
        clients = [
            stack.enter_context(
                attached(
                    *("--config", config, "--root", "."),
                    cwd=top / str(number % SETS),
                    env={
                        "PROJECT": f"project-{number % SETS}",
                        "API_KEY": f"key-{number % SETS}",
                        "TERM_SESSION_ID": str(number),
                    },
                )
            )
            for number in range(SESSIONS)
        ]
        list(pool.map(_open, clients))
        each = CALLS // SESSIONS

        def wrong_of(number: int) -> list[Any]:
            return _wrong(clients[number], number, each, top)

        found = list(pool.map(wrong_of, range(SESSIONS)))
        children = hubs(config, tmp_path)[0]["children"]
    assert [one for one in found if one] == []
    assert len(children) == len(SERVERS) * SETS
    assert len({child["pid"] for child in children}) == len(children)
