"""What is tried with each client. A feature raises if something other than it promises happens."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from tests.clients.driven import Answer, ClientError, DrivenClient, Progress
from tests.live.programs import outside

SIZE = 8 * 1024 * 1024
WORDS = "own words"
FORM = {"n": 7}


class Wrong(Exception):  # noqa: N818 - it is said, not a failure of ours
    """What came is not what should have come."""


@dataclass
class Trial:
    """A connected client that shares `tree/project`, and the one server behind the hub it uses.

    A client that lacks a feature is not tried with it, so an Inspector is taken for a client that
    can do everything.
    """

    client: DrivenClient
    server: str
    tree: Path

    @property
    def project(self) -> Path:
        return self.tree / "project"

    @property
    def uri(self) -> str:
        return f"era://{self.server}/one"

    def name(self, own: str) -> str:
        """Return the public name of a tool or prompt of the server."""
        return f"{self.server}__{own}"

    async def call(self, tool: str, **arguments: Any) -> Answer:
        return await self.client.call(self.name(tool), **arguments)

    async def reads(self, path: Path) -> None:
        """Have a call for a path admitted."""
        same(await self.call("read_file", path=str(path)), Answer(f"would read {path}", False))

    async def cannot_read(self, path: Path, *roots: Path) -> None:
        """Have a call for a path refused."""
        same(await self.call("read_file", path=str(path)), Answer(outside(path, *roots), True))

    async def asked(self, tool: str) -> Any:
        """Have the server ask the client, and return what it was answered."""
        answer = await self.call(tool)
        if answer.is_error:
            raise Wrong(answer.text)
        return json.loads(answer.text)


Try: TypeAlias = Callable[[Trial], Awaitable[None]]


def same(found: object, expected: object) -> None:
    """Raise unless two values are equal."""
    if found != expected:
        raise Wrong(f"{_short(found)} instead of {_short(expected)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


async def _in_and_out(trial: Trial) -> None:
    """A path inside the roots is admitted; one outside is refused, in the exact words."""
    await trial.reads(trial.project / "a.txt")
    await trial.cannot_read(trial.tree / "private/secret.txt", trial.project)


async def _roots_change(trial: Trial) -> None:
    """The client's next call is judged by its new roots."""
    docs = trial.tree / "docs"
    await trial.client.share([docs])
    await trial.reads(docs / "b.txt")
    await trial.cannot_read(trial.project / "a.txt", docs)
    await trial.client.share([trial.project])
    await trial.reads(trial.project / "a.txt")


async def _progress(trial: Trial) -> None:
    """A report reaches the client before the call's result."""
    held = await trial.client.begin(trial.name("hold"), key="progress")
    same(await held.report("holding"), Progress(1, 3, "holding"))
    await trial.call("release", key="progress")
    same((await held.result())["text"], "held")


async def _cancel(trial: Trial, then: Try | None = None) -> None:
    """A call that the client cancels is cancelled at the server, and the next call works."""
    key = "cancel" if then is None else "cancel, then ask"
    waiting = await trial.client.begin(trial.name("wait"), key=key)
    await waiting.report("waiting")
    await trial.client.cancel(waiting)
    try:
        raise Wrong(f"the call ended with {_short(await waiting.result())}")
    except ClientError:
        pass
    if then is not None:
        await then(trial)
    same(await trial.call("cancelled", key=key), Answer("cancelled", False))
    await trial.reads(trial.project / "a.txt")


async def _form(trial: Trial) -> None:
    """A server asks the user to fill in a form."""
    same(await trial.asked("ask_form"), {"action": "accept", "content": FORM})


async def _url(trial: Trial) -> None:
    """A server asks the user to visit a page."""
    same((await trial.asked("ask_url"))["action"], "accept")


async def _sampling(trial: Trial) -> None:
    """A server asks the client's model."""
    same((await trial.asked("ask_model"))["content"], {"type": "text", "text": WORDS})


async def _ask_while_a_call_runs(trial: Trial) -> None:
    """A server asks within one call while another call of the same client is under way.

    A launched legacy server does not say for which call it asks. So its question may have to wait
    for the end of the other call, which therefore ends soon.
    """
    held = await trial.client.begin(trial.name("hold"), key="asking")
    await held.report("holding")

    async def release() -> None:
        await anyio.sleep(0.4)
        await trial.call("release", key="asking")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(release)
        await _form(trial)
        await _sampling(trial)
    same((await held.result())["text"], "held")


async def _ask_after_a_cancel(trial: Trial) -> None:
    """A server asks within the call that follows a cancelled one."""
    await _cancel(trial, then=_form)


async def _resources(trial: Trial) -> None:
    """Resources are listed and read."""
    same(trial.uri in await trial.client.resources(), True)
    same(await trial.client.read(trial.uri), trial.uri)


async def _prompts(trial: Trial) -> None:
    """Prompts are listed and got."""
    name = trial.name("first")
    same(name in await trial.client.prompts(), True)
    same(await trial.client.prompt(name), "first")


async def _completion(trial: Trial) -> None:
    """An argument of a prompt is completed."""
    same(await trial.client.complete(trial.name("first"), "which", "on"), ["one", "onf"])


async def _big_answer(trial: Trial) -> None:
    """A result of 8 MiB arrives whole."""
    same(await trial.call("big", size=SIZE), Answer("x" * SIZE, False))


async def _big_request(trial: Trial) -> None:
    """An argument of 8 MiB arrives whole."""
    same(await trial.call("size_of", text="x" * SIZE), Answer(str(SIZE), False))


FEATURES: Mapping[str, Try] = {
    "in/out": _in_and_out,
    "roots change": _roots_change,
    "progress": _progress,
    "elicitation: form": _form,
    "elicitation: URL": _url,
    "sampling": _sampling,
    "ask while a call runs": _ask_while_a_call_runs,
    "cancel": _cancel,
    "ask after a cancel": _ask_after_a_cancel,
    "resources": _resources,
    "prompts": _prompts,
    "completion": _completion,
    "8 MiB answer": _big_answer,
    "8 MiB request": _big_request,
}
