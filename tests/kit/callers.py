"""Modern clients that call one tool in rounds, and children that ask within the call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.input_requests import ROOTS_KEY
from hub.values import Json, JsonObject
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.kit.hubs import FakeClient
from tests.kit.scripted import ScriptedHub

SAMPLING, ELICITATION = "sampling/createMessage", "elicitation/create"
EVERYTHING: JsonObject = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
FORM: JsonObject = {
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "unknown": 1,
}
URL: JsonObject = {"mode": "url", "message": "Go", "url": "https://example.com/a"}
ACCEPTED: JsonObject = {"action": "accept", "content": {"n": 18446744073709551617}}


class ScriptedCaller:
    """A modern client, which calls one tool in rounds."""

    def __init__(
        self,
        hub: ScriptedHub,
        capabilities: JsonObject = EVERYTHING,
        *,
        roots: tuple[Path, ...] | None = None,
        name: str = "echo",
        arguments: JsonObject | None = None,
    ) -> None:
        self.client: FakeClient = hub.client()
        self.roots = roots
        self.name = name
        self.arguments: JsonObject = arguments or {"text": "hi"}
        declared: JsonObject = {} if roots is None else {"roots": {}}
        self.capabilities: JsonObject = {**declared, **capabilities}

    def params(
        self, responses: Mapping[str, Json] | None = None, state: Json = None, **meta: Json
    ) -> JsonObject:
        shared: JsonObject = {}
        if self.roots is not None:
            uris: list[Json] = [{"uri": root.as_uri()} for root in self.roots]
            shared = {ROOTS_KEY: {"roots": uris}}
        retry: JsonObject = {**shared, **(responses or {})}
        return {
            "name": self.name,
            "arguments": self.arguments,
            **({"inputResponses": retry} if retry or responses is not None else {}),
            **({} if state is None else {"requestState": state}),
            "_meta": {
                PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
                CLIENT_CAPABILITIES_META: self.capabilities,
                CLIENT_INFO_META: {"name": "modern", "version": "1"},
                **meta,
            },
        }

    async def begin(
        self, responses: Mapping[str, Json] | None = None, state: Json = None, **meta: Json
    ) -> int:
        return await self.client.begin("tools/call", self.params(responses, state, **meta))

    async def end(self, id_: int) -> Any:
        """Return a result."""
        answer = await self.client.end(id_)
        assert "result" in answer, answer
        return answer["result"]

    async def round(
        self, responses: Mapping[str, Json] | None = None, state: Json = None, **meta: Json
    ) -> Any:
        """Return the result of one round."""
        return await self.end(await self.begin(responses, state, **meta))

    async def refusal(
        self, responses: Mapping[str, Json] | None = None, state: Json = None
    ) -> JsonObject:
        """Return the error that a round is answered with."""
        answer = await self.client.end(await self.begin(responses, state))
        assert "error" in answer, answer
        return cast("JsonObject", answer["error"])


class CachedRouteCaller(ScriptedCaller):
    """A caller whose calls take cached routes where they can: the tool has been called before."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.client.by_cached_route = True


def silent(*tools: JsonObject) -> FakeChild:
    """Return a child that answers calls when the test does."""
    return FakeChild(*(tools or (ECHO,)), answers={"tools/call": SILENT})


async def asked(child: FakeChild, caller: ScriptedCaller, params: JsonObject = FORM) -> Any:
    """Call, let the child ask, and return the question."""
    id_ = await caller.begin()
    await child.signals.until(lambda: bool(child.links))
    link = await child.connected()
    await link.request("tools/call")
    link.ask("q", ELICITATION, params)
    return await caller.end(id_)


async def asked_again(child: FakeChild, caller: ScriptedCaller) -> Any:
    """Call once more, let the child ask, and return the question."""
    before = len(child.link.requests("tools/call"))
    id_ = await caller.begin()
    await child.link.request("tools/call", nth=before + 1)
    child.link.ask(f"q{before}", ELICITATION, FORM)
    return await caller.end(id_)


def question(result: Any) -> tuple[str, Any]:
    """Return the only question in a result that is none of the hub's, and its key."""
    assert result["resultType"] == "input_required"
    ((key, request),) = [
        (key, request)
        for key, request in result["inputRequests"].items()
        if not key.startswith("roots-hub/")
    ]
    return key, request


async def answered(child: FakeChild, caller: ScriptedCaller, result: Any, **meta: Json) -> int:
    """Answer the question in a result and wait for the child to get it; return the request id."""
    key, _ = question(result)
    id_ = await caller.begin({key: ACCEPTED}, result["requestState"], **meta)
    assert (await child.link.reply("q"))["result"] == ACCEPTED
    return id_


async def completed(child: FakeChild, caller: ScriptedCaller, id_: int) -> None:
    """Let the child answer its first call, and wait for the response to the client's request."""
    child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": []})
    assert (await caller.end(id_))["resultType"] == "complete"
