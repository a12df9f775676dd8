"""What a child says on stderr: in the hub's log, with its name, as far as the log can take it."""

from __future__ import annotations

from collections import deque

import anyio
import structlog

from hub.runtime.lines import Cut, LineSplitter

STDERR_LINE_LIMIT = 8 * 1024
STDERR_KEPT = 5
LINES_PER_SECOND = 50
"""How many lines of one child are logged in a second; of more, only how many there were."""

log = structlog.stdlib.get_logger(__name__)


class Stderr:
    """Logs what a child says, and remembers the last of it. A flood of it costs others nothing."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._splitter = LineSplitter(STDERR_LINE_LIMIT)
        self._said: deque[bytes] = deque(maxlen=STDERR_KEPT)
        self._second = 0.0
        self._logged = 0
        self._dropped = 0

    def feed(self, chunk: bytes) -> None:
        """Take what the child has written."""
        self._take(self._splitter.feed(chunk))

    def finish(self) -> None:
        """Take the end of it."""
        self._take(self._splitter.finish())
        self._tell_dropped()

    def _take(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._said.extend(lines[-STDERR_KEPT:])
        now = anyio.current_time()
        if now - self._second >= 1:
            self._tell_dropped()
            self._second, self._logged = now, 0
        logged = lines[: LINES_PER_SECOND - self._logged]
        for line in logged:
            log.info("stderr", server=self._server, line=_text(line))
        self._logged += len(logged)
        self._dropped += len(lines) - len(logged)

    def _tell_dropped(self) -> None:
        if self._dropped:
            log.warning("stderr flood, not logged", server=self._server, lines=self._dropped)
        self._dropped = 0

    @property
    def last_words(self) -> str:
        """What it said last."""
        return " | ".join(text for text in map(_text, self._said) if text)


def _text(line: bytes) -> str:
    if isinstance(line, Cut):
        return "(too long to show)"
    return line.decode("utf-8", "replace").rstrip()
