"""What all drivers in Python share: commands on stdin, what came of them on stdout, as JSON lines.

The first line is the job. A driver runs in an environment that has its client and nothing of ours.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.to_thread

Json = Any


@dataclass
class Job:
    """Whom to connect to, and what the client answers."""

    target: str | list[str]
    era: str
    env: dict[str, str]
    roots: list[str]
    words: str
    """What the client's model answers."""
    form: dict[str, Any]
    """What its user fills into a form."""


class Connected(Protocol):
    """A connected client, with the same few functions for each SDK."""

    async def call(
        self, tool: str, arguments: dict[str, Any], progressed: Callable[..., Any]
    ) -> tuple[str, bool]:
        """Return the first text of a result, and whether it is an error."""
        ...

    async def leave(self, call: anyio.CancelScope) -> None:
        """Cancel a call."""
        ...

    async def roots_changed(self) -> None:
        """Tell the server, if this era has a way to."""
        ...

    async def resources(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...
    async def prompts(self) -> list[str]: ...
    async def prompt(self, name: str) -> str: ...
    async def complete(self, prompt: str, argument: str, value: str) -> list[str]: ...


@dataclass
class Commands:
    """Performs the commands, each in a task of its own."""

    job: Job
    client: Connected
    _calls: dict[int, anyio.CancelScope] = field(default_factory=dict)

    async def perform(self, id: int, do: str, **given: Json) -> None:  # noqa: A002 - the line's key
        try:
            result = await getattr(self, f"_{do}")(id, **given)
        except Exception as error:  # noqa: BLE001 - told to who commands
            traceback.print_exc()
            say(id=id, error=_told(error))
        else:
            say(id=id, result=result)

    async def _call(self, id: int, tool: str, arguments: dict[str, Any]) -> Json:  # noqa: A002
        async def progressed(
            progress: float, total: float | None = None, message: str | None = None
        ) -> None:
            say(progress_of=id, report=[progress, total, message])

        with anyio.CancelScope() as scope:
            self._calls[id] = scope
            text, is_error = await self.client.call(tool, arguments, progressed)
            return {"text": text, "is_error": is_error}
        raise RuntimeError("cancelled")

    async def _cancel(self, id: int, call: int) -> None:  # noqa: A002
        await self.client.leave(self._calls[call])

    async def _roots(self, id: int, roots: list[str]) -> None:  # noqa: A002
        self.job.roots[:] = roots
        await self.client.roots_changed()

    async def _resources(self, id: int) -> Json:  # noqa: A002
        return await self.client.resources()

    async def _read(self, id: int, uri: str) -> Json:  # noqa: A002
        return await self.client.read(uri)

    async def _prompts(self, id: int) -> Json:  # noqa: A002
        return await self.client.prompts()

    async def _prompt(self, id: int, name: str) -> Json:  # noqa: A002
        return await self.client.prompt(name)

    async def _complete(self, id: int, prompt: str, argument: str, value: str) -> Json:  # noqa: A002
        return await self.client.complete(prompt, argument, value)


def say(**message: Json) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def drive(connect: Callable[[Job], AbstractAsyncContextManager[Connected]]) -> None:
    """Connect as the first line says, and do what the others say until there are no more."""

    async def main() -> None:
        job = Job(**json.loads(await anyio.to_thread.run_sync(sys.stdin.readline)))
        async with connect(job) as client, anyio.create_task_group() as tasks:
            commands = Commands(job, client)
            say(id=0, result=None)
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                told = json.loads(line)
                tasks.start_soon(lambda told=told: commands.perform(**told))
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except Exception as error:  # noqa: BLE001 - told to who commands
        traceback.print_exc()
        say(id=0, error=_told(error))
