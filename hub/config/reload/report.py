"""What a reload of the config did, for people."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hub.config.reload.tightening import WaitingKey
from hub.errors import ConfigError, Fault, HubError, StartError
from hub.legible import on_one_line
from hub.sessions.config_file import ConfigState

MOST_FAULTS = 3
"""So many mistakes of a file are told in its state; the log has all."""


class ReloadReport(Struct, frozen=True):
    """What a reload took over, what waits for the user (and `because` of what), and what failed.

    `error`: why nothing was taken over, but that tokens were taken out. `file` is the name of the
    config. `earlier` was taken over by the reload before: a hub may notice a change before the user
    asks. `is_in_force`: there is a client that it is in force for.
    """

    file: str | None = None
    taken: tuple[str, ...] = ()
    waiting: tuple[WaitingKey, ...] = ()
    restart: tuple[str, ...] = ()
    error: str | None = None
    because: str | None = None
    earlier: tuple[str, ...] = ()
    is_in_force: bool = True

    def lines(self) -> list[str]:
        """Return the report as lines for a terminal."""
        if self.error is not None:
            what = "Nothing was taken over: the config that was in force stays."
            if self.taken:
                what = (
                    f"Taken over: what takes tokens out of {', '.join(self.taken)}; nothing else."
                )
            return [what, *self.error.splitlines()]
        return [on_one_line(line) for line in self._lines()]

    def _lines(self) -> Iterator[str]:
        if not self.is_in_force:
            yield f"No client is there: the next one gets {self.file} as it is then."
            return
        if self.taken:
            yield f"Taken over from {self.file}: {', '.join(self.taken)}"
        if self.waiting:
            yield f"Waiting for `roots-hub reload`, as {self.because}:"
            yield from (f"  {one.key}: {one.why}" for one in self.waiting)
        if self.restart:
            yield f"After a restart of the hub: {', '.join(self.restart)}"
        if not (self.taken or self.waiting or self.restart):
            yield f"{self.file} has nothing new."
            if self.earlier:
                yield f"Taken over before: {', '.join(self.earlier)}"

    def state(self) -> ConfigState:
        """Return the state of the config file after a reload without error."""
        waiting = tuple(one.key for one in self.waiting)
        return ConfigState(self.file, None, waiting, self.restart)


def faults_of(error: HubError) -> tuple[Fault, ...]:
    """Return the mistakes that an error names, with remedies."""
    if isinstance(error, ConfigError):
        return error.faults
    if isinstance(error, StartError):
        return (Fault("", error.what, error.fix),)
    what, _, fix = str(error).partition("\n")
    return (Fault("", what, fix),)


def told(faults: tuple[Fault, ...]) -> str:
    """Return the first mistakes as sentences, without the lines of the file."""
    sentences = [on_one_line(f"{one.said}. {one.fix}") for one in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        sentences.append(f"And {len(faults) - MOST_FAULTS} more.")
    return " ".join(sentences)
