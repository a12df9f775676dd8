"""The connection to one child over any transport (`ChildConnection`), and the one over pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from hub.children.process.process import Process
from hub.jsonrpc import messages as wire
from hub.jsonrpc import parsing
from hub.jsonrpc.exact_json import UnreadableAnswerError, WireError
from hub.jsonrpc.lines import TruncatedLine, UnfinishedLine
from hub.jsonrpc.messages import Failure, Lost, Message, Response, lost
from hub.jsonrpc.parsing import answered_by
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.protocol.constants import INTERNAL_ERROR

SHOWN: Final = 200
"""Maximum length of the log excerpt, in bytes, of child output that is not a message."""


def parsed(text: bytes) -> Message | WireError:
    """Return the message of a child in `text`, or why there is none."""
    try:
        return parsing.parse_child(text)
    except WireError as exc:
        return exc


def message_in(
    conduct: PeerConduct, text: bytes, found: Message | WireError, *, otherwise: str
) -> Message | None:
    """Return the message `found` in `text`; None if there is none, which is logged as `otherwise`.

    A response that cannot be read is returned as a `Failure` with the same id.

    Raises: GoneError if the child has sent too much that is no message.
    """
    if not isinstance(found, WireError):
        return found
    if isinstance(found, UnreadableAnswerError):
        said = f"the answer of server {conduct.server!r} cannot be read: {found}"
        return Failure(found.id, {"code": INTERNAL_ERROR, "message": said})
    shown = text[:SHOWN].decode("utf-8", "replace")
    conduct.log.warning(otherwise, text=shown, error=str(found)[:SHOWN])
    conduct.count(otherwise, len(text))
    return None


def lost_in(conduct: PeerConduct, ends: bytes) -> Lost | None:
    """Return the message that replaces a response that was too large; `ends` is its start and end.

    None if `ends` does not show a response with its id.

    Raises: GoneError if the child has sent too much that is no message.
    """
    conduct.log.warning("message too large, dropped", limit=wire.MAX_MESSAGE_BYTES)
    id_ = answered_by(ends)
    if id_ is None:
        conduct.count("messages that are too large", wire.MAX_MESSAGE_BYTES)
        return None
    return lost(id_, f"it has more than {wire.MAX_MESSAGE_BYTES} bytes")


_ANSWERS = (Response, Failure)


class ChildConnection(Protocol):
    """An open connection to a child."""

    @property
    def outlet(self) -> Outlet:
        """The outlet for messages to the child."""
        ...

    @property
    def private_directory(self) -> str | None:
        """The empty directory that the child was launched in, if there were no effective roots."""
        ...

    @property
    def pid(self) -> int | None:
        """The id of the child's process; None if it is not launched here."""
        ...

    @property
    def conduct(self) -> PeerConduct:
        """The record of the child's behaviour."""
        ...

    def hand_answers_to(self, settle: Callable[[Response | Failure], bool]) -> None:
        """Give each response to `settle` as soon as all earlier messages have been handled.

        If `settle` returns False, because nobody waits for the response, `next` returns it.
        """

    async def next(self) -> Message:
        """Return the child's next message. Raises: GoneError, with why there is none."""
        ...


class ProcessLink:
    """The connection to a child process over its stdin and stdout pipes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._offered: tuple[bytes, Message | WireError] | None = None
        self.conduct = process.conduct
        self.pid = process.pid
        self.outlet: Outlet = process.outlet
        self.private_directory = process.private_directory

    def hand_answers_to(self, settle: Callable[[Response | Failure], bool]) -> None:
        conduct = self.conduct

        def take(line: bytes) -> bool:
            found = parsed(line)
            if isinstance(found, _ANSWERS) and settle(found):
                conduct.answers += 1
                return True
            # `next` returns this line: parsing a large message takes long, and is done once.
            self._offered = line, found
            return False

        self._process.lines.taker = take

    async def next(self) -> Message:
        while True:
            line = await self._process.next_line()
            if isinstance(line, TruncatedLine):
                message = lost_in(self.conduct, line)
            else:
                message = self._message(line)
            self.conduct.pace.lap()
            if message is not None:
                return message

    def _message(self, line: bytes) -> Message | None:
        offered, self._offered = self._offered, None
        found = offered[1] if offered is not None and offered[0] is line else parsed(line)
        if isinstance(line, UnfinishedLine) and isinstance(found, WireError):
            # No answer that is wrong: the child ended while it wrote, which its calls are told.
            self.conduct.log.warning("stdout ended inside a message", bytes=len(line))
            return None
        return message_in(self.conduct, line, found, otherwise="stdout is not JSON-RPC")
