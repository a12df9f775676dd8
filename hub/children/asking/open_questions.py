"""Which call a child's question belongs to, where the child does not say it.

A question is passed on only if the calls of one client alone can be its source: one client must not
see what the call of another is about. Until that is so, the question is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
from msgspec import Struct, field

from hub.children.asking.asking_line import ToolHabits, tool_of
from hub.children.clients import Caller
from hub.jsonrpc.errors import RpcError
from hub.protocol.constants import METHOD_NOT_FOUND
from hub.specs import ServerSpec
from hub.values import Call, SessionKey

LINGER: Final = 0.5
"""Seconds in which a child may still send requests for a call that was abandoned.

Not longer: until then the child's requests cannot go to other clients. A modern client's next call
counts as another client's, as its requests have nothing in common.
"""
TIED: Final = 5.0
"""Seconds after which a question is refused if as many are held as there are calls that may wait
for them: then each call may wait for the end of another."""


class _Held(Struct, eq=False):
    """A question that waits until its source is plain.

    `sources` are the calls that were at the child when it came, and are not over. `doubted` are the
    clients of calls that are over and can be its source all the same; `lost` are those calls'
    tools.
    """

    sources: dict[Caller, Call]
    doubted: set[SessionKey]
    lost: set[str] = field(default_factory=set[str])
    moved: anyio.Event = field(default_factory=anyio.Event)

    @property
    def parties(self) -> set[SessionKey]:
        """The clients that can be its source."""
        return {caller.party for caller in self.sources}

    @property
    def is_plain(self) -> bool:
        """Whether only one client can be its source."""
        parties = self.parties
        return len(parties) == 1 and self.doubted <= parties

    @property
    def is_hopeless(self) -> bool:
        """Whether that will never be so."""
        return not self.sources or len(self.doubted) > 1 or not self.doubted <= self.parties


class OpenQuestions:
    """The questions of one child that are held. `calls` are those at the child."""

    def __init__(self, spec: ServerSpec, calls: Mapping[Caller, Call], habits: ToolHabits) -> None:
        self._spec = spec
        self._calls = calls
        self._habits = habits
        self._held: list[_Held] = []
        self._unclear: set[Caller] = set()
        self._asked: set[Caller] = set()
        self._abandoned: dict[SessionKey, float] = {}

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec` to the questions that come from now on."""
        self._spec = spec

    def is_holding(self) -> bool:
        """Return whether a question is held."""
        return bool(self._held)

    def holds_for(self, caller: Caller) -> bool:
        """Return whether a held question waits for the end of a call."""
        return any(caller in held.sources for held in self._held)

    async def source(self, method: str) -> Caller:
        """Return the call that the child's question belongs to, or another of the same client.

        The child must have answered the calls of all other clients that were there when the
        question came: an answered call cannot be its source, an abandoned one still can. So can one
        whose tool asks, if it was answered without a question: it may have stopped waiting.

        Raises: RpcError if there is no call, or if it stays open whose it is.
        """
        held = _Held(dict(self._calls), set(self.abandoned()))
        if not held.is_plain:
            self._held.append(held)
            try:
                await self._until_plain(held, method)
            finally:
                self._held.remove(held)
                for other in self._held:
                    other.moved.set()
        self._asked.update(held.sources)
        self._learn(held.sources)
        here = [caller for caller in held.sources if caller.is_present]
        return (here or list(held.sources))[-1]

    async def _until_plain(self, held: _Held, method: str) -> None:
        ends = anyio.current_time() + self._spec.timeout
        while not held.is_plain:
            is_tied = held is self._held[-1] and self._is_tied
            left = ends - anyio.current_time()
            if held.is_hopeless or left <= 0:
                raise self._refusal(held, method)
            with anyio.move_on_after(min(left, TIED) if is_tied else left):
                await held.moved.wait()
                held.moved = anyio.Event()
                continue
            if is_tied:
                raise self._refusal(held, method)

    @property
    def _is_tied(self) -> bool:
        """Whether each call may wait for the answer to a held question."""
        calls = {caller for held in self._held for caller in held.sources}
        return len(self._held) >= len(calls)

    def _refusal(self, held: _Held, method: str) -> RpcError:
        """Return the error for a question; next time its tools are not called side by side."""
        for tool in {*map(tool_of, held.sources.values()), *held.lost}:
            self._habits.asked(tool)
        whose = "no client has a call under way"
        if held.sources:
            whose = "several clients have calls under way, and it does not say for which it asks"
        return RpcError(
            METHOD_NOT_FOUND, f"{method} cannot be passed on: {whose} (share: session helps)"
        )

    def _learn(self, sources: Mapping[Caller, Call]) -> None:
        """Record which tool asks, if that is plain; else calls of one client teach nothing."""
        tools = {tool_of(call) for call in sources.values()}
        suspects = tools - self._habits.quiet or tools
        if len(suspects) == 1:
            self._habits.asked(suspects.pop())
        else:
            self._unclear.update(sources)

    def tool_asking(self, caller: Caller) -> str | None:
        """Return the tool of a call if it is known to ask."""
        call = self._calls.get(caller)
        tool = None if call is None else tool_of(call)
        return tool if tool in self._habits.asking else None

    def is_clear(self, caller: Caller) -> bool:
        """Return whether it is known that a call did not ask, unless its tool is known to."""
        return caller not in self._unclear

    def ended(self, caller: Caller, call: Call, *, is_answered: bool) -> None:
        """Record that a call is over, and whether the child answered it."""
        if not is_answered:
            # Its child may not know yet, or may not care.
            # Those whose time is over go first: nobody may ask for them while no child asks.
            known = self.abandoned()
            known.pop(caller.party, None)
            known[caller.party] = anyio.current_time() + LINGER
        if self._held:
            self._rule_out(caller, call, is_answered=is_answered)
        self._unclear.discard(caller)
        self._asked.discard(caller)

    def _rule_out(self, caller: Caller, call: Call, *, is_answered: bool) -> None:
        """Take a call that is over from the sources of the questions that are held."""
        tool = tool_of(call)
        may_ask = tool in self._habits.asking and caller not in self._asked
        is_ruled_out = is_answered and not may_ask
        for held in self._held:
            if held.sources.pop(caller, None) is not None:
                if not is_ruled_out:
                    held.doubted.add(caller.party)
                    held.lost.add(tool)
                held.moved.set()

    def abandoned(self) -> dict[SessionKey, float]:
        """Return the clients whose calls were abandoned less than `LINGER` seconds ago.

        The value is the end of that time.
        """
        if self._abandoned:
            now = anyio.current_time()
            while self._abandoned and self._abandoned[party := next(iter(self._abandoned))] <= now:
                del self._abandoned[party]
        return self._abandoned
