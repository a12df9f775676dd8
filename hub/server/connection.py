"""Client connections: requests by method in both eras; only here errors become JSON-RPC errors."""

from __future__ import annotations

from typing import Protocol

import anyio

from hub.calls.addressing import is_modern
from hub.calls.dispatch import CallDispatcher, RequestRegistry
from hub.calls.modern_calls import ModernCalls
from hub.calls.resolve import Relay
from hub.calls.rounds.modern_routes import Headers
from hub.calls.routes import CallRoute, KnownAnswer
from hub.calls.subscriptions import Subscriptions
from hub.catalog.pages import CursorError
from hub.errors import HubError, InsufficientScopeError, RouteError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, Payload, Request, size_of
from hub.jsonrpc.peer import Asked, Outlet, Peer
from hub.protocol.constants import (
    CALLS,
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTS,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    UNSUPPORTED_VERSION,
)
from hub.server.modern import CAPABILITIES, GREETING_GRACE, Modern, supported
from hub.sessions.client import MAX_DECLARED, Client
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.system.tasks import TaskStarter
from hub.values import Json, JsonObject, object_or_empty

MAX_NAMED = 1024
"""Characters of a client's name and version that its session holds: there are many sessions."""

_ROOTS_CHANGED = frozenset({"notifications/roots/list_changed", "roots/list_changed"})


class ClientConnection:
    """The hub's side of one client connection; `given_up` says why, if the hub ended it.

    `modern` serves the requests of the modern era.
    """

    def __init__(  # noqa: PLR0913 - each is a part of the hub, or of this connection
        self,
        relay: Relay,
        rounds: ModernCalls,
        services: Services,
        outlet: Outlet,
        tasks: TaskStarter,
        *,
        principal: str,
    ) -> None:
        self.peer = Peer(outlet, serve=self._serve, notified=self._notified, tasks=tasks)
        self.session = Session(services, tasks, principal=principal, peer=self.peer)
        self.dispatcher = rounds.dispatcher(self.peer.backlog, tasks, self.session.key)
        self.modern = Modern(relay, rounds, services, self.session, tasks)
        self.given_up: str | None = None
        self._subscriptions = Subscriptions(relay, self.session, outlet)
        self._relay = relay
        self._services = services

    def adopt(self, client: Client) -> None:
        """Go on with the session of a client that did its handshake with another process.

        What the client still answers to that process must not count as an answer to this one.
        """
        self.peer.skip_ids()
        self.session.greeted(client)
        self.session.opened()

    def close(self) -> None:
        """Close the connection and its session; requests under way are cancelled."""
        self.peer.close("the client is gone")
        self._relay.session_routes.forget(self.session)
        self.session.close()

    def end(self, why: str) -> None:
        """Close the connection while its client is still there; open requests are told `why`."""
        self.given_up = why
        self.close()

    def route_for(self, request: Request) -> CallRoute | KnownAnswer | None:
        """Return the route of a call, or its known answer; None if it must be resolved."""
        enveloped = "_meta" in request.params and is_modern(request)
        if enveloped is not (self.session.client is None):
            return None  # the task for the request answers with an error: wrong era
        if enveloped:
            return self.modern.route_for(request)
        found = self._relay.session_routes.find(self.session, request)
        return self._relay.lookup.route_beside(self.session, request) if found is None else found

    async def _serve(self, asked: Asked) -> Payload:
        """Return the result of one request. Raises: RpcError, for a HubError too; WireError."""
        try:
            if is_modern(asked.request):
                return await self._serve_modern(asked)
            return await self._serve_legacy(asked)
        except InsufficientScopeError as exc:
            asked.needed = exc.needed
            data: JsonObject = {"error": "insufficient_scope", "scope": " ".join(exc.needed)}
            raise RpcError(INVALID_REQUEST, str(exc), data) from exc
        except CursorError as exc:
            raise RpcError(INVALID_PARAMS, str(exc), exc.data) from exc
        except RouteError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        except HubError as exc:
            raise RpcError(INTERNAL_ERROR, str(exc)) from exc

    async def _serve_modern(self, asked: Asked) -> Payload:
        if self.session.client is not None:
            raise RpcError(
                INVALID_REQUEST, "this connection began with initialize: requests need no envelope"
            )
        return await self.modern.serve(asked)

    # Legacy era: a handshake, then a session

    async def _serve_legacy(self, asked: Asked) -> Payload:
        method, params = asked.request.method, asked.request.params
        if method == "initialize":
            return await self._initialize(params)
        if method == "ping":
            return {}
        if self.session.client is None:
            if method == "server/discover":
                raise RpcError(
                    METHOD_NOT_FOUND,
                    f"Method not found: {method} (without the envelope of {MODERN_VERSIONS[-1]})",
                )
            if self.modern.is_spoken:
                needed = f"the envelope of {MODERN_VERSIONS[-1]} in _meta"
                raise RpcError(INVALID_PARAMS, f"{method} needs {needed}, as all requests here")
            raise RpcError(INVALID_REQUEST, f"{method} before initialize")
        # A client that sends a request has finished its handshake, even if it has not said so yet.
        self.session.opened()
        return await self._serve_opened(asked)

    async def _initialize(self, params: JsonObject) -> JsonObject:
        if self.modern.is_spoken:
            data = supported(params.get("protocolVersion"))
            raise RpcError(
                UNSUPPORTED_VERSION, f"this connection speaks {MODERN_VERSIONS[-1]}", data
            )
        if self.session.client is not None:
            raise RpcError(INVALID_REQUEST, "initialize was answered already")
        client = client_of_handshake(params)
        if client is None:
            needed = f'"protocolVersion" and "capabilities", of {MAX_DECLARED} bytes at most'
            raise RpcError(INVALID_PARAMS, f"initialize needs {needed}")
        self.session.greeted(client)
        if self._services.is_for_one and not client.declares("roots"):
            # Its children start now anyway; a short wait gets their instructions into this result.
            self.session.opened()
            with anyio.move_on_after(GREETING_GRACE):
                await self.session.start_early()
        told = self._services.instructions(self.session.identity)
        return {
            "protocolVersion": client.version,
            "capabilities": CAPABILITIES,
            "serverInfo": self._services.info,
            **({} if told is None else {"instructions": told}),
        }

    async def _notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.client is not None:
            self.session.opened()
        elif notification.method in _ROOTS_CHANGED:
            self.session.roots.list_changed()

    async def _serve_opened(self, asked: Asked) -> Payload:
        method, params = asked.request.method, asked.request.params
        if method in CALLS:
            return await self._relay.call(self.session, asked)
        if method in LISTS:
            return await self._relay.listings.page(self.session, asked)
        match method:
            case "resources/subscribe":
                return await self._subscriptions.subscribe(asked)
            case "resources/unsubscribe":
                return await self._subscriptions.unsubscribe(params.get("uri"))
            case "logging/setLevel":
                return await self._set_level(params.get("level"))
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def _set_level(self, level: Json) -> JsonObject:
        if level not in LOG_LEVELS:
            raise RpcError(
                INVALID_PARAMS, f"Unknown log level: {level}; known are {', '.join(LOG_LEVELS)}"
            )
        await self.session.set_level(str(level))
        return {}


def client_of_handshake(params: JsonObject) -> Client | None:
    """Return the client that says this in `initialize`, with the agreed version; None if unfit."""
    wanted, capabilities = params.get("protocolVersion"), params.get("capabilities")
    if not isinstance(wanted, str) or not isinstance(capabilities, dict):
        return None
    if size_of(capabilities) > MAX_DECLARED:
        return None
    version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    said = object_or_empty(params.get("clientInfo"))
    named = {key: said.get(key) for key in ("name", "version")}
    info: JsonObject = {
        key: value[:MAX_NAMED] for key, value in named.items() if isinstance(value, str)
    }
    return Client("legacy", version, capabilities, info)


class ConnectionFactory(Protocol):
    """Opens client connections; routes and dispatches modern calls that need no connection."""

    def __call__(self, outlet: Outlet, tasks: TaskStarter, principal: str, /) -> ClientConnection:
        """Return a client's connection: `outlet` reaches the client, `tasks` runs its tasks."""
        ...

    def within(self, profile: str | None, /) -> ConnectionFactory:
        """Return the factory for the clients of a profile; None: those without one."""
        ...

    def route_for(
        self, principal: str, request: Request, headers: Headers, /
    ) -> CallRoute | KnownAnswer | None:
        """Return the cached route of a modern call, or its known answer; None if neither."""
        ...

    def dispatcher(self, register: RequestRegistry, tasks: TaskStarter, /) -> CallDispatcher:
        """Return a dispatcher for one modern call, under a session key of its own."""
        ...
