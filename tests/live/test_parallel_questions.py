"""Clients whose calls run side by side, at a server that does not say for which call it asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

from tests.kit.fakes import Signals
from tests.live.programs import SOON, Mode, call, config_file, connected, http_hub

CHILD = [sys.executable, str(Path(__file__).parent / "parallel_child.py")]
MODES: list[Mode] = ["auto", "legacy"]


@pytest.fixture
def url(tree: Path) -> Generator[str]:
    parallel = {"command": CHILD[0], "args": CHILD[1:], "timeout": 60}
    with http_hub("--config", config_file(tree, {"parallel": parallel}), cwd=tree) as served:
        yield served


class NamedAnswerer:
    """A client that answers each question with the question's text and its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: list[str] = []
        self.client: Client
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.signals = Signals()

    async def _told(self, mark: str) -> str:
        self.marks.append(mark)
        self.signals.moved()
        await self.may_answer.wait()
        return f"{mark} told by {self.name}"

    async def elicit(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"told": await self._told(params.message)})

    async def sample(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        content = params.messages[0].content
        assert isinstance(content, TextContent)
        told = TextContent(type="text", text=await self._told(content.text))
        return CreateMessageResult(role="assistant", content=told, model="none")

    async def asks(self, tool: str, mark: str, times: int = 1, **more: Any) -> None:
        """Call a tool that asks; its questions and their answers must be of this call."""
        said = await call(self.client, tool, mark=mark, times=times, **more)
        assert json.loads(said) == [f"{mark} told by {self.name}"] * times


@asynccontextmanager
async def asked(url: str, name: str = "one", mode: Mode = "auto") -> AsyncGenerator[NamedAnswerer]:
    answering = NamedAnswerer(name)
    async with connected(
        url,
        mode=mode,
        elicitation_callback=answering.elicit,
        sampling_callback=answering.sample,
    ) as answering.client:
        with anyio.fail_after(2 * SOON):
            yield answering


@pytest.mark.parametrize("tools", [["elicit"] * 8, ["elicit", "sample"] * 2])
async def test_calls_that_ask_side_by_side_from_the_first_on_are_all_asked(
    url: str, tools: list[str]
) -> None:
    async with asked(url) as one, anyio.create_task_group() as tasks:
        for number, tool in enumerate(tools):
            tasks.start_soon(one.asks, tool, f"{tool} {number}", 2)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("tool", ["elicit", "sample"])
async def test_a_call_asks_while_a_slow_one_runs(url: str, tool: str, *, is_known: bool) -> None:
    async with asked(url) as one:
        if is_known:
            assert await call(one.client, "slow", seconds=0) == "slow"
            await one.asks(tool, "first")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.asks, tool, "before")
            tasks.start_soon(lambda: call(one.client, "slow", seconds=2))
            tasks.start_soon(one.asks, tool, "after")


async def test_a_call_that_does_not_ask_waits_neither_for_a_slow_one_nor_for_an_answer(
    url: str,
) -> None:
    async with asked(url) as one, anyio.create_task_group() as tasks:
        tasks.start_soon(call, one.client, "slow")
        assert await call(one.client, "echo", text="first") == "first"
        one.may_answer = anyio.Event()
        tasks.start_soon(one.asks, "elicit", "slowly answered")
        assert await call(one.client, "go") == "went"
        await one.signals.until(lambda: bool(one.marks), SOON)
        assert await call(one.client, "echo", text="second") == "second"
        one.may_answer.set()


async def test_a_call_asks_at_once_after_one_that_was_cancelled(url: str) -> None:
    async with asked(url) as one:
        for number in range(3):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, one.client, "slow")
                assert await call(one.client, "echo", text="there") == "there"
                tasks.cancel_scope.cancel()
            await one.asks("elicit", f"{number}")


@pytest.mark.parametrize("modes", [("auto", "auto"), ("auto", "legacy"), ("legacy", "legacy")])
async def test_two_clients_are_asked_about_their_own_calls_alone(
    url: str, modes: tuple[Mode, Mode]
) -> None:
    async with asked(url, "one", modes[0]) as one, asked(url, "two", modes[1]) as two:
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                for each in (one, two):
                    tasks.start_soon(each.asks, "elicit", f"{each.name} {number}", 2)
                    tasks.start_soon(each.asks, "sample", f"{each.name} {number}")
        for each in (one, two):
            assert {mark.partition(" ")[0] for mark in each.marks} == {each.name}


@pytest.mark.parametrize("names", [("one", "two"), ("aborts",)])
def test_calls_of_typescript_clients_ask_side_by_side(
    url: str, npm_package: Callable[[str], str], names: tuple[str, ...]
) -> None:
    node = npm_package("@modelcontextprotocol/client")
    program = str(Path(__file__).parent / "typescript_parallel.mjs")
    running = [
        subprocess.Popen(  # noqa: S603 - ours
            [node, program, url, name, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for name, client in zip(names, running, strict=True):
        out, errors = client.communicate(timeout=2 * SOON)
        assert out, errors
        found = json.loads(out)

        def told(mark: str, name: str = name) -> str:
            return json.dumps([f"{mark} told by {name}"] * 2)

        assert found["parallel"] == [
            told(f"{tool} {number}") for number in (1, 2) for tool in ("elicit", "sample")
        ]
        assert found["beside"] == told("beside")
        if name == "aborts":
            assert (found["echo"], found["aborted"]) == ("there", True)
            assert found["after"] == told("after")
