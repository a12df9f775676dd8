"""Server-sent events (SSE) parser: splits a byte stream into events, as in the HTML standard."""

from __future__ import annotations

from msgspec import Struct

ENDS = 256
"""Bytes that are kept of the start and of the end of an event's text that is too long."""
LONGEST_ID = 4096
"""Bytes of an event's id that counts: a longer one is more than servers take in a header."""

_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(Struct, frozen=True):
    """One event with a text; with `is_cut` the text has only its start and its end."""

    name: str
    text: bytes
    is_cut: bool = False


class EventParser:
    """Parses one event stream, received in chunks of any size.

    An event without text is not returned, but its id counts. Of a text longer than `limit` bytes
    only both ends are kept. An unfinished event at the end of the stream is dropped; while it is
    unfinished it takes about as much memory as it has bytes, however small its lines and chunks.
    `retry` is the server's reconnection time in milliseconds, `last_id` the id of the last event,
    as a header can bring it: without blanks around it.
    """

    def __init__(self, limit: int) -> None:
        self.last_id = b""
        self.retry: int | None = None
        self._limit = limit
        self.restart()

    @property
    def is_cut(self) -> bool:
        """Whether the current event is too long already."""
        return self._is_cut or self._line_is_cut

    @property
    def unfinished(self) -> int:
        """The bytes that are kept of the current event."""
        return len(self._line) + len(self._text or b"")

    def restart(self) -> None:
        """Start parsing another stream that continues this one; `last_id` and `retry` are kept."""
        self._line = bytearray()
        self._line_is_cut = False
        self._after_return = False
        self._begun = False
        self._reset()

    def _reset(self) -> None:
        self._name = ""
        # Most events have one line of data, which is not copied.
        self._text: bytes | bytearray | None = None
        self._size = 0
        self._head = self._tail = b""
        self._is_cut = False
        self._id: bytes | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that `chunk` completes."""
        if not self._begun and chunk:
            # A byte order mark split over two chunks is not found: its line is an unknown field.
            self._begun = True
            chunk = chunk.removeprefix(_MARK)
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        events: list[ServerSentEvent] = []
        for piece in chunk.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            if len(line) == len(piece):
                self._keep(line)
            else:
                event = self._take(self._whole(line))
                self._line_is_cut = False
                if event is not None:
                    events.append(event)
        if chunk:
            self._after_return = chunk.endswith(b"\r")
        return events

    def _keep(self, piece: bytes) -> None:
        """Keep a part of a line; of a line over the limit only both ends."""
        self._line += piece
        if self._size + len(self._line) > self._limit + ENDS:
            self._line_is_cut = True
            self._line = self._line[: 2 * ENDS] + self._line[2 * ENDS :][-ENDS:]

    def _whole(self, end: bytes) -> bytes:
        if not self._line:
            return end
        whole = bytes(self._line) + end
        self._line = bytearray()
        return whole

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._finish()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add(value)
        elif field == b"event":
            self._name = value[:ENDS].decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            if not self._line_is_cut and len(value) <= LONGEST_ID:
                self._id = value.strip(b" \t")
        elif field == b"retry" and value.isdigit() and len(value) < ENDS:
            self.retry = int(value)
        return None

    def _add(self, text: bytes) -> None:
        whole: bytes | bytearray = text
        if self._text is not None:
            whole = bytearray(self._text) if isinstance(self._text, bytes) else self._text
            whole += b"\n"
            whole += text
        self._size += len(text) + bool(self._size or self._text is not None)
        if self._size > self._limit or self._line_is_cut:
            self._is_cut = True
        if not self._is_cut:
            self._text = whole
            return
        self._text = None
        self._head = self._head or bytes(whole[:ENDS])
        self._tail = (self._tail + whole[-ENDS:])[-ENDS:]

    def _finish(self) -> ServerSentEvent | None:
        """Return the finished event, None if it has no text; and start the next event."""
        if self._id is not None:
            self.last_id = self._id
        name, is_cut = self._name or "message", self._is_cut
        text = self._head + self._tail if is_cut else bytes(self._text or b"")
        self._reset()
        return ServerSentEvent(name, text, is_cut) if text else None
