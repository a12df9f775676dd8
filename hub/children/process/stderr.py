"""What a child says on stderr: in the hub's log, with its name, as far as the log can take it."""

from __future__ import annotations

from collections import deque

from hub.jsonrpc.child_log import ChildLog
from hub.jsonrpc.lines import Cut, LineSplitter

STDERR_LINE_LIMIT = 8 * 1024
STDERR_KEPT = 5
CROWD = 256
"""How many lines may come at once to be read one by one."""
READ_OF_CROWD = 2048
"""About how many bytes of both ends are read of more; what is between is counted."""


class Stderr:
    """Logs what a child says, and remembers the last of it. A flood of it costs others nothing."""

    def __init__(self, log: ChildLog) -> None:
        self._log = log
        self._splitter = LineSplitter(STDERR_LINE_LIMIT)
        self._said: deque[bytes] = deque(maxlen=STDERR_KEPT)

    def feed(self, chunk: bytes) -> None:
        """Take what the child has written."""
        if len(chunk) > 2 * READ_OF_CROWD and chunk.count(b"\n") > CROWD:
            ends = chunk.find(b"\n", READ_OF_CROWD) + 1 or len(chunk)
            begins = max(ends, chunk.rfind(b"\n", 0, -READ_OF_CROWD) + 1)
            self._take(self._splitter.feed(chunk[:ends]))
            self._log.leave_out(chunk.count(b"\n", ends, begins), begins - ends)
            chunk = chunk[begins:]
        self._take(self._splitter.feed(chunk))

    def finish(self) -> None:
        """Take the end of it."""
        self._take(self._splitter.finish())
        self._log.finish()

    def _take(self, lines: list[bytes]) -> None:
        self._said.extend(lines[-STDERR_KEPT:])
        for number, line in enumerate(lines):
            if self._log.is_full:
                left = lines[number:]
                self._log.leave_out(len(left), sum(map(len, left)))
                return
            self._log.info("stderr", line=_text(line))

    @property
    def last_words(self) -> str:
        """What it said last."""
        return " | ".join(text for text in map(_text, self._said) if text)


def _text(line: bytes) -> str:
    if isinstance(line, Cut):
        return "(too long to show)"
    return line.decode("utf-8", "replace").rstrip()
