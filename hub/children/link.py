"""A connection to one child, whatever carries it: messages in, messages out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol, runtime_checkable

from hub.children.process.process import Process, launch
from hub.children.process.process_tree import ProcessSupervisor
from hub.jsonrpc import messages as wire
from hub.jsonrpc.child_log import ChildLog
from hub.jsonrpc.exact_json import UnreadableAnswerError, WireError
from hub.jsonrpc.lines import TruncatedLine
from hub.jsonrpc.messages import Failure, Lost, Message, Response, answered_by, lost
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.launch.plan import LaunchPlan
from hub.protocol.constants import INTERNAL_ERROR

SHOWN: Final = 200
"""How much is logged of what a child wrote that is no message."""


def message_in(conduct: PeerConduct, text: bytes, *, otherwise: str) -> Message | None:
    """Return the message that a child wrote; None for what is none, logged as `otherwise`.

    For an answer that cannot be read its failure stands.

    Raises: GoneError if that was once too often.
    """
    try:
        return wire.parse_child(text)
    except UnreadableAnswerError as exc:
        said = f"the answer of server {conduct.server!r} cannot be read: {exc}"
        return Failure(exc.id, {"code": INTERNAL_ERROR, "message": said})
    except WireError as exc:
        shown = text[:SHOWN].decode("utf-8", "replace")
        conduct.log.warning(otherwise, text=shown, error=str(exc)[:SHOWN])
        conduct.count(otherwise, len(text))
        return None


def lost_in(conduct: PeerConduct, ends: bytes) -> Lost | None:
    """Return what stands for the answer, too large, that these are both ends of.

    None, if they do not tell whose answer it is, or that it is one.
    """
    conduct.log.warning("message too large, dropped", limit=wire.MAX_MESSAGE_BYTES)
    id_ = answered_by(ends)
    return None if id_ is None else lost(id_, f"it has more than {wire.MAX_MESSAGE_BYTES} bytes")


_ANSWERS = (Response, Failure)


class ChildConnection(Protocol):
    """An open connection to a child."""

    @property
    def outlet(self) -> Outlet:
        """Where messages to the child go."""
        ...

    @property
    def private_directory(self) -> str | None:
        """The empty directory the child was launched on, if no root was in force."""
        ...

    async def next(self) -> Message:
        """Return the child's next message.

        Raises: GoneError, with the reason, when there will be none.
        """
        ...


@runtime_checkable
class AnsweringLink(Protocol):
    """A link that can hand over answers where they arrive."""

    def hand_answers_to(self, settle: Callable[[Response | Failure], bool]) -> None:
        """Give each answer to `settle` once all messages before it are done with.

        What that says no to, because nobody waits for it, comes by `next`.
        """
        ...


@runtime_checkable
class WatchedLink(Protocol):
    """A link that keeps account of how its child behaves."""

    @property
    def conduct(self) -> PeerConduct:
        """The account of it."""
        ...


class ProcessLink:
    """A child on the other end of two pipes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.conduct = process.conduct
        self.outlet: Outlet = process.outlet
        self.private_directory = process.private_directory

    def hand_answers_to(self, settle: Callable[[Response | Failure], bool]) -> None:
        answered = self.conduct.answered

        def take(line: bytes) -> bool:
            try:
                message = wire.parse_child(line)
            except WireError:
                return False
            if not isinstance(message, _ANSWERS) or not settle(message):
                return False
            answered()
            return True

        self._process.lines.taker = take

    async def next(self) -> Message:
        while True:
            line = await self._process.next_line()
            if isinstance(line, TruncatedLine):
                message = lost_in(self.conduct, line)
            else:
                message = message_in(self.conduct, line, otherwise="stdout is not JSON-RPC")
            self.conduct.pace.lap()
            if message is not None:
                return message


@asynccontextmanager
async def open_process(
    server: str,
    plan: LaunchPlan,
    environment: Mapping[str, str],
    supervisor: ProcessSupervisor,
    log: ChildLog | None = None,
) -> AsyncGenerator[ChildConnection]:
    """Launch a child and speak to it over its standard streams.

    Raises: ChildError if it cannot be started.
    """
    async with launch(server, plan, environment, supervisor, log) as process:
        yield ProcessLink(process)
