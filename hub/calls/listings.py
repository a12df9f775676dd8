"""The merged lists of tools, resources and prompts that a session gets, in pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeAlias

import anyio
import structlog
from msgspec import Raw, Struct, field

from hub.calls.builtin_tools import BUILTINS
from hub.catalog.merge import Catalog, Clash, Listing, merge
from hub.catalog.pages import for_legacy, page_of
from hub.catalog.search import search_catalog
from hub.catalog.search_tools import META_TOOLS
from hub.children.slot import ChildSlot
from hub.errors import ChildError, HubError
from hub.guard.roots_hint import takes_paths, with_sentence
from hub.jsonrpc import exact_json
from hub.jsonrpc.peer import Asked
from hub.protocol.constants import LISTS
from hub.roots.effective import EffectiveRoots
from hub.sessions.services import Services
from hub.sessions.session import Session
from hub.values import ChildRoute, JsonObject, ServerName

KEPT_BYTES = 8 * 1024 * 1024
"""Bytes of encoded pages that are kept; the oldest pages make room."""

Entries: TypeAlias = tuple[JsonObject, ...]


class PageCache:
    """Caches encoded pages of lists, each for the very tuple: a changed list is a new one."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[tuple[str, int, str | None, bool], tuple[Entries, Raw]] = {}
        self._size = 0

    def page(
        self, method: str, entries: Entries, cursor: str | None, *, is_modern: bool = True
    ) -> Raw:
        """Return the result of a list request, from the cache if possible.

        Raises: RouteError for a cursor that is not of this listing.
        """
        key = (method, id(entries), cursor, is_modern)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        made = encoded(method, entries, cursor, is_modern=is_modern)
        # The entries are kept with their page, so that no other tuple gets their id.
        self._kept[key] = entries, made
        self._size += len(bytes(made))
        while self._size > self._max_bytes:
            _, oldest = self._kept.pop(next(iter(self._kept)))
            self._size -= len(bytes(oldest))
        return made


def encoded(method: str, entries: Entries, cursor: str | None, *, is_modern: bool = True) -> Raw:
    """Return the result of a list request, without a cache.

    Raises: RouteError for a cursor that is not of this listing.
    """
    page = page_of(entries, cursor)
    shown = page.entries if is_modern else map(for_legacy, page.entries)
    result: JsonObject = {LISTS[method]: list(shown)}
    if page.next_cursor is not None:
        result["nextCursor"] = page.next_cursor
    return Raw(exact_json.encode(result))


LIST_GRACE = 1.0
"""Seconds that a list waits for slow children at most, once the list of one child is known."""
LIST_PAUSE = 0.4
"""Seconds after which a list goes out if no other child has answered in the meantime."""
CALL_GRACE = 5.0
"""The same for a call whose name any server may own: it waits to find its server."""
MAX_CLASHES = 1000
"""How many clashing names are logged: a child can list ever new ones."""
KEPT = 64
"""How many merged catalogs are kept; the oldest make room."""

log = structlog.stdlib.get_logger(__name__)


class _Wait(Struct, eq=False):
    """How long a list waits for the children of `slots`; those of `known` can be listed.

    If there are none of these, one of `slots` has to answer first, however long that takes. From
    then on they have `grace` seconds in all, and `pause` seconds after the last answer.
    """

    slots: Sequence[ChildSlot]
    known: Sequence[ChildSlot]
    grace: float
    pause: float
    _answered: anyio.Event = field(default_factory=anyio.Event)

    def answered(self) -> None:
        """Take into account that a child has answered."""
        before, self._answered = self._answered, anyio.Event()
        before.set()

    async def until_over(self, clock: Callable[[], float]) -> None:
        """Return when the list should go out, though children have not answered."""
        is_over = False
        while not is_over:
            with anyio.move_on_after(self._deadline() - clock()) as scope:
                await self._answered.wait()
            is_over = scope.cancelled_caught

    def _deadline(self) -> float:
        """Return when the wait ends, by the answers so far; infinite if one has to come first."""
        begun = max(slot.started_at for slot in self.slots)
        ready = [*self.known, *(slot for slot in self.slots if slot.listing is not None)]
        answers = [slot.answered_at for slot in ready if slot.answered_at >= begun]
        # What started together is counted from the first answer: all of it may be slow.
        is_known = any(slot.answered_at < begun for slot in self.known)
        first = begun if is_known else min(answers, default=math.inf)
        return min(first + self.grace, max(answers, default=math.inf) + self.pause)


class Listings:
    """Merges the children's listings into catalogs; `kept` of them are cached, by their listings.

    Lists wait for slow children as `_Wait` says.
    """

    def __init__(self, services: Services, *, kept: int = KEPT) -> None:
        self._services = services
        self._max_kept = kept
        self._merged: dict[tuple[int, ...], tuple[object, Catalog]] = {}
        self._listed = PageCache()
        self._planless: dict[ServerName, str] = {}
        self._clashes: set[Clash] = set()
        self._last_listed: Catalog | None = None

    async def page(self, session: Session, asked: Asked) -> Raw:
        """Return the result of a list request.

        If no listing of any server is known, an empty list would look complete. Then the list of
        tools has the hub's own tools, whose descriptions say what is wrong: a model may not be
        shown an error. The other lists fail.

        Raises: RouteError for a cursor that is not of this listing; ChildError if no listing of
            any server is known, except for tools.
        """
        method, cursor = asked.request.method, asked.request.params.get("cursor")
        own = method == "tools/list" and self._services.expose == "search"
        effective, only = await session.effective(asked.outlet), () if own else None
        catalog = await self.catalog(session, effective, only)
        if session.known_effective() != effective:  # those that started for the old ones have ended
            catalog = await self.catalog(session, await session.effective(asked.outlet), only)
        if method == "tools/list":
            self._compile_ahead(catalog)
        trouble = None if own else self._trouble_of_all(session)
        if trouble is not None and method != "tools/list":
            raise ChildError(trouble)
        at, is_modern = None if cursor is None else str(cursor), session.is_modern
        told = session.telling(session.known_effective()) if method == "tools/list" else {}
        if told or trouble is not None:  # only this client gets these descriptions: not cached
            tools = self._with_roots(catalog, told) if told else catalog.tools
            tools = tools if trouble is None else _saying(tools, trouble)
            return encoded(method, tools, at, is_modern=is_modern)
        shown = {
            "tools/list": catalog.tools,
            "resources/list": catalog.resources,
            "resources/templates/list": catalog.templates,
            "prompts/list": catalog.prompts,
        }
        return self._listed.page(method, shown[method], at, is_modern=is_modern)

    def _compile_ahead(self, catalog: Catalog) -> None:
        """Have the guards of listed tools compiled before the first call of each."""
        if catalog is self._last_listed:
            return
        self._last_listed = catalog
        services, tools = self._services, catalog.tool_routes
        ahead = partial(services.guards.compile_ahead, services.worker, tools, services.servers)
        services.tasks.start_soon(ahead)

    def _with_roots(
        self, catalog: Catalog, told: Mapping[ServerName, str | None]
    ) -> tuple[JsonObject, ...]:
        """Return the tools; those that take paths get their server's sentence in `told`, if any."""
        servers, guards = self._services.servers, self._services.guards
        entries: list[JsonObject] = []
        for entry in catalog.tools:
            route = catalog.tool_routes[str(entry["name"])]
            sentence = told.get(route.server) if isinstance(route, ChildRoute) else None
            if sentence and isinstance(route, ChildRoute):
                guard = guards.of(servers[route.server], "tools/call", route)
                entries.append(with_sentence(entry, sentence) if takes_paths(guard) else entry)
            else:
                entries.append(entry)
        return tuple(entries)

    async def catalog(
        self,
        session: Session,
        effective: EffectiveRoots,
        only: Collection[ServerName] | None = None,
        *,
        for_call: bool = False,
    ) -> Catalog:
        """Return the catalog of `session` for these effective roots.

        A child that is gone has its last known listing for the same roots; one that has not run
        yet the listing in the cache, unless the catalog is `for_call`. With `only`, other servers
        are not waited for; without, no list waits for a child that one has waited for in vain.
        """
        slots, children = self._slots(session, effective), self._services.children
        known = children.known.last if for_call else children.known.shown
        listed = [slot for slot in slots.values() if known(slot) is not None]
        awaited = [
            slot
            for name, slot in slots.items()
            if known(slot) is None and (only is None or name in only)
        ]
        await self._wait_until_listed(awaited, listed, only, for_call=for_call)
        listings: dict[ServerName, Listing] = {}
        for name in self._services.servers:
            slot = slots.get(name)
            listing = known(slot) if slot is not None else None
            if slot is not None and listing is not None:
                slot.unlisted, slot.is_late = None, False
                if not for_call:
                    self._bring_up_to_date(slot)
            elif only is None:
                listing = self._missed(session, name, None if for_call else slot)
            if listing is not None:
                listings[name] = listing
        return self._merge(listings)

    async def _wait_until_listed(
        self,
        awaited: list[ChildSlot],
        listed: list[ChildSlot],
        only: Collection[ServerName] | None,
        *,
        for_call: bool,
    ) -> None:
        if only is None and not for_call:
            awaited = self._without_late(awaited)
            await self._wait_for(_Wait(awaited, listed, LIST_GRACE, LIST_PAUSE))
            return
        with ExitStack() as calls:
            for slot in awaited if for_call and only else ():  # the call's own server starts first
                calls.enter_context(slot.wanted())
            await self._wait_for(_Wait(awaited, [] if only else listed, CALL_GRACE, math.inf))

    def _bring_up_to_date(self, slot: ChildSlot) -> None:
        """Have lists read again that could not be read, and an eager child started."""
        if slot.child is not None:
            slot.child.lists.try_again()
        elif slot.spec.eager:
            self._services.tasks.start_soon(self._try, slot)

    def _missed(
        self, session: Session, server: ServerName, slot: ChildSlot | None
    ) -> Listing | None:
        """Note a missing server, to tell the client later; return the tools shown until then."""
        session.unlisted.add(server)
        self._services.children.listeners.missed(session.identity, server)
        return None if slot is None else self._services.children.known.elsewhere(slot)

    def missing(self, session: Session, servers: Collection[ServerName]) -> str | None:
        """Return a text on which of the session's `servers` are not running, and why, or None."""
        texts = [
            f"server {slot.spec.name!r} is not running: {slot.trouble}; {slot.health.outlook}"
            if slot.trouble is not None
            else f"server {slot.spec.name!r} is not running: it is starting"
            for slot in session.slots
            if slot.spec.name in servers and slot.listing is None
        ]
        texts += [
            f"server {one.name!r} is left out of this hub: {one.reason}"
            for one in self._services.left_out
            if one.name in servers
        ]
        return "; ".join(texts) or None

    def _trouble_of_all(self, session: Session) -> str | None:
        """Return why no listing of any server is known; None if one is, or there are no servers."""
        servers, known = self._services.servers, self._services.children.known.shown
        if not servers or any(known(slot) is not None for slot in session.slots):
            return None
        told = self.missing(session, servers) or "none can be started"
        return f"None of the servers behind this hub is running now: {told}"

    def _slots(self, session: Session, effective: EffectiveRoots) -> dict[ServerName, ChildSlot]:
        slots: dict[ServerName, ChildSlot] = {}
        for name, spec in self._services.servers.items():
            try:
                slots[name] = session.slot_for(spec, effective)
            except HubError as exc:
                if self._planless.get(name) != str(exc):
                    self._planless[name] = str(exc)
                    log.warning("no launch plan", server=name, error=str(exc))
        return slots

    def _without_late(self, slots: list[ChildSlot]) -> list[ChildSlot]:
        """Return the slots to wait for; have the others started, if they are not running."""
        for slot in slots:
            if slot.is_late and not slot.is_running:
                self._services.tasks.start_soon(self._try, slot)
        return [slot for slot in slots if not slot.is_late]

    async def _try(self, slot: ChildSlot) -> bool:
        """Wait for a child; log why it is not listed if it fails, and return whether it answers."""
        began = self._services.machine.clock()
        try:
            await self._services.children.obtain(slot)
        except ChildError as exc:
            slot.is_late = slot.is_late or self._services.machine.clock() - began >= LIST_GRACE
            if slot.is_kept:
                _log_why_unlisted(slot, str(exc))
            return False
        return True

    async def _wait_for(self, wait: _Wait) -> None:
        """Start the children of `wait`, and wait for them; those left over are late then."""

        async def one(slot: ChildSlot) -> None:
            if await self._try(slot):
                wait.answered()

        async def cut() -> None:
            await wait.until_over(self._services.machine.clock)
            for slot in wait.slots:
                slot.is_late = slot.is_running and slot.listing is None
                if slot.is_late:
                    self._services.children.known.note_late(slot)
            tasks.cancel_scope.cancel()

        if not wait.slots:
            return
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as starting:
                for slot in wait.slots:
                    starting.start_soon(one, slot)
                tasks.start_soon(cut)
            tasks.cancel_scope.cancel()

    def _merge(self, listings: Mapping[ServerName, Listing]) -> Catalog:
        servers = self._services.servers
        key = (id(servers), *map(id, listings.values()))
        found = self._merged.get(key)
        if found is None:
            made = self._made(listings)
            self._warn(made)
            while len(self._merged) >= self._max_kept:
                del self._merged[next(iter(self._merged))]
            # All that the key names is kept with the catalog, so that nothing else gets its id.
            found = self._merged[key] = ((servers, *listings.values()), made)
        return found[1]

    def _warn(self, made: Catalog) -> None:
        """Log each name that is left out, once, and no more than `MAX_CLASHES` of them."""
        for clash in made.left_out.values():
            if clash not in self._clashes and len(self._clashes) < MAX_CLASHES:
                self._clashes.add(clash)
                servers = list(clash.servers)
                log.warning("LEFT OUT", what=clash.what, servers=servers, fix=clash.fix)

    def _made(self, listings: Mapping[ServerName, Listing]) -> Catalog:
        names = self._services.names
        offers = {name: spec.offer for name, spec in self._services.servers.items()}
        if self._services.expose == "search":
            own = (*META_TOOLS, *BUILTINS)
            return search_catalog(listings, names=names, offers=offers, builtins=own)
        return merge(listings, names=names, offers=offers, builtins=BUILTINS)


def _log_why_unlisted(slot: ChildSlot, error: str) -> None:
    """Log why a child is not listed, unless the last log of its slot gave the same reason."""
    # `error` of a failed child also says when it starts again, which differs each time.
    trouble = slot.trouble
    why = trouble if trouble is not None and trouble in error else error
    if why != slot.unlisted:
        slot.unlisted = why
        log.warning("not listed", server=slot.spec.name, error=error)


def _saying(tools: tuple[JsonObject, ...], trouble: str) -> tuple[JsonObject, ...]:
    """Return `tools` with `trouble` before each description."""
    return tuple(
        {**tool, "description": f"{trouble}. {tool.get('description', '')}"} for tool in tools
    )
