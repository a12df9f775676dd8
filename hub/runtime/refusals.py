"""What one client was refused: told to the operator, and remembered for `get-roots`."""

from __future__ import annotations

from collections import deque
from typing import Final

import structlog

from hub.core.audit import refusal_details
from hub.core.consent import Consent
from hub.core.guard import Refused
from hub.core.own_files import OWN
from hub.core.policy import Mode
from hub.core.specs import ServerSpec
from hub.core.values import Call, JsonObject

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
