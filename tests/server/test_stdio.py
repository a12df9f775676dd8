from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import anyio.to_thread
import pytest
from structlog.testing import capture_logs

from hub.app.running import ConnectionBuilder
from hub.calls.dispatch import CallDispatcher
from hub.jsonrpc import lines as lines_module
from hub.jsonrpc import messages
from hub.jsonrpc import requests as requests_module
from hub.jsonrpc.errors import InternalError
from hub.jsonrpc.lines import Lines
from hub.protocol.constants import INVALID_REQUEST, PARSE_ERROR
from hub.server.stdio import open_lines, serve_stdio
from hub.values import JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.loops import all_tasks_blocked
from tests.kit.scripted import ROOTS, scripted
from tests.server.test_modern import envelope

# The hub leaves a pipe's queue to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*MemoryObject.*Stream.__del__:pytest.PytestUnraisableExceptionWarning"
)

SAY: JsonObject = {"name": "echo", "arguments": {"text": "hi"}}
INITIALIZE: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}}


class PipeTerminal:
    """The client's ends of the pipes that stand for this process' standard streams."""

    def __init__(self, keyboard: BinaryIO, screen: BinaryIO) -> None:
        self.ended = anyio.Event()
        self._keyboard = keyboard
        self._screen = screen
        self._lines: Lines | None = None

    async def write(self, line: bytes) -> None:
        await anyio.to_thread.run_sync(self._write, line + b"\n")

    def _write(self, text: bytes) -> None:
        self._keyboard.write(text)
        self._keyboard.flush()

    async def ask(self, id_: int, method: str, params: JsonObject | None = None) -> None:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
        await self.write(json.dumps(message).encode())

    async def tell(self, method: str) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", "method": method}).encode())

    async def heard(self) -> Any:
        """Return the next line, which is JSON as all of them are."""
        with anyio.fail_after(20):
            if self._lines is None:
                self._lines = await open_lines(self._screen)
            return json.loads(await self._lines.next() or b"")

    async def shake_hands(self, capabilities: JsonObject | None = None) -> None:
        await self.ask(0, "initialize", {**INITIALIZE, "capabilities": capabilities or {}})
        assert "result" in await self.heard()
        await self.tell("notifications/initialized")

    def hang_up(self) -> None:
        """Close the hub's standard input."""
        self._keyboard.close()

    def look_away(self) -> None:
        """Close the hub's standard output."""
        if self._lines is not None:
            self._lines.close()
        self._screen.close()

    async def until_ended(self) -> None:
        with anyio.fail_after(20):
            await self.ended.wait()


@asynccontextmanager
async def served(
    child: FakeChild | None = None, *, config: JsonObject | None = None, **patience: float
) -> AsyncGenerator[PipeTerminal]:
    """Serve standard input and output until the client hangs up, at the latest when this ends."""
    (asked, keyboard), (screen, answered) = os.pipe(), os.pipe()
    stdin, stdout = os.fdopen(asked, "rb"), os.fdopen(answered, "wb")
    terminal = PipeTerminal(os.fdopen(keyboard, "wb"), os.fdopen(screen, "rb"))

    async def serve() -> None:
        await serve_stdio(ConnectionBuilder(hub.services), stdin=stdin, stdout=stdout, **patience)
        terminal.ended.set()

    with stdin, stdout, capture_logs():
        hub_before = scripted(child or FakeChild(ECHO), config=config)
        async with hub_before as hub, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            try:
                yield terminal
                terminal.hang_up()
                await terminal.until_ended()
            finally:
                # What a test that fails left open and unread would outlive its loop.
                with anyio.CancelScope(shield=True):
                    terminal.hang_up()
                    terminal.look_away()
                    await terminal.until_ended()


async def test_a_client_is_served_until_it_hangs_up() -> None:
    async with served() as terminal:
        await terminal.shake_hands()
        await terminal.ask(1, "tools/call", SAY)
        answer = await terminal.heard()
        assert (answer["id"], answer["result"]["structuredContent"]) == (1, {"text": "hi"})
        await terminal.ask(2, "nonsense")
        assert (await terminal.heard())["error"]["message"] == "Method not found: nonsense"


async def test_a_pipe_is_asked_for_roots_without_a_request() -> None:
    async with served() as terminal:
        await terminal.shake_hands(ROOTS)
        asked = await terminal.heard()
        assert asked["method"] == "roots/list"


@pytest.mark.parametrize(
    ("line", "code", "id_"),
    [
        (b"{", PARSE_ERROR, None),
        (b"\xff", PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"x"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":%b}}'
            % (b"[" * 200 + b"]" * 200),
            INVALID_REQUEST,
            7,
        ),
    ],
)
async def test_a_bad_message_is_answered_and_the_connection_lives_on(
    line: bytes, code: int, id_: int | None
) -> None:
    async with served() as terminal:
        await terminal.write(line)
        answer = await terminal.heard()
        assert (answer["error"]["code"], answer["id"]) == (code, id_)
        await terminal.shake_hands()


@pytest.mark.parametrize(
    ("begins", "ends", "id_"),
    [
        (b"x", b"x", None),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"', b'"}}', 7),
        (b'{"method":"tools/call","params":{"x":"', b'"},"jsonrpc":"2.0","id":7}', 7),
        (b'{"jsonrpc":"2.0","method":"n","params":{"x":"', b'","id":7}}', None),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":"', b'"}}', None),
    ],
)
async def test_a_message_that_is_too_large_is_answered(
    begins: bytes, ends: bytes, id_: int | None
) -> None:
    async with served() as terminal:
        await terminal.write(begins + b"x" * messages.MAX_MESSAGE_BYTES + ends)
        answer = await terminal.heard()
        assert answer["id"] == id_
        assert answer["error"] == {
            "code": INVALID_REQUEST,
            "message": f"Message larger than {messages.MAX_MESSAGE_BYTES} bytes",
        }
        await terminal.shake_hands()


async def test_empty_lines_are_passed_over() -> None:
    async with served() as terminal:
        await terminal.write(b"\n  \n\r")
        await terminal.shake_hands()


async def test_a_second_request_with_an_id_in_flight_is_refused() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with served(child) as terminal:
        await terminal.shake_hands()
        await terminal.ask(1, "tools/call", SAY)
        link = await child.connected()
        sent = await link.request("tools/call")
        await terminal.ask(1, "ping")
        answer = await terminal.heard()
        assert (answer["id"], answer["error"]["code"]) == (1, INVALID_REQUEST)
        link.answer(sent["id"], {"content": []})
        assert (await terminal.heard())["result"] == {"content": []}


async def test_what_was_asked_before_the_client_hung_up_is_answered() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with served(child) as terminal:
        await terminal.shake_hands()
        await terminal.ask(1, "tools/call", SAY)
        link = await child.connected()
        sent = await link.request("tools/call")
        terminal.hang_up()
        await all_tasks_blocked()
        assert not terminal.ended.is_set()
        link.answer(sent["id"], {"content": []})
        assert (await terminal.heard())["result"] == {"content": []}
        await terminal.until_ended()


async def test_nobody_waits_for_answers_that_nobody_reads() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with served(child) as terminal:
        await terminal.shake_hands()
        await terminal.ask(1, "tools/call", SAY)
        link = await child.connected()
        await link.request("tools/call")
        terminal.look_away()
        terminal.hang_up()
        await terminal.until_ended()
        await link.request("notifications/cancelled")


@pytest.mark.parametrize("route", ["express", "general"])
async def test_no_call_is_made_for_a_client_that_leaves_much_unread(
    route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "MAX_UNREAD", 3_000_000)
    monkeypatch.setattr(lines_module, "MAX_UNREAD", 1_000_000)  # the client reads one answer ahead
    child = FakeChild(ECHO, answers={"tools/call": {"content": [], "x": "x" * 2_000_000}})
    one_at_a_time: JsonObject = {"servers": {"files": {"command": "x", "concurrency": 1}}}
    async with served(child, config=one_at_a_time) as terminal:
        await terminal.shake_hands()
        if route == "express":
            await terminal.ask(1, "tools/call", SAY)
            await terminal.heard()
        asked = [
            json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": SAY})
            for id_ in range(2, 12)
        ]
        await terminal.write("\n".join(asked).encode())
        link = await child.connected()
        await link.request("tools/call", nth=3)
        await anyio.sleep(0.1)
        assert len(link.requests("tools/call")) < 6, "one is read, one in the pipe, two wait"
        answered = [(await terminal.heard())["id"] for _ in asked]
        assert sorted(answered) == list(range(2, 12))


@pytest.mark.long
@pytest.mark.parametrize("route", ["express", "general"])
async def test_a_client_that_asks_much_at_once_is_read_on_as_it_is_answered(
    route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "MAX_WEIGHT", 300_000)
    child = FakeChild(ECHO)
    async with served(child) as terminal:
        await terminal.shake_hands()
        if route == "express":
            await terminal.ask(1, "tools/call", SAY)
            await terminal.heard()
        child.answers["tools/call"] = SILENT
        large: JsonObject = {"name": "echo", "arguments": {"text": "x" * 200_000}}
        async with anyio.create_task_group() as asking:
            asking.start_soon(terminal.ask, 2, "tools/call", large)
            link = await child.connected()
            before = 1 if route == "express" else 0
            first = await link.request("tools/call", nth=before + 1)
            await terminal.ask(3, "tools/call", large)
            await link.request("tools/call", nth=before + 2)
            asking.start_soon(terminal.ask, 4, "tools/call", large)
            await anyio.sleep(0.1)
            assert len(link.requests("tools/call")) == before + 2
            link.answer(first["id"], {"content": []})
            assert (await terminal.heard())["id"] == 2
            await link.request("tools/call", nth=before + 3)


async def test_the_answers_to_a_script_have_their_time() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    call: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": SAY}
    script: list[JsonObject] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call,
    ]
    async with served(child, last_answers=0.01, hurried_answers=3600) as terminal:
        await terminal.write(b"\n".join(json.dumps(message).encode() for message in script))
        link = await child.connected()
        asked = await link.request("tools/call")
        terminal.hang_up()
        await terminal.until_ended()
        told = await link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]


async def test_a_client_that_conversed_is_not_kept_waiting() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with served(child, last_answers=3600, hurried_answers=0.01) as terminal:
        await terminal.shake_hands()
        await terminal.ask(1, "tools/call", SAY)
        link = await child.connected()
        asked = await link.request("tools/call")
        terminal.hang_up()
        await terminal.until_ended()
        told = await link.request("notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]


async def test_streams_can_be_files(tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    lines: list[JsonObject] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": SAY},
    ]
    asked.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with asked.open("rb") as stdin, answered.open("wb") as stdout, capture_logs():
        async with scripted(FakeChild(ECHO)) as hub:
            with anyio.fail_after(20):
                factory = ConnectionBuilder(hub.services)
                await serve_stdio(factory, stdin=stdin, stdout=stdout)
    answers = [json.loads(line) for line in answered.read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"] == {"text": "hi"}


async def test_one_request_and_the_end_of_stdin_are_a_script_too(tmp_path: Path) -> None:
    child = FakeChild(ECHO, answers={"tools/list": SILENT})
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    params: JsonObject = {"_meta": envelope()}
    line: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    asked.write_text(json.dumps(line) + "\n")

    async def answer() -> None:
        link = await child.connected()
        link.answer((await link.request("tools/list"))["id"], {"tools": []})

    with asked.open("rb") as stdin, answered.open("wb") as stdout, capture_logs():
        async with scripted(child) as hub, anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            with anyio.fail_after(20):
                factory = ConnectionBuilder(hub.services)
                await serve_stdio(factory, stdin=stdin, stdout=stdout, hurried_answers=0.0)
            tasks.cancel_scope.cancel()
    assert json.loads(answered.read_text())["result"]["tools"]


async def test_a_modern_client_that_made_nothing_but_calls_has_conversed() -> None:
    child = FakeChild(ECHO)
    async with served(child, hurried_answers=0.0) as terminal:
        call: JsonObject = {**SAY, "_meta": envelope()}
        await terminal.ask(1, "tools/call", call)
        await terminal.heard()
        child.answers["tools/call"] = SILENT
        await terminal.ask(2, "tools/call", call)
        await child.link.request("tools/call", nth=2)
        terminal.hang_up()
        await terminal.until_ended()


async def test_a_fault_in_taking_a_call_does_not_end_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault of the hub")

    async with served() as terminal:
        await terminal.shake_hands()
        with monkeypatch.context() as broken:
            broken.setattr(CallDispatcher, "take", fail)
            await terminal.ask(1, "tools/call", SAY)
            assert (await terminal.heard())["error"] == InternalError().error
        await terminal.ask(2, "tools/call", SAY)
        assert "result" in await terminal.heard()
