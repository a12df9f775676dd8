"""What the slots of a pool are known to list, from this process and the cache (`KnownLists`)."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from hub.catalog.merge import KnownCatalog, Listing, is_for_all
from hub.children.child import Ready
from hub.children.known.cache import CatalogCache, entry_name, server_entry_name
from hub.children.listing import FIELD
from hub.children.slot import ChildKey, ChildSlot
from hub.jsonrpc import exact_json
from hub.jsonrpc.exact_json import WireError
from hub.protocol.constants import LIST_CHANGED
from hub.roots.roots import RootSet
from hub.specs import ServerSpec
from hub.values import JsonObject, ServerName


class Outdated(NamedTuple):
    """A slot whose clients were shown lists that are not up to date, and how they are told."""

    slot: ChildSlot
    methods: tuple[str, ...]


class KnownLists:
    """The last listings and instructions of this process's children by key; and the cache.

    At most `max_listings` of each are remembered.

    Without a `cache`, nothing is known of children that have not run in this process. With
    `renews`, all that the cache has of a server is outdated once the server starts.
    """

    def __init__(self, cache: CatalogCache | None, max_listings: int) -> None:
        self._cache = cache
        self._max_listings = max_listings
        self.renews = False
        self._last_known: OrderedDict[ChildKey, Listing] = OrderedDict()
        self._instructions: dict[tuple[ServerName, str, str], str] = {}

    def last(self, slot: ChildSlot) -> Listing | None:
        """Return the listing of this key's child: the present one, or the last of this process."""
        return slot.listing or self._last_known.get(slot.key)

    def shown(self, slot: ChildSlot) -> Listing | None:
        """Return `last`, or else the listing in the cache; no call may be judged by that one."""
        return self.last(slot) or (None if slot.known is None else slot.known.listing)

    def elsewhere(self, slot: ChildSlot) -> Listing | None:
        """Return the tools that a slot's server listed last, for whatever roots; None if unknown.

        None of them names a root. A server that is launched with roots may list what is in them.
        """
        if slot.spec.is_launched_for_roots:
            return None
        found = None if self._cache is None else self._cache.find(_server_of(slot))
        listing = None if found is None else found.listing
        return listing if listing is not None and listing.tools else None

    def recall(self, slot: ChildSlot) -> None:
        """Set `slot.known` from the cache; None if the server has changed since."""
        slot.known = None
        if self._cache is None:
            return
        found = self._cache.find(entry_name(slot.spec, slot.key))
        if found is None:
            return
        if found.listing is None:
            slot.is_late = True
            return
        server = self._cache.find(_server_of(slot))
        if server is None or server.edition == found.edition:
            slot.known = found

    def note_late(self, slot: ChildSlot) -> None:
        """Record that a list has waited for a child in vain: the next hub's lists do not wait."""
        if self._cache is not None and self.shown(slot) is None:
            self._cache.keep(entry_name(slot.spec, slot.key), KnownCatalog(None))

    def remember(self, key: ChildKey, ready: Ready) -> None:
        """Remember in this process what a child of `key` lists and says."""
        if self._last_known.get(key) is not ready.listing:
            said = ready.handshake.instructions
            if is_for_all(said, key.roots):
                self._keep_instructions((key.server, key.fingerprint, key.principal), said)
        self._last_known[key] = ready.listing
        self._last_known.move_to_end(key)
        while len(self._last_known) > self._max_listings:
            self._last_known.popitem(last=False)

    def _keep_instructions(self, whose: tuple[ServerName, str, str], said: str) -> None:
        self._instructions.pop(whose, None)
        self._instructions[whose] = said
        while len(self._instructions) > self._max_listings:
            del self._instructions[next(iter(self._instructions))]

    def learn(
        self,
        slot: ChildSlot,
        ready: Ready,
        slots: Iterable[ChildSlot],
        *,
        is_start: bool,
        of_roots: bool,
    ) -> list[Outdated]:
        """Take what a child lists, from now on; return the slots whose clients were shown others.

        `slots` are all of the pool. The slot of the child itself comes first, if it is outdated.
        `is_start`: the child has just started; later its lists may change without the server.
        `of_roots`: its server has asked for roots, so that it may list what is in them.
        """
        before = self._last_known.get(slot.key) or (slot.known and slot.known.listing)
        changed = _changed(before, ready.listing)
        known = _known(ready, self._edition(slot, ready, has_changed=is_start and bool(changed)))
        self.remember(slot.key, ready)
        # A child that goes on with other roots may list otherwise once it is launched for them.
        if self._cache is not None and slot.launched == slot.key.plan:
            self._cache.keep(entry_name(slot.spec, slot.key), known)
            said = known.instructions if is_for_all(known.instructions, slot.key.roots) else ""
            tools = () if of_roots else _for_all(ready.listing.tools, slot.key.roots)
            whole = replace(known, listing=Listing(tools=tools), instructions=said)
            self._cache.keep(_server_of(slot), whole)
        slot.known = known
        found = [Outdated(slot, changed), *self._others(slot, known, slots)]
        return [one for one in found if one.methods]

    def _edition(self, slot: ChildSlot, ready: Ready, *, has_changed: bool) -> str:
        """Return the edition of a server; a new one if the server is another than it was."""
        before = None if self._cache is None else self._cache.find(_server_of(slot))
        if before is None:
            return ""
        is_same = before.info == ready.handshake.info and not (has_changed or self.renews)
        return before.edition if is_same else secrets.token_hex(8)

    def _others(
        self, slot: ChildSlot, known: KnownCatalog, slots: Iterable[ChildSlot]
    ) -> Iterator[Outdated]:
        """Yield the slots of children that have not run, and are shown as the cache knew them."""
        entry, server = entry_name(slot.spec, slot.key), _server_of(slot)
        for other in slots:
            was = other.known
            if other is slot or was is None or self.last(other) is not None:
                continue
            if entry_name(other.spec, other.key) == entry:
                other.known = known
                yield Outdated(other, _changed(was.listing, known.listing))
            elif was.edition != known.edition and _server_of(other) == server:
                other.known = None
                yield Outdated(other, tuple(LIST_CHANGED))

    def instructions_of(self, spec: ServerSpec, principal: str) -> str:
        """Return the last instructions of a server for a principal's clients, or an empty string.

        Instructions that name a root which the child was told of are not among them. The cache is
        asked if no child has run in this process.
        """
        for whose in (principal, ""):
            said = self._instructions.get((spec.name, spec.fingerprint, whose))
            if said is not None:
                return said
        found = self._server(spec, principal)
        return "" if found is None else found.instructions

    def has_run_before(self, spec: ServerSpec, principal: str) -> bool:
        """Return whether the cache has a catalog of a server for a principal's clients."""
        return self._server(spec, principal) is not None

    def _server(self, spec: ServerSpec, principal: str) -> KnownCatalog | None:
        whose = "" if spec.share == "all" else principal
        return None if self._cache is None else self._cache.find(server_entry_name(spec, whose))

    def forget(self, servers: Collection[ServerName]) -> None:
        """Forget the instructions of servers that were changed or removed."""
        for key in [key for key in self._instructions if key[0] in servers]:
            del self._instructions[key]


def _server_of(slot: ChildSlot) -> str:
    return server_entry_name(slot.spec, slot.key.principal)


def _for_all(tools: tuple[JsonObject, ...], roots: RootSet) -> tuple[JsonObject, ...]:
    """Return the tools, or none of them if a root is named in one: any client may be shown them."""
    named = [one for root in roots.roots for one in (root.path, root.uri)]
    text = _text(tools)
    return () if any(_is_in(one, text) for one in named) else tools


def _is_in(name: str, text: bytes) -> bool:
    try:
        return exact_json.encode(name)[1:-1] in text
    except WireError:
        return False  # a name that is no text is in none


def _known(ready: Ready, edition: str) -> KnownCatalog:
    said = ready.handshake
    return KnownCatalog(
        listing=ready.listing,
        era=said.era,
        version=said.version,
        info=said.info,
        capabilities=said.capabilities,
        instructions=said.instructions,
        edition=edition,
    )


def _changed(before: Listing | None, now: Listing | None) -> tuple[str, ...]:
    """Return the notifications for the lists that differ; none if no list was shown before."""
    if before is None or now is None or before is now:
        return ()

    def differs(method: str) -> bool:
        was, found = (_text(getattr(one, FIELD[method])) for one in (before, now))
        return was != found

    return tuple(name for name, methods in LIST_CHANGED.items() if any(map(differs, methods)))


def _text(entries: tuple[JsonObject, ...]) -> bytes:
    # Not compared as objects: for Python, 1 and true are equal.
    return exact_json.encode(list(entries))
