"""The handshake with a child: era, protocol version, capabilities and server info."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import anyio
from msgspec import Raw, Struct

from hub.errors import ChildError
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, LostError, RpcError
from hub.jsonrpc.messages import Payload
from hub.jsonrpc.peer import Peer
from hub.jsonrpc.raw_objects import parted, with_fields
from hub.legible import shortened
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    LOG_LEVEL_META,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
    UNSUPPORTED_VERSION,
)
from hub.specs import EraChoice
from hub.values import Json, JsonObject, object_or_empty

SHOWN: Final = 100
"""Characters of a version that errors show."""
MAX_INSTRUCTIONS: Final = 64 * 1024
"""Characters of a child's instructions that count: each client gets them, and they are read."""
PATIENCE: Final = 10.0
"""Seconds in which a child that has refused `initialize` has to answer `server/discover`."""
Era: TypeAlias = Literal["legacy", "modern"]


class ServerHandshake(Struct, frozen=True):
    """What a child said about itself; `declared` are the capabilities that the hub declared."""

    era: Era
    version: str
    capabilities: JsonObject
    info: JsonObject
    instructions: str
    declared: JsonObject

    def offers(self, capability: str) -> bool:
        """Return whether the child declared a capability, such as `tools`."""
        return isinstance(self.capabilities.get(capability), dict)


class HubDeclaration(Struct, frozen=True):
    """The hub's client info, and the client capabilities that the hub declares to the child."""

    info: JsonObject
    capabilities: JsonObject

    def on_behalf_of(self, asks: JsonObject) -> HubDeclaration:
        """Return this with a client's own capabilities added."""
        if asks.items() <= self.capabilities.items():
            return self
        return HubDeclaration(self.info, {**self.capabilities, **asks})


async def shake_hands(peer: Peer, hub: HubDeclaration, era: EraChoice) -> ServerHandshake:
    """Agree with a child on an era and a protocol version.

    `auto` begins with `initialize`: nearly every server in use supports it, and some servers exit
    or fall silent when anything else comes first. A server without it answers with an error, of
    whatever code, or with a version that has no handshake; then the hub sends `server/discover`. If
    that is refused as well, or not answered within `PATIENCE` seconds, the first error counts,
    unless the child speaks none of the hub's versions: that says more.

    There is no other time limit here: the caller sets one.

    Raises: ChildError if no protocol version of the child is one of the hub's; RpcError, GoneError.
    """
    if era == "modern":
        return await _discover(peer, hub)
    try:
        return await _initialize(peer, hub)
    except LostError:
        raise
    except (_NoHandshakeError, RpcError) as exc:
        if era == "legacy":
            raise
        refusal = exc
    with anyio.move_on_after(PATIENCE):
        try:
            return await _discover(peer, hub)
        except GoneError:
            pass
        except RpcError as exc:
            if exc.code == UNSUPPORTED_VERSION:
                raise
    raise refusal


class _NoHandshakeError(ChildError):
    """The child answered `initialize` with a protocol version that has no handshake."""


async def _initialize(peer: Peer, hub: HubDeclaration) -> ServerHandshake:
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
        raise error(f"it speaks protocol version {_shown(version)}, the hub speaks {known}")
    await peer.notify("notifications/initialized", {})
    return _handshake("legacy", version, result, hub)


async def _discover(peer: Peer, hub: HubDeclaration) -> ServerHandshake:
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
        raise ChildError(f"it speaks protocol versions {_shown(offered)}, the hub speaks {version}")
    return _handshake("modern", version, result, hub)


def _shown(said: Json) -> str:
    """Return what a child said in place of a version, for an error: it may be anything."""
    return shortened(repr(said), SHOWN)


def _offers(refusal: RpcError, version: str) -> bool:
    """Return whether the error that refuses `version` lists it among the supported versions."""
    supported = refusal.data.get("supported")
    return (
        refusal.code == UNSUPPORTED_VERSION and isinstance(supported, list) and version in supported
    )


def envelope(hub: HubDeclaration, version: str) -> JsonObject:
    """Return the `_meta` fields that every modern request must have."""
    return {
        PROTOCOL_VERSION_META: version,
        CLIENT_INFO_META: hub.info,
        CLIENT_CAPABILITIES_META: hub.capabilities,
    }


def _handshake(era: Era, version: str, result: JsonObject, hub: HubDeclaration) -> ServerHandshake:
    instructions = result.get("instructions")
    info = result.get("serverInfo") or object_or_empty(result.get("_meta")).get(SERVER_INFO_META)
    return ServerHandshake(
        era,
        version,
        object_or_empty(result.get("capabilities")),
        object_or_empty(info),
        shortened(instructions, MAX_INSTRUCTIONS) if isinstance(instructions, str) else "",
        hub.capabilities,
    )


def with_envelope(
    params: JsonObject,
    handshake: ServerHandshake,
    hub: HubDeclaration,
    log_level: str | None = None,
) -> JsonObject:
    """Return the params of a request in the form of the child's era.

    A legacy child gets them unchanged. A modern child gets the envelope in `_meta`, and there also
    the lowest level that it may log from, if `log_level` is given.
    """
    if handshake.era == "legacy":
        return params
    meta = params.get("_meta")
    own = meta if isinstance(meta, dict) else {}
    if log_level is not None:
        own = {**own, LOG_LEVEL_META: log_level}
    return {**params, "_meta": {**own, **envelope(hub, handshake.version)}}


def without_server_info(result: Payload) -> Payload:
    """Return a modern child's result without its server info. Raises: WireError for a key twice."""
    if isinstance(result, dict):
        return without_meta(result, SERVER_INFO_META)
    if SERVER_INFO_META.encode() not in bytes(result):
        return result
    own, rest = parted(result, {"_meta"})
    meta = own.get("_meta", Raw(b""))
    info, kept = parted(meta, {SERVER_INFO_META}) if bytes(meta).startswith(b"{") else ({}, meta)
    if not info:
        return result
    return rest if bytes(kept) == b"{}" else with_fields(rest, {"_meta": kept})


def without_meta(carried: JsonObject, field: str) -> JsonObject:
    """Return params or a result without this field of `_meta`, and without a `_meta` left empty."""
    meta = object_or_empty(carried.get("_meta"))
    if field not in meta:
        return carried
    kept: JsonObject = {key: value for key, value in meta.items() if key != field}
    rest: JsonObject = {key: value for key, value in carried.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def input_required(result: Payload) -> JsonObject | None:
    """Return a modern child's result as an object if it is `input_required`, else None."""
    if not isinstance(result, dict) and b'"input_required"' not in bytes(result):
        return None
    read = messages.as_object(result)
    return read if read.get("resultType") == "input_required" else None
