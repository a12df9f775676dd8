"""Client session: what the client declared, its roots, its children and its subscriptions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Final

import anyio
import structlog

from hub.children.child import log_from
from hub.children.slot import ChildSlot, ClientOfKey
from hub.errors import ChildError, HubError
from hub.guard.roots_hint import told_of
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.messages import Notification, Payload
from hub.jsonrpc.peer import Outlet, Peer
from hub.legible import shortened
from hub.protocol.constants import LIST_CHANGED
from hub.roots.effective import NOT_ASKED, EffectiveRoots, effective_roots, for_server, why_no_roots
from hub.roots.roots import Announcement, parse_announcement, sifted
from hub.roots.state import NotConnected
from hub.sessions.client import Client, ClientNotifier, ConsentGrants, Refusals
from hub.sessions.client_roots import ClientRoots
from hub.sessions.services import Services
from hub.sessions.session_children import SessionChildren
from hub.specs import ServerSpec
from hub.system.tasks import TaskStarter, TasksUntilClosed
from hub.values import THIS_USER, Json, JsonObject, ServerName, SessionKey

SHOWN_OF_NAME: Final = 200
"""Characters of a client's name and version that the log has."""

log = structlog.stdlib.get_logger(__name__)


class Session:
    """The session of one client, or of one request of a modern client; never used for another.

    `identity` is the key of what belongs to the client's principal. `party` is the key of the
    client's connection, the same for all requests of a modern client. `held` are the slots that its
    calls go to now. `unasked`: the request is served without its client's roots; the client is
    asked if a call needs them. `headers` are the headers of an HTTP request, with lower-case names.
    `log` is for lines about the client, and `named` says in their fields who it is.
    """

    def __init__(
        self, services: Services, tasks: TaskStarter, *, principal: str, peer: Peer | None = None
    ) -> None:
        self.key = self.party = SessionKey(secrets.token_hex(8))
        self.services = services
        self.principal = principal
        self.identity = services.identity_of(principal)
        self.client: Client | None = None
        who: JsonObject = {} if principal in THIS_USER else {"principal": principal}
        self.named: JsonObject = {**who, "client": None, "session": self.key}
        self.peer = peer
        self.notifier = ClientNotifier(self, tasks)
        self.log = services.client_logs.of(principal)
        self.refusals = Refusals(self.log)
        self.grants = ConsentGrants()
        self.unlisted: set[ServerName] = set()
        self.renew: Callable[[ServerName], Coroutine[None, None, None]] | None = None
        self.unasked = False
        self.headers: Sequence[tuple[str, str]] | None = None
        self._root_hints: dict[ServerName, str | None] = {}
        self._served = services.servers
        # Later they would lease children for nobody.
        self._own_tasks = TasksUntilClosed(tasks)
        self._session_children = SessionChildren(services, self.key, self._client_of_key)
        self.held = self._session_children.held
        self.roots = ClientRoots(
            ask=self._ask_for_roots,
            read=self._read_roots,
            sift=self._sifted,
            links=services.machine.links,
            flavour=services.machine.flavour,
            changed=self._roots_changed,
            tasks=tasks,
            clock=services.machine.clock,
            debounce=services.settings.debounce,
            warn=self.log.warning,
        )
        self._unfollow = services.operator.follow(self._operator_changed)

    def of_request(
        self, client: Client, tasks: TaskStarter, headers: Sequence[tuple[str, str]] | None
    ) -> Session:
        """Return a new session for one request of a modern client; `self` is the connection's."""
        session = Session(self.services, tasks, principal=self.principal, peer=self.peer)
        session.party, session.refusals = self.party, self.refusals
        session.headers = headers
        session.greeted(client)
        if headers is None:
            self.services.children.hold(self.key)
        if not client.declares("roots"):
            session.opened()
        return session

    def greeted(self, client: Client) -> None:
        """Set the client and its capabilities, after `initialize` or from a modern request."""
        self.client = client
        # A modern client has a session for each request.
        tell = self.log.debug if client.is_modern else self.log.info
        # With a long name its lines would be left out.
        name, version = (_shown(client.info.get(key)) for key in ("name", "version"))
        self.named = {**self.named, "client": name}
        shares = client.declares("roots")
        tell("client", **self.named, version=version, protocol=client.version, roots=shares)

    def opened(self) -> None:
        """Process that the client is ready: from now on it may be asked for its roots."""
        if isinstance(self.roots.state.phase, NotConnected):
            declares = self.client is not None and self.client.declares("roots")
            self.roots.opened(declares_roots=declares)
            if not declares:
                self._own_tasks.start_soon(self._start_eager)

    def close(self) -> None:
        """End the session: stop its tasks and asking for roots, and release its children."""
        self._own_tasks.close()
        self.log.look()
        self._unfollow()
        self.roots.ended()
        self._session_children.release()
        if self.key == self.party:
            self.services.children.let_go(self.key)

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

    def _sifted(self, announcement: Announcement) -> Announcement:
        services = self.services
        flavour, unsafe = services.machine.flavour, services.settings.unsafe
        return sifted(announcement, flavour=flavour, unsafe=unsafe)

    def _roots_changed(self) -> None:
        known = self.known_effective()
        self.services.config_file.grant(known.roots)
        log.debug("roots", **self.named, source=known.source, paths=list(known.roots.paths))
        self._own_tasks.start_soon(self._move_children)

    def _operator_changed(self) -> None:
        if self._served is not self.services.servers:
            before, self._served = self._served, self.services.servers
            self._own_tasks.start_soon(self._take_servers, before)
        self.roots.follow(self.services.settings.debounce)
        state = self.roots.state
        # A client whose first answer is still due gets the new roots together with that answer.
        is_known = state.awaits is None or state.last is not None
        if is_known and not isinstance(state.phase, NotConnected):
            self._roots_changed()

    async def effective(self, outlet: Outlet, *, is_to_show: bool = False) -> EffectiveRoots:
        """Return the effective roots, after asking the client if its roots are not known.

        `is_to_show`: as `Needed` says.
        """
        if self.unasked:
            return NOT_ASKED
        state = await self.roots.current(outlet, is_to_show=is_to_show)
        effective = effective_roots(state, self.services.operator.roots())
        self.services.config_file.grant(effective.roots)
        if not (effective.enforcing and effective.roots.roots):
            self._warn(effective)
        return effective

    def why_no_roots(self, effective: EffectiveRoots) -> str:
        """Return a reason for the client why no root is in force; empty if one is, or need not."""
        if effective.roots.roots or not effective.enforcing or self.unasked:
            return ""
        return why_no_roots(self.roots.state, self.services.operator.roots()).reason

    def _warn(self, effective: EffectiveRoots) -> None:
        operator, who = self.services.operator, (self.principal, self.named)
        if effective.enforcing:
            operator.warn_of_no_paths(self.log, self.roots.state, *who)
        else:
            operator.warn_of_all_paths(self.log, self.services.servers.values(), *who)

    def known_effective(self) -> EffectiveRoots:
        """Return the effective roots as far as they are known now, without asking."""
        if self.unasked:
            return NOT_ASKED
        return effective_roots(self.roots.state, self.services.operator.roots())

    def at(self, spec: ServerSpec, effective: EffectiveRoots) -> EffectiveRoots:
        """Return the effective roots for calls to one server: `effective`, cut to its ceiling."""
        return for_server(effective, self.services.operator.ceiling_of(spec.name))

    def telling(self, effective: EffectiveRoots) -> dict[ServerName, str | None]:
        """Return, and remember, the sentence on roots for tool descriptions of each server."""
        if self.unasked:
            return {}
        servers = self.services.servers.values()
        self._root_hints = {
            s.name: told_of(self.at(s, effective)) for s in servers if s.describe_roots
        }
        return self._root_hints

    async def _notify_if_hints_changed(self, effective: EffectiveRoots) -> None:
        """Notify the client of a changed tool list if tool descriptions name other roots now."""
        before, now = self._root_hints, self.telling(effective)
        spec = next(iter(self.services.servers.values()), None)  # all lists are the hub's
        if spec is not None and before and before != now:
            await self.told(spec, Notification("notifications/tools/list_changed", {}))

    # Children

    def slot_for(self, spec: ServerSpec, effective: EffectiveRoots) -> ChildSlot:
        """Return the slot of this session's child of a server for the roots `effective`."""
        return self.slot_at(spec, self.at(spec, effective))

    def slot_at(self, spec: ServerSpec, here: EffectiveRoots) -> ChildSlot:
        """Return the slot of this session's child of a server, where the roots `here` hold."""
        return self._session_children.slot_for(spec, here, self)

    def asks(self) -> JsonObject:
        """Return the client's capabilities that children may use."""
        return {} if self.client is None else self.client.relayed()

    @property
    def queue_key(self) -> str:
        """The key by which its calls take turns with those of others: its client's.

        A modern request over HTTP has nothing but the principal to tell its client by.
        """
        return self.identity if self.is_modern and self.headers is not None else self.party

    def _client_of_key(self) -> ClientOfKey:
        """Return the part of a child's key that depends on this session.

        A modern request over HTTP has nothing but the principal to tell its client by.
        """
        client, is_unknown = self.key, False
        if self.client is not None and self.client.is_modern:
            client = self.party if self.headers is None else None
            is_asked = not isinstance(self.roots.state.phase, NotConnected)
            is_unknown = self.client.declares("roots") and not is_asked
        return ClientOfKey(self.key, client, self.identity, self.asks(), is_unknown)

    @property
    def is_modern(self) -> bool:
        """Whether the client is modern, so that the session is for one request."""
        return self.client is not None and self.client.is_modern

    @property
    def slots(self) -> Iterable[ChildSlot]:
        """The child slots that this session uses."""
        return self.held.values()

    async def _move_children(self) -> None:
        """Apply changed roots to the children in use.

        A child that can go on with them is told. Others are replaced; if the old child was ready,
        the new one starts at once. Calls under way finish on the old child.
        """
        effective, servers = self.known_effective(), self.services.servers
        self._own_tasks.start_soon(self._notify_if_hints_changed, effective)
        for slot in [slot for slot in self.slots if slot.spec.name in servers]:
            following = self._planned(servers[slot.spec.name], effective)
            if following is None:
                continue
            if following is not slot:
                if slot.listing is not None:
                    self._own_tasks.start_soon(self._start, following)
                continue
            if slot.child is not None:
                # Its subscriptions must be judged again, by the new roots.
                slot.child.answers.leave(self.key)
            self._renew_at(slot.spec)
        await self._start_eager()

    async def _take_servers(self, before: Mapping[ServerName, ServerSpec]) -> None:
        """Apply changed servers: the children of those that are gone end, and the client lists."""
        for name in [name for name in self.held if name not in self._served]:
            self._session_children.drop(name)
        for spec in (*self._served.values(), *before.values())[:1]:  # all lists are the hub's
            for method in LIST_CHANGED:
                await self.told(spec, Notification(method, {}))

    async def _start_eager(self) -> None:
        # A modern request is over before an eager child is ready.
        if self.client is not None and not self.client.is_modern:
            await self.start_early()

    async def start_early(self) -> None:
        """Start the children of `starts_early`; return once they are ready or have failed."""
        self.services.config_file.grant(self.known_effective().roots)
        async with anyio.create_task_group() as starting:
            for spec in filter(self.services.starts_early, self.services.servers.values()):
                slot = self._planned(spec, self.known_effective())
                known = self.services.children.known
                if slot is not None and (spec.eager or known.shown(slot) is None):
                    starting.start_soon(self._start, slot)

    def _planned(self, spec: ServerSpec, effective: EffectiveRoots) -> ChildSlot | None:
        """Return what `slot_for` does; None, which is logged, if no child can be planned."""
        try:
            return self.slot_for(spec, effective)
        except HubError as exc:
            log.warning("no launch plan", server=spec.name, error=str(exc))
            return None

    async def _start(self, slot: ChildSlot) -> None:
        try:
            await self.services.children.obtain(slot)
        except ChildError as exc:
            if slot.is_kept:
                log.warning("not started", server=slot.spec.name, error=str(exc))
        else:
            self._renew_at(slot.spec)

    # Notifications of children, subscriptions and log level

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        """Pass a child's notification on to the client, if the client wants it."""
        self.notifier.tell(spec, notification)

    async def came(self, spec: ServerSpec) -> None:
        """Process that a child is ready: if a listing lacked it, the client is told to list again.

        Subscriptions and the log level are set at the child, too.
        """
        if spec.name in self.unlisted:
            self.unlisted.discard(spec.name)
            for method in LIST_CHANGED:
                await self.told(spec, Notification(method, {}))
        self._renew_at(spec)
        if self.notifier.log_level is not None:
            self._own_tasks.start_soon(self._set_level_at, spec.name, self.notifier.log_level)

    def _renew_at(self, spec: ServerSpec) -> None:
        """Subscribe again at the child of a server, if the client has subscriptions there."""
        if self.renew is not None and any(
            server == spec.name for server, _ in self.notifier.subscriptions
        ):
            self._own_tasks.start_soon(self.renew, spec.name)

    async def set_level(self, level: str) -> None:
        """Set the least log level of all children, of those that start later, too."""
        self.notifier.log_level = level
        async with anyio.create_task_group() as telling:
            for name in list(self.held):
                telling.start_soon(self._set_level_at, name, level)

    async def _set_level_at(self, server: ServerName, level: str) -> None:
        slot = self.held.get(server)
        if slot is not None and slot.child is not None:
            await log_from(slot.child, level, self.key)


def _shown(name: Json) -> str | None:
    return shortened(name, SHOWN_OF_NAME) if isinstance(name, str) else None
