"""The first exchange with a child: which era it speaks, who it is, what it offers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw, Struct

from hub.errors import ChildError
from hub.jsonrpc import messages
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import Peer, RpcError
from hub.jsonrpc.raw_objects import parted, with_fields
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    LOG_LEVEL_META,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
    UNSUPPORTED_VERSION,
)
from hub.specs import EraChoice
from hub.values import JsonObject, object_or_empty

Era: TypeAlias = Literal["legacy", "modern"]


class ServerHandshake(Struct, frozen=True):
    """What a child said of itself; `declared` is what the hub said that it can do as a client."""

    era: Era
    version: str
    capabilities: JsonObject
    info: JsonObject
    instructions: str
    declared: JsonObject

    def offers(self, capability: str) -> bool:
        """Return whether the child declared a capability, such as `tools`."""
        return isinstance(self.capabilities.get(capability), dict)


class HubIdentity(Struct, frozen=True):
    """Who the hub says it is, and what it can do as the child's client."""

    info: JsonObject
    capabilities: JsonObject

    def on_behalf_of(self, asks: JsonObject) -> HubIdentity:
        """Return it with what the client takes besides whose call it is."""
        if asks.items() <= self.capabilities.items():
            return self
        return HubIdentity(self.info, {**self.capabilities, **asks})


async def shake_hands(peer: Peer, hub: HubIdentity, era: EraChoice) -> ServerHandshake:
    """Agree with a child on an era and a version.

    `auto` begins with `initialize`: nearly every server in use speaks it, and some of them exit or
    fall silent when anything else comes first. A server without it says so at once, or answers it
    with a version that has no handshake, and is asked with `server/discover`.

    It takes as long as the child does: whoever greets sets a limit.

    Raises: ChildError if the child speaks no version that the hub speaks; RpcError, GoneError.
    """
    if era == "modern":
        return await _discover(peer, hub)
    try:
        return await _initialize(peer, hub)
    except _NoHandshakeError:
        if era == "legacy":
            raise
    except RpcError as exc:
        if era == "legacy" or exc.code not in {METHOD_NOT_FOUND, UNSUPPORTED_VERSION}:
            raise
    return await _discover(peer, hub)


class _NoHandshakeError(ChildError):
    """The child answers a handshake with a version that knows none."""


async def _initialize(peer: Peer, hub: HubIdentity) -> ServerHandshake:
    asked: JsonObject = {
        "protocolVersion": HANDSHAKE_VERSIONS[-1],
        "capabilities": hub.capabilities,
        "clientInfo": hub.info,
    }
    result = messages.as_object(await peer.request("initialize", asked, timeout=None))
    version = result.get("protocolVersion")
    if not isinstance(version, str) or version not in HANDSHAKE_VERSIONS:
        known = ", ".join(HANDSHAKE_VERSIONS)
        error = _NoHandshakeError if version in MODERN_VERSIONS else ChildError
        raise error(f"it speaks protocol version {version!r}, the hub speaks {known}")
    await peer.notify("notifications/initialized", {})
    return _greeting("legacy", version, result, hub)


async def _discover(peer: Peer, hub: HubIdentity) -> ServerHandshake:
    version = MODERN_VERSIONS[-1]
    asked: JsonObject = {"_meta": envelope(hub, version)}
    try:
        result = messages.as_object(await peer.request("server/discover", asked, timeout=None))
    except RpcError as exc:
        if not _offers(exc, version):
            raise
        result = messages.as_object(await peer.request("server/discover", asked, timeout=None))
    offered = result.get("supportedVersions")
    if not isinstance(offered, list) or version not in offered:
        raise ChildError(f"it speaks protocol versions {offered!r}, the hub speaks {version}")
    return _greeting("modern", version, result, hub)


def _offers(refusal: RpcError, version: str) -> bool:
    """Return whether a child that refused a version names it among those that it speaks."""
    data = object_or_empty(messages.as_object(refusal.error).get("data"))
    supported = data.get("supported")
    return (
        refusal.code == UNSUPPORTED_VERSION and isinstance(supported, list) and version in supported
    )


def envelope(hub: HubIdentity, version: str) -> JsonObject:
    """Return the `_meta` fields that every request of the modern era carries."""
    return {
        PROTOCOL_VERSION_META: version,
        CLIENT_INFO_META: hub.info,
        CLIENT_CAPABILITIES_META: hub.capabilities,
    }


def _greeting(era: Era, version: str, result: JsonObject, hub: HubIdentity) -> ServerHandshake:
    instructions = result.get("instructions")
    info = result.get("serverInfo") or object_or_empty(result.get("_meta")).get(SERVER_INFO_META)
    return ServerHandshake(
        era,
        version,
        object_or_empty(result.get("capabilities")),
        object_or_empty(info),
        instructions if isinstance(instructions, str) else "",
        hub.capabilities,
    )


def with_envelope(
    params: JsonObject, handshake: ServerHandshake, hub: HubIdentity, log_level: str | None = None
) -> JsonObject:
    """Return the params of a request as a child of this era wants them.

    A modern child is told with each request from which level on it may log.
    """
    if handshake.era == "legacy":
        return params
    meta = params.get("_meta")
    own = meta if isinstance(meta, dict) else {}
    if log_level is not None:
        own = {**own, LOG_LEVEL_META: log_level}
    return {**params, "_meta": {**own, **envelope(hub, handshake.version)}}


def without_server_info(result: Payload) -> Payload:
    """Return a modern child's result without who that child is: clients are told of the hub.

    Raises: WireError if the result has a key twice.
    """
    if isinstance(result, dict):
        return _without_server_info(result)
    if SERVER_INFO_META.encode() not in bytes(result):
        return result
    own, rest = parted(result, {"_meta"})
    meta = own.get("_meta", Raw(b""))
    info, kept = parted(meta, {SERVER_INFO_META}) if bytes(meta).startswith(b"{") else ({}, meta)
    if not info:
        return result
    return rest if bytes(kept) == b"{}" else with_fields(rest, {"_meta": kept})


def _without_server_info(result: JsonObject) -> JsonObject:
    meta = object_or_empty(result.get("_meta"))
    if SERVER_INFO_META not in meta:
        return result
    kept: JsonObject = {key: value for key, value in meta.items() if key != SERVER_INFO_META}
    rest: JsonObject = {key: value for key, value in result.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def input_required(result: Payload) -> JsonObject | None:
    """Return a modern child's result as an object if it asks for input instead of answering."""
    if not isinstance(result, dict) and b'"input_required"' not in bytes(result):
        return None
    read = messages.as_object(result)
    return read if read.get("resultType") == "input_required" else None
