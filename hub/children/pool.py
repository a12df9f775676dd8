"""The pool of all children, by key: start once, share between equal keys, end when unused."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial

import anyio
import structlog
from msgspec import Raw
from msgspec.structs import replace

from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child, Down, Ready
from hub.children.circuit_breaker import ChildHealth
from hub.children.clients import ChildUser, Listeners
from hub.children.concurrency import StartTurns
from hub.children.handshake import HubDeclaration
from hub.children.known.cache import CatalogCache
from hub.children.known.lists import KnownLists, Outdated
from hub.children.opener import LoginAddress, Opener, login_of, with_login
from hub.children.slot import ChildKey, ChildLimits, ChildSlot, why_not_kept
from hub.errors import ChildError
from hub.jsonrpc import messages
from hub.jsonrpc.messages import Notification
from hub.paths.resolve import Flavour
from hub.protocol.constants import LIST_CHANGED
from hub.specs import ServerSpec
from hub.system.tasks import IndependentTasks, TaskStarter
from hub.usage.principals import UsageByPrincipal, UsageLimits
from hub.values import JsonObject, ServerName, SessionKey, principal_in, profile_in

KEPT_LISTINGS = 256
"""The number of listings kept, including those of children that are gone."""
SWEEP_EVERY = 1.0
"""Seconds between checks for unused children."""

log = structlog.stdlib.get_logger(__name__)


class ChildPool:
    """The pool of children; it owns their tasks while it is `running`."""

    def __init__(  # noqa: PLR0913 - independent dependencies
        self,
        *,
        open_child: Opener,
        info: JsonObject,
        flavour: Flavour,
        max_children: int,
        max_per_session: int | None = None,
        clock: Callable[[], float],
        chance: Callable[[], float] = random.random,
        kept_listings: int = KEPT_LISTINGS,
        cache: CatalogCache | None = None,
    ) -> None:
        self._callers: set[ServerName] = set()
        self.usage: UsageByPrincipal | None = None
        self._cache = cache
        self.known = KnownLists(cache, kept_listings)
        self.listeners = Listeners()
        self.login_page: LoginAddress = lambda _server, _principal: None
        self._open = open_child
        self._info = info
        self._flavour = flavour
        self.limit(max_children, max_per_session)
        self._clock = clock
        self._chance = chance
        self._slots: dict[ChildKey, ChildSlot] = {}
        self._clients: set[SessionKey] = set()
        self._tasks: TaskStarter | None = None
        self._starts = StartTurns()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the pool while the context lasts, and end all children at its end."""
        async with anyio.create_task_group() as tasks:
            self._tasks = IndependentTasks(tasks)
            tasks.start_soon(self._sweep)
            if self._cache is not None:
                self._tasks.start_soon(self._cache.write)
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def lease(
        self, spec: ServerSpec, key: ChildKey, session: SessionKey, user: ChildUser
    ) -> ChildSlot:
        """Return the slot of `key`, with `session` among its users; no child is started here."""
        slot = self._slots.get(key) or self._moved_to(key)
        if slot is None:
            health = ChildHealth(spec.name, self._clock, self._chance)
            slot = self._slots[key] = ChildSlot(key, spec, health=health)
            self.known.recall(slot)
        slot.users[session] = user
        slot.unused_since = None
        slot.follow(spec)
        return slot

    def limit(self, in_all: int, per_session: int | None) -> None:
        """Replace the limits on running children; those that run go on."""
        self._limits = ChildLimits(in_all, per_session or in_all)

    def forget(self, servers: Collection[ServerName]) -> None:
        """Forget what is known of changed or removed servers."""
        self.known.forget(servers)
        self._callers.difference_update(servers)

    def settled(self, key: ChildKey) -> ChildKey:
        """Return the key of the client's running child for the roots that it has named, else `key`.

        `key` is of a client whose roots are not known. So a client that is not asked for its roots
        again finds what it left at that child.
        """
        if key.session is None:
            return key
        named = (
            other
            for other, slot in self._slots.items()
            if not other.unknown
            and slot.is_running
            and replace(other, plan=key.plan, roots=key.roots, unknown=True) == key
        )
        return next(named, key)

    def _moved_to(self, key: ChildKey) -> ChildSlot | None:
        """Return the slot of the client's child for other roots, moved to `key`; None if none can.

        A modern client brings its roots with each request, and no request holds the child.
        """
        if key.session is None:
            return None
        own = [
            s for k, s in self._slots.items() if (k.server, k.session) == (key.server, key.session)
        ]
        return next((slot for slot in own if self.move(slot, key) is None), None)

    def release(self, slot: ChildSlot, session: SessionKey, *, at_once: bool = False) -> None:
        """Remove a session from a slot's users; `at_once`: keep no unused child for later."""
        slot.users.pop(session, None)
        if slot.child is not None and self._tasks is not None:
            slot.child.answers.levels.leave(session)
            for uri in slot.child.answers.leave(session):
                self._tasks.start_soon(slot.child.unsubscribe, uri)
        if not slot.users:
            slot.unused_since = self._clock()
            slot.kept_for = 0.0 if at_once else slot.spec.idle_stop
            if at_once:
                self._end_if_unused(slot)

    async def obtain(self, slot: ChildSlot) -> Child:
        """Return the slot's child when it answers calls; start it if needed, once for all who wait.

        Raises: ChildError if it does not start, has just failed, or the slot was given up.
        """
        if not slot.is_kept:
            raise ChildError(
                f"server {slot.spec.name!r} was stopped: its roots or its config have changed"
            )
        slot.used_at = self._clock()
        child = slot.child
        if child is None or isinstance(child.state, Down):
            child = self._start(slot, child)
        if not isinstance(child.state, Ready):
            self._starts.let_in()  # a call may wait for it by now
        ready = await child.ready()
        self.known.remember(slot.key, ready)
        return child

    def _learned(self, slot: ChildSlot, tasks: TaskStarter, ready: Ready) -> Collection[str]:
        """Take what a child lists; returns the notifications that its clients are owed.

        Clients of other slots that were shown otherwise are told here.
        """
        is_start = not slot.answered_at
        slot.answered_at = slot.answered_at or self._clock()
        own: Collection[str] = ()
        of_roots = self.has_asked_for_roots(slot.spec.name)
        for outdated in self.known.learn(
            slot, ready, self._slots.values(), is_start=is_start, of_roots=of_roots
        ):
            if outdated.slot is slot:
                own = outdated.methods
            else:
                tasks.start_soon(self._tell, outdated)
        return own

    def logged_in(self, url: str, owner: str) -> None:
        """Let the children start at once that had no login, and tell their clients to list anew."""
        for slot in self._slots.values():
            if slot.is_running or login_of(slot) != (url, owner):
                continue
            slot.health = ChildHealth(slot.spec.name, self._clock, self._chance)
            if self._tasks is not None:
                self._tasks.start_soon(self._tell, Outdated(slot, tuple(LIST_CHANGED)))

    async def _tell(self, outdated: Outdated) -> None:
        slot = outdated.slot
        listeners = self.listeners.of(slot.key.principal, slot.key.session)
        for user in {**listeners, **slot.users}.values():
            for method in outdated.methods:
                await user.told(slot.spec, Notification(method, {}))

    def running_slots(self) -> list[ChildSlot]:
        """Return the slots whose child is ready or starting."""
        return [slot for slot in self._slots.values() if slot.is_running]

    def troubled_slots(self) -> list[ChildSlot]:
        """Return the slots whose child did not start, or has ended by itself."""
        return [slot for slot in self._slots.values() if slot.trouble is not None]

    def count_of(self, principal: str, profile: str | None = None) -> int:
        """Return how many children of a principal, in all or in one profile, run or start."""
        return sum(slot.is_of(principal, profile) for slot in self.running_slots())

    def running_of(self, spec: ServerSpec, principal: str, party: SessionKey) -> list[Child]:
        """Return the running or starting children of a server that this client may use."""
        return [
            slot.child
            for key, slot in self._slots.items()
            if (key.server, key.fingerprint) == (spec.name, spec.fingerprint)
            and key.principal in {principal, ""}
            and key.session in {None, party}
            and slot.child is not None
            and slot.is_running
        ]

    def has_asked_for_roots(self, server: ServerName) -> bool:
        """Return whether a child of this server has sent `roots/list`."""
        return server in self._callers

    def most_telling(self, slot: ChildSlot) -> ChildSlot:
        """Return the slot whose state tells most about the server of `slot`: `slot` if it started.

        Otherwise one whose child starts or is down, of the same principal and without roots: a
        modern client is not asked for its roots before its lists.
        """
        if slot.child is not None:
            return slot
        key = slot.key
        others = (
            other
            for other in self._slots.values()
            if (other.key.server, other.key.principal) == (key.server, key.principal)
            and other.key.session in {None, key.session}
            and not other.key.roots.roots
            and other.child is not None
            and other.listing is None
        )
        return next(others, slot)

    def _start(self, slot: ChildSlot, fallen: Child | None) -> Child:
        name, tasks = slot.spec.name, self._tasks
        if tasks is None:
            raise ChildError(f"server {name!r} is not started: the hub is shutting down")
        if fallen is not None and isinstance(fallen.state, Down) and slot.health.looked() > 0:
            raise ChildError(
                f"server {name!r} is not running: {fallen.state.reason}; {slot.health.outlook}"
            )
        self._make_room(slot)
        slot.started_at, slot.answered_at = self._clock(), 0.0
        launched = slot.launched = slot.key.plan
        child = slot.child = Child(
            self._answers(slot),
            self._declaration(slot),
            lambda: self._open(with_login(slot, self.login_page), launched),
            slot.health,
            learned=partial(self._learned, slot, tasks),
        )
        # What the child does is not done for the client that starts it: its log is not either.
        Context().run(tasks.start_soon, self._own, slot, child, fallen, tasks)
        return child

    async def _own(
        self, slot: ChildSlot, child: Child, fallen: Child | None, tasks: TaskStarter
    ) -> None:
        """Run a child's task; a launched one waits for the end of `fallen`, then for its turn."""
        if slot.key.plan is None:
            await child.own()
            return
        try:
            if fallen is not None:
                await fallen.closed.wait()  # it may hold the same files
            async with self._starts.turn(lambda: slot.uses > 0):
                tasks.start_soon(child.own)
                await child.settled()
        except BaseException:  # cancelled: its task may never begin
            child.stop()
            raise

    def _make_room(self, slot: ChildSlot) -> None:
        """End children if a limit is reached; one that is still used is started again by a call."""
        for spare in self._limits.made_for(slot, self.running_slots(), self._limits_of(slot)):
            if spare.key.session is not None:
                log.warning(
                    "ended to make room for another server; what it kept is gone",
                    server=spare.spec.name,
                    started=slot.spec.name,
                    fix="raise max_children, or max_children_per_session",
                )
            if spare.users and spare.child is not None:
                spare.child.stop()
                spare.child = None
            else:
                self._end(spare, "another server needs the room")

    def _limits_of(self, slot: ChildSlot) -> list[UsageLimits]:
        """Return the limits of the principal whose child it is; none for one that all share."""
        whose = slot.key.principal
        if self.usage is None or not whose:
            return []
        return self.usage.limits_of(principal_in(whose), profile_in(whose))

    def _answers(self, slot: ChildSlot) -> ChildCallbacks:
        return ChildCallbacks(
            slot.spec,
            slot.key.roots,
            self._flavour,
            unknown=slot.key.unknown,
            notifier=lambda: {
                **self.listeners.of(slot.key.principal, slot.key.session),
                **slot.users,
            },
            wanted_roots=lambda: self._callers.add(slot.spec.name),
        )

    def _declaration(self, slot: ChildSlot) -> HubDeclaration:
        asks = messages.as_object(Raw(slot.key.asks))
        key = slot.key
        is_private = key.plan is not None and key.plan.cwd is None
        if slot.spec.answer_roots and (key.roots.roots or key.unknown or is_private):
            roots: JsonObject = {"roots": {"listChanged": True}}
            asks = {**roots, **asks}
        return HubDeclaration(self._info, asks)

    def move(self, slot: ChildSlot, key: ChildKey) -> str | None:
        """Let a child go on under another key, with other roots, of which it is told.

        Returns why that is not possible; None if it was done.
        """
        if key in self._slots:
            return "a child for these roots is there already"
        reason = why_not_kept(slot, key, self._flavour)
        if reason is None:
            del self._slots[slot.key]
            slot.key = key
            self._slots[key] = slot
            self.known.recall(slot)
            if slot.child is not None and self._tasks is not None:
                slot.child.share(key.roots, self._tasks)
        return reason

    def hold(self, client: SessionKey) -> None:
        """Keep the children of a connected client, also while no request of it is under way."""
        self._clients.add(client)

    def let_go(self, client: SessionKey) -> None:
        """End the children of a client that has disconnected."""
        self._clients.discard(client)
        for slot in list(self._slots.values()):
            if slot.key.session == client and not slot.users:
                self._end(slot, "its client has disconnected")

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(SWEEP_EVERY)
            for slot in list(self._slots.values()):
                self._end_if_unused(slot)

    def _end_if_unused(self, slot: ChildSlot) -> None:
        since, child = slot.unused_since, slot.child
        if since is None or slot.users:
            return
        if self._clock() - max(since, slot.used_at) < slot.kept_for:
            return
        if slot.key.session in self._clients and not self._is_superseded(slot):
            return
        if child is None or child.answers.is_idle:
            self._end(slot, "nobody uses it")

    def _is_superseded(self, slot: ChildSlot) -> bool:
        """Whether a client has another child of the server, for the roots that it has named."""
        own = slot.key.server, slot.key.session
        return slot.key.unknown and any(
            (key.server, key.session) == own and not key.unknown for key in self._slots
        )

    def _end(self, slot: ChildSlot, why: str) -> None:
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]
        slot.is_kept = False
        if slot.child is not None:
            log.debug("ended", server=slot.spec.name, why=why)
            slot.child.stop()
