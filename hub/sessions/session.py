"""One client: what it declared, which roots it has, and which children it uses."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence

import anyio
import structlog
from anyio.abc import TaskGroup

from hub.children.child import log_from
from hub.children.slot import ChildSlot
from hub.errors import ChildError, HubError
from hub.guard.roots_hint import told_of
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.peer import GoneError, Outlet, Peer
from hub.paths.resolve import LinkReader
from hub.protocol.constants import LIST_CHANGED
from hub.roots.effective import NOT_ASKED, EffectiveRoots, effective_roots, for_server
from hub.roots.roots import EMPTY, Announcement, parse_announcement
from hub.roots.state import NotConnected
from hub.sessions.client import Client
from hub.sessions.client_roots import ClientRoots
from hub.sessions.decisions import ConsentGrants, Refusals
from hub.sessions.notifications import RELAYED, ClientNotifier
from hub.sessions.services import Services
from hub.sessions.session_children import SessionChildren
from hub.specs import ServerSpec
from hub.values import Json, JsonObject, ServerName, SessionKey

log = structlog.stdlib.get_logger(__name__)


class Session:
    """A client's session. Nothing in it is ever used for another client.

    `party` is who speaks: a modern client's connection, each request of which is a session.
    `unasked`: its request is served without the roots of its client, who is asked if it needs them.
    `headers` are those of its request, by lower-case names, if it came over HTTP.
    """

    def __init__(
        self, services: Services, tasks: TaskGroup, *, principal: str, peer: Peer | None = None
    ) -> None:
        self.key = self.party = SessionKey(secrets.token_hex(8))
        self.services = services
        self.principal = principal
        self.client: Client | None = None
        self.peer = peer
        self.notifier = ClientNotifier(self, tasks)
        self.refusals = Refusals()
        self.grants = ConsentGrants()
        self.unlisted: set[ServerName] = set()
        self.renew: Callable[[ServerName], Coroutine[None, None, None]] | None = None
        self.unasked = False
        self.headers: Sequence[tuple[str, str]] | None = None
        self._told: dict[ServerName, str | None] = {}
        self._warned = False
        self._is_closed = False
        self._tasks = tasks
        self._leases = SessionChildren(
            services, self.key, principal, self.asks, self._has_unknown_roots
        )
        self.roots = ClientRoots(
            ask=self._ask_for_roots,
            read=self._read_roots,
            links=services.machine.links,
            flavour=services.machine.flavour,
            changed=self._roots_changed,
            tasks=tasks,
            clock=services.machine.clock,
            debounce=services.settings.debounce,
        )
        self._unfollow = services.operator.follow(self._operator_changed)

    def of_request(
        self, client: Client, tasks: TaskGroup, headers: Sequence[tuple[str, str]] | None
    ) -> Session:
        """Return the session of one request of a modern client, whose connection this is."""
        session = Session(self.services, tasks, principal=self.principal, peer=self.peer)
        session.party, session.refusals = self.party, self.refusals
        session.headers = headers
        session.greeted(client)
        if not client.declares("roots"):
            session.opened()
        return session

    def greeted(self, client: Client) -> None:
        """Take note of what the client said in its handshake."""
        self.client = client

    def opened(self) -> None:
        """Take note that the client is ready: from now on it may be asked for its roots."""
        if isinstance(self.roots.state.phase, NotConnected):
            declares = self.client is not None and self.client.declares("roots")
            self.roots.opened(declares_roots=declares)
            if not declares:
                self._tasks.start_soon(self._start_eager)

    def close(self) -> None:
        """End the session: nothing is asked or told any more, and its children are free."""
        self._is_closed = True
        self._unfollow()
        self.roots.ended()
        self._leases.release()

    # Roots

    async def _ask_for_roots(self, cursor: Json, outlet: Outlet | None) -> Payload:
        if self.peer is None:
            raise GoneError("the client is not connected")
        params: JsonObject = {} if cursor is None else {"cursor": cursor}
        return await self.peer.request(
            "roots/list", params, timeout=self.services.settings.timeout, outlet=outlet
        )

    def _read_roots(self, raw: Json) -> Announcement | None:
        machine, unsafe = self.services.machine, self.services.settings.unsafe
        return parse_announcement(raw, links=machine.links, flavour=machine.flavour, unsafe=unsafe)

    def _roots_changed(self) -> None:
        self._tasks.start_soon(self._move_children)

    def _operator_changed(self) -> None:
        # Who is still to be asked, or asked just now, gets the new ones with its answer.
        if self.roots.state.awaits is None and not isinstance(self.roots.state.phase, NotConnected):
            self._roots_changed()

    async def force(self, outlet: Outlet) -> EffectiveRoots:
        """Return the roots in force, after asking the client for them if they are not known."""
        if self.unasked:
            return NOT_ASKED
        force = effective_roots(await self.roots.current(outlet), self.services.operator.roots())
        if not (force.enforcing or self._warned):
            self._warned = True
            self._warn()
        return force

    def _warn(self) -> None:
        name = self.client.info.get("name") if self.client is not None else None
        if self.services.operator.is_news(self.principal, str(name)):
            log.warning(
                "this client is NOT restricted: it shares no roots, and there is no fallback",
                client=name,
                fix="set roots.fallback or --root, or roots.when_missing: deny",
            )

    def known_force(self) -> EffectiveRoots:
        """Return the roots in force as far as they are known now."""
        return (
            NOT_ASKED
            if self.unasked
            else effective_roots(self.roots.state, self.services.operator.roots())
        )

    def at(self, spec: ServerSpec, force: EffectiveRoots) -> EffectiveRoots:
        """Return the roots in force for calls to one server."""
        return for_server(force, self.services.operator.ceiling_of(spec.name))

    def telling(self, force: EffectiveRoots) -> dict[ServerName, str | None]:
        """Return what tools' descriptions tell of the roots, by server, and remember it."""
        if self.unasked:
            return {}
        servers = self.services.servers.values()
        self._told = {s.name: told_of(self.at(s, force)) for s in servers if s.describe_roots}
        return self._told

    async def _tell_again(self, force: EffectiveRoots) -> None:
        """Let the client list its tools again if their descriptions tell of other roots now."""
        before, now = self._told, self.telling(force)
        if before and before != now:
            spec = self.services.servers[next(iter(now))]
            await self.told(spec, Notification("notifications/tools/list_changed", {}))

    # Children

    def slot_for(self, spec: ServerSpec, force: EffectiveRoots) -> ChildSlot:
        """Return where this session's child of a server stands, with these roots in force."""
        return self._leases.slot_for(spec, self.at(spec, force), self)

    def is_using(self, slot: ChildSlot) -> bool:
        """Return whether `slot` is where calls to its server go now."""
        return self._leases.held.get(slot.spec.name) is slot

    def is_current(self, server: ServerName, links: LinkReader) -> bool:
        """Return whether all roots in force at a server are where they were."""
        return self.roots.is_current(links) and self.services.operator.is_current(server, links)

    def asks(self) -> JsonObject:
        """Return what children may be told that this client takes."""
        return {} if self.client is None else self.client.declared(RELAYED)

    def _has_unknown_roots(self) -> bool:
        declares = self.client is not None and self.client.declares("roots")
        return self.is_modern and declares and isinstance(self.roots.state.phase, NotConnected)

    @property
    def is_modern(self) -> bool:
        """Whether it lasts for one request of the modern era."""
        return self.client is not None and self.client.is_modern

    @property
    def slots(self) -> Iterable[ChildSlot]:
        """The children this session uses."""
        return self._leases.held.values()

    async def _move_children(self) -> None:
        """Give the children in use the new roots: those that can take them are told.

        The others are replaced, those that ran at once; calls under way finish on the old one.
        """
        if self._is_closed:
            return
        force = self.known_force()
        self._tasks.start_soon(self._tell_again, force)
        for slot in list(self._leases.held.values()):
            roots = EMPTY if slot.spec.share == "all" else self.at(slot.spec, force).roots
            if roots == slot.key.roots or await self.services.children.share(slot, roots):
                if slot.child is not None:
                    slot.child.answers.leave(self.key)  # to be judged again
                self._renew_at(slot.spec)
                continue
            following = self.slot_for(slot.spec, force)
            if slot.listing is not None:
                self._tasks.start_soon(self._start, following)
        await self._start_eager()

    async def _start_eager(self) -> None:
        # A modern request is over before an eager child would be of use to it.
        if not (self._is_closed or self.client is None or self.client.is_modern):
            await self.start_early()

    async def start_early(self) -> None:
        """Start the children that are not to wait for a call, and return once they answer."""
        async with anyio.create_task_group() as starting:
            for spec in filter(self.services.starts_early, self.services.servers.values()):
                try:
                    starting.start_soon(self._start, self.slot_for(spec, self.known_force()))
                except HubError as exc:
                    log.warning("no launch plan", server=spec.name, error=str(exc))

    async def _start(self, slot: ChildSlot) -> None:
        try:
            await self.services.children.obtain(slot)
        except ChildError as exc:
            log.warning("not started", server=slot.spec.name, error=str(exc))
        else:
            self._renew_at(slot.spec)

    # What children ask and tell

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass a child's notification on to the client, if it is one for clients."""
        self.notifier.tell(spec, notification)

    async def came(self, spec: ServerSpec) -> None:
        """Tell the client to list again if it was shown a listing without this child."""
        if spec.name in self.unlisted:
            self.unlisted.discard(spec.name)
            for method in LIST_CHANGED:
                await self.told(spec, Notification(method, {}))
        self._renew_at(spec)
        if self.notifier.log_level is not None:
            self._tasks.start_soon(self._set_level_at, spec.name, self.notifier.log_level)

    def _renew_at(self, spec: ServerSpec) -> None:
        """Let the child of a server know of the subscriptions that another had."""
        if self.renew is None or self._is_closed:
            return
        if any(server == spec.name for server, _ in self.notifier.subscriptions):
            self._tasks.start_soon(self.renew, spec.name)

    async def set_level(self, level: str) -> None:
        """Let the children log from `level` on, those that start later too."""
        self.notifier.log_level = level
        for name in list(self._leases.held):
            await self._set_level_at(name, level)

    async def _set_level_at(self, server: ServerName, level: str) -> None:
        slot = self._leases.held.get(server)
        if slot is not None and slot.child is not None:
            await log_from(slot.child, level, self.key)
