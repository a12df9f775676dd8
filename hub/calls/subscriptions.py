"""Subscriptions to resources: of one client each, at children that it may share with others."""

from __future__ import annotations

import structlog

from hub.calls.dispatch import Relay
from hub.children.child import Child
from hub.errors import ChildError, HubError, RouteError
from hub.jsonrpc.messages import Payload, Request
from hub.jsonrpc.peer import Asked, Outlet, RpcError
from hub.protocol.constants import INVALID_PARAMS
from hub.sessions.session import Session
from hub.values import Json, JsonObject, ServerName

log = structlog.stdlib.get_logger(__name__)

_RENEWAL = "roots-hub/renewal"
"""The id of a request that no client sent."""


class Subscriptions:
    """Makes and ends a session's subscriptions, and makes them again at another child.

    A child counts who has subscribed to what: it is told of the last one's end only.
    """

    def __init__(self, relay: Relay, session: Session, outlet: Outlet) -> None:
        self._relay = relay
        self._session = session
        self._outlet = outlet
        session.renew = self.renew

    async def subscribe(self, asked: Asked) -> Payload:
        """Take a subscription through like a call, and remember the URI the client knows it by.

        Raises: RouteError for an unknown resource; RpcError that the child answered, or a refusal.
        """
        uri = str(asked.request.params.get("uri"))
        server, own = await self._owner_of(asked, uri)
        result = await self._relay.call(self._session, asked)
        self._session.audience.subscriptions[server, own] = uri
        child = self._child(server)
        if child is not None:
            child.answers.subscribe(own, self._session.key)
        return result

    async def _owner_of(self, asked: Asked, uri: str) -> tuple[ServerName, str]:
        force = await self._session.force(asked.outlet)
        catalog = await self._relay.catalogs.catalog(self._session, force)
        route = catalog.resource(uri)
        if route is None:
            raise RouteError(f"Unknown resource: {uri}")
        return route.server, route.name

    async def unsubscribe(self, uri: Json) -> Payload:
        """End a subscription; at its child if nobody else there has subscribed to the same.

        Raises: RouteError if there is none; ChildError; RpcError that the child answered.
        """
        for (server, own), public in self._session.audience.subscriptions.items():
            if public == uri:
                del self._session.audience.subscriptions[server, own]
                return await self._end(server, own)
        raise RouteError(f"No subscription to resource: {uri}")

    async def _end(self, server: ServerName, own: str) -> Payload:
        child = self._child(server)
        if child is None or not child.answers.unsubscribe(own, self._session.key):
            return {}
        return await child.forward("resources/unsubscribe", {"uri": own})

    async def renew(self, server: ServerName) -> None:
        """Make the subscriptions again that the session's child of a server does not know of.

        Each is judged again; one that is refused by now has ended.
        """
        for (owner, own), public in list(self._session.audience.subscriptions.items()):
            child = self._child(server)
            if owner != server or child is None or child.answers.has(own, self._session.key):
                continue
            params: JsonObject = {"uri": public}
            asked = Asked(Request(_RENEWAL, "resources/subscribe", params), self._outlet)
            try:
                await self.subscribe(asked)
            except (HubError, RpcError) as exc:
                log.warning("not subscribed again", server=server, uri=public, error=str(exc))
                if isinstance(exc, RouteError | RpcError) and _is_final(exc):
                    await self._drop(server, own)

    async def _drop(self, server: ServerName, own: str) -> None:
        self._session.audience.subscriptions.pop((server, own), None)
        try:
            await self._end(server, own)
        except (ChildError, RpcError) as exc:
            log.debug("not unsubscribed", server=server, error=str(exc))

    def _child(self, server: ServerName) -> Child | None:
        return next(
            (place.child for place in self._session.places if place.spec.name == server), None
        )


def _is_final(exc: RouteError | RpcError) -> bool:
    """Whether there is no such resource, or it is not to be had with these roots."""
    return isinstance(exc, RouteError) or exc.code == INVALID_PARAMS
