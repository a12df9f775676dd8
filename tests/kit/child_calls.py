"""Calls at a child alone, without a client's request around them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio

from hub.children.asking.asking_line import AskingLine
from hub.children.callbacks import ChildCallbacks
from hub.children.child import Child
from hub.children.child_call import CallResult, ChildCall
from hub.children.clients import Caller
from hub.errors import ChildError
from hub.guard.decide import Admitted
from hub.jsonrpc.errors import RpcError
from hub.jsonrpc.messages import Payload
from hub.values import Call
from tests.kit.fakes import RecordingAsker, Signals


class AwaitedResult:
    """Who makes a call, and waits for its result."""

    def __init__(self, is_still_valid: Callable[[], bool]) -> None:
        self._is_still_valid = is_still_valid
        self.is_there = anyio.Event()
        self._result: CallResult | None = None

    @property
    def may_be_sent(self) -> bool:
        return self._is_still_valid()

    def ended(self, result: CallResult) -> None:
        self._result = result
        self.is_there.set()

    def result(self) -> Payload:
        """Return the result, or raise the error in its place."""
        assert self._result is not None
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


async def call(
    child: Child,
    admitted: Admitted,
    caller: Caller,
    is_still_valid: Callable[[], bool] = lambda: True,
) -> Payload:
    """Make a call, and return the child's result; cancel the call if that is not waited for."""
    ready, taker = await child.ready(), AwaitedResult(is_still_valid)
    assert child.peer is not None
    async with anyio.create_task_group() as tasks:
        at_child = ChildCall(
            child, ready, child.peer, admitted.call, caller, caller.progress, taker, tasks
        )
        at_child.begin()
        try:
            await taker.is_there.wait()
        except anyio.get_cancelled_exc_class():
            at_child.cancel(caller.reason)
            raise
    return taker.result()


@contextmanager
def in_flight(answers: ChildCallbacks, caller: Caller, tool: str = "tool") -> Generator[None]:
    """Count a call of `caller` among those in flight; any error but the child's own gives it up."""
    answers.begin(caller, Call("tools/call", tool, {}, {}))
    is_answered = False
    try:
        yield
        is_answered = True
    except RpcError:
        is_answered = True
        raise
    finally:
        answers.end(caller, is_answered=is_answered)


class LinedUp:
    """A call that is sent if `line` lets it; it says in `said` what becomes of it."""

    def __init__(
        self,
        party: str,
        tool: str,
        said: list[str] | None = None,
        line: AskingLine | None = None,
    ) -> None:
        self._line = line
        self.request_owner: Caller = RecordingAsker(party)
        self.party = self.request_owner.party
        self.call = Call("tools/call", tool, {}, {})
        self.said: list[str] = [] if said is None else said
        self.signals = Signals()

    def _say(self, what: str) -> None:
        self.said.append(f"{self.party} {self.call.name}: {what}")
        self.signals.moved()

    def proceed(self) -> None:
        self._say("goes")
        if self._line is not None:
            self._line.sent(self.request_owner)

    def expire(self) -> None:
        self._say("is late")

    def turned_away(self, why: ChildError) -> None:
        self._say(str(why))


class ChildSlots:
    """Takes the call slots of a child as calls do, and gives them back."""

    def __init__(self, answers: ChildCallbacks) -> None:
        self._answers = answers
        self._callers: list[RecordingAsker] = []

    def take(self) -> bool:
        """Take a slot if one is free; return whether it was."""
        answers = self._answers
        if answers.limiter.turns or len(answers.calls) >= answers.limiter.concurrency:
            return False
        self._callers.append(RecordingAsker(f"in slot {len(self._callers)}"))
        answers.begin(self._callers[-1], Call("tools/call", "slow", {}, {}))
        return True

    def give(self) -> None:
        """Give back the slot that was taken last."""
        self._answers.end(self._callers.pop(), is_answered=True)
