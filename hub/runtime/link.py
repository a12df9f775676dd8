"""A connection to one child, whatever carries it: messages in, messages out."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

import structlog

from hub.core.launch import LaunchPlan
from hub.core.protocol import INTERNAL_ERROR
from hub.runtime import wire
from hub.runtime.brood import Brood
from hub.runtime.lines import Cut
from hub.runtime.peer import Outlet
from hub.runtime.process import Process, launch
from hub.runtime.strict_json import UnreadableAnswerError, WireError
from hub.runtime.wire import Failure, Message, Response, lost

_ANSWERS = (Response, Failure)

log = structlog.stdlib.get_logger(__name__)


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

    def hand_answers_to(self, settle: Callable[[Response | Failure], None]) -> None:
        """Give each answer to `settle` once all messages before it are done with, not to `next`."""
        ...


class ProcessLink:
    """A child on the other end of two pipes."""

    def __init__(self, server: str, process: Process) -> None:
        self._server = server
        self._process = process
        self.outlet: Outlet = process.outlet
        self.private_directory = process.private_directory

    def hand_answers_to(self, settle: Callable[[Response | Failure], None]) -> None:
        def take(line: bytes) -> bool:
            try:
                message = wire.parse_child(line)
            except WireError:
                return False
            if not isinstance(message, _ANSWERS):
                return False
            settle(message)
            return True

        self._process.lines.taker = take

    async def next(self) -> Message:
        while True:
            line = await self._process.next_line()
            if isinstance(line, Cut):
                log.warning(
                    "message too large, dropped", server=self._server, limit=wire.MAX_MESSAGE_BYTES
                )
                id_ = answered_by(line)
                if id_ is None:
                    continue
                return lost(id_, f"it has more than {wire.MAX_MESSAGE_BYTES} bytes")
            try:
                return wire.parse_child(line)
            except UnreadableAnswerError as exc:
                text = f"the answer of server {self._server!r} cannot be read: {exc}"
                return Failure(exc.id, {"code": INTERNAL_ERROR, "message": text})
            except WireError as exc:
                shown = line[:200].decode("utf-8", "replace")
                log.warning(
                    "stdout is not JSON-RPC", server=self._server, line=shown, error=str(exc)
                )


_ASKS = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"[^,]*,\s*)?"method"')
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


def answered_by(ends: bytes) -> int | None:
    """Return the id of the answer that these are both ends of; None if they do not tell."""
    return None if _ASKS.match(ends) else _id_in(ends)


def asked_by(ends: bytes) -> int | None:
    """Return the id of the request that these are both ends of; None if they do not tell."""
    return _id_in(ends) if _ASKS.match(ends) else None


def _id_in(ends: bytes) -> int | None:
    found = _FIRST.match(ends) or _LAST.search(ends)
    return int(found[1]) if found else None


@asynccontextmanager
async def open_process(
    server: str, plan: LaunchPlan, environment: Mapping[str, str], brood: Brood
) -> AsyncGenerator[Link]:
    """Launch a child and speak to it over its standard streams.

    Raises: ChildError if it cannot be started.
    """
    async with launch(server, plan, environment, brood) as process:
        yield ProcessLink(server, process)
