"""A whole hub in this process: its clients and children are in memory and exchange JSON-RPC text.

With `pretend` a path such as `/home/user/project` stands for one below a temporary directory, so
that tests can speak of the paths that the systems before this one spoke of.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import pytest
from anyio.abc import TaskGroup

from hub.app import machine
from hub.app.hub import Hub
from hub.app.machine import Setting
from hub.app.running import ConnectionBuilder, running_hub
from hub.children.link import ChildConnection
from hub.config.models import HubConfig
from hub.config.watch import Watched
from hub.jsonrpc import parsing
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Failure, Message, Request, Response, to_bytes
from hub.jsonrpc.requests import Answer
from hub.launch.plan import LaunchPlan
from hub.paths.resolve import Entry
from hub.server.connection import ClientConnection, ConnectionFactory
from hub.sessions.services import Services
from hub.specs import ServerSpec
from hub.system.machine import OsDisk
from hub.values import Json, JsonObject
from tests.kit.fakes import FakeChild
from tests.kit.loops import in_time
from tests.kit.trees import plant

CACHED_ROUTES = "TESTS_TAKE_CACHED_ROUTES"
"""The environment variable that says how clients' calls go where a test does not say it."""

READ_FILE: JsonObject = {
    "name": "read_file",
    "description": "Reads a file.",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
TWO_ROOTS: tuple[JsonObject, ...] = (
    {"uri": "file:///home/user/project", "name": "Project Directory"},
    {"uri": "file:///home/user/documents", "name": "Documents"},
)
"""What the seeds' clients share."""


class Rerooted:
    """The disk as it looks from inside of `top`."""

    def __init__(self, top: Path) -> None:
        self._top = str(top)
        self._disk = OsDisk()

    def entry(self, path: str) -> Entry | None:
        return self._disk.entry(self._top + path)

    def target(self, path: str) -> str:
        return self._disk.target(self._top + path)


def pretend(monkeypatch: pytest.MonkeyPatch, top: Path, *lines: str) -> Path:
    """Plant a tree below `top`, and let hubs of this test take `top` for `/`."""
    top = plant(
        top,
        "home/user/project/src/main.ts",
        "home/user/project/config.json",
        "home/user/documents/readme.txt",
        "home/user/other/file.txt",
        "etc/passwd",
        "tmp/temp.txt",
        *lines,
    )
    monkeypatch.setattr(machine, "OsDisk", lambda: Rerooted(top))
    return top


class FlowChild:
    """A child that a hub has opened for a server: it answers calls with their arguments as text."""

    def __init__(
        self,
        plan: LaunchPlan | None,
        tools: Sequence[JsonObject],
        resources: Sequence[JsonObject],
    ) -> None:
        capabilities: JsonObject = {"tools": {"listChanged": True}}
        if resources:
            capabilities["resources"] = {}
        self.plan = plan
        self.fake = FakeChild(
            *tools,
            capabilities=capabilities,
            answers={
                "tools/call": _as_text,
                "resources/list": {"resources": list[Json](resources)},
                "resources/templates/list": {"resourceTemplates": []},
                "resources/read": _a_resource,
            },
        )
        self._ids = itertools.count(1)

    @property
    def ended(self) -> bool:
        """Whether the hub has closed the connection."""
        return self.fake.closed > 0

    @property
    def calls(self) -> list[JsonObject]:
        """The params of the guarded requests that came through."""
        guarded = {"tools/call", "resources/read", "prompts/get", "completion/complete"}
        return [line["params"] for line in self.fake.link.seen if line.get("method") in guarded]

    def heard(self, method: str) -> int:
        """How often the hub sent `method`."""
        return len(self.fake.link.requests(method))

    async def until_heard(self, method: str) -> None:
        """Wait until the hub has sent `method`."""
        await self.fake.link.request(method)

    async def ask(self, method: str) -> JsonObject:
        """Ask the hub, and return its whole answer."""
        id_ = next(self._ids)
        self.fake.link.ask(id_, method, {})
        return await self.fake.link.reply(id_)

    def die(self) -> None:
        """End as a process that crashes."""
        self.fake.link.crash("closed its output")


def _as_text(request: Request) -> JsonObject:
    return {"content": [{"type": "text", "text": json.dumps(request.params.get("arguments"))}]}


def _a_resource(request: Request) -> JsonObject:
    return {"contents": [{"uri": request.params.get("uri"), "text": "of the child"}]}


class ScriptedChild(Protocol):
    """A child with answers that a test has set."""

    def serving_another(self) -> AbstractContextManager[None]:
        """Answer calls that are none of the test's meanwhile, and forget them."""
        ...


class _Reply:
    """How a call on a cached route is answered."""

    def __init__(self, client: FakeClient) -> None:
        self._client = client
        self.outlet = client

    def give(self, answer: Answer) -> bool:
        if answer is not None:
            self._client.take(answer)
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self._client.take(answer)

    def resolve_again(self, request: Request) -> None:
        self._client.detoured.append(request)
        self._client.connection.peer.take(request, self._client)


class FakeClient:
    """A client: answers `roots/list` with `roots`, or leaves it to the test if `holds` is set.

    With `by_cached_route` its calls take cached routes if they can: before the first, `children`
    have served one like it. `detoured` are those that were resolved again.
    """

    def __init__(
        self,
        open_connection: ConnectionFactory,
        tasks: TaskGroup,
        *,
        roots: Sequence[Json] = TWO_ROOTS,
        principal: str = "test",
    ) -> None:
        self.roots: Json = list(roots)
        self.fails = False
        self.holds = False
        self.children: Collection[ScriptedChild] = ()
        self.by_cached_route = CACHED_ROUTES in os.environ
        self._known: set[Json] = set()
        self.detoured: list[Request] = []
        self.received: list[JsonObject] = []
        self.texts: list[bytes] = []
        """What has come, as the hub wrote it."""
        self.held: list[JsonObject] = []
        self.connection: ClientConnection = open_connection(self, tasks, principal)
        self._tasks = tasks
        self._ids = itertools.count(1)
        self._answers: dict[int, JsonObject] = {}
        self._moved = anyio.Event()

    async def send(self, message: Message) -> None:
        """Take a message of the hub's."""
        self.take(message)

    def take(self, message: Message) -> None:
        """Take a message of the hub without waiting."""
        self.texts.append(to_bytes(message))
        fields: JsonObject = json.loads(self.texts[-1])
        self.received.append(fields)
        if "method" not in fields:
            self._answers[cast("int", fields["id"])] = fields
        elif fields["method"] == "roots/list" and self.holds:
            self.held.append(fields)
        elif fields["method"] == "roots/list":
            self._tasks.start_soon(self.answer, fields)
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def answer(self, request: JsonObject, result: Json = None) -> None:
        """Answer a `roots/list`: with `result`, or with the roots of now."""
        reply: JsonObject = {"jsonrpc": "2.0", "id": request["id"]}
        if self.fails:
            reply["error"] = {"code": -32603, "message": "cannot tell"}
        else:
            reply["result"] = {"roots": self.roots} if result is None else result
        await self._say(reply)

    async def reply(self, request: JsonObject, result: JsonObject) -> None:
        """Answer a request of the hub's."""
        await self._say({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def reply_with_error(self, request: JsonObject, error: JsonObject) -> None:
        """Answer a request of the hub's with an error."""
        await self._say({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def _say(self, message: JsonObject) -> None:
        await self.connection.peer.receive(parsing.parse_client(json.dumps(message).encode()))

    @property
    def asked(self) -> list[JsonObject]:
        """The `roots/list` requests that came so far."""
        return [message for message in self.received if message.get("method") == "roots/list"]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that came from the hub makes `condition` true."""
        with in_time():
            while not condition():
                await self._moved.wait()

    async def until_asked(self, times: int = 1) -> None:
        """Wait until the hub has sent `roots/list` so often."""
        await self.until(lambda: len(self.asked) >= times)

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification."""
        said: JsonObject = {} if params is None else {"params": params}
        await self._say({"jsonrpc": "2.0", "method": method, **said})

    async def notify_cancelled(self, id_: int) -> None:
        """Take a request back."""
        params: JsonObject = {"requestId": id_}
        method = "notifications/cancelled"
        await self._say({"jsonrpc": "2.0", "method": method, "params": params})

    async def changed(self) -> None:
        """Say that the roots have changed."""
        await self.notify("notifications/roots/list_changed")

    async def initialize(self, capabilities: JsonObject, version: str = "2025-11-25") -> JsonObject:
        """Do the first half of the handshake."""
        return await self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": {"name": "fake", "version": "1"},
            },
        )

    async def initialized(self) -> None:
        """Do the second half of the handshake; from then on a pipe carries requests."""
        await self.notify("notifications/initialized")
        self.connection.session.roots.reachable()

    async def begin(self, method: str, params: JsonObject) -> int:
        """Send a request, and return its id."""
        id_ = next(self._ids)
        line: JsonObject = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        if not self.by_cached_route or method != "tools/call":
            await self._say(line)
            return id_
        if "requestState" not in params:
            await self.get_known(params)
        connection, request = self.connection, Request(id_, method, params)
        if connection.dispatcher.take(request, connection.route_for(request), _Reply(self)) is None:
            await self._say(line)
        return id_

    async def get_known(self, params: JsonObject) -> None:
        """With `by_cached_route`, have a tool called once, and everybody forget that it was."""
        if not self.by_cached_route or params.get("name") in self._known:
            return
        self._known.add(params.get("name"))
        received, id_ = len(self.received), next(self._ids)
        call: JsonObject = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
        with ExitStack() as stack:
            for child in self.children:
                stack.enter_context(child.serving_another())
            await self._say(call)
            await self.end(id_)
        del self.received[received:]

    async def end(self, id_: int) -> JsonObject:
        """Return the whole answer to a request."""
        await self.until(lambda: id_ in self._answers)
        return self._answers[id_]

    def is_answered(self, id_: int) -> bool:
        """Whether the answer to a request has come."""
        return id_ in self._answers

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request, and return the result.

        Raises: AssertionError if there is none.
        """
        answer = await self.end(await self.begin(method, params))
        assert "result" in answer, answer
        return cast("JsonObject", answer["result"])

    async def call(self, tool: str, **arguments: Any) -> JsonObject:
        """Call a tool."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def read(self, path: Json) -> str:
        """Call `read_file`, and return the text of its result."""
        return text_of(await self.call("read_file", path=path))

    async def is_refused(self, path: Json) -> bool:
        """Call `read_file`, and return whether the hub refused."""
        return (await self.read(path)).startswith("Access denied: ")

    async def get_roots(self) -> JsonObject:
        """Call `get-roots`, and return its report."""
        return cast("JsonObject", (await self.call("get-roots"))["structuredContent"])


def text_of(result: JsonObject) -> str:
    """Return the text of a tool's result."""
    content = cast("list[dict[str, str]]", result["content"])
    return content[0]["text"]


class FlowHub:
    """A running hub with fake children; `children` are those it opened, in that order."""

    def __init__(
        self, tasks: TaskGroup, tools: Sequence[JsonObject], resources: Sequence[JsonObject]
    ) -> None:
        self.children: list[FlowChild] = []
        self.broken: set[str] = set()
        self.running: Hub
        self.services: Services
        self.open_connection: ConnectionFactory
        self._tasks = tasks
        self._tools = tools
        self._resources = resources

    @property
    def child(self) -> FlowChild:
        """The only child."""
        (child,) = self.children
        return child

    @property
    def alive(self) -> list[FlowChild]:
        """The children whose connection is open."""
        return [child for child in self.children if not child.ended]

    @asynccontextmanager
    async def open_child(
        self, spec: ServerSpec, plan: LaunchPlan | None
    ) -> AsyncGenerator[ChildConnection]:
        """Open a fake child."""
        if spec.name in self.broken:
            raise GoneError("it is broken")
        child = FlowChild(plan, self._tools, self._resources)
        self.children.append(child)
        async with child.fake.opened(spec, plan) as link:
            yield link

    def client(self, roots: Sequence[Json] = TWO_ROOTS) -> FakeClient:
        """Return a client that has said nothing yet."""
        return FakeClient(self.open_connection, self._tasks, roots=roots)

    async def connected(
        self,
        roots: Sequence[Json] = TWO_ROOTS,
        *,
        capabilities: JsonObject | None = None,
        holds: bool = False,
    ) -> FakeClient:
        """Return a client after its handshake; one that `holds` leaves questions to the test."""
        client = self.client(roots)
        client.holds = holds
        await client.initialize(
            {"roots": {"listChanged": True}} if capabilities is None else capabilities
        )
        await client.initialized()
        return client


@asynccontextmanager
async def flow_hub(  # noqa: PLR0913 - what a test may want of a hub
    config: Mapping[str, Any] | None = None,
    *,
    given: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    tools: Sequence[JsonObject] = (READ_FILE,),
    resources: Sequence[JsonObject] = (),
    loaded: HubConfig | None = None,
    watched: Watched | None = None,
) -> AsyncGenerator[FlowHub]:
    """Run a hub; without `servers` it has one called `files`, so tools keep their bare names."""
    raw = {
        "version": 1,
        "servers": {"files": {"command": "files-server", "share": "roots"}},
        **(config or {}),
    }
    made = HubConfig.model_validate(raw) if loaded is None else loaded
    async with anyio.create_task_group() as tasks:
        hub = FlowHub(tasks, tools, resources)
        async with running_hub(
            made,
            Setting(given=given, watched=watched),
            environment=environment or {},
            open_child=hub.open_child,
        ) as running:
            hub.running, hub.services = running, running.services
            hub.open_connection = ConnectionBuilder(running.services)
            yield hub
        tasks.cancel_scope.cancel()
