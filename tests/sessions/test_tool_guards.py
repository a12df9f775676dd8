from __future__ import annotations

import anyio
import pytest
from structlog.testing import capture_logs

from hub.guard.decide import ToolGuard
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import ToolPolicy
from hub.sessions.tool_guards import MOST_AHEAD, ToolGuards
from hub.specs import ServerSpec
from hub.values import BuiltinRoute, ChildRoute, JsonObject, Route, ServerName
from tests.kit.fakes import RecordingWorker
from tests.kit.rigs import launched

pytestmark = pytest.mark.anyio
FILES = ServerName("files")


def tool(name: str = "read", key: str = "path", hints: JsonObject | None = None) -> ChildRoute:
    """Return the route to a tool with one text argument, as a list newly brought it."""
    schema: JsonObject = {"properties": {key: {"type": "string"}}}
    return ChildRoute(FILES, name, {"inputSchema": schema, "annotations": hints or {}})


def guard_of(guards: ToolGuards, spec: ServerSpec, route: ChildRoute) -> ToolGuard:
    return guards.of(spec, "tools/call", route)


def assert_compiled(
    worker: RecordingWorker, guards: ToolGuards, spec: ServerSpec, *names: str
) -> None:
    """Check that the worker made the guards of these tools, in this order, and no others."""
    found = [guard_of(guards, spec, tool(name)) for name in names]
    assert list(map(id, worker.made)) == list(map(id, found))


def test_children_that_list_a_tool_alike_share_its_guard() -> None:
    guards, spec = ToolGuards(), launched("files")
    made = guard_of(guards, spec, tool())
    assert guard_of(guards, spec, tool()) is made
    assert made.shape.member("path").kind is Kind.PATH


def test_a_tool_that_changes_gets_another_guard() -> None:
    guards, spec = ToolGuards(), launched("files")
    assert guard_of(guards, spec, tool()).needs_write
    assert not guard_of(guards, spec, tool(hints={"readOnlyHint": True})).needs_write
    assert guard_of(guards, spec, tool(hints={"readOnlyHint": 1})).needs_write, "not True"
    changed = guard_of(guards, spec, tool(key="glob"))
    assert changed.shape.member("glob").declared


def test_a_guard_is_made_for_a_tools_own_name() -> None:
    guards, spec = ToolGuards(), launched("files")
    kinds = [
        guard_of(guards, spec, tool(name, "pattern")).shape.member("pattern").kind
        for name in ("grep", "glob")
    ]
    assert kinds == [Kind.PAYLOAD, Kind.GLOB]


def test_a_server_with_another_policy_gets_other_guards() -> None:
    guards = ToolGuards()
    free = ToolPolicy(arguments={"/path": Kind.IGNORE})
    kinds = [
        guard_of(guards, spec, tool()).shape.member("path").kind
        for spec in (launched("files"), launched("files", tool_policies={"read": free}))
    ]
    assert kinds == [Kind.PATH, Kind.IGNORE]


def test_what_has_no_schema_shares_a_guard_for_each_server() -> None:
    guards, spec = ToolGuards(), launched("files")
    resources = [guards.of(spec, "resources/read", tool(name)) for name in ("one", "two")]
    assert resources[0] is resources[1]
    assert not resources[0].needs_write


def test_what_a_prompt_says_of_its_arguments_counts() -> None:
    guards, spec = ToolGuards(), launched("files")
    said: JsonObject = {"name": "code", "description": "Path to the source file"}
    prompt = ChildRoute(FILES, "ask", {"arguments": [said, {"name": "text"}, {"name": "path"}]})
    for method in ("prompts/get", "completion/complete"):
        shape = guards.of(spec, method, prompt).shape
        shape = shape if method == "prompts/get" else shape.member("argument")
        kinds = [shape.member(name).kind for name in ("code", "text", "path")]
        assert kinds == [Kind.PATH, Kind.PAYLOAD, Kind.PATH]


def test_the_oldest_guards_make_room() -> None:
    guards, spec = ToolGuards(kept=2), launched("files")
    first, second = (guard_of(guards, spec, tool(name)) for name in ("a", "b"))
    guard_of(guards, spec, tool("c"))
    assert guard_of(guards, spec, tool("b")) is second
    assert guard_of(guards, spec, tool("a")) is not first


def test_a_tool_that_changes_takes_no_others_room() -> None:
    guards, spec = ToolGuards(kept=2), launched("files")
    first = guard_of(guards, spec, tool("a"))
    for key in ("path", "glob"):
        guard_of(guards, spec, tool("b", key))
    assert guard_of(guards, spec, tool("a")) is first


async def test_listed_tools_are_compiled_before_they_are_called() -> None:
    guards, spec, worker = ToolGuards(rest=0), launched("files"), RecordingWorker()
    called = guard_of(guards, spec, tool("called"))
    routes: dict[str, Route] = {name: tool(name) for name in ("called", "a", "b")}
    routes["get-roots"] = BuiltinRoute("get-roots")
    routes["gone"] = ChildRoute(ServerName("gone"), "x", {})
    await guards.compile_ahead(worker, routes, {FILES: spec})
    assert_compiled(worker, guards, spec, "a", "b")
    assert guard_of(guards, spec, tool("called")) is called


async def test_a_long_list_is_compiled_in_part() -> None:
    guards, worker = ToolGuards(rest=0), RecordingWorker()
    routes = {str(number): tool(str(number)) for number in range(MOST_AHEAD + 1)}
    await guards.compile_ahead(worker, routes, {FILES: launched("files")})
    assert len(worker.made) == MOST_AHEAD


async def test_of_lists_that_come_meanwhile_the_newest_is_next() -> None:
    guards, spec, worker = ToolGuards(rest=0), launched("files"), RecordingWorker()
    async with anyio.create_task_group() as tasks:

        def list_others() -> None:
            for name in later:
                tasks.start_soon(guards.compile_ahead, worker, {name: tool(name)}, {FILES: spec})
            later.clear()

        later = ["passed over", "newest"]
        worker.before = list_others
        await guards.compile_ahead(worker, {"first": tool("first")}, {FILES: spec})
    assert_compiled(worker, guards, spec, "first", "newest")


async def test_a_tool_that_cannot_be_compiled_ends_no_other_task() -> None:
    def fail() -> None:
        raise RecursionError

    guards, worker = ToolGuards(rest=0), RecordingWorker(before=fail)
    with capture_logs() as logs:
        await guards.compile_ahead(worker, {"first": tool("first")}, {FILES: launched("files")})
    assert [entry["tool"] for entry in logs] == ["first"]


async def test_an_interrupted_list_does_not_stop_the_next_ones() -> None:
    guards, spec = ToolGuards(rest=0), launched("files")
    with anyio.CancelScope() as scope:
        cancelled = RecordingWorker(before=scope.cancel)
        await guards.compile_ahead(cancelled, {"first": tool("first")}, {FILES: spec})
    worker = RecordingWorker()
    await guards.compile_ahead(worker, {"second": tool("second")}, {FILES: spec})
    assert_compiled(worker, guards, spec, "second")
