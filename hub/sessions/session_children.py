"""Children of one session: one child slot per server, leased for the session's roots."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from hub.children.clients import ChildUser
from hub.children.slot import ChildSlot, ClientOfKey, key_of
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import EMPTY
from hub.sessions.services import Services
from hub.specs import ServerSpec
from hub.values import ServerName, SessionKey

log = structlog.stdlib.get_logger(__name__)


class SessionChildren:
    """The child slots that one session has leased (`held`); `client` describes the session."""

    def __init__(
        self, services: Services, session: SessionKey, client: Callable[[], ClientOfKey]
    ) -> None:
        self.held: dict[ServerName, ChildSlot] = {}
        self._services = services
        self._session = session
        self._client = client

    def slot_for(self, spec: ServerSpec, here: EffectiveRoots, user: ChildUser) -> ChildSlot:
        """Return the slot of a server's child for the effective roots `here`.

        A child that was leased for other roots goes on with these, or is released.
        """
        children, roots = self._services.children, EMPTY if spec.share == "all" else here.roots
        key = key_of(spec, self._services.plans.of(spec, here), roots, self._client())
        if key.unknown:
            key = children.settled(key)
        held = self.held.get(spec.name)
        if held is None:
            slot = self.held[spec.name] = children.lease(spec, key, self._session, user)
            return slot
        if held.key == key:
            held.follow(spec)
            return held
        reason = children.move(held, key)
        if reason is None:
            held.follow(spec)
            return held
        if held.listing is not None and held.key.session is not None:
            log.warning("started anew; what it kept is gone", server=spec.name, why=reason)
        slot = self.held[spec.name] = children.lease(spec, key, self._session, user)
        children.release(held, self._session, at_once=True)
        return slot

    def drop(self, server: ServerName) -> None:
        """Release the slot of a server that the config no longer has; its calls finish."""
        slot = self.held.pop(server, None)
        if slot is not None:
            self._services.children.release(slot, self._session, at_once=True)

    def release(self) -> None:
        """Release all slots."""
        for slot in self.held.values():
            alone = slot.key.session == self._session
            self._services.children.release(slot, self._session, at_once=alone)
        self.held.clear()
