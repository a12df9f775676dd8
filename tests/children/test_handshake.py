from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import pytest
from msgspec import Raw

from hub.children.handshake import (
    MAX_INSTRUCTIONS,
    HubDeclaration,
    ServerHandshake,
    envelope,
    input_required,
    shake_hands,
    with_envelope,
    without_server_info,
)
from hub.errors import ChildError
from hub.jsonrpc.errors import GoneError, LostError, RpcError
from hub.jsonrpc.messages import Failure, Lost, Notification, Payload, Request
from hub.jsonrpc.peer import Asked, Peer
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
    UNSUPPORTED_VERSION,
)
from hub.values import Json, JsonObject
from tests.kit.fakes import SILENT, Answer, FakeChild, FakeLink, Script, failure
from tests.kit.loops import virtual_time

HUB = HubDeclaration({"name": "roots-hub", "version": "1"}, {"roots": {"listChanged": True}})


async def unasked(asked: Asked) -> Payload:
    raise RpcError(METHOD_NOT_FOUND, asked.request.method)


async def unheard(notification: Notification) -> None:
    """Hear nothing."""


@asynccontextmanager
async def conversation(child: FakeChild) -> AsyncGenerator[tuple[Peer, FakeLink]]:
    with anyio.fail_after(20):
        async with child.connect() as link, anyio.create_task_group() as tasks:
            peer = Peer(link, serve=unasked, notified=unheard, tasks=tasks)

            async def pump() -> None:
                try:
                    while True:
                        await peer.receive(await link.next())
                except GoneError as exc:
                    peer.close(str(exc))

            tasks.start_soon(pump)
            yield peer, link
            tasks.cancel_scope.cancel()


async def greeting_of(
    child: FakeChild, era: Literal["auto", "legacy", "modern"] = "auto"
) -> ServerHandshake:
    async with conversation(child) as (peer, _):
        try:
            return await shake_hands(peer, HUB, era)
        except (ChildError, GoneError, RpcError) as exc:
            failed = exc
    raise failed


def answering(**answers: Answer | Script) -> FakeChild:
    child = FakeChild()
    child.answers = {name.replace("_", "/"): answer for name, answer in answers.items()}
    return child


async def test_a_legacy_child_is_greeted_with_a_handshake() -> None:
    child = FakeChild()
    assert await greeting_of(child) == ServerHandshake(
        era="legacy",
        version=HANDSHAKE_VERSIONS[-1],
        capabilities={"tools": {"listChanged": True}},
        info={"name": "fake", "version": "1"},
        instructions="Be kind.",
        declared=HUB.capabilities,
    )
    assert child.link.seen == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": HANDSHAKE_VERSIONS[-1],
                "capabilities": HUB.capabilities,
                "clientInfo": HUB.info,
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_child_may_choose_an_older_version(version: str) -> None:
    found = await greeting_of(answering(initialize={"protocolVersion": version}))
    assert (found.version, found.info, found.instructions) == (version, {}, "")
    assert not found.offers("tools")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_instructions_are_cut_as_each_client_gets_them(
    era: Literal["legacy", "modern"],
) -> None:
    child = FakeChild(era=era)
    method = "initialize" if era == "legacy" else "server/discover"
    greeting = child.answers[method]
    assert isinstance(greeting, dict)
    child.answers[method] = {**greeting, "instructions": "\u200b" * 10**7}
    said = (await greeting_of(child, era)).instructions
    assert said == "\u200b" * MAX_INSTRUCTIONS + "... (9,934,464 characters left out)"


@pytest.mark.parametrize("version", ["2020-01-01", None, 5])
async def test_a_version_that_the_hub_does_not_speak_is_the_childs_error(version: Json) -> None:
    child = answering(initialize={"protocolVersion": version})
    with pytest.raises(ChildError, match="it speaks protocol version"):
        await greeting_of(child)
    assert child.link.requests("notifications/initialized") == []


@pytest.mark.parametrize(
    "code",
    [METHOD_NOT_FOUND, UNSUPPORTED_VERSION, HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, -1],
)
async def test_a_child_without_a_handshake_is_discovered(code: int) -> None:
    child = FakeChild(era="modern")
    child.answers["initialize"] = failure(code, "no handshake here")
    found = await greeting_of(child)
    assert (found.era, found.version) == ("modern", MODERN_VERSIONS[-1])
    assert found.info == {"name": "fake", "version": "1"}
    assert found.offers("tools")
    assert child.link.requests("server/discover")[0]["params"] == {
        "_meta": envelope(HUB, MODERN_VERSIONS[-1])
    }


async def test_a_child_that_answers_a_handshake_with_a_version_without_one_is_discovered() -> None:
    child = FakeChild(era="modern")
    child.answers["initialize"] = {"protocolVersion": MODERN_VERSIONS[-1]}
    assert (await greeting_of(child)).era == "modern"
    assert child.link.requests("notifications/initialized") == []
    with pytest.raises(ChildError, match="it speaks protocol version"):
        await greeting_of(child, "legacy")


async def test_a_child_that_refuses_a_version_and_offers_it_is_asked_again() -> None:
    child = FakeChild(era="modern")
    refusal: JsonObject = {
        "code": UNSUPPORTED_VERSION,
        "message": "not this one",
        "data": {"supported": list(MODERN_VERSIONS)},
    }
    discovered = child.answers["server/discover"]
    assert not callable(discovered)

    def second_time(_: Request) -> Answer:
        again = len(child.link.requests("server/discover")) > 1
        return discovered if again else Failure(None, refusal)

    child.answers["server/discover"] = second_time
    assert (await greeting_of(child, "modern")).era == "modern"
    assert len(child.link.requests("server/discover")) == 2


@pytest.mark.parametrize("data", [None, {}, {"supported": "2026-07-28"}, {"supported": ["2020"]}])
async def test_a_child_that_refuses_a_version_and_offers_others_is_left_alone(data: Json) -> None:
    refusal: JsonObject = {"code": UNSUPPORTED_VERSION, "message": "not this one", "data": data}
    child = answering(server_discover=Failure(None, refusal))
    with pytest.raises(RpcError, match="not this one"):
        await greeting_of(child, "modern")
    assert len(child.link.requests("server/discover")) == 1


async def test_a_child_configured_as_modern_gets_no_handshake() -> None:
    child = FakeChild(era="modern")
    assert (await greeting_of(child, "modern")).era == "modern"
    assert child.link.requests("initialize") == []


async def test_a_child_configured_as_legacy_is_not_discovered() -> None:
    child = FakeChild(era="modern")
    with pytest.raises(RpcError):
        await greeting_of(child, "legacy")
    assert child.link.requests("server/discover") == []


@virtual_time
@pytest.mark.parametrize("discovered", [failure(METHOD_NOT_FOUND, "no such method"), SILENT])
async def test_a_refused_handshake_counts_where_the_child_has_no_other_era(
    discovered: Answer,
) -> None:
    child = answering(initialize=failure(INTERNAL_ERROR, "broken"), server_discover=discovered)
    with pytest.raises(RpcError, match="broken"):
        await greeting_of(child)


async def test_a_refused_handshake_counts_where_the_child_exits_then() -> None:
    child = answering(initialize=failure(INTERNAL_ERROR, "broken"))

    def crash(request: Request) -> Answer:
        child.link.crash(f"exited on {request.method}")
        return SILENT

    child.answers["server/discover"] = crash
    with pytest.raises(RpcError, match="broken"):
        await greeting_of(child)


async def test_a_handshake_whose_answer_was_lost_is_not_refused() -> None:
    child = FakeChild(era="modern")
    child.answers["initialize"] = Lost(None, {"code": INTERNAL_ERROR, "message": "HTTP status 500"})
    with pytest.raises(LostError, match="500"):
        await greeting_of(child)
    assert child.link.requests("server/discover") == []


async def test_a_child_of_later_versions_alone_says_so() -> None:
    child = answering(
        initialize=failure(INVALID_PARAMS, "no envelope"),
        server_discover=failure(UNSUPPORTED_VERSION, "not this one"),
    )
    with pytest.raises(RpcError, match="not this one"):
        await greeting_of(child)


@pytest.mark.parametrize("offered", [["2020-01-01"], [], None, "2026-07-28"])
async def test_a_modern_child_must_offer_the_hubs_version(offered: Json) -> None:
    child = answering(server_discover={"supportedVersions": offered})
    with pytest.raises(ChildError, match="it speaks protocol versions"):
        await greeting_of(child)


async def test_a_child_that_exits_during_its_handshake_is_gone() -> None:
    child = FakeChild()

    def crash(request: Request) -> Answer:
        child.link.crash(f"exited on {request.method}")
        return SILENT

    child.answers["initialize"] = crash
    with pytest.raises(GoneError, match="exited on initialize"):
        await greeting_of(child)


def handshake(era: Literal["legacy", "modern"]) -> ServerHandshake:
    return ServerHandshake(era, MODERN_VERSIONS[-1], {}, {}, "", {})


def test_a_legacy_child_gets_params_as_they_are() -> None:
    params: JsonObject = {"name": "x", "_meta": {"a": 1}}
    assert with_envelope(params, handshake("legacy"), HUB) is params


@pytest.mark.parametrize(("meta", "kept"), [({"a": 1}, {"a": 1}), (None, {}), ("x", {})])
def test_a_modern_child_gets_the_hubs_envelope_and_the_callers_own_fields(
    meta: Json, kept: Mapping[str, Json]
) -> None:
    asked = with_envelope({"name": "x", "_meta": meta}, handshake("modern"), HUB)
    assert asked == {
        "name": "x",
        "_meta": {
            **kept,
            PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
            CLIENT_INFO_META: HUB.info,
            CLIENT_CAPABILITIES_META: HUB.capabilities,
        },
    }


def test_a_client_cannot_impersonate_the_hub_towards_a_modern_child() -> None:
    forged: JsonObject = {"_meta": {CLIENT_INFO_META: {"name": "forged"}}}
    meta = with_envelope(forged, handshake("modern"), HUB)["_meta"]
    assert isinstance(meta, dict)
    assert meta[CLIENT_INFO_META] == HUB.info


def test_a_result_that_asks_for_input_is_read_and_others_are_not() -> None:
    asking = b'{"resultType":"input_required","inputRequests":{}}'
    assert input_required(Raw(asking)) == {"resultType": "input_required", "inputRequests": {}}
    assert input_required({"resultType": "input_required"}) is not None
    assert input_required(Raw(b'{"text":"\\"input_required\\""}')) is None
    assert input_required(Raw(b'{"text":"input_required","resultType":"complete"}')) is None
    assert input_required(Raw(b'{"broken')) is None


def as_raw(payload: Payload) -> Raw:
    assert isinstance(payload, Raw)
    return payload


def test_a_result_does_not_say_who_the_child_is() -> None:
    info = SERVER_INFO_META.encode()
    named = Raw(b'{"content":[],"n":1e400,"_meta":{"%b":{"name":"x"},"a":1}}' % info)
    kept = without_server_info(named)
    assert bytes(as_raw(kept)) == b'{"_meta":{"a":1},"content":[],"n":1e400}'
    alone = Raw(b'{"s":"\\ud83d","_meta":{"%b":{}}}' % info)
    assert bytes(as_raw(without_server_info(alone))) == b'{"s":"\\ud83d"}'
    assert without_server_info({"a": 1, "_meta": {SERVER_INFO_META: {}}}) == {"a": 1}


@pytest.mark.parametrize(
    "result",
    [
        Raw(b'{"content":[]}'),
        Raw(b'{"text":"io.modelcontextprotocol/serverInfo"}'),
        Raw(b'{"_meta":["io.modelcontextprotocol/serverInfo"]}'),
    ],
)
def test_another_result_stays_the_bytes_it_was(result: Raw) -> None:
    assert without_server_info(result) is result


@pytest.mark.parametrize("said", ["V" * 1_000_000, ["V" * 1_000_000]])
@pytest.mark.parametrize("era", ["auto", "modern"])
async def test_a_version_of_any_length_makes_an_error_of_limited_length(
    era: Literal["auto", "modern"], said: Json
) -> None:
    child = FakeChild()
    child.answers["initialize"] = {"protocolVersion": said}
    child.answers["server/discover"] = {"supportedVersions": said}
    async with conversation(child) as (peer, _):
        with pytest.raises(ChildError) as caught:
            await shake_hands(peer, HUB, era)
    assert len(str(caught.value)) < 300
