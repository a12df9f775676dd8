"""Children of one session: one child slot per server, leased for the session's roots."""

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
    """The child slots that one session has leased (`held`).

    `asks` returns the client capabilities that children may use. `unknown` returns whether the
    client has roots but was not asked for them.
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
        """Return the slot of a server's child for the effective roots `here`.

        A slot that was leased for other roots is released.
        """
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
        """Release all slots."""
        for slot in self.held.values():
            # With `share: session` no other session can use the child.
            alone = slot.spec.share == "session"
            self._services.children.release(slot, self._session, at_once=alone)
        self.held.clear()

    def _key(self, spec: ServerSpec, here: EffectiveRoots) -> ChildKey:
        return key_of(
            spec,
            self._services.plans.of(spec, here),
            EMPTY if spec.share == "all" else here.roots,
            principal=self._principal,
            # A modern child gets the client's capabilities with each request.
            asks={} if spec.era == "modern" else self._asks(),
            session=self._session,
            unknown=self._unknown(),
        )
