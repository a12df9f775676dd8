"""Drives FastMCP's client."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from commands import Job, drive
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp_types import PromptReference

MODES = {"legacy": "legacy", "modern": "2026-07-28"}


class FastMCP4:
    """The client, connected."""

    def __init__(self, client: Client[Any], job: Job) -> None:
        self._client = client
        self._job = job

    async def call(
        self, tool: str, arguments: dict[str, Any], progressed: Callable[..., Any]
    ) -> tuple[str, bool]:
        result = await self._client.call_tool(
            tool, arguments, progress_handler=progressed, raise_on_error=False
        )
        return result.content[0].text, result.is_error

    async def leave(self, call: anyio.CancelScope) -> None:
        call.cancel()

    async def roots_changed(self) -> None:
        if self._job.era == "legacy":
            await self._client.send_roots_list_changed()

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in await self._client.list_resources()]

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri))[0].text

    async def prompts(self) -> list[str]:
        return [one.name for one in await self._client.list_prompts()]

    async def prompt(self, name: str) -> str:
        return (await self._client.get_prompt(name)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = PromptReference(type="ref/prompt", name=prompt)
        return (await self._client.complete(ref, {"name": argument, "value": value})).values


@asynccontextmanager
async def connect(job: Job) -> AsyncGenerator[FastMCP4]:
    async def elicited(message: str, kind: Any, params: Any, context: Any) -> Any:
        # A URL comes without a type for the answer.
        return ElicitResult(action="accept") if kind is None else job.form

    if isinstance(job.target, str):
        transport: Any = StreamableHttpTransport(job.target)
    else:
        command, *arguments = job.target
        transport = StdioTransport(command, arguments, env=job.env, keep_alive=False)
    async with Client(
        transport,
        mode=MODES[job.era],
        roots=lambda context: job.roots,
        sampling_handler=lambda messages, params, context: job.words,
        elicitation_handler=elicited,
    ) as client:
        yield FastMCP4(client, job)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    drive(connect)
