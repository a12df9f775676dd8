"""Resource subscriptions and `subscriptions/listen` streams of one client, at shared children."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import structlog

from hub.calls.in_flight import InFlightCall
from hub.calls.resolve import Relay
from hub.calls.routes import ResolvedRoute
from hub.children.child import Child
from hub.children.clients import RootsNeededError
from hub.errors import ChildError, HubError, InsufficientScopeError, RouteError
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Notification, Payload, Request, as_object
from hub.jsonrpc.peer import Asked, Outlet
from hub.protocol.constants import INVALID_PARAMS, INVALID_REQUEST, LIST_CHANGED, RESOURCE_NOT_FOUND
from hub.protocol.listen_filter import (
    ACKNOWLEDGED,
    SUBSCRIPTION_ID_META,
    UPDATED,
    FilterError,
    ListenFilter,
    filter_in,
)
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter
from hub.values import Json, JsonObject, ServerName, object_or_empty

log = structlog.stdlib.get_logger(__name__)

MAX_SUBSCRIPTIONS = 1024
"""Resources that one session may have subscribed to, or one stream of notifications."""
MAX_URI = 16 * 1024
"""Characters of the URI of such a resource."""
SHOWN = 300
"""Characters of the log's reason for a refused subscription, which names what a client wrote."""
_TOO_MANY = f"{MAX_SUBSCRIPTIONS} resources can be subscribed to: unsubscribe from one first"
_RENEWAL = "roots-hub/renewal"
"""The id of a request that the hub makes to renew a subscription; no client sent it."""


class Subscriptions:
    """Starts and ends a session's subscriptions, and renews them at a new child.

    The hub counts the subscribers of each resource, and unsubscribes at the child after the last.
    A subscription counts by the scopes of the token that it was made with.
    """

    def __init__(self, relay: Relay, session: Session, outlet: Outlet) -> None:
        self._relay = relay
        self._session = session
        self._outlet = outlet
        self._granted: dict[tuple[ServerName, str], frozenset[str] | None] = {}
        self._under_way = 0
        session.renew = self.renew

    async def subscribe(self, asked: Asked) -> Payload:
        """Subscribe at the child by a guarded call, and store the URI that the client uses.

        Raises: RouteError for an unknown resource; RpcError that the child answered, a refusal, or
            if there are too many subscriptions; InsufficientScopeError.
        """
        return (await self.subscribed(asked))[0]

    async def subscribed(
        self, asked: Asked, *, is_renewal: bool = False
    ) -> tuple[Payload, ServerName, str]:
        """Subscribe like `subscribe`; return the result, the resource's server, and its URI there.

        `is_renewal`: what the client has ended meanwhile is not made again.

        Raises: as `subscribe`.
        """
        uri = str(asked.request.params.get("uri"))
        if len(uri) > MAX_URI:
            raise RpcError(INVALID_PARAMS, f"a URI of over {MAX_URI} characters")
        self._relay.check_scopes(self._session, asked)
        server, own = await self._owner_of(asked, uri)
        held = self._session.notifier.subscriptions
        with self._room_for(server, own):
            result, resolved = await self._called(asked, own)
        if is_renewal and uri not in held.values():
            self._leave(resolved.child, own)
            return result, server, own
        held[server, own] = uri
        self._granted[server, own] = asked.granted
        await self._count(resolved, own)
        return result, server, own

    @contextmanager
    def _room_for(self, server: ServerName, own: str) -> Generator[None]:
        """Keep a place for one more subscription.

        Raises: RpcError if there are too many.
        """
        held = self._session.notifier.subscriptions
        is_new = (server, own) not in held
        if is_new and len(held) + self._under_way >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_REQUEST, _TOO_MANY)
        self._under_way += is_new
        try:
            yield
        finally:
            self._under_way -= is_new

    async def _called(self, asked: Asked, own: str) -> tuple[Payload, ResolvedRoute]:
        """Return the result of the guarded call, and which way it went.

        The session counts as a subscriber from then on: others may unsubscribe before the answer.
        """
        calls = list[InFlightCall]()
        with ExitStack() as counted:

            def make(*parts: Any, **named: Any) -> InFlightCall:
                calls.append(InFlightCall(*parts, **named))
                child = calls[-1].route.resolved.child
                counted.close()  # the call before was not sent
                if not child.answers.has(own, self._session.key):
                    child.answers.subscribe(own, self._session.key)
                    counted.callback(self._leave, child, own)
                return calls[-1]

            result = await self._relay.call(self._session, asked, make=make)
            counted.pop_all()
        return result, calls[-1].route.resolved

    def _leave(self, child: Child, own: str) -> None:
        """Unsubscribe at a child where the session is not counted, unless another session is."""
        if child.answers.unsubscribe(own, self._session.key):
            self._session.services.tasks.start_soon(child.unsubscribe, own)

    async def _count(self, resolved: ResolvedRoute, own: str) -> None:
        """Count the session as a subscriber at the child that answered.

        A child that has taken its place is asked, too; under other roots it is judged again.
        """
        slot, child, session = resolved.slot, resolved.child, self._session
        if slot.child is not child or session.held.get(slot.spec.name) is not slot:
            self._leave(child, own)
        elif resolved.circumstances.effective != session.known_effective():
            child.answers.unsubscribe(own, session.key)  # so that `renew` makes it again
        else:
            child.answers.subscribe(own, session.key)
            return
        await self.renew(slot.spec.name)

    async def _owner_of(self, asked: Asked, uri: str) -> tuple[ServerName, str]:
        effective = await self._session.effective(asked.outlet)
        catalog = await self._relay.listings.catalog(self._session, effective, ())
        if uri not in catalog.resource_routes:  # a server that is slow to start may have it
            catalog = await self._relay.listings.catalog(self._session, effective, for_call=True)
        route = catalog.resource(uri)
        if route is None:
            raise RouteError(f"Unknown resource: {uri}")
        return route.server, route.name

    async def unsubscribe(self, uri: Json) -> Payload:
        """End a subscription, also at its child if no other session has subscribed to the resource.

        Raises: RouteError if there is none; ChildError; RpcError that the child answered.
        """
        for (server, own), public in self._session.notifier.subscriptions.items():
            if public == uri:
                del self._session.notifier.subscriptions[server, own]
                self._granted.pop((server, own), None)
                return await self._end(server, own)
        raise RouteError(f"No subscription to resource: {uri}")

    async def _end(self, server: ServerName, own: str) -> Payload:
        child = self._child(server)
        if child is None or not child.answers.unsubscribe(own, self._session.key):
            return {}
        return await child.forward("resources/unsubscribe", {"uri": own})

    async def renew(self, server: ServerName) -> None:
        """Subscribe again to the resources that the session's current child does not know of.

        The guard decides again; a subscription that is refused now ends.
        """
        for (owner, own), public in list(self._session.notifier.subscriptions.items()):
            child = self._child(server)
            if owner != server or child is None or child.answers.has(own, self._session.key):
                continue
            params: JsonObject = {"uri": public}
            request = Request(_RENEWAL, "resources/subscribe", params)
            asked = Asked(request, self._outlet, granted=self._granted.get((server, own)))
            try:
                _result, *now = await self.subscribed(asked, is_renewal=True)
                if now != [server, own]:  # its URI leads elsewhere by now
                    await self._drop(server, own)
            except (HubError, RpcError) as exc:
                log.warning("not subscribed again", server=server, uri=public, error=str(exc))
                if _is_final(exc):
                    await self._drop(server, own)

    async def _drop(self, server: ServerName, own: str) -> None:
        self._session.notifier.subscriptions.pop((server, own), None)
        self._granted.pop((server, own), None)
        child = self._child(server)
        if child is not None and child.answers.unsubscribe(own, self._session.key):
            await child.unsubscribe(own)

    def _child(self, server: ServerName) -> Child | None:
        return next((slot.child for slot in self._session.slots if slot.spec.name == server), None)


def _is_final(exc: HubError | RpcError) -> bool:
    """Return whether the resource does not exist, or the subscription is refused by now."""
    if isinstance(exc, RpcError):
        return exc.code in {INVALID_PARAMS, RESOURCE_NOT_FOUND}
    return isinstance(exc, RouteError | InsufficientScopeError)


class ListenStream:
    """One `subscriptions/listen` stream, with its own session; a `ChildUser` of its children."""

    def __init__(self, relay: Relay, session: Session, asked: Asked, tasks: TaskStarter) -> None:
        self._session = session
        self._asked = asked
        self._tasks = tasks
        self._subscriptions = Subscriptions(relay, session, asked.outlet)
        self._meta: JsonObject = {SUBSCRIPTION_ID_META: asked.request.id}
        self._lists: frozenset[str] = frozenset()
        self._honoured = ListenFilter()
        self._missed: set[ServerName] = set()
        self._joined: set[ServerName] = set()
        self._settled = anyio.Event()
        self._is_given_up = False
        self._ended = anyio.Event()

    async def run(self) -> JsonObject:
        """Send the acknowledged filter, then the notifications that match it; return on `end`.

        Raises: RpcError for an invalid filter; ChildError if too many streams are open;
            InsufficientScopeError for all that the token lacks.
        """
        session, children = self._session, self._session.services.children
        try:
            wanted = filter_in(self._asked.request.params.get("notifications"))
        except FilterError as exc:
            raise RpcError(INVALID_PARAMS, str(exc)) from exc
        self._lists = wanted.lists
        session.notifier.listening = self._tell
        with children.listeners.listening(session.key, session.identity, self, session.party):
            # Notifications that come meanwhile are sent after the acknowledgement.
            session.notifier.send_queue.put(self._acknowledge)
            try:
                self._honoured = ListenFilter(wanted.lists, await self._subscribed(wanted.uris))
                self._settled.set()
                await self._ended.wait()
                await session.notifier.send_queue.flush()
            finally:
                self._is_given_up = not self._settled.is_set()
                self._settled.set()  # otherwise the send queue would wait until the connection ends
                await self._leave()
        return {"_meta": self._meta}

    def end(self) -> None:
        """Let `run` return, after all queued notifications are sent."""
        self._ended.set()

    async def _acknowledge(self) -> None:
        await self._settled.wait()
        if self._is_given_up:
            return
        params: JsonObject = {"notifications": self._honoured.fields(), "_meta": self._meta}
        if self._session.peer is not None:
            await self._session.peer.notify(ACKNOWLEDGED, params, outlet=self._asked.outlet)

    # Notifications from children

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Send a child's notification to the client if its filter has it."""
        self._tell(spec, notification)

    async def came(self, spec: ServerSpec) -> None:
        """Subscribe at a child that is now ready; tell the client if a list was sent without it."""
        if spec.name in self._missed:
            self._missed.discard(spec.name)
            for method in LIST_CHANGED:
                self._tell(spec, Notification(method, {}))
        owned = [own for whose, own in self._session.notifier.subscriptions if whose == spec.name]
        self._tasks.start_soon(self._join, spec.name, owned)

    def missed(self, server: ServerName) -> None:
        """Remember that the client got a list without this server."""
        self._missed.add(server)

    def _tell(self, spec: ServerSpec, notification: Notification) -> None:
        method = notification.method
        if method not in self._lists and method != UPDATED:
            return
        params = as_object(notification.params)
        if method == UPDATED:
            public = self._session.notifier.public_uri(spec.name, str(params.get("uri")))
            if public is None:
                return
            params = {**params, "uri": public}
        meta: JsonObject = {**object_or_empty(params.get("_meta")), **self._meta}
        told = Notification(method, {**params, "_meta": meta})
        self._session.notifier.send(told, self._asked.outlet)

    # Resources

    async def _subscribed(self, uris: tuple[str, ...]) -> tuple[str, ...]:
        """Subscribe to resources; return those that can be subscribed to.

        Raises: InsufficientScopeError.
        """
        honoured, refused = list[str](), list[str]()
        lacking: list[InsufficientScopeError] = []
        for uri in uris:
            await anyio.lowlevel.checkpoint()  # a client may name very many
            try:
                why = await self._subscribe(uri)
            except InsufficientScopeError as exc:
                lacking.append(exc)
                continue
            if why is None:
                honoured.append(uri)
            else:
                refused.append(why)
        if refused:
            log.info("not subscribed", resources=len(refused), first=refused[0][:SHOWN])
        if lacking:
            raise self._lacks(lacking)
        return tuple(honoured)

    def _lacks(self, errors: Iterable[InsufficientScopeError]) -> InsufficientScopeError:
        """Return the refusal of the stream, which names the scopes for all of its resources."""
        servers, granted = self._session.services.servers, self._asked.granted or ()
        names = dict.fromkeys(name for name, _ in self._session.notifier.subscriptions)
        met = [servers[name].scopes.others for name in names if name in servers]
        parts = [*met, *(one.needed for one in errors)]
        needed = dict.fromkeys(scope for part in parts for scope in part)
        return InsufficientScopeError([*needed], [one for one in needed if one not in granted])

    async def _subscribe(self, uri: str) -> str | None:
        """Subscribe to a resource; return why that is refused, None if it is not.

        Raises: InsufficientScopeError.
        """
        request = Request(self._asked.request.id, "resources/subscribe", {"uri": uri})
        asked = Asked(request, self._asked.outlet, granted=self._asked.granted)
        try:
            _result, server, own = await self._subscriptions.subscribed(asked)
        except InsufficientScopeError:
            raise
        except (HubError, RpcError, RootsNeededError) as exc:
            return str(exc) or type(exc).__name__
        await self._join(server, [own])
        return None

    async def _join(self, server: ServerName, owned: Iterable[str]) -> None:
        """Subscribe at all of the principal's children of a server, if the roots are unknown.

        Such a client subscribes to resources that name no path, but its calls go to the children
        of its roots.
        """
        if not self._session.unasked:
            return
        self._joined.add(server)
        for child in self._running(server):
            for own in owned:
                await self._subscribe_at(child, own)

    def _running(self, server: ServerName) -> list[Child]:
        """Return the running children of a server that the client's calls may go to."""
        session, children = self._session, self._session.services.children
        spec = session.services.servers.get(server)
        return [] if spec is None else children.running_of(spec, session.identity, session.party)

    async def _subscribe_at(self, child: Child, own: str) -> None:
        if self._ended.is_set() or child.answers.has(own, self._session.key):
            return
        child.answers.subscribe(own, self._session.key)
        try:
            await child.forward("resources/subscribe", {"uri": own})
        except (ChildError, RpcError) as exc:
            log.info("not subscribed", server=child.spec.name, uri=own, error=str(exc))
            if child.answers.unsubscribe(own, self._session.key):
                await child.unsubscribe(own)

    async def _leave(self) -> None:
        """End the subscriptions at those children that the session itself does not use."""
        self._ended.set()
        services, key = self._session.services, self._session.key
        used = [slot.child for slot in self._session.slots]
        for server in self._joined:
            for child in self._running(server):
                if child not in used:
                    for uri in child.answers.leave(key):
                        services.tasks.start_soon(child.unsubscribe, uri)
