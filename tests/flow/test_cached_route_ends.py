"""Plain calls that end in every way, at random: each ends once, and nothing of it stays behind."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from hub.children.child import Child, Down
from hub.jsonrpc.deadlines import Deadlines
from hub.jsonrpc.exact_json import RequestId
from hub.jsonrpc.messages import Notification, Request, lost
from hub.jsonrpc.requests import Cancellable
from hub.values import JsonObject
from tests.calls.test_in_flight import DispatchedCaller
from tests.kit.child_calls import ChildSlots
from tests.kit.fakes import READ, SILENT, FakeChild, failure
from tests.kit.loops import all_tasks_blocked
from tests.kit.rigs import RigClient, remote, rig
from tests.kit.trees import plant

SLOTS = 3
STEPS = 150
FILES = replace(remote("files"), concurrency=SLOTS)


class CallsOfTwo:
    """Calls of two clients at one child, and what becomes of them."""

    def __init__(
        self, chance: random.Random, fake: FakeChild, callers: list[DispatchedCaller]
    ) -> None:
        self.taken: list[dict[RequestId, Cancellable]] = [{} for _ in callers]
        self._chance = chance
        self._fake = fake
        self._callers = callers
        self._answered = {one["id"] for one in fake.link.requests("tools/call")}

    def call(self, folder: Path) -> None:
        """Make a call; ids of the clients are alike, and a number is not its digits."""
        who = self._chance.randrange(len(self._callers))
        caller, number = self._callers[who], len(self.taken[who])
        id_ = self._chance.choice([number, f"{number}"])
        params: JsonObject = {"name": "read", "arguments": {"path": f"{folder}/f"}}
        if self._chance.random() < 0.5:
            params["_meta"] = {"progressToken": f"{who}"}
        request = Request(id_, "tools/call", params)
        route = caller.at.relay.session_routes.find(caller.client.session, request)
        in_flight = caller.dispatcher.take(request, route, caller.reply)
        if in_flight is not None:
            self.taken[who][id_] = in_flight

    @property
    def unanswered(self) -> list[int]:
        """Return the child's ids of calls that it has not answered."""
        link = self._fake.link
        return [one["id"] for one in link.requests("tools/call") if one["id"] not in self._answered]

    def answer(self) -> None:
        if not (waiting := self.unanswered):
            return
        link, id_ = self._fake.link, self._chance.choice(waiting)
        self._answered.add(id_)
        if self._chance.random() < 0.5:
            link.notify("notifications/progress", {"progressToken": id_, "progress": 1})
        link.answer(id_, self._chance.choice([{}, {}, failure(-1, "no"), lost(0, "unreadable")]))

    async def cancel(self) -> None:
        who = self._chance.randrange(len(self._callers))
        if self.taken[who]:
            id_ = self._chance.choice(list(self.taken[who]))
            told = Notification("notifications/cancelled", {"requestId": id_})
            await self._callers[who].client.peer.receive(told)

    def expire(self) -> None:
        who = self._chance.randrange(len(self._callers))
        (slot,) = self._callers[who].client.session.slots
        deadlines = slot.child.deadlines if slot.child is not None else Deadlines(0)
        if waiting := deadlines.first(SLOTS):
            one = self._chance.choice(waiting)
            deadlines.end(one)
            one.expire()

    def turn_away(self) -> None:
        """Let a client stop to take its answers at once, or take them again."""
        reply = self._chance.choice(self._callers).reply
        reply.is_stuck = not reply.is_stuck

    async def step(self, top: Path) -> None:
        """Do one thing at random."""
        match self._chance.choice("cccccaaaaxetf."):
            case "c":
                self.call(top / self._chance.choice("aaab"))
            case "a":
                self.answer()
            case "x":
                await self.cancel()
            case "e":
                self.expire()
            case "t":
                self.turn_away()
            case "f":
                self._fake.is_full = not self._fake.is_full
            case _:
                await all_tasks_blocked()

    async def finish(self, child: Child) -> None:
        """Let the child answer all that it has got and still gets, if it is there."""
        self._fake.is_full = False
        await all_tasks_blocked()
        while self.unanswered and not (self._fake.closed or isinstance(child.state, Down)):
            self.answer()
            await all_tasks_blocked()

    async def check(self) -> int:
        """Check that each call has ended once; returns how many have an audit record."""
        for who, (taken, caller) in enumerate(zip(self.taken, self._callers, strict=True)):
            reply = caller.reply
            answered = [one.id for one in reply.answers if one is not None]
            passed_on = [one.id for one in reply.resolved_again]
            given_up = len(reply.answers) - len(answered)
            assert len(answered) + given_up + len(passed_on) == len(taken)
            assert Counter([*answered, *passed_on]) <= Counter(taken.keys())
            for line in reply.outlet.lines:
                assert line["params"]["progressToken"] == f"{who}"
            await caller.client.peer.backlog.idle()
        return sum(map(len, self.taken)) - sum(
            len(one.reply.resolved_again) for one in self._callers
        )


def end(fate: str, fake: FakeChild, child: Child, client: RigClient) -> None:
    """Let something happen that ends calls under way."""
    match fate:
        case "crash":
            fake.link.crash()
        case "stop":
            child.stop()
        case "hang up":
            client.peer.close("gone")
        case _:
            client.session.roots.list_changed()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fate", ["crash", "stop", "hang up", "change roots"])
async def test_each_call_ends_once_and_nothing_of_it_stays_behind(
    tmp_path: Path, fate: str, seed: int
) -> None:
    fake, top = FakeChild(READ), plant(tmp_path, "a/f", "b/f")
    async with rig({"files": FILES}, {"files": fake}) as at:
        clients = [at.client(top / "a") for _ in range(2)]
        for client in clients:
            await client.call("read", {})
        at.audit.records.clear()
        fake.answers["tools/call"] = SILENT
        chance = random.Random(f"{fate} {seed}")  # noqa: S311 - nothing is secret here
        calls = CallsOfTwo(chance, fake, [DispatchedCaller(at, client) for client in clients])
        for _ in range(STEPS):
            await calls.step(top)
        (slot,) = {slot for client in clients for slot in client.session.slots}
        child = slot.child
        assert child is not None
        end(fate, fake, child, clients[0])
        await calls.finish(child)
        assert len(at.audit.records) == await calls.check() > 0
        assert (slot.uses, child.answers.busy) == (0, 0)
        assert not child.deadlines._due  # pyright: ignore[reportPrivateUsage] - it would keep calls
        slots = ChildSlots(child.answers)
        for _ in range(SLOTS):
            assert slots.take(), "none is lost"
        assert not slots.take(), "none is given twice"
