from __future__ import annotations

import itertools
import json
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from msgspec import Raw

from hub.calls.addressing import OwnParam
from hub.calls.builtin_tools import GET_ROOTS
from hub.calls.judging import Destination, JudgingContext, Snapshot
from hub.calls.resolve import MAX_JUDGEMENTS
from hub.errors import ChildError, RouteError
from hub.guard.consent import Judgement
from hub.guard.decide import Admitted, compile_tool
from hub.guard.policy import AccessRule, Mode, Policy
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Message
from hub.jsonrpc.peer import Asked
from hub.launch.plan import LaunchTemplate
from hub.paths.resolve import Flavour, parts_of
from hub.protocol.constants import INTERNAL_ERROR, INVALID_PARAMS
from hub.roots.effective import OperatorRoots
from hub.sessions.operator import ConfigState
from hub.specs import ServerSpec
from hub.values import Call, ChildRoute, Json, JsonObject
from tests.kit.fakes import (
    ECHO,
    READ,
    SILENT,
    Answer,
    FakeChild,
    FakeClock,
    RecordingOutlet,
    RecordingWorker,
    failure,
)
from tests.kit.loops import virtual_time
from tests.kit.rigs import RigClient, launched, remote, rig, roots_at
from tests.kit.trees import plant

SAMPLING = "sampling/createMessage"
WRITE: JsonObject = {"name": "write", "inputSchema": READ["inputSchema"]}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/f", "b/f")


def text_of(result: JsonObject) -> str:
    content = result["content"]
    assert isinstance(content, list)
    entry = content[0]
    assert isinstance(entry, dict)
    return str(entry["text"])


async def error_of(client: RigClient, method: str, params: JsonObject) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await client.request(client.asked_for(method, params))
    return caught.value


async def test_a_call_inside_the_roots_reaches_the_child_as_it_is(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        arguments: JsonObject = {"path": f"{top}/a/f", "n": 2**100, "unknown": {"x": [None]}}
        result = await client.call("read", arguments, more={"kept": True})
        assert result["structuredContent"] == arguments
        sent = (await fake.link.request("tools/call"))["params"]
        assert sent == {"name": "read", "arguments": arguments, "more": {"kept": True}}


async def test_a_call_outside_the_roots_does_not_reach_the_child(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        result = await client.call("read", {"path": f"{top}/b/f"})
        assert result["isError"] is True
        assert text_of(result) == (
            f"Access denied: Path '{top}/b/f' is outside the allowed roots boundaries. "
            f'Current roots: ["file://{top}/a"]'
        )
        assert result["_meta"] == {
            "roots-hub/refusal": {
                "argument": "/path",
                "path": f"{top}/b/f",
                "reason": "outside the allowed roots boundaries",
                "mode": "enforce",
            }
        }
        assert fake.link.requests("tools/call") == []


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.OFF])
async def test_the_same_call_does_harm_where_the_guard_does_not_enforce(
    top: Path, mode: Mode
) -> None:
    fake = FakeChild(READ)
    spec = remote(policy=Policy(mode=mode))
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")
        assert "isError" not in await client.call("read", {"path": f"{top}/b/f"})
        assert len(client.session.refusals.recent) == (1 if mode is Mode.REPORT else 0)


async def test_a_childs_result_goes_back_byte_for_byte(top: Path) -> None:
    raw = b'{"content":[],"isError":true,"n":1e400,"m":1.10,"x":"\\ud83d","_meta":{"a":1},"?":[]}'
    fake = FakeChild(READ, answers={"tools/call": raw})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        found = await at.relay.call(client.session, client.asked("read", {"path": f"{top}/a/f"}))
        assert found == Raw(raw)


async def test_equal_ids_of_two_clients_over_one_child_never_cross(top: Path) -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    spec = remote(concurrency=64)
    results: dict[tuple[int, int], Json] = {}
    async with rig({"files": spec}, {"files": fake}) as at:
        clients = [at.client(top / "a"), at.client(top / "a")]

        async def call(who: int, number: int) -> None:
            asked = clients[who].asked("echo", {"who": who, "n": number})
            result = await clients[who].request(asked)
            results[who, number] = result["mine"]

        async with anyio.create_task_group() as calls:
            for number in range(32):
                for who in (0, 1):
                    calls.start_soon(call, who, number)
            await (await fake.connected()).request("tools/call", nth=64)
            for line in reversed(fake.link.requests("tools/call")):
                given = line["params"]["arguments"]
                fake.link.answer(line["id"], {"mine": [given["who"], given["n"]]})
        assert len(fake.links) == 1, "they do share the child"
    assert results == {(who, n): [who, n] for who in (0, 1) for n in range(32)}


async def test_a_call_of_one_client_is_never_judged_by_the_roots_of_another(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig({"files": remote()}, {"files": fake}) as at:
        alice, bob = at.client(top / "a"), at.client(top / "b")
        for client, inside, outside in ((alice, "a", "b"), (bob, "b", "a")):
            assert "isError" not in await client.call("read", {"path": f"{top}/{inside}/f"})
            assert (await client.call("read", {"path": f"{top}/{outside}/f"}))["isError"] is True


async def test_a_call_waits_for_the_roots_and_is_judged_by_the_newest(top: Path) -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        client = at.client(top / "a")
        assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})
        client.shares(top / "b")
        client.session.roots.list_changed()
        assert (await client.call("read", {"path": f"{top}/a/f"}))["isError"] is True


async def test_a_client_without_roots_passes_and_one_that_shares_none_does_not() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        rootless, empty = at.client(), at.client(capabilities={"roots": {}})
        assert "isError" not in await rootless.call("read", {"path": "/etc/passwd"})
        assert (await empty.call("read", {"path": "/etc/passwd"}))["isError"] is True


async def test_an_unknown_tool_is_the_clients_mistake() -> None:
    async with rig({"files": remote()}, {"files": FakeChild(READ)}) as at:
        with pytest.raises(RouteError, match="Unknown tool: write"):
            await at.client().call("write")


async def test_the_hubs_own_tool_is_answered_by_the_hub(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig({"a": remote("a"), "b": remote("b")}, {"a": fake, "b": fake}) as at:
        result = await at.client(top / "a").call(GET_ROOTS)
        assert json.loads(text_of(result))["filePaths"] == [f"{top}/a"]
        assert fake.links == [], "no child is started for it"


async def test_a_tool_that_writes_needs_more_than_one_that_reads(top: Path) -> None:
    rule = AccessRule(parts_of(f"{top}/a", Flavour.POSIX), "read")
    spec = remote(policy=Policy(access=(rule,)))
    async with rig({"files": spec}, {"files": FakeChild(READ, WRITE)}) as at:
        client = at.client(top / "a")
        assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})
        assert (await client.call("write", {"path": f"{top}/a/f"}))["isError"] is True


async def test_a_tool_that_is_described_anew_is_judged_anew(top: Path) -> None:
    fake = FakeChild({"name": "read", "inputSchema": {}})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        odd = {"frob": "b/f"}
        assert "isError" not in await client.call("read", dict[str, Json](odd))
        schema: JsonObject = {"properties": {"frob": {"type": "string", "format": "file-path"}}}
        fake.answers["tools/list"] = {"tools": [{"name": "read", "inputSchema": schema}]}
        fake.link.notify("notifications/tools/list_changed", {})
        await client.outlet.signals.until(
            lambda: bool(client.outlet.notified("notifications/tools/list_changed"))
        )
        assert (await client.call("read", {"frob": "/nowhere/f"}))["isError"] is True


async def test_a_child_that_dies_during_a_call_is_named_and_started_again_by_the_next() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    clock = FakeClock()
    results: list[JsonObject] = []
    async with rig({"files": remote()}, {"files": fake}, clock=clock) as at:
        client = at.client()

        async def call() -> None:
            results.append(await client.call("echo"))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await (await fake.connected()).request("tools/call")
            fake.link.crash("was ended by SIGSEGV")
        assert results[0]["isError"] is True
        assert text_of(results[0]) == (
            "server 'files' went away during the call: was ended by SIGSEGV; "
            "the next call starts it again"
        )
        fake.answers["tools/call"] = {"content": []}
        await fake.ended()
        assert await client.call("echo") == {"content": []}
        assert len(fake.links) == 2


async def test_a_child_that_cannot_start_is_named_with_the_reason() -> None:
    fake = FakeChild(ECHO)
    fake.refuses_to_open = ChildError("there is no command 'npx' on the PATH")
    async with rig({"a": remote("a"), "b": remote("b")}, {"a": fake, "b": FakeChild()}) as at:
        result = await at.client().call("a__echo")
    assert result["isError"] is True
    assert "server 'a'" in text_of(result)
    assert "there is no command 'npx' on the PATH" in text_of(result)


async def test_a_call_that_takes_too_long_is_an_error_of_the_tool() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote(timeout=0.01)}, {"files": fake}) as at:
        result = await at.client().call("echo")
        assert result["isError"] is True
        assert "server 'files' did not answer within 0.01 s" in text_of(result)
        await fake.link.request("notifications/cancelled")


async def test_a_cancelled_call_is_cancelled_at_the_child_and_recorded() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call, "echo")
            await (await fake.connected()).request("tools/call")
            calls.cancel_scope.cancel()
        told = await fake.link.request("notifications/cancelled")
        assert told["params"]["requestId"] == fake.link.requests("tools/call")[0]["id"]
        assert [record.verdict for record in at.audit.records] == ["cancelled"]


async def test_an_error_that_is_no_object_is_an_error_all_the_same() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                error = await error_of(client, "tools/call", {"name": "echo"})
                assert error.code == INTERNAL_ERROR

            calls.start_soon(call)
            sent = await (await fake.connected()).request("tools/call")
            fake.link.say(b'{"jsonrpc":"2.0","id":%d,"error":"boom"}' % sent["id"])
        assert [record.verdict for record in at.audit.records] == ["failed"]


async def test_a_client_that_does_not_read_holds_up_no_call_of_another() -> None:
    fake = FakeChild(ECHO)
    async with rig({"files": remote(concurrency=1)}, {"files": fake}) as at:
        stuck, well = at.client(), at.client()
        for client in (stuck, well):
            await client.call("echo")
        stuck.outlet.stuck = True
        fake.link.notify("notifications/message", {"level": "info"})
        await stuck.outlet.signals.until(lambda: bool(stuck.outlet.messages))
        assert "isError" not in await well.call("echo")
        assert len(well.outlet.notified("notifications/message")) == 1


async def test_a_client_that_does_not_read_its_progress_holds_up_no_call_of_another() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote(concurrency=2)}, {"files": fake}) as at:
        stuck, well = at.client(), at.client()
        stuck.outlet.stuck = True
        at.tasks.start_soon(stuck.request, stuck.asked("echo", {}, _meta={"progressToken": 1}))
        sent = await (await fake.connected()).request("tools/call")
        report: JsonObject = {"progressToken": sent["params"]["_meta"]["progressToken"]}
        for progress in range(3):
            fake.link.notify("notifications/progress", {**report, "progress": progress})
        await stuck.outlet.signals.until(lambda: bool(stuck.outlet.messages))
        fake.answers["tools/call"] = {}
        assert await well.call("echo") == {}


class LeisurelyOutlet(RecordingOutlet):
    """The way to somebody who takes his time with each message."""

    async def send(self, message: Message) -> None:
        await anyio.wait_all_tasks_blocked()
        await super().send(message)


@pytest.mark.parametrize("end", ["result", "error", "crash"])
async def test_what_a_child_says_before_its_answer_goes_out_before_it(end: str) -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        outlet = LeisurelyOutlet()
        asked = Asked(client.asked("echo").request, outlet)
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                with suppress(RpcError):
                    await client.request(asked)
                assert len(outlet.notified("notifications/message")) == 20

            calls.start_soon(call)
            sent = await (await fake.connected()).request("tools/call")
            for number in range(20):
                fake.link.notify("notifications/message", {"level": "info", "data": number})
            if end == "crash":
                fake.link.crash()
            else:
                fake.link.answer(sent["id"], {} if end == "result" else failure(-1, "no"))
        heard = [line["params"]["data"] for line in outlet.lines]
        assert heard == list(range(20))


async def test_an_error_that_the_child_answers_is_passed_on() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": failure(-32001, "no")})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        error = await error_of(client, "tools/call", {"name": "echo"})
        assert error.code == -32001


RESOURCES: dict[str, Answer] = {
    "resources/templates/list": {
        "resourceTemplates": [
            {"uriTemplate": "file:///{+path}"},
            {"uriTemplate": "docs://note-{name}"},
            {"uriTemplate": "docs://{name}.md"},
        ]
    },
    "resources/list": {"resources": [{"uri": "note://1"}]},
    "resources/read": {"contents": []},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/list": {
        "prompts": [
            {
                "name": "ask",
                "arguments": [
                    {"name": "text"},
                    {"name": "code", "description": "Path to the source file"},
                ],
            }
        ]
    },
    "prompts/get": {"messages": []},
    "completion/complete": {"completion": {"values": []}},
}
EVERYTHING: JsonObject = {"resources": {"subscribe": True}, "prompts": {}, "completions": {}}


def everything() -> FakeChild:
    return FakeChild(capabilities=EVERYTHING, answers=RESOURCES)


async def test_g09_a_file_resource_outside_the_roots_is_not_read(top: Path) -> None:
    fake = everything()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")

        def read(uri: str) -> JsonObject:
            return {"uri": uri}

        inside = client.asked_for("resources/read", read(f"file://{top}/a/f"))
        assert await client.request(inside) == {"contents": []}
        note = client.asked_for("resources/read", read("note://1"))
        assert await client.request(note) == {"contents": []}
        error = await error_of(client, "resources/read", read(f"file://{top}/b/f"))
        assert error.code == INVALID_PARAMS
        assert str(error).startswith(f"Access denied: Path 'file://{top}/b/f' is outside")
        assert isinstance(error.error, dict)
        data = error.error["data"]
        assert isinstance(data, dict)
        assert "roots-hub/refusal" in data
        assert len(fake.link.requests("resources/read")) == 2


@pytest.mark.parametrize(
    ("uri", "is_read"),
    [
        ("note://1", True),
        ("docs://guide/one%20two.md?raw=1", True),
        ("docs://../b/f", False),
        ("docs://guide/..%2F..%2Fb%2Ff", False),
        ("docs://guide/%2Fetc%2Fpasswd", False),
        ("docs://guide//etc/passwd", False),
        ("docs://guide/leak/f", False),
        ("docs://guide?path=../b/f", False),
        ("docs://~/x", False),
        ("docs://note-one", True),
        ("docs://note-leak", False),
        ("docs://note-%2Fetc%2Fpasswd", False),
        ("docs://note-..%2Fb%2Ff", False),
        ("docs://one.md", True),
        ("docs://leak.md", False),
    ],
)
async def test_what_a_resources_template_may_take_for_a_path_is_judged(
    top: Path, uri: str, *, is_read: bool
) -> None:
    (top / "a" / "leak").symlink_to(top / "b")
    fake = everything()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        for _ in range(2):
            if is_read:
                request = client.asked_for("resources/read", {"uri": uri})
                assert await client.request(request) == {"contents": []}
            else:
                error = await error_of(client, "resources/read", {"uri": uri})
                assert str(error).startswith("Access denied: Path '")
        assert len(fake.link.requests("resources/read")) == 2 * is_read


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "ask", "arguments": {"path": "/etc/passwd"}}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask"},
                "argument": {"name": "path", "value": "/etc/passwd"},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask"},
                "argument": {"name": "text", "value": "x"},
                "context": {"arguments": {"path": "/etc/passwd"}},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask"},
                "argument": {"name": "path", "value": "note.txt"},
                "context": {"arguments": {"path": "/etc/passwd"}},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "docs://note-{name}"},
                "argument": {"name": "content", "value": "/etc/passwd"},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask"},
                "argument": {"name": "path", "value": "note.txt"},
                "context": {"arguments": {"content": "/etc/passwd"}},
            },
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "ask"},
                "argument": {"name": "code", "value": "/etc/passwd"},
            },
        ),
        ("prompts/get", {"name": "ask", "arguments": {"code": "/etc/passwd"}}),
        ("resources/subscribe", {"uri": "docs://note-%2Fetc%2Fpasswd"}),
        ("resources/subscribe", {"uri": "file:///etc/passwd"}),
    ],
)
async def test_whatever_names_a_path_is_judged(top: Path, method: str, params: JsonObject) -> None:
    fake = everything()
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(top / "a")
        assert (await error_of(client, method, params)).code == INVALID_PARAMS
        assert fake.link.requests(method) == []


async def test_a_child_that_is_gone_is_an_error_of_a_prompt_too() -> None:
    fake = everything()
    async with rig({"files": remote(timeout=0.01)}, {"files": fake}) as at:
        fake.answers["prompts/get"] = SILENT
        error = await error_of(at.client(), "prompts/get", {"name": "ask"})
        assert error.code == INTERNAL_ERROR
        assert "server 'files' did not answer" in str(error)


async def test_a_template_can_be_completed_before_anything_was_listed() -> None:
    ref: JsonObject = {"type": "ref/resource", "uri": "note://{id}"}
    templates: JsonObject = {"resourceTemplates": [{"uriTemplate": "note://{id}"}]}
    fake = everything()
    fake.answers["resources/templates/list"] = templates
    fakes = {"a": FakeChild(ECHO), "b": fake}
    async with rig({name: remote(name) for name in fakes}, fakes) as at:
        client = at.client()
        params: JsonObject = {"ref": ref, "argument": {"name": "id", "value": "x"}}
        asked = client.asked_for("completion/complete", params)
        assert await client.request(asked) == RESOURCES["completion/complete"]


async def test_progress_goes_back_under_the_clients_own_token() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client()
        async with anyio.create_task_group() as calls:
            asked = client.asked("echo", {}, _meta={"progressToken": "mine", "x": 1})
            calls.start_soon(client.request, asked)
            sent = await (await fake.connected()).request("tools/call")
            token = sent["params"]["_meta"]["progressToken"]
            assert isinstance(token, int)
            assert sent["params"]["_meta"]["x"] == 1
            report = b'{"progressToken":%d,"progress":1e400,"unknown":1}' % token
            fake.link.say(
                b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % report
            )
            await client.outlet.signals.until(lambda: bool(client.outlet.messages))
            fake.link.answer(sent["id"], {})
        (message,) = client.outlet.notified("notifications/progress")
        assert isinstance(message.params, dict)
        assert message.params["progressToken"] == "mine"
        assert message.params["unknown"] == 1


async def test_what_a_child_asks_during_a_call_reaches_the_client_of_that_call() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with rig({"files": remote()}, {"files": fake}) as at:
        client = at.client(capabilities={"sampling": {}})
        client.answers[SAMPLING] = {"role": "assistant"}
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call, "echo")
            sent = await (await fake.connected()).request("tools/call")
            assert fake.link.requests("initialize")[0]["params"]["capabilities"] == {"sampling": {}}
            fake.link.ask("s", SAMPLING, {"messages": []})
            assert (await fake.link.reply("s"))["result"] == {"role": "assistant"}
            fake.link.notify("notifications/message", {"level": "info"})
            await client.outlet.signals.until(
                lambda: bool(client.outlet.notified("notifications/message"))
            )
            fake.link.answer(sent["id"], {})


async def test_directories_of_a_server_that_do_not_overlap_the_roots_are_explained(
    top: Path,
) -> None:
    spec = launched("files", ceiling=roots_at(top / "b"))
    async with rig({"files": spec}, {"files": FakeChild(READ)}) as at:
        result = await at.client(top / "a").call("read", {"path": f"{top}/a/f"})
        said = text_of(result)
        assert f"({top}/a)" in said
        assert f"({top}/b)" in said
        assert "roots.args" not in said, "no file has the server's keys"
        at.services.config_file.state = ConfigState("hub.yaml")
        said = text_of(await at.client(top / "a").call("read", {"path": f"{top}/a/f"}))
        assert "servers.files.roots.args: replace" in said


async def test_a_root_that_is_gone_from_the_disk_does_not_lift_the_guard(top: Path) -> None:
    operator = OperatorRoots(when_empty="allow")
    async with rig({"files": remote()}, {"files": FakeChild(READ)}, operator=operator) as at:
        client, nothing = at.client(top / "a"), at.client(capabilities={"roots": {}})
        nothing.shares()
        assert (await client.call("read", {"path": "/etc/passwd"}))["isError"] is True
        assert "isError" not in await nothing.call("read", {"path": "/etc/passwd"})
        (top / "a" / "f").unlink()
        (top / "a").rmdir()
        assert (await client.call("read", {"path": "/etc/passwd"}))["isError"] is True


async def test_a_call_under_way_survives_other_roots_while_its_child_starts(top: Path) -> None:
    fake = FakeChild(READ)
    handshake = fake.answers["initialize"]
    assert not callable(handshake)
    fake.answers["initialize"] = SILENT
    spec = launched("files", "${roots}")
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})

            calls.start_soon(call)
            await (await fake.connected()).request("initialize")
            fake.answers["initialize"] = handshake
            client.shares(top / "a", top / "b")
            client.session.roots.list_changed()
            await client.session.effective(client.outlet)


async def test_a_call_that_waits_for_its_child_is_judged_again_if_its_root_is_gone_by_then(
    top: Path,
) -> None:
    fake = FakeChild(READ)
    greeting, fake.answers["initialize"] = fake.answers["initialize"], SILENT
    async with rig({"files": launched("files")}, {"files": fake}) as at:
        client, said = at.client(top / "a"), list[JsonObject]()
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                said.append(await client.call("read", {"path": f"{top}/a/f"}))

            calls.start_soon(call)
            link = await fake.connected()
            asked = await link.request("initialize")
            (top / "a").rename(top / "away")
            fake.answers["initialize"] = greeting
            assert not callable(greeting)
            link.answer(asked["id"], greeting)
        assert said[0]["isError"] is True
        assert [link.requests("tools/call") for link in fake.links] == [[]] * len(fake.links)


@virtual_time
async def test_a_call_judged_by_former_roots_ends_no_child_that_others_wait_for(top: Path) -> None:
    fake = FakeChild(READ, answers={"initialize": SILENT})
    handshake = FakeChild(READ).answers["initialize"]
    assert not callable(handshake)
    async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
        client = at.client(top / "a")

        async def call() -> None:
            assert "isError" not in await client.call("read", {"path": f"{top}/b/f"})

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await (await fake.connected()).request("initialize")
            client.shares(top / "b")
            client.session.roots.list_changed()
            await client.session.effective(client.outlet)
            await anyio.wait_all_tasks_blocked()
            calls.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            current = fake.link
            asked = await current.request("initialize")
            current.answer(asked["id"], handshake)
        assert len(fake.links) == 2


@virtual_time
async def test_a_call_survives_roots_that_go_and_come_back_while_its_child_starts(
    top: Path,
) -> None:
    fake = FakeChild(READ)
    handshake = fake.answers["initialize"]
    assert not callable(handshake)
    async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
        client = at.client(top / "a")

        async def moved(*shared: str) -> None:
            for names in shared:
                client.shares(*(top / name for name in names))
                client.session.roots.list_changed()
                await client.session.effective(client.outlet)
                await anyio.wait_all_tasks_blocked()

        async def call() -> None:
            assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})

        await call()  # which makes the tool known
        await moved("b")
        fake.answers["initialize"] = SILENT
        await moved("a")
        let_go = fake.link
        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await let_go.request("initialize")
            fake.answers["initialize"] = handshake
            await moved("ab", "a")
        assert let_go.requests("tools/call") == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_call_waits_for_its_child_however_often_roots_change_meanwhile(
    top: Path, *, is_known: bool
) -> None:
    fake = FakeChild(READ)
    handshake = fake.answers["initialize"]
    async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
        client = at.client(top / "a")
        if is_known:
            await client.call("read", {"path": f"{top}/a/f"})
            client.shares(top / "a", top / "b")
            client.session.roots.list_changed()
        fake.answers["initialize"] = SILENT
        before = len(fake.links)

        async def call() -> None:
            assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            for number in range(2 * MAX_JUDGEMENTS):
                await (await fake.connected(before + number + 1)).request("initialize")
                client.shares(*[top / "a", top / "b"][: 1 + (number + (not is_known)) % 2])
                client.session.roots.list_changed()
                await client.session.effective(client.outlet)
            fake.answers["initialize"] = handshake
            client.shares(top / "b", top / "a")
            client.session.roots.list_changed()


async def test_a_call_that_waited_for_its_child_is_judged_by_the_roots_of_now(top: Path) -> None:
    fake = FakeChild(READ)
    handshake = fake.answers["initialize"]
    assert not callable(handshake)
    fake.answers["initialize"] = SILENT
    async with rig({"files": launched("files", "${roots}")}, {"files": fake}) as at:
        client = at.client(top / "a")
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                assert (await client.call("read", {"path": f"{top}/a/f"}))["isError"] is True

            calls.start_soon(call)
            await (await fake.connected()).request("initialize")
            fake.answers["initialize"] = handshake
            client.shares(top / "b")
            client.session.roots.list_changed()
            await client.session.effective(client.outlet)
        (slot,) = client.session.slots
        assert slot.key.roots.paths == (f"{top}/b",)
        assert [link.requests("tools/call") for link in fake.links] == [[]] * len(fake.links)


@virtual_time
async def test_calls_that_wait_their_turn_go_to_what_follows_a_child_that_crashed() -> None:
    fake = FakeChild(ECHO, answers={"tools/call": SILENT})
    results = list[str]()
    async with rig({"files": remote(concurrency=1)}, {"files": fake}) as at:
        client = at.client()

        async def call(number: int) -> None:
            results.append(str(await client.call("echo", {"n": number})))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call, 0)
            await (await fake.connected()).request("tools/call")
            for number in (1, 2, 3):
                calls.start_soon(call, number)
                await anyio.wait_all_tasks_blocked()
            fake.answers["tools/call"] = {}
            fake.link.crash()
        assert "went away during the call" in results[0]
        assert results[1:] == ["{}"] * 3
        sent = fake.links[1].requests("tools/call")
        assert [one["params"]["arguments"]["n"] for one in sent] == [1, 2, 3]


@pytest.mark.parametrize(
    "spec",
    [
        remote(concurrency=1),
        launched(concurrency=1),
        launched("files", "${roots}", concurrency=1),
    ],
    ids=["remote", "launched", "launched with roots"],
)
@pytest.mark.parametrize("stays", [True, False])
async def test_a_call_that_waits_its_turn_is_judged_by_the_roots_of_its_turn(
    top: Path, spec: ServerSpec, *, stays: bool
) -> None:
    fake = FakeChild(READ, answers={"tools/call": SILENT})
    results: dict[str, JsonObject] = {}
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")

        async def call(name: str) -> None:
            results[name] = await client.call("read", {"path": f"{top}/a/f", "name": name})

        async with anyio.create_task_group() as calls:
            calls.start_soon(call, "first")
            link = await fake.connected()
            sent = await link.request("tools/call")
            calls.start_soon(call, "second")
            await anyio.wait_all_tasks_blocked()
            assert len(link.requests("tools/call")) == 1
            client.shares(*((top / "b", top / "a") if stays else (top / "b",)))
            client.session.roots.list_changed()
            await client.session.effective(client.outlet)
            await anyio.wait_all_tasks_blocked()
            fake.answers["tools/call"] = {"content": []}
            link.answer(sent["id"], {"content": []})
        assert results["first"] == {"content": []}, "what is under way is finished"
        assert ("isError" in results["second"]) is not stays
        names = [
            request["params"]["arguments"]["name"]
            for link in fake.links
            for request in link.requests("tools/call")
        ]
        assert names == (["first", "second"] if stays else ["first"])
        if isinstance(spec.target, LaunchTemplate) and spec.target.args:
            assert len(fake.links[0].requests("tools/call")) == 1, "the old child never sees it"
        verdicts = [record.verdict for record in at.audit.records]
        assert verdicts == ["admitted", "admitted" if stays else "refused"]


async def test_after_a_restart_a_child_is_judged_by_what_it_lists_then(top: Path) -> None:
    def tool(**text: Json) -> JsonObject:
        return {"name": "use", "inputSchema": {"properties": {"text": text}}}

    fake = FakeChild(tool())
    async with rig({"files": remote()}, {"files": fake}, clock=FakeClock()) as at:
        client = at.client(top / "a")
        outside: JsonObject = {"text": f"{top}/b/f"}
        assert "isError" not in await client.call("use", outside)
        fake.answers["tools/list"] = {"tools": [tool(format="path")]}
        fake.link.crash()
        await fake.ended()
        for _ in range(2):  # the second by a cached route
            assert (await client.call("use", outside))["isError"] is True
        assert fake.link.requests("tools/call") == []


async def test_a_call_that_is_never_judged_in_time_is_given_up(top: Path) -> None:
    fake, worker, shared = FakeChild(READ), RecordingWorker(), itertools.cycle(("ab", "a"))
    async with rig({"files": remote()}, {"files": fake}, worker=worker) as at:
        client = at.client(top / "a")
        await client.session.effective(client.outlet)

        def change() -> None:
            roots: list[Json] = [{"uri": f"file://{top}/{name}"} for name in next(shared)]
            client.session.roots.given({"roots": roots})

        worker.before = change
        long: list[Json] = [f"{number}, b" for number in range(400)]
        result = await client.call("read", {"paths": [*long, f"{top}/a/f"]})
        assert (
            text_of(result) == "its roots, or its server, change faster than the call can be sent"
        )
        assert result["isError"] is True
        judged = [
            one
            for one in worker.made
            if isinstance(one, Judgement) and isinstance(one.verdict, Admitted)
        ]
        assert len(judged) == MAX_JUDGEMENTS
        assert fake.link.requests("tools/call") == []


async def test_a_relative_path_is_read_from_the_childs_directory(top: Path) -> None:
    async with rig({"files": launched()}, {"files": FakeChild(READ)}) as at:
        client = at.client(top / "a")
        assert "isError" not in await client.call("read", {"path": "f"})
        assert (await client.call("read", {"path": "../b/f"}))["isError"] is True


async def test_a_verdict_does_not_hold_for_a_process_in_another_directory(top: Path) -> None:
    """It was for the running process; the next one starts in the first of the new roots."""
    spec, fake = launched("files"), FakeChild(READ)
    async with rig({"files": spec}, {"files": fake}) as at:
        client = at.client(top / "a")
        assert "isError" not in await client.call("read", {"path": "f"})
        client.shares(top / "b", top / "a")
        client.session.roots.list_changed()
        effective = await client.session.effective(client.outlet)
        slot = client.session.slot_for(spec, effective)
        case = JudgingContext(
            session=client.session,
            asked=client.asked("read"),
            call=Call("tools/call", "read", {"path": "f"}, {}),
            to=Destination(
                method="tools/call",
                route=ChildRoute(spec.name, "read", READ),
                spec=spec,
                guard=compile_tool({}, read_only=True, policy=spec.policy_of("read")),
                own=OwnParam("name", "read"),
                base="",
                catalog=await at.relay.listings.catalog(client.session, effective),
            ),
            snapshot=Snapshot.of(client.session, spec, effective, slot),
        )
        assert isinstance((await case.judge()).verdict, Admitted)
        assert case.is_still_valid()
        assert case.context().cwd == f"{top}/a"
        assert slot.child is not None
        slot.child.stop()
        await fake.ended()
        assert not case.is_still_valid()
        await case.look_again()
        assert case.context().cwd == f"{top}/b"


async def test_a_fallback_bounds_clients_without_roots(top: Path) -> None:
    operator = OperatorRoots(fallback=roots_at(top / "a"), fallback_source="config")
    async with rig({"files": remote()}, {"files": FakeChild(READ)}, operator=operator) as at:
        client = at.client()
        assert "isError" not in await client.call("read", {"path": f"{top}/a/f"})
        assert (await client.call("read", {"path": "/etc/passwd"}))["isError"] is True
