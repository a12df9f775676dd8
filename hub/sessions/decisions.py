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
from hub.specs import ServerSpec
from hub.values import Call, JsonObject

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
