"""An MCP server that says what its script tells it to, byte for byte, and writes down what it gets.

`scripted_child.py stdio|http SCRIPT RECORD`. In the script, `answers` has for a method, or for a
method and whom it names, what is said before the answer (`says`), the answer itself, and what is
said outside of it (`tells`). In these texts @ID@, @TOKEN@ and @SUBSCRIPTION@ stand for the
request's id, its progress token, and the id of the stream that a telling goes out on.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import uvicorn
from starlette.types import Receive, Scope, Send

Say: TypeAlias = Callable[[bytes], Awaitable[None]]

SESSION = b"the-only-session"


class Script:
    """What is answered, whoever asks over whatever transport."""

    def __init__(self, script: Path, record: Path) -> None:
        read = json.loads(script.read_text(encoding="utf-8"))
        self._answers: dict[str, dict[str, Any]] = read["answers"]
        self._record = record
        self._replies: dict[str, anyio.Event] = {}
        self._running: dict[str, anyio.CancelScope] = {}
        self.cancelled = anyio.Event()
        self.streams: dict[str, Say] = {}
        """Where tellings go: by the id of the request that opened a stream, empty if none did."""

    def write_down(self, raw: bytes) -> None:
        """Keep what was received."""
        with self._record.open("ab") as file:
            file.write(raw.strip() + b"\n")

    def turn(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return what is done on a request."""
        params = members(message, "params")
        ref = members(params, "ref")
        names = [params.get("name"), params.get("uri"), ref.get("name"), ref.get("uri")]
        named = next(filter(None, [*names, params.get("cursor")]), "")
        found = self._answers.get(f"{message['method']} {named}".strip())
        if found is None:
            error = '{"code":-32601,"message":"it is not in the script"}'
            return {"answer": f'"error":{error}'}
        return found

    async def take(self, raw: bytes, say: Say) -> None:
        """Take one message; what belongs to a request goes out by `say`."""
        self.write_down(raw)
        message = json.loads(raw)
        id_ = json.dumps(message.get("id"))
        if "method" not in message:
            self._replies[id_].set()
        elif message["method"] == "notifications/cancelled":
            self.cancelled.set()
            scope = self._running.get(json.dumps(message["params"]["requestId"]))
            if scope is not None:
                scope.cancel()
        elif "id" in message:
            scope = self._running[id_] = anyio.CancelScope()
            with scope:
                await self._answer(message, id_, say)

    async def _answer(self, message: dict[str, Any], id_: str, say: Say) -> None:
        params = members(message, "params")
        meta, retried = members(params, "_meta"), "inputResponses" in params
        marks = {"@ID@": id_, "@TOKEN@": json.dumps(meta.get("progressToken"))}
        turn = self.turn(message)
        for text in () if retried else turn.get("says", ()):
            await self._say(marked(text, marks), say)
        if turn.get("listens"):
            self.streams[id_] = say
            await anyio.sleep_forever()
        if turn.get("waits"):
            await anyio.sleep_forever()
        if turn.get("after_cancel"):
            await self.cancelled.wait()
        answer = turn["retried" if retried else "answer"]
        await say(marked(f'{{"jsonrpc":"2.0","id":@ID@,{answer}}}', marks))
        for text in turn.get("tells", ()):
            for key, stream in list(self.streams.items()):
                await stream(marked(text, {"@SUBSCRIPTION@": key}))

    async def _say(self, raw: bytes, say: Say) -> None:
        message = json.loads(raw)
        asks = "id" in message and "method" in message
        key = json.dumps(message.get("id"))
        if asks:
            self._replies[key] = anyio.Event()
        await say(raw)
        if asks and "example.com/withdrawn" not in message["params"]:
            await self._replies[key].wait()

    async def opened(self, say: Say) -> None:
        """Let tellings go out by `say` from now on."""
        self.streams[""] = say


def members(of: dict[str, Any], key: str) -> dict[str, Any]:
    """Return an object in an object; an empty one if there is none."""
    found: dict[str, Any] | None = of.get(key)
    return found or {}


def marked(text: str, marks: dict[str, str]) -> bytes:
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text.encode()


async def over_stdio(script: Script) -> None:
    out = anyio.wrap_file(sys.stdout.buffer)

    async def say(raw: bytes) -> None:
        await out.write(raw + b"\n")
        await out.flush()

    await script.opened(say)
    async with anyio.create_task_group() as tasks:
        async for line in anyio.wrap_file(sys.stdin.buffer):
            tasks.start_soon(script.take, line, say)
        tasks.cancel_scope.cancel()


class Endpoint:
    """The script over streamable HTTP; a modern request is told by its own header."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await self._stream(receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        if scope["method"] == "POST" and b'"method"' in body and "id" in json.loads(body):
            await self._serve(body, receive, send)
            return
        if body:
            await self._script.take(body, no_say)
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _serve(self, body: bytes, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                self._script.write_down(b'{"method":"(the client left)"}')
                self._script.cancelled.set()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await start(send)
            await self._script.take(body, events(send))
            await send({"type": "http.response.body", "body": b""})
            tasks.cancel_scope.cancel()

    async def _stream(self, receive: Receive, send: Send) -> None:
        await start(send)
        await send({"type": "http.response.body", "body": b": \r\n\r\n", "more_body": True})
        await self._script.opened(events(send))
        while (await receive())["type"] != "http.disconnect":
            pass


async def start(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"mcp-session-id", SESSION)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


def events(send: Send) -> Say:
    async def say(raw: bytes) -> None:
        event = b"event: message\ndata: " + raw + b"\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": True})

    return say


async def no_say(raw: bytes) -> None:
    raise AssertionError(f"nobody hears {raw!r}")


async def over_http(script: Script) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"serves http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        Endpoint(script), lifespan="off", log_level="warning", timeout_graceful_shutdown=0
    )
    await uvicorn.Server(config).serve([listener])


def main() -> None:
    transport, script, record = sys.argv[1:]
    made = Script(Path(script), Path(record))
    anyio.run(over_stdio if transport == "stdio" else over_http, made)


if __name__ == "__main__":
    main()
