"""Drives the client of the Python SDK's second line."""

from __future__ import annotations

import logging
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from commands import Job, drive
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import (
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    Root,
    TextContent,
)

MODES = {"legacy": "legacy", "modern": "2026-07-28"}


class Python2:
    """The SDK's client, connected."""

    def __init__(self, client: Client, era: str) -> None:
        self._client = client
        self._era = era

    async def call(
        self, tool: str, arguments: dict[str, Any], progressed: Callable[..., Any]
    ) -> tuple[str, bool]:
        result = await self._client.call_tool(tool, arguments, progress_callback=progressed)
        return result.content[0].text, bool(result.is_error)

    async def leave(self, call: anyio.CancelScope) -> None:
        call.cancel()

    async def roots_changed(self) -> None:
        if self._era == "legacy":
            await self._client.send_roots_list_changed()

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self._client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri)).contents[0].text

    async def prompts(self) -> list[str]:
        return [one.name for one in (await self._client.list_prompts()).prompts]

    async def prompt(self, name: str) -> str:
        return (await self._client.get_prompt(name)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = PromptReference(type="ref/prompt", name=prompt)
        found = await self._client.complete(ref, {"name": argument, "value": value})
        return found.completion.values


@asynccontextmanager
async def connect(job: Job) -> AsyncGenerator[Python2]:
    async def roots(context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=uri) for uri in job.roots])

    async def sampled(context: object, params: object) -> CreateMessageResult:
        content = TextContent(type="text", text=job.words)
        return CreateMessageResult(role="assistant", content=content, model="none")

    async def elicited(context: object, params: object) -> ElicitResult:
        is_form = isinstance(params, ElicitRequestFormParams)
        return ElicitResult(action="accept", content=job.form if is_form else None)

    target: Any = job.target
    if isinstance(target, list):
        command, *arguments = target
        target = stdio_client(StdioServerParameters(command=command, args=arguments, env=job.env))
    async with Client(
        target,
        mode=MODES[job.era],
        list_roots_callback=roots,
        sampling_callback=sampled,
        elicitation_callback=elicited,
    ) as client:
        yield Python2(client, job.era)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.WARNING)
    drive(connect)
