"""The yardstick over HTTP: `bare_asgi.py LOOP PORT COMMAND ARGS...` relays each POST to one child.

A bare ASGI application on uvicorn and httptools, with orjson, on the event loop `asyncio` or
`uvloop`: it gives each request an id of its own and each answer its old one. No guard, no sessions,
no checks, no audit.
"""

import asyncio  # noqa: TID251 - no part of the hub
import subprocess
import sys
from itertools import count
from typing import Any

import orjson
import uvicorn
from bare_relay import Lines

HEADERS = [(b"content-type", b"application/json")]
NOTHING = [(b"content-length", b"0")]


class Relay:
    """The application."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._ids = count(1)
        self._waiting: dict[int, tuple[Any, asyncio.Future[bytes]]] = {}
        self._inlet: asyncio.WriteTransport | None = None

    async def start(self) -> None:
        """Start the child."""
        loop = asyncio.get_running_loop()
        child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        self._inlet, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
        await loop.connect_read_pipe(lambda: Lines(self._answer, sys.exit), child.stdout)

    def _answer(self, lines: list[bytes]) -> None:
        for line in lines:
            message = orjson.loads(line)
            message["id"], waiting = self._waiting.pop(message["id"])
            if not waiting.done():
                waiting.set_result(orjson.dumps(message))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await send({"type": "http.response.start", "status": 405, "headers": NOTHING})
            await send({"type": "http.response.body"})
            return
        if self._inlet is None:
            await self.start()
        assert self._inlet is not None
        part = await receive()
        body = part["body"]
        while part.get("more_body"):
            part = await receive()
            body += part["body"]
        message = orjson.loads(body)
        status, answer = 202, b""
        if "id" in message:
            id_ = next(self._ids)
            waiting = asyncio.get_running_loop().create_future()
            self._waiting[id_] = message["id"], waiting
            message["id"] = id_
            self._inlet.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
            status, answer = 200, await waiting
        else:
            self._inlet.write(orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE))
        headers = [*HEADERS, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    uvicorn.run(
        Relay(sys.argv[3:]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        http="httptools",
        loop=sys.argv[1],
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
    )
