"""Drives the client of the Python SDK's first line."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from commands import Job, drive
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    Root,
    TextContent,
)
from pydantic import AnyUrl


class Python1:
    """The SDK's client, connected."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def call(
        self, tool: str, arguments: dict[str, Any], progressed: Callable[..., Any]
    ) -> tuple[str, bool]:
        result = await self._session.call_tool(tool, arguments, progress_callback=progressed)
        return result.content[0].text, result.isError

    async def leave(self, call: anyio.CancelScope) -> None:
        """Send the notification: to leave a call tells the server nothing in this line."""
        # The SDK does not say which id a call has. Only the last call is ever cancelled here.
        params = CancelledNotificationParams(requestId=self._session._request_id - 1)
        notification = CancelledNotification(params=params)
        await self._session.send_notification(ClientNotification(notification))
        call.cancel()

    async def roots_changed(self) -> None:
        await self._session.send_roots_list_changed()

    async def resources(self) -> list[str]:
        return [str(one.uri) for one in (await self._session.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return (await self._session.read_resource(AnyUrl(uri))).contents[0].text

    async def prompts(self) -> list[str]:
        return [one.name for one in (await self._session.list_prompts()).prompts]

    async def prompt(self, name: str) -> str:
        return (await self._session.get_prompt(name)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        ref = PromptReference(type="ref/prompt", name=prompt)
        found = await self._session.complete(ref, {"name": argument, "value": value})
        return found.completion.values


@asynccontextmanager
async def connect(job: Job) -> AsyncGenerator[Python1]:
    async def roots(context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=uri) for uri in job.roots])

    async def sampled(context: object, params: object) -> CreateMessageResult:
        content = TextContent(type="text", text=job.words)
        return CreateMessageResult(role="assistant", content=content, model="none")

    async def elicited(context: object, params: object) -> ElicitResult:
        is_form = isinstance(params, ElicitRequestFormParams)
        return ElicitResult(action="accept", content=job.form if is_form else None)

    if isinstance(job.target, str):
        streams = streamable_http_client(job.target)
    else:
        command, *arguments = job.target
        streams = stdio_client(StdioServerParameters(command=command, args=arguments, env=job.env))
    async with (
        streams as (read, write, *_),
        ClientSession(
            read,
            write,
            list_roots_callback=roots,
            sampling_callback=sampled,
            elicitation_callback=elicited,
        ) as session,
    ):
        await session.initialize()
        yield Python1(session)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    drive(connect)
