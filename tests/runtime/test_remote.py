"""Children behind a URL: the SDK's own server on the loopback interface, in this process."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import JSONRPCNotification, JSONRPCResponse

from hub.core.errors import ChildError
from hub.core.paths import Flavour
from hub.core.specs import RemoteTarget
from hub.core.values import JsonObject
from hub.runtime.answers import Answers
from hub.runtime.child import Child
from hub.runtime.greeting import Introduction
from hub.runtime.peer import GoneError
from hub.runtime.remote import RemoteLink, open_remote
from hub.runtime.wire import Failure, Notification, Request, Response, as_object
from tests.fakes import RecordingAsker
from tests.runtime.rigs import INFO, admitted, remote, roots_at

live = pytest.mark.live


def server() -> MCPServer:
    made = MCPServer("remote")

    @made.tool()
    def echo(text: str) -> str:
        return text

    @made.tool()
    async def roots(ctx: Context) -> list[str]:
        found = await ctx.session.list_roots()  # pyright: ignore[reportDeprecated] - what the hub is for
        return [str(root.uri) for root in found.roots]

    return made


@asynccontextmanager
async def listening(transport: str) -> AsyncGenerator[str]:
    """Serve the SDK's server; yields its URL."""
    made = server()
    app = made.sse_app() if transport == "sse" else made.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # No log of its own: it would stay configured for the tests that follow.
    config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
    http = uvicorn.Server(config)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(http.serve, [listener])
            yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
            http.should_exit = True


@asynccontextmanager
async def owned(target: RemoteTarget, tmp_path: object) -> AsyncGenerator[Child]:
    spec = remote(start_timeout=10.0, timeout=10.0)
    answers = Answers(spec, roots_at(tmp_path), Flavour.POSIX)
    hub = Introduction(INFO, {"roots": {"listChanged": True}})
    async with anyio.create_task_group() as tasks:
        child = Child(answers, hub, lambda: open_remote(target, 10.0))
        tasks.start_soon(child.own)
        yield child
        child.stop()


@live
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_remote_child_is_greeted_listed_and_called(
    transport: Any, tmp_path: object
) -> None:
    async with (
        listening(transport) as url,
        owned(RemoteTarget(url, {}, transport), tmp_path) as child,
    ):
        ready = await child.ready()
        assert [tool["name"] for tool in ready.listing.tools] == ["echo", "roots"]
        result = await child.call(admitted("echo", {"text": "ü"}), RecordingAsker())
        content = as_object(result)["content"]
        assert isinstance(content, list)
        assert content[0] == {"type": "text", "text": "ü"}
        result = await child.call(admitted("roots"), RecordingAsker())
        assert as_object(result)["structuredContent"] == {"result": [f"file://{tmp_path}"]}


@live
async def test_a_remote_child_that_is_not_there_says_so(tmp_path: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for transport in ("http", "sse"):
        target = RemoteTarget(f"http://127.0.0.1:{port}/mcp", {}, transport)
        with anyio.fail_after(20):
            async with owned(target, tmp_path) as child:
                with pytest.raises(ChildError, match="server 'files' is not running"):
                    await child.ready()


class Streams:
    """The SDK's message streams, with the test at their other end."""

    def __init__(self) -> None:
        self.to_hub, self._hub_reads = anyio.create_memory_object_stream[Any](10)
        self._hub_writes, self.from_hub = anyio.create_memory_object_stream[Any](10)
        self.link = RemoteLink((self._hub_reads, self._hub_writes))

    def close(self) -> None:
        for stream in (self.to_hub, self._hub_reads, self._hub_writes, self.from_hub):
            stream.close()


@pytest.fixture
def streams() -> Any:
    made = Streams()
    yield made
    made.close()


def of_sdk(message: Any) -> Any:
    from mcp.shared.message import SessionMessage  # noqa: PLC0415 - loaded only here

    return SessionMessage(message)


async def sent(streams: Streams, *messages: Any) -> list[Any]:
    found: list[Any] = []
    with anyio.fail_after(5):
        for message in messages:
            await streams.link.send(message)
            found.append(await streams.from_hub.receive())
    return found


async def test_messages_keep_their_unknown_fields(streams: Streams) -> None:
    result: JsonObject = {"content": [], "unknown": {"x": None}, "n": 2**100}
    await streams.to_hub.send(of_sdk(JSONRPCResponse(jsonrpc="2.0", id=1, result=result)))
    assert await streams.link.next() == Response(1, result)
    params: JsonObject = {"a": {"unknown": 1}}
    (out,) = await sent(streams, Request(7, "m", params))
    assert (out.message.id, out.message.params) == (7, params)


async def test_every_kind_of_message_goes_out(streams: Streams) -> None:
    found = await sent(
        streams,
        Request(1, "m", {}),
        Notification("n", {}),
        Response("a", {"x": 1}),
        Failure("a", {"code": -1, "message": "no", "data": {"x": 1}}),
    )
    assert [one.message.model_dump(exclude_none=True, by_alias=True) for one in found] == [
        {"jsonrpc": "2.0", "id": 1, "method": "m"},
        {"jsonrpc": "2.0", "method": "n"},
        {"jsonrpc": "2.0", "id": "a", "result": {"x": 1}},
        {"jsonrpc": "2.0", "id": "a", "error": {"code": -1, "message": "no", "data": {"x": 1}}},
    ]


async def test_after_the_handshake_messages_carry_the_version_that_was_agreed(
    streams: Streams,
) -> None:
    (before,) = await sent(streams, Notification("n", {}))
    assert before.metadata.headers is None
    agreed = {"protocolVersion": "2025-11-25"}
    await streams.to_hub.send(of_sdk(JSONRPCResponse(jsonrpc="2.0", id=1, result=agreed)))
    await streams.link.next()
    for found in await sent(streams, Notification("n", {}), Request(1, "m", {"_meta": "x"})):
        assert found.metadata.headers == {"mcp-protocol-version": "2025-11-25"}


async def test_a_modern_request_names_its_version_method_and_target(streams: Streams) -> None:
    meta: JsonObject = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    call, listing = await sent(
        streams,
        Request(1, "tools/call", {"_meta": meta, "name": "own name"}),
        Request(2, "tools/list", {"_meta": meta}),
    )
    assert call.metadata.headers == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "own name",
    }
    assert listing.metadata.headers == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_a_message_that_cannot_be_taken_is_passed_over(streams: Streams) -> None:
    bad = JSONRPCNotification.model_construct(jsonrpc="2.0", method="n", params=5)  # pyright: ignore[reportArgumentType] - that is what is wrong with it
    await streams.to_hub.send(of_sdk(bad))
    good = JSONRPCNotification(jsonrpc="2.0", method="n")
    await streams.to_hub.send(of_sdk(good))
    with anyio.fail_after(5):
        assert await streams.link.next() == Notification("n", {})


async def test_a_connection_that_breaks_or_ends_is_gone(streams: Streams) -> None:
    await streams.to_hub.send(OSError("reset"))
    with pytest.raises(GoneError, match="the connection broke: reset"):
        await streams.link.next()
    streams.to_hub.close()
    with pytest.raises(GoneError, match="the connection ended"):
        await streams.link.next()
    streams.from_hub.close()
    with pytest.raises(GoneError, match="the connection ended"):
        await streams.link.send(Notification("n", {}))
