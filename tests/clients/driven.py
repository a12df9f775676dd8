"""A client in a program of its own, told what to do over its stdin: see drivers/commands.py."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

LONGEST = 64 * 1024 * 1024
CONNECTING = 90.0
"""Seconds that a client may take to connect."""
ENDING = 10.0
"""Seconds that a driver may take to end."""


class ClientError(Exception):
    """What a client said instead of a result."""


class Answer(NamedTuple):
    """The result of a tool call."""

    text: str
    is_error: bool


class Progress(NamedTuple):
    """One report on a call."""

    progress: float
    total: float | None
    message: str | None


@dataclass
class Underway:
    """A command that a driver was given."""

    _reports: list[Progress] = field(default_factory=list[Progress])
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _reply: Mapping[str, Any] | None = None

    async def report(self, message: str) -> Progress:
        """Wait for a report with this message. Raises: ClientError if there is a result before."""
        while (
            found := next((one for one in self._reports if one.message == message), None)
        ) is None:
            if self._reply is not None:
                raise ClientError(f"no report {message!r} before the result {self._reply}")
            await self._changed.wait()
        return found

    async def result(self) -> Any:
        """Wait for what came of it. Raises: ClientError."""
        while self._reply is None:
            await self._changed.wait()
        if "error" in self._reply:
            raise ClientError(self._reply["error"])
        return self._reply["result"]

    def take_report(self, report: Progress) -> None:
        """Keep a report for who waits for it."""
        self._reports.append(report)
        self._wake()

    def settle(self, reply: Mapping[str, Any]) -> None:
        """Keep what came of it, unless something has before."""
        if self._reply is None:
            self._reply = reply
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class DrivenClient:
    """A connected client."""

    def __init__(self, process: Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._commands: list[Underway] = []

    async def connect(self, job: Mapping[str, Any]) -> None:
        """Give the driver its job. Raises: ClientError if it cannot connect."""
        await (await self._tell(job)).result()

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Call a tool."""
        return Answer(**await (await self.begin(tool, **arguments)).result())

    async def begin(self, tool: str, **arguments: Any) -> Underway:
        """Call a tool, without waiting for its result."""
        return await self._command("call", tool=tool, arguments=arguments)

    async def cancel(self, call: Underway) -> None:
        """Cancel a call that was begun."""
        await self._done("cancel", call=self._commands.index(call))

    async def share(self, roots: Sequence[Path]) -> None:
        """Change the roots."""
        await self._done("roots", roots=[root.as_uri() for root in roots])

    async def resources(self) -> list[str]:
        return await self._done("resources")

    async def read(self, uri: str) -> str:
        return await self._done("read", uri=uri)

    async def prompts(self) -> list[str]:
        return await self._done("prompts")

    async def prompt(self, name: str) -> str:
        return await self._done("prompt", name=name)

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        return await self._done("complete", prompt=prompt, argument=argument, value=value)

    async def _done(self, do: str, **given: Any) -> Any:
        return await (await self._command(do, **given)).result()

    async def _command(self, do: str, **given: Any) -> Underway:
        return await self._tell({"id": len(self._commands), "do": do, **given})

    async def _tell(self, line: Mapping[str, Any]) -> Underway:
        assert self._process.stdin is not None
        underway = Underway()
        self._commands.append(underway)
        try:
            await self._process.stdin.send(json.dumps(line).encode() + b"\n")
        except anyio.BrokenResourceError:
            self._ended()
        return underway

    async def hear(self) -> None:
        """Take what the driver says, until it ends."""
        assert self._process.stdout is not None
        lines = BufferedByteReceiveStream(self._process.stdout)
        try:
            while True:
                self._take(json.loads(await lines.receive_until(b"\n", LONGEST)))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()

    def _take(self, said: Mapping[str, Any]) -> None:
        if "progress_of" in said:
            self._commands[int(said["progress_of"])].take_report(Progress(*said["report"]))
        else:
            self._commands[int(said["id"])].settle(said)

    def _ended(self) -> None:
        last = self._errors.read_text(errors="replace").strip().splitlines()[-3:]
        for underway in self._commands:
            underway.settle({"error": f"the client's program ended: {' / '.join(last)}"})


@asynccontextmanager
async def driven(
    command: Sequence[str], job: Mapping[str, Any], errors: Path
) -> AsyncGenerator[DrivenClient]:
    """Run a driver, and connect its client. Raises: ClientError if it cannot connect."""
    with errors.open("w") as stderr:
        process = await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )
    client = DrivenClient(process, errors)
    failed: str | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.hear)
        try:
            failed = await _failure(client, job)
            if failed is None:
                yield client
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
            tasks.cancel_scope.cancel()
    # Not within the task group, which would wrap it.
    if failed is not None:
        raise ClientError(failed)


async def _failure(client: DrivenClient, job: Mapping[str, Any]) -> str | None:
    """Connect; return why that failed."""
    try:
        with anyio.fail_after(CONNECTING):
            await client.connect(job)
    except TimeoutError:
        return f"nothing came within {CONNECTING:.0f} seconds"
    except ClientError as error:
        return str(error)
    return None


async def _end(process: Process) -> None:
    assert process.stdin is not None
    with anyio.move_on_after(ENDING):
        await process.stdin.aclose()
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
