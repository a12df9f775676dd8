"""Refused calls and consent grants of one client; refusals are logged and kept for `get-roots`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from hub.audit.record import refusal_details
from hub.guard.consent import Consent
from hub.guard.decide import Refused
from hub.guard.own_files import OWN
from hub.guard.policy import Mode
from hub.jsonrpc.rated_log import RatedLog
from hub.legible import shortened
from hub.roots.roots import Root
from hub.specs import ServerSpec
from hub.values import Call, JsonObject, ServerName

RECENT: Final = 20
"""Number of refusals that are kept."""
LONGEST: Final = 4096
"""Characters of a refused path that are kept and logged: what is longer is no path."""


class Refusals:
    """The newest refusals of one client's calls; in report mode, calls that would be refused."""

    def __init__(self, log: RatedLog) -> None:
        self._log = log
        self._recent: deque[JsonObject] = deque(maxlen=RECENT)

    @property
    def recent(self) -> list[JsonObject]:
        """The kept refusals, oldest first."""
        return list(self._recent)

    def add(
        self,
        spec: ServerSpec,
        call: Call,
        refused: Refused,
        consent: Consent | None = None,
        told: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Keep a refusal, and log it for the operator, who is `told` more than the client."""
        mode = spec.policy.mode
        short = replace(refused, path=shortened(refused.path, LONGEST))
        details = refusal_details(spec.name, call, short, consent)
        # The hub's own files are refused in every mode.
        is_refused = mode is Mode.ENFORCE or refused.reason == OWN
        self._log.warning("refused" if is_refused else "would be refused", **details, **told)
        self._recent.append({**details, "mode": mode.value})


class ConsentGrants:
    """Paths outside the roots that the user allowed, each for one server, to read or to write."""

    def __init__(self) -> None:
        self._places: dict[tuple[ServerName, bool, tuple[str, ...], bool], Root] = {}

    def add(self, server: ServerName, place: Root, *, writes: bool) -> None:
        """Allow a server's tools to use `place`; tools that write need a grant with `writes`."""
        self._places[server, writes, place.parts, place.is_file] = place

    def of(self, server: ServerName, *, writes: bool) -> tuple[Root, ...]:
        """Return the paths granted for a server; with `writes`, only those that may be written."""
        return tuple(
            place
            for (owner, written, _, _), place in self._places.items()
            if owner == server and (written or not writes)
        )
