"""The log names the change that lets a refused call pass: it is made here, and the call passes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from hub.sessions.operator import ConfigState
from hub.values import JsonObject
from tests.kit.changes import Setup
from tests.kit.hubs import flow_hub, text_of
from tests.kit.trees import plant

KEYS = (
    "allow_unsafe",
    "overrides",
    "replace",
    "roots.",
    "--root",
    "HUB_ROOTS",
    "hub.yaml",
    "guard.",
)
"""What no client may read: the keys to the door."""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/in.txt", "a/x.key", "b/out.txt", "c/", "a/link => in.txt")


async def called(setup: Setup, path: Any) -> tuple[bool, str, list[str]]:
    """Call a tool; return whether it was refused, all that the client reads, and the changes."""
    with capture_logs() as logged:
        async with flow_hub(setup.config, given=setup.given, environment=dict(os.environ)) as hub:
            hub.services.config_file.state = ConfigState("hub.yaml")
            roots: list[JsonObject] = [{"uri": Path(one).as_uri()} for one in setup.shared or []]
            if setup.shared is None:
                client = await hub.connected(capabilities={})
            else:
                client = await hub.connected(roots)
                await client.initialized()
            result = await client.call("read_file", path=path)
            read = json.dumps([result, (await client.get_roots())["recentRefusals"]])
    told = [str(line["allowed_by"]) for line in logged if line["event"] == "refused"]
    changes = [change for line in told for change in line.split("; ")]
    return text_of(result).startswith("Access denied: "), read, changes


def fills(value: Any, top: Path) -> Any:
    return json.loads(json.dumps(value).replace("TOP", str(top)))


FILES = {"command": "mcp-server-filesystem"}
WRITES = {"tools": {"overrides": {"read_file": {"access": "write"}}}}
CASES: dict[str, tuple[Any, list[str], list[str] | None, Any, list[str]]] = {
    "client": ({}, [], ["TOP/a"], "TOP/b/out.txt", ["client"]),
    "none shared": ({}, [], [], "TOP/b/out.txt", ["client"]),
    "new file": ({}, [], ["TOP/a"], "TOP/b/new.txt", ["client"]),
    "relative": ({}, [], ["TOP/a"], "../b/out.txt", ["client"]),
    "URI": ({}, [], ["TOP/a"], "file://TOP/b/out.txt", ["client"]),
    "fallback is no help": (
        {"roots": {"fallback": ["TOP/b"]}},
        [],
        ["TOP/a"],
        "TOP/b/x",
        ["client"],
    ),
    "client and ceiling": (
        {"roots": {"ceiling": ["TOP/a"]}},
        [],
        ["TOP/a"],
        "TOP/b/out.txt",
        ["client", "roots.ceiling"],
    ),
    "ceiling": ({"roots": {"ceiling": ["TOP/a"]}}, [], ["TOP"], "TOP/b/out.txt", ["roots.ceiling"]),
    "unsafe": ({}, [], ["TOP/a"], "/etc/passwd", ["client", "roots.allow_unsafe"]),
    "below a root, unsafe": (
        {},
        [],
        ["TOP/a", "/"],
        "/etc/passwd",
        ["client", "roots.allow_unsafe"],
    ),
    "own directories": (
        {"servers": {"files": {**FILES, "args": ["TOP/a"]}}},
        [],
        ["TOP"],
        "TOP/b/out.txt",
        ["servers.files.args"],
    ),
    "own directories apart": (
        {"servers": {"files": {**FILES, "args": ["TOP/a"]}}},
        [],
        ["TOP/b"],
        "TOP/b/out.txt",
        ["servers.files.roots.args"],
    ),
    "fallback": ({"roots": {"fallback": ["TOP/a"]}}, [], None, "TOP/b/out.txt", ["roots.fallback"]),
    "denied without roots": (
        {"roots": {"when_missing": "deny"}},
        [],
        None,
        "TOP/b/out.txt",
        ["roots.fallback"],
    ),
    "rootless and ceiling": (
        {"roots": {"ceiling": ["TOP/a"]}},
        [],
        None,
        "TOP/b/out.txt",
        ["roots.ceiling"],
    ),
    "fallback and ceiling": (
        {"roots": {"fallback": ["TOP/a"], "ceiling": ["TOP/a"]}},
        [],
        None,
        "TOP/b/out.txt",
        ["roots.fallback", "roots.ceiling"],
    ),
    "--root": ({}, ["TOP/a"], None, "TOP/b/out.txt", ["--root"]),
    "deny": (
        {"roots": {"deny": ["*.key", "x.*", "*.pem"]}},
        [],
        ["TOP/a"],
        "TOP/a/x.key",
        ["roots.deny"],
    ),
    "read-only": (
        {
            "roots": {"access": [{"path": "TOP", "access": "read"}]},
            "servers": {"files": {"command": "x", **WRITES}},
        },
        [],
        ["TOP/a"],
        "TOP/a/in.txt",
        ["roots.access"],
    ),
    "links": (
        {"servers": {"files": {"command": "x", "guard": {"symlinks": "deny"}}}},
        [],
        ["TOP/a"],
        "TOP/a/link",
        ["servers.files.guard.symlinks"],
    ),
    "no path": ({}, [], ["TOP/a"], 7, ["servers.files.tools.overrides.read_file.arguments"]),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_change_that_the_log_names_lets_the_call_pass(case: str, top: Path) -> None:
    config, given, shared, path, keys = fills(CASES[case], top)
    files = {"servers": {"files": {"command": "x"}}}
    setup = Setup({**files, **config}, given, shared)
    is_refused, read, changes = await called(setup, path)
    assert is_refused
    assert list(dict.fromkeys(map(_key, changes))) == keys
    told = ["replace", "roots."] if case == "own directories apart" else []
    assert [key for key in KEYS if key in read] == told
    is_refused, _, _ = await called(setup.after(changes), path)
    assert not is_refused


def _key(change: str) -> str:
    return "client" if change.startswith("the client") else change.partition(":")[0]


async def test_nothing_is_named_for_what_is_the_hubs_own(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", f"{top}/state")
    setup = Setup({"servers": {"files": {"command": "x"}}}, [], [f"{top}/a"])
    _, _, changes = await called(setup, f"{top}/state/roots-hub/key")
    assert changes == ["nothing that is known"]
