"""A connection to one child, whatever carries it: messages in, messages out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

from hub.children.child_messages import lost_in, message_in
from hub.children.process.process import Process, launch
from hub.children.process.process_tree import Brood
from hub.jsonrpc import messages as wire
from hub.jsonrpc.child_log import ChildLog
from hub.jsonrpc.conduct import Conduct
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.lines import Cut
from hub.jsonrpc.messages import Failure, Message, Response
from hub.jsonrpc.peer import Outlet
from hub.launch.plan import LaunchPlan

_ANSWERS = (Response, Failure)


class Link(Protocol):
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
    def conduct(self) -> Conduct:
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
            if isinstance(line, Cut):
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
    brood: Brood,
    log: ChildLog | None = None,
) -> AsyncGenerator[Link]:
    """Launch a child and speak to it over its standard streams.

    Raises: ChildError if it cannot be started.
    """
    async with launch(server, plan, environment, brood, log) as process:
        yield ProcessLink(process)
