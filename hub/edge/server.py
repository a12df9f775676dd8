"""What a client's requests mean, in both protocol eras; only here errors become wire errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import structlog
from anyio.abc import TaskGroup

from hub.core.errors import HubError, RouteError
from hub.core.pages import CursorError
from hub.core.protocol import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTS,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
    SERVER_INFO_META,
    UNSUPPORTED_VERSION,
)
from hub.core.values import Json, JsonObject
from hub.runtime import wire
from hub.runtime.peer import Asked, Outlet, Peer, RpcError
from hub.runtime.relay import Relay
from hub.runtime.services import Services
from hub.runtime.session import Client, Session
from hub.runtime.strict_json import WireError
from hub.runtime.wire import Notification, Payload, Request

log = structlog.stdlib.get_logger(__name__)

_CALLS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})
_ROOTS_CHANGED = frozenset({"notifications/roots/list_changed", "roots/list_changed"})
_CHANGES: JsonObject = {"listChanged": True}
CAPABILITIES: JsonObject = {
    "tools": _CHANGES,
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": _CHANGES,
    "completions": {},
    "logging": {},
}
MODERN_CAPABILITIES: JsonObject = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
"""Without change notifications, which a modern client gets by `subscriptions/listen` alone."""
_UNCACHED: JsonObject = {"ttlMs": 0, "cacheScope": "private"}


class Front:
    """The hub's side of one client's conversation."""

    def __init__(
        self, relay: Relay, services: Services, outlet: Outlet, tasks: TaskGroup, *, principal: str
    ) -> None:
        self.session = Session(services, tasks, principal=principal)
        self.peer = self.session.peer = Peer(
            outlet, serve=self._serve, notified=self._notified, tasks=tasks
        )
        self._relay = relay
        self._services = services

    def close(self) -> None:
        """End the conversation."""
        self.peer.close("the client is gone")
        self.session.close()

    async def _serve(self, asked: Asked) -> Payload:
        """Answer one request.

        Raises: RpcError, the only way an error leaves.
        """
        try:
            if is_modern(asked.request):
                return await self._serve_modern(asked)
            return await self._serve_legacy(asked)
        except RpcError:
            raise
        except CursorError as exc:
            raise RpcError(INVALID_PARAMS, str(exc), exc.data) from exc
        except RouteError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        except HubError as exc:
            raise RpcError(INTERNAL_ERROR, str(exc)) from exc
        except WireError as exc:
            raise RpcError(exc.code, str(exc)) from exc
        except Exception as exc:
            log.exception("request failed", method=asked.request.method)
            raise RpcError(INTERNAL_ERROR, "Internal error of the hub; its log says more") from exc

    # Legacy: a handshake, then a session

    async def _serve_legacy(self, asked: Asked) -> Payload:
        method, params = asked.request.method, asked.request.params
        if method == "initialize":
            return self._initialize(params)
        if method == "ping":
            return {}
        if self.session.client is None:
            if method == "server/discover":
                raise RpcError(
                    METHOD_NOT_FOUND,
                    f"Method not found: {method} (without the envelope of {MODERN_VERSIONS[-1]})",
                )
            raise RpcError(INVALID_REQUEST, f"{method} before initialize")
        return await self._serve_common(asked)

    def _initialize(self, params: JsonObject) -> JsonObject:
        known = self.session.client
        if known is not None and known.era == "modern":
            data: JsonObject = {
                "supported": list(MODERN_VERSIONS),
                "requested": params.get("protocolVersion"),
            }
            raise RpcError(
                UNSUPPORTED_VERSION, f"this connection speaks {MODERN_VERSIONS[-1]}", data
            )
        if known is not None:
            raise RpcError(INVALID_REQUEST, "initialize was answered already")
        wanted, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(wanted, str) or not isinstance(capabilities, dict):
            raise RpcError(INVALID_PARAMS, 'initialize needs "protocolVersion" and "capabilities"')
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self.session.greeted(
            Client("legacy", version, capabilities, _object(params.get("clientInfo")))
        )
        return {
            "protocolVersion": version,
            "capabilities": CAPABILITIES,
            "serverInfo": self._services.info,
        }

    async def _notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.client is not None:
            self.session.opened()
        elif notification.method in _ROOTS_CHANGED:
            self.session.roots.list_changed()

    # Modern: every request for itself

    async def _serve_modern(self, asked: Asked) -> Payload:
        if self.session.client is not None and self.session.client.era == "legacy":
            raise RpcError(
                INVALID_REQUEST, "this connection began with initialize: requests need no envelope"
            )
        meta = _object(asked.request.params.get("_meta"))
        version = meta.get(PROTOCOL_VERSION_META)
        if version not in MODERN_VERSIONS:
            data: JsonObject = {"supported": list(MODERN_VERSIONS), "requested": version}
            raise RpcError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", data)
        if asked.request.method in {
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
        }:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {asked.request.method}")
        capabilities = _object(meta.get(CLIENT_CAPABILITIES_META))
        self.session.greeted(
            Client("modern", str(version), capabilities, _object(meta.get(CLIENT_INFO_META)))
        )
        if asked.request.method == "server/discover":
            found: Payload = {
                "supportedVersions": list(MODERN_VERSIONS),
                "capabilities": MODERN_CAPABILITIES,
                **_UNCACHED,
            }
        else:
            found = await self._serve_common(asked)
        return self._modern_result(wire.as_object(found), asked.request.method)

    def _modern_result(self, result: JsonObject, method: str) -> JsonObject:
        meta: JsonObject = {**_object(result.get("_meta")), SERVER_INFO_META: self._services.info}
        cacheable = _UNCACHED if method in LISTS or method == "resources/read" else {}
        return {"resultType": "complete", **cacheable, **result, "_meta": meta}

    # Both

    async def _serve_common(self, asked: Asked) -> Payload:
        method, params = asked.request.method, asked.request.params
        if method in _CALLS:
            return await self._relay.call(self.session, asked)
        if method in LISTS:
            force = await self.session.force(asked.outlet)
            return await self._relay.catalogs.page(
                self.session, force, method, params.get("cursor")
            )
        match method:
            case "resources/subscribe":
                return await self._relay.subscribe(self.session, asked)
            case "resources/unsubscribe":
                return await self._relay.unsubscribe(self.session, params.get("uri"))
            case "logging/setLevel":
                return await self._set_level(params.get("level"))
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def _set_level(self, level: Json) -> JsonObject:
        if level not in LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS, f"Unknown log level: {level}; known are {', '.join(LOG_LEVELS)}"
            )
        await self._relay.set_level(self.session, str(level))
        return {}


OpenFront: TypeAlias = Callable[[Outlet, TaskGroup, str], Front]
"""Begins a conversation with a client: how it is reached, who owns its tasks, who it is."""


def is_modern(request: Request) -> bool:
    """Return whether a request carries the envelope of the modern era; `initialize` never does."""
    return request.method != "initialize" and PROTOCOL_VERSION_META in _object(
        request.params.get("_meta")
    )


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
