"""What one client was refused: told to the operator, and remembered for `get-roots`."""

from __future__ import annotations

from collections import deque
from typing import Final

import structlog

from hub.audit.record import refusal_details
from hub.guard.consent import Consent
from hub.guard.decide import Refused
from hub.guard.own_files import OWN
from hub.guard.policy import Mode
from hub.roots.roots import Root
from hub.specs import ServerSpec
from hub.values import Call, JsonObject, ServerName

RECENT: Final = 20
"""How many refusals are remembered."""

log = structlog.stdlib.get_logger(__name__)


class Refusals:
    """The newest refusals of one client's calls, and of those that would be refused."""

    def __init__(self) -> None:
        self._recent: deque[JsonObject] = deque(maxlen=RECENT)

    @property
    def recent(self) -> list[JsonObject]:
        """The newest ones, oldest first."""
        return list(self._recent)

    def add(
        self, spec: ServerSpec, call: Call, refused: Refused, consent: Consent | None = None
    ) -> None:
        """Remember a refusal, and tell the operator."""
        mode = spec.policy.mode
        details = refusal_details(spec.name, call, refused, consent)
        # No mode opens what is the hub's own.
        is_refused = mode is Mode.ENFORCE or refused.reason == OWN
        log.warning("refused" if is_refused else "would be refused", **details)
        self._recent.append({**details, "mode": mode.value})


class ConsentGrants:
    """Places outside of the roots, each for one server, and for reading alone or for both."""

    def __init__(self) -> None:
        self._places: dict[tuple[ServerName, bool, tuple[str, ...], bool], Root] = {}

    def add(self, server: ServerName, slot: Root, *, writes: bool) -> None:
        """Let a server's tools reach `slot` from now on; those that write only if it `writes`."""
        self._places[server, writes, slot.parts, slot.is_file] = slot

    def of(self, server: ServerName, *, writes: bool) -> tuple[Root, ...]:
        """Return what a server's tools that read, or that write too, may reach."""
        return tuple(
            slot
            for (owner, written, _, _), slot in self._places.items()
            if owner == server and (written or not writes)
        )
