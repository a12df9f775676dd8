"""Children behind a URL: the SDK's own server on the loopback interface, in this process."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child
from hub.children.handshake import HubDeclaration
from hub.children.process.process_tree import EndGraces, ProcessSupervisor
from hub.children.remote.connect import open_remote
from hub.errors import ChildError
from hub.jsonrpc import messages
from hub.jsonrpc.messages import Payload, as_object
from hub.jsonrpc.rated_log import ChildLog
from hub.jsonrpc.requests import RequestOwner
from hub.paths.resolve import Flavour
from hub.secrets.reading import SecretReader
from hub.specs import RemoteTarget
from hub.system.shutdown import Shutdown
from hub.values import JsonObject
from tests.kit.child_calls import call
from tests.kit.fakes import RecordingAsker
from tests.kit.ports import free_port
from tests.kit.rigs import INFO, admitted, remote, roots_at

live = pytest.mark.live


class Form(BaseModel):
    """What is asked for."""

    n: int = 0


def server(begun: anyio.Event, ended: anyio.Event) -> MCPServer:
    made = MCPServer("remote")

    @made.tool()
    async def wait() -> str:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    @made.tool(structured_output=False)
    def echo(text: str) -> str:
        return text

    @made.tool(structured_output=False)
    async def ask(text: str, ctx: Context) -> str:
        return (await ctx.elicit(text, Form)).action

    @made.tool()
    async def roots(ctx: Context) -> list[str]:
        found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated] - what the hub is for
        return [str(root.uri) for root in found.roots]

    return made


@asynccontextmanager
async def listening(
    transport: str,
    *,
    answers_json: bool = False,
    begun: anyio.Event | None = None,
    ended: anyio.Event | None = None,
) -> AsyncGenerator[str]:
    """Serve the SDK's server; yields its URL."""
    made = server(begun or anyio.Event(), ended or anyio.Event())
    if transport == "sse":
        app = made.sse_app(max_request_body_size=messages.MAX_MESSAGE_BYTES)
    else:
        app = made.streamable_http_app(
            json_response=answers_json, max_request_body_size=messages.MAX_MESSAGE_BYTES
        )
    async with serving(app) as url:
        yield f"{url}/{'sse' if transport == 'sse' else 'mcp'}"


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncGenerator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # No log of its own: it would stay configured for the tests that follow.
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, **options)
    http = uvicorn.Server(config)
    with anyio.fail_after(90):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(http.serve, [listener])
            yield f"http://127.0.0.1:{port}"
            http.should_exit = True


@asynccontextmanager
async def owned(
    target: RemoteTarget,
    tmp_path: object,
    supervisor: ProcessSupervisor | None = None,
    **changes: Any,
) -> AsyncGenerator[Child]:
    supervisor = supervisor or ProcessSupervisor(Shutdown())
    spec = remote(start_timeout=60.0, timeout=60.0, **changes)
    answers = ChildCallbacks(spec, roots_at(tmp_path), Flavour.POSIX)
    hub = HubDeclaration(INFO, {"roots": {"listChanged": True}, "elicitation": {}})
    async with anyio.create_task_group() as tasks:
        opened = partial(
            open_remote, secrets=SecretReader(), for_commands={}, logins=None, supervisor=supervisor
        )
        child = Child(answers, hub, lambda: opened("files", target, ChildLog("files")))
        tasks.start_soon(child.own)
        yield child
        child.stop()


@live
@pytest.mark.parametrize(
    ("transport", "chosen"), [("http", "http"), ("sse", "sse"), ("http", "auto"), ("sse", "auto")]
)
async def test_a_remote_child_is_greeted_listed_and_called(
    transport: str, chosen: Any, tmp_path: object
) -> None:
    async with (
        listening(transport) as url,
        owned(RemoteTarget(url, {}, chosen), tmp_path) as child,
    ):
        ready = await child.ready()
        assert [tool["name"] for tool in ready.listing.tools] == ["wait", "echo", "ask", "roots"]
        result = await call(child, admitted("echo", {"text": "ü"}), RecordingAsker())
        content = as_object(result)["content"]
        assert isinstance(content, list)
        assert content[0] == {"type": "text", "text": "ü"}
        result = await call(child, admitted("roots"), RecordingAsker())
        assert as_object(result)["structuredContent"] == {"result": [f"file://{tmp_path}"]}


@live
async def test_a_remote_child_that_is_not_there_says_so(tmp_path: object) -> None:
    port = free_port()
    for transport in ("http", "sse"):
        target = RemoteTarget(f"http://127.0.0.1:{port}/mcp", {}, transport)
        with anyio.fail_after(20):
            async with owned(target, tmp_path) as child:
                with pytest.raises(ChildError, match="server 'files' is not running"):
                    await child.ready()


class Together(RecordingAsker):
    """One of several who answer only once all of them have been asked."""

    def __init__(self, name: str, all_of_them: list[Together], enough: anyio.Event) -> None:
        super().__init__(name)
        self._all, self._enough = all_of_them, enough
        self._all.append(self)

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        await super().ask(method, params, request_owner)
        if all(one.asked for one in self._all):
            self._enough.set()
        await self._enough.wait()
        return {"action": "decline"}


@live
async def test_what_a_child_behind_http_asks_goes_to_the_client_that_it_serves(
    tmp_path: object,
) -> None:
    askers, enough = list[Together](), anyio.Event()
    for number in range(8):
        Together(f"client {number}", askers, enough)
    async with (
        listening("http") as url,
        owned(RemoteTarget(url), tmp_path, era="legacy") as child,
        anyio.create_task_group() as tasks,
    ):
        for caller in askers:
            arguments: JsonObject = {"text": caller.session}
            tasks.start_soon(call, child, admitted("ask", arguments), caller)
    for caller in askers:
        assert [params["message"] for _, params in caller.asked] == [caller.session]


async def echoed(child: Child, text: str) -> object:
    result = as_object(await call(child, admitted("echo", {"text": text}), RecordingAsker()))
    content = result["content"]
    assert isinstance(content, list)
    return as_object(content[0])["text"]  # pyright: ignore[reportArgumentType] - an object


@live
@pytest.mark.parametrize(
    ("transport", "era", "answers_json"),
    [
        ("sse", "legacy", False),
        ("http", "legacy", False),
        ("http", "legacy", True),
        ("http", "modern", False),
    ],
)
async def test_sixteen_mebibytes_go_both_ways(
    transport: Any, era: str, answers_json: bool, tmp_path: object
) -> None:
    text = "0123456789abcdef" * 2**20
    async with (
        listening(transport, answers_json=answers_json) as url,
        owned(RemoteTarget(url, {}, transport), tmp_path, era=era) as child,
    ):
        assert (await child.ready()).handshake.era == era
        assert await echoed(child, text) == text
        assert await echoed(child, "small") == "small"


@live
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_many_calls_at_once_each_get_their_own_answer(
    transport: Any, tmp_path: object
) -> None:
    async with (
        listening(transport) as url,
        owned(RemoteTarget(url, {}, transport), tmp_path, concurrency=150) as child,
    ):
        await child.ready()
        found: dict[int, object] = {}

        async def one(number: int) -> None:
            found[number] = await echoed(child, f"text {number}")

        async with anyio.create_task_group() as tasks:
            for number in range(150):
                tasks.start_soon(one, number)
        assert found == {number: f"text {number}" for number in range(150)}


@live
@pytest.mark.parametrize(
    ("transport", "era"), [("http", "legacy"), ("http", "modern"), ("sse", "legacy")]
)
async def test_a_call_that_is_given_up_is_cancelled_at_the_child(
    transport: Any, era: Any, tmp_path: object
) -> None:
    begun, ended = anyio.Event(), anyio.Event()
    async with (
        listening(transport, begun=begun, ended=ended) as url,
        owned(RemoteTarget(url, {}, transport), tmp_path, era=era) as child,
        anyio.create_task_group() as tasks,
    ):
        await child.ready()
        tasks.start_soon(call, child, admitted("wait"), RecordingAsker())
        await begun.wait()
        assert not ended.is_set()
        tasks.cancel_scope.cancel()
        with anyio.fail_after(20, shield=True):
            await ended.wait()


@live
def test_a_remote_child_does_not_load_the_sdk() -> None:
    code = (
        "import sys, hub.children.remote.connect; print(*{'mcp', 'mcp_types'} & set(sys.modules))"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)  # noqa: S603 - ours
    assert done.stdout == "\n"


@live
async def test_a_child_that_does_not_answer_does_not_hold_the_end_of_the_hub(
    tmp_path: object,
) -> None:
    shutdown, asked, ended, over = Shutdown(), anyio.Event(), anyio.Event(), anyio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "DELETE":
            asked.set()
            await over.wait()
        else:
            await answering(scope, receive, send)

    async def lived(url: str) -> None:
        target = RemoteTarget(f"{url}/mcp", {}, "http")
        async with owned(target, tmp_path, for_ever) as child:
            await child.ready()
            child.stop()
            await asked.wait()
            shutdown.hurry()
        ended.set()

    answering = server(anyio.Event(), anyio.Event()).streamable_http_app(json_response=True)
    for_ever = ProcessSupervisor(shutdown, EndGraces(eof=math.inf, eof_at_end=math.inf))
    async with (
        answering.router.lifespan_context(answering),
        serving(app, lifespan="off") as url,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lived, url)
        try:
            with anyio.fail_after(20):
                await ended.wait()
        finally:
            over.set()
