from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import jsonschema
import pytest

from hub.calls.builtin_tools import BUILTINS, GET_ROOTS, get_roots
from hub.guard.policy import Mode, Policy
from hub.jsonrpc.messages import Failure, Request
from hub.roots.effective import OperatorRoots
from hub.sessions.operator import ConfigState
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, READ, SILENT, FakeChild, FakeClock, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

DENIED = Failure(None, {"code": -32603, "message": "not now"})


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/", "b/")


async def report(client: RigClient) -> dict[str, Json]:
    result = get_roots(client.session, await client.session.effective(client.outlet))
    content, structured = result["content"], result["structuredContent"]
    assert isinstance(content, list)
    assert isinstance(structured, dict)
    entry = content[0]
    assert isinstance(entry, dict)
    assert json.loads(str(entry["text"])) == structured
    schema = next(tool for tool in BUILTINS if tool["name"] == GET_ROOTS)["outputSchema"]
    assert isinstance(schema, dict)
    jsonschema.validate(structured, schema)
    return structured


async def test_h12_the_first_fields_are_those_that_clients_know(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        client = at.client(top / "a", top / "b")
        client.answers["roots/list"] = {
            "roots": [{"uri": f"file://{top}/a", "name": "A"}, {"uri": f"file://{top}/b"}]
        }
        found = await report(client)
    assert list(found)[:5] == [
        "supportsRoots",
        "rootsListChanged",
        "rootsCount",
        "roots",
        "filePaths",
    ]
    assert list(found.values())[:5] == [
        True,
        True,
        2,
        [{"uri": f"file://{top}/a", "name": "A"}, {"uri": f"file://{top}/b"}],
        [f"{top}/a", f"{top}/b"],
    ]
    assert (found["source"], found["enforcing"], found["mode"]) == ("client", True, "enforce")
    assert (found["generation"], found["stale"], found["ceiling"]) == (1, False, None)
    assert isinstance(found["refreshedAt"], float)


@pytest.mark.parametrize(
    ("capabilities", "supports", "changes"),
    [
        ({}, False, False),
        ({"roots": {}}, True, False),
        ({"roots": {"listChanged": True}}, True, True),
    ],
)
async def test_it_says_what_the_client_declared(
    capabilities: JsonObject, supports: bool, changes: bool
) -> None:
    async with rig({}, {}) as at:
        client = at.client(capabilities=capabilities)
        found = await report(client)
    assert (found["supportsRoots"], found["rootsListChanged"]) == (supports, changes)


async def test_a_client_that_is_not_restricted_is_told_so() -> None:
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        found = await report(at.client())
    assert (found["source"], found["enforcing"]) == ("none", False)
    assert (found["generation"], found["refreshedAt"]) == (0, None)


async def test_nothing_is_enforced_where_the_guard_is_off(top: Path) -> None:
    off = remote("off", policy=Policy(mode=Mode.OFF))
    async with rig({"off": off}, {"off": FakeChild()}) as at:
        found = await report(at.client(top / "a"))
    assert (found["enforcing"], found["mode"]) == (False, "off")
    async with rig({"off": off, "on": remote("on")}, {}) as at:
        found = await report(at.client(top / "a"))
    assert (found["enforcing"], found["mode"]) == (True, "mixed")


async def test_it_says_which_roots_are_refused_and_what_the_ceiling_is(top: Path) -> None:
    operator = OperatorRoots(ceiling=roots_at(top / "a"))
    async with rig({}, {}, operator=operator) as at:
        client = at.client(top / "a", top / "b", top / "none")
        found = await report(client)
    assert found["filePaths"] == [f"{top}/a"]
    assert found["ceiling"] == [f"{top}/a"]
    assert found["rejected"] == [{"uri": f"file://{top}/none", "reason": "Path is not accessible"}]


async def test_it_says_why_there_are_no_roots(top: Path) -> None:
    async with rig({}, {}) as at:
        gone, failing, fine = at.client(top / "gone"), at.client(top / "a"), at.client(top / "a")
        failing.answers["roots/list"] = failure(-32601, "Method not found")
        said = [(await report(client)).get("whyNoRoots") for client in (gone, failing, fine)]
    assert said == [
        "The client shares 1 folder, and it cannot be used on the hub's machine: "
        f"file://{top}/gone: Path is not accessible.",
        "The client has roots, but they could not be read: the client's answer: Method not found.",
        None,
    ]


async def test_it_says_where_each_server_stands(top: Path) -> None:
    files = launched("files", "--token", "${TOKEN}", "${roots}", ceiling=roots_at(top / "a"))
    fakes = {"files": FakeChild(ECHO), "idle": FakeChild()}
    specs = {"files": files, "idle": remote("idle")}
    async with rig(specs, fakes, environment={"TOKEN": "s3cret"}) as at:
        client = at.client(top)
        effective = await client.session.effective(client.outlet)
        await at.services.children.obtain(client.session.slot_for(files, effective))
        found = await report(client)
    servers = found["servers"]
    assert isinstance(servers, list)
    for server in servers:
        assert isinstance(server, dict)
        assert isinstance(server.pop("confinement"), str)
        what = "process" if server["name"] == "files" else "connection"
        assert server.pop("sharing") == f"clients with the same roots share a {what}"
        assert server.pop("scopes") is None
    assert servers == [
        {
            "name": "files",
            "state": "ready",
            "breaker": "closed",
            "era": "legacy",
            "mode": "enforce",
            "effectiveRoots": [f"file://{top}/a"],
            "args": ["server", "--token", "${TOKEN}", f"{top}/a"],
        },
        {
            "name": "idle",
            "state": "idle",
            "era": None,
            "mode": "enforce",
            "effectiveRoots": [f"file://{top}"],
            "args": None,
        },
    ]
    assert "s3cret" not in json.dumps(found, default=str)


async def test_it_tells_what_was_refused_lately(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        client = at.client(top / "a")
        await client.call("read", {"path": "/etc/passwd"})
        found = await report(client)
    assert found["recentRefusals"] == [
        {
            "server": "files",
            "name": "read",
            "argument": "/path",
            "path": "/etc/passwd",
            "reason": "outside the allowed roots boundaries",
            "mode": "enforce",
        }
    ]


async def test_it_is_a_tool_that_changes_nothing() -> None:
    (tool,) = BUILTINS
    assert tool["name"] == GET_ROOTS
    assert tool["annotations"] == {"readOnlyHint": True, "openWorldHint": False}


async def test_it_says_why_a_server_is_down_and_when_it_is_tried_again(top: Path) -> None:
    fake, clock = FakeChild(ECHO, answers={"initialize": failure(-1, "broken")}), FakeClock()
    async with rig({"files": remote()}, {"files": fake}, clock=clock) as at:
        client = at.client(top)
        await client.call("echo")
        found = (await report(client))["servers"]
        assert isinstance(found, list)
        down = found[0]
        assert isinstance(down, dict)
        assert (down["state"], down["reason"], down["breaker"]) == ("down", "broken", "closed")
        assert (down["failures"], down["retryAt"]) == (1, 1_700_000_001.0)
        clock.advance(1)
        found = (await report(client))["servers"]
        assert isinstance(found, list)
        again = found[0]
        assert isinstance(again, dict)
        assert again["retryAt"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are no text")
async def test_a_root_whose_path_is_no_text_is_reported_as_far_as_it_can_be(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    plant(tmp_path, f"{name}/", f"link => {name}")
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        found = await report(at.client(tmp_path / "link"))
    assert found["filePaths"] == [f"{tmp_path}/caf\ufffd"]
    assert found["roots"] == [{"uri": f"file://{tmp_path}/link"}]


async def test_the_config_file_is_told_with_what_waits_and_no_values(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        client = at.client(top / "a")
        assert (await report(client))["config"] is None
        client.session.services.config_file.state = ConfigState(
            "hub.yaml", "hub.yaml: x: unknown key", ("servers.s.env",), ("listen.port",)
        )
        assert (await report(client))["config"] == {
            "file": "hub.yaml",
            "error": "hub.yaml: x: unknown key",
            "waiting": ["servers.s.env"],
        }


async def test_it_asks_anew_for_roots_that_could_not_be_read_before(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild()}) as at:
        client = at.client(top / "a")
        answer, client.answers["roots/list"] = client.answers["roots/list"], DENIED
        for reply, paths in ((DENIED, []), (DENIED, []), (answer, [f"{top}/a"])):
            client.answers["roots/list"] = reply
            found = (await client.call(GET_ROOTS))["structuredContent"]
            assert isinstance(found, dict)
            assert found["filePaths"] == paths


async def test_other_calls_do_not_wait_for_what_it_asks_anew(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        client = at.client(top / "a")
        client.answers["roots/list"] = DENIED
        await client.call(GET_ROOTS)
        client.answers["roots/list"] = SILENT
        waiting = anyio.CancelScope()

        async def show() -> None:
            with waiting:
                await client.call(GET_ROOTS)

        at.tasks.start_soon(show)
        await all_tasks_blocked()
        answered = client.outlet.messages[-1]
        assert isinstance(answered, Request), "it asks anew"
        with anyio.fail_after(1):
            refused = await client.call("read", {"path": f"{top}/b/f"})
        assert refused["isError"] is True
        waiting.cancel()
