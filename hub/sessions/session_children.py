"""Which children one session uses: of each server one, launched for its roots."""

from __future__ import annotations

from collections.abc import Callable

from hub.children.clients import ChildUser
from hub.children.slot import ChildKey, ChildSlot, key_of
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY
from hub.sessions.services import Services
from hub.specs import ServerSpec
from hub.values import JsonObject, ServerName, SessionKey


class SessionChildren:
    """One session's places. `asks` says what children may ask of its client.

    `unknown` says whether it has roots that it was not asked for.
    """

    def __init__(
        self,
        services: Services,
        session: SessionKey,
        principal: str,
        asks: Callable[[], JsonObject],
        unknown: Callable[[], bool],
    ) -> None:
        self.held: dict[ServerName, ChildSlot] = {}
        self._services = services
        self._session = session
        self._principal = principal
        self._asks = asks
        self._unknown = unknown

    def slot_for(self, spec: ServerSpec, here: EffectiveRoots, user: ChildUser) -> ChildSlot:
        """Return where the child of a server stands, with these roots in force there."""
        key = self._key(spec, here)
        held = self.held.get(spec.name)
        if held is not None and held.key == key:
            return held
        slot = self._services.children.lease(spec, key, self._session, user)
        self.held[spec.name] = slot
        if held is not None:
            self._services.children.release(held, self._session, at_once=True)
        return slot

    def release(self) -> None:
        """Give all of them up."""
        for slot in self.held.values():
            # A child of this session alone is of no use to anybody else.
            alone = slot.spec.share == "session"
            self._services.children.release(slot, self._session, at_once=alone)
        self.held.clear()

    def _key(self, spec: ServerSpec, here: EffectiveRoots) -> ChildKey:
        return key_of(
            spec,
            self._services.plans.of(spec, here),
            EMPTY if spec.share == "all" else here.roots,
            principal=self._principal,
            # A server that is known to be modern is told with each request who makes it.
            asks={} if spec.era == "modern" else self._asks(),
            session=self._session,
            unknown=self._unknown(),
        )
