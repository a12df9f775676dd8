"""What the next process of a hub needs to go on: the secrets, and the ids that are used up."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from hub.calls.rounds.sealed_state import StateSealer
from hub.config.own_files import state_directory
from hub.server.http.adoption.session_ids import LASTS, SessionIds
from hub.system.machine import Machine
from hub.system.private_file import secret_in
from hub.system.remembered_ids import RememberedIds
from hub.system.sealing import SealingSecrets

_KEY: Final = "http-key"
_ENDED, _USED = "http-ended-", "http-used-"

log = structlog.stdlib.get_logger(__name__)


class SurvivingState(Struct, frozen=True):
    """What lets sessions and calls of modern clients go on in another process."""

    ids: SessionIds
    seals: StateSealer


def surviving_state(
    machine: Machine,
    *,
    keys: Sequence[str],
    replica: str | None,
    adopts: Collection[str],
    serves: str,
) -> SurvivingState:
    """Return the secrets and the remembered ids of a hub.

    Without `keys` the secret is in the state directory, and counts for hubs that serve the same:
    `serves` says which config at which address. What cannot be kept there ends with this process,
    and the log says so.
    """
    directory = state_directory(machine)
    sealed_with = sealing_secrets(machine, keys, serves)
    clock = machine.wall_clock
    own = hashlib.sha256(f"{serves}\n{replica or ''}".encode()).hexdigest()[:24]
    if directory is not None:
        _remove_old(directory, clock() - LASTS)
    ended, used = (
        RememberedIds(clock, None if directory is None else directory / f"{name}{own}", what=what)
        for name, what in ((_ENDED, "ended HTTP sessions"), (_USED, "used request states"))
    )
    return SurvivingState(
        SessionIds(sealed_with, clock, ended=ended, replica=replica, adopts=adopts),
        StateSealer(clock, sealed_with, used),
    )


def sealing_secrets(machine: Machine, keys: Sequence[str], serves: str) -> SealingSecrets:
    """Return the secrets of a hub: `keys`, else one in the state directory, for what it serves."""
    if keys:
        return SealingSecrets(tuple(key.encode() for key in keys))
    return _own_secret(state_directory(machine), serves)


def _own_secret(directory: Path | None, serves: str) -> SealingSecrets:
    try:
        if directory is None:
            raise FileNotFoundError(2, "there is no state directory")
        return SealingSecrets((secret_in(directory / _KEY),), realm=serves)
    except OSError as exc:
        log.warning(
            "HTTP sessions end with this process: the key for their ids cannot be kept",
            file=None if directory is None else str(directory / _KEY),
            error=exc.strerror,
            fix="Make that directory writable for the hub's user alone, or set listen.keys.",
        )
        return SealingSecrets.of_this_process()


def _remove_old(directory: Path, before: float) -> None:
    """Remove the records of hubs that have not written for so long that all of them expired."""
    with suppress(OSError):
        for path in directory.iterdir():
            if path.name.startswith((_ENDED, _USED)) and path.lstat().st_mtime < before:
                path.unlink()
