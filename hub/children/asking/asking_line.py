"""The line of calls in which a child may ask, where it does not say for which call it asks.

A question of such a child is passed on if the calls of one client alone can be its source. So
calls of several clients that may ask are sent one after the other. Which tools ask is learned; the
calls of tools that do not are never delayed.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - a timer without a task
import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

import anyio
from msgspec import Struct

from hub.children.clients import Caller
from hub.children.failures import line_full
from hub.errors import ChildError
from hub.jsonrpc.deadlines import Deadlines
from hub.specs import ServerSpec
from hub.values import Call, SessionKey

EARLY: Final = 1.0
"""Seconds after which a call that has not asked yet lets other unknown tools be called."""
ASKING: Final = 10.0
"""The same for a call of a tool that asks: it may ask again, while its client thinks as well."""
MAX_IN_LINE: Final = 256
"""How many calls may wait for one child; further ones fail."""
MAX_KNOWN: Final = 4096
"""How many tools of one child are remembered as quiet or asking; then they are learned anew."""


def tool_of(call: Call) -> str:
    """Return the key that habits are learned by: the tool or prompt, else the method."""
    if call.method == "tools/call":
        return call.name
    return f"{call.method} {call.name}" if call.method == "prompts/get" else call.method


class ToolHabits:
    """What was learned about a child's tools: `asking` ones have asked, `quiet` ones never have.

    A tool that is in neither is unknown: it has not finished a call, or only with errors.
    """

    def __init__(self) -> None:
        self.asking: set[str] = set()
        self.quiet: set[str] = set()

    def is_unknown(self, tool: str) -> bool:
        """Return whether nothing was learned about a tool."""
        return tool not in self.quiet and tool not in self.asking

    def asked(self, tool: str) -> None:
        """Record that a tool asks."""
        if len(self.asking) >= MAX_KNOWN:
            self.asking.clear()
        self.asking.add(tool)
        self.quiet.discard(tool)

    def finished(self, tool: str) -> None:
        """Record that a call of a tool was answered, and did not ask."""
        if len(self.quiet) >= MAX_KNOWN:
            self.quiet.clear()
        self.quiet.add(tool)


class AskingCall(Protocol):
    """A call that has not been sent yet, in which the child may ask."""

    @property
    def request_owner(self) -> Caller:
        """The client's side of the call."""
        ...

    @property
    def party(self) -> SessionKey:
        """The client of the call."""
        ...

    @property
    def call(self) -> Call:
        """The call itself."""
        ...

    def proceed(self) -> None:
        """Go on: no other client's call is in the way."""

    def expire(self) -> None:
        """Leave the line: the wait was too long."""

    def turned_away(self, why: ChildError) -> None:
        """Fail: too many calls wait already."""


class _Waiting(Struct, frozen=True):
    """What a call in line waits for: `before` are other clients' calls that were sent before it."""

    tool: str
    before: frozenset[Caller]


class _Sent(Struct):
    """A call that may ask and was let go; `since` is when it was sent, or infinity."""

    tool: str
    since: float = math.inf


class AskingLine:
    """Decides when a call may be sent in which the child may ask.

    - A call of a quiet tool never waits.
    - One of an unknown tool waits until no other client's call was sent less than `EARLY` seconds
      ago, of an asking tool `ASKING` seconds (of a quiet one it does not matter), and none was
      abandoned recently (`abandoned`, with the end of that time).
    - One of an asking tool waits, too, until other clients' `calls` that were at the child before
      it are over, and all calls of asking tools, and no question is held. So a call that is then
      cancelled leaves no doubt about its question.

    `is_active`: the child may ask, and does not name the call. `is_holding` says whether a question
    is held. A call waits for at most the server's `timeout`.
    """

    def __init__(
        self,
        spec: ServerSpec,
        habits: ToolHabits,
        calls: Collection[Caller],
        *,
        is_holding: Callable[[], bool],
        abandoned: Callable[[], Mapping[SessionKey, float]],
    ) -> None:
        self.is_active = False
        self._spec = spec
        self._habits = habits
        self._calls = calls
        self._is_holding = is_holding
        self._abandoned = abandoned
        self._sent: dict[Caller, _Sent] = {}
        self._waiting: dict[AskingCall, _Waiting] = {}
        self._asked: Counter[SessionKey] = Counter()
        self._limits = Deadlines(spec.timeout)
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._is_moving = False

    def follow(self, spec: ServerSpec) -> None:
        """Apply the limits of `spec` to the calls that come from now on."""
        self._spec = spec
        self._limits.allow(spec.timeout)

    @property
    def has_waiting(self) -> bool:
        """Whether any call waits."""
        return bool(self._waiting)

    @property
    def wanted(self) -> int:
        """The number of waiting calls whose tools ask: other calls must end before them."""
        asking = self._habits.asking
        return sum(its.tool in asking for its in self._waiting.values())

    def admits(self, one: AskingCall) -> bool:
        """Return whether a call may be sent; if not, `proceed` follows, perhaps at once."""
        tool = tool_of(one.call)
        if tool in self._habits.quiet or one.request_owner in self._sent:
            return True
        if len(self._waiting) >= MAX_IN_LINE:
            one.turned_away(line_full(self._spec, MAX_IN_LINE))
            return False
        before = frozenset(caller for caller in self._calls if caller.party != one.party)
        self._waiting[one] = _Waiting(tool, before)
        self._limits.begin(one)
        self.move()
        return False

    def step_out(self, one: AskingCall) -> bool:
        """Remove a call from the line; return whether it was waiting."""
        self._limits.end(one)
        if self._waiting.pop(one, None) is None:
            return False
        self.move()
        return True

    def sent(self, caller: Caller) -> None:
        """Record that a call was sent."""
        own = self._sent.get(caller)
        if own is not None:
            own.since = anyio.current_time()

    def over(self, caller: Caller) -> None:
        """Record that a call is over, or that it will not be sent."""
        self._sent.pop(caller, None)
        self.move()

    @contextmanager
    def asking(self, caller: Caller, tool: str | None) -> Generator[None]:
        """Count a question to a client while the context lasts; `tool` asks, as far as known.

        Calls that the client makes to find the answer must not wait for the call that asks.
        """
        if tool is not None:
            self._sent.setdefault(caller, _Sent(tool, anyio.current_time()))
        self._asked[caller.party] += 1
        try:
            yield
        finally:
            self._asked[caller.party] -= 1
            if not self._asked[caller.party]:
                del self._asked[caller.party]

    def move(self) -> None:
        """Let all calls go that need not wait any longer."""
        if self._is_moving or not self._waiting:
            return
        self._is_moving = True
        try:
            while (one := self._next()) is not None:
                its = self._waiting.pop(one)
                self._limits.end(one)
                self._sent[one.request_owner] = _Sent(its.tool)
                one.proceed()
        finally:
            self._is_moving = False
        self._set_timer()

    def _next(self) -> AskingCall | None:
        """Return the first call in line that need not wait."""
        left = dict(self._abandoned())
        now, holds, ahead = anyio.current_time(), self._is_holding(), set[SessionKey]()
        for one, its in self._waiting.items():
            if its.tool in self._habits.quiet:
                return one
            party, asks = one.party, its.tool in self._habits.asking
            must_wait = asks and (holds or self._is_behind(one, its.before, ahead))
            if not (
                must_wait or left.keys() - {party} or self._is_in_the_way(party, now, asks=asks)
            ):
                return one
            if asks:
                ahead.add(party)
        # Of the same moment as the decisions, or a call could wait for what is past.
        moments = [*left.values(), *map(self._end_of, self._sent.values())]
        self._due = min((moment for moment in moments if now < moment), default=math.inf)
        return None

    def _is_behind(
        self, one: AskingCall, before: frozenset[Caller], ahead: set[SessionKey]
    ) -> bool:
        """Return whether other clients' calls came before a call of an asking tool.

        `ahead` are the clients of such calls in line.
        """
        if not before.isdisjoint(self._calls):
            return True
        return bool(ahead - {one.party}) and not self._asked[one.party]

    def _is_in_the_way(self, party: SessionKey, now: float, *, asks: bool) -> bool:
        """Return whether a call of another client must be waited for."""
        for caller, own in self._sent.items():
            if caller.party == party or own.tool in self._habits.quiet:
                continue
            if (asks and own.tool in self._habits.asking) or now < self._end_of(own):
                return True
        return False

    def _end_of(self, own: _Sent) -> float:
        """Return when a call of an unknown tool need not wait for this one any longer."""
        return own.since + (ASKING if own.tool in self._habits.asking else EARLY)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._due < math.inf:
            self._timer = asyncio.get_running_loop().call_at(self._due, self.move)
