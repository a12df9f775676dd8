"""The retry of a parked call is judged by what holds when its answers go to the child."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest
from msgspec.structs import force_setattr

from hub.calls.rounds.askable_call import KEPT
from hub.protocol.constants import INVALID_PARAMS
from hub.system.tasks import FairWorker
from hub.values import JsonObject
from tests.kit.callers import ACCEPTED, ScriptedCaller, asked, completed, question, silent
from tests.kit.fakes import READ, FakeChild
from tests.kit.hubs import text_of
from tests.kit.loops import all_tasks_blocked, virtual_time
from tests.kit.scripted import ScriptedHub, scripted
from tests.kit.trees import plant

pytestmark = pytest.mark.usefixtures("both_ways")

SERVER: JsonObject = {"command": "x", "share": "roots"}
Result = TypeVar("Result")


class LateWorker(FairWorker):
    """A worker that begins nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_work, self.go_on = anyio.Event(), anyio.Event()

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        self.has_work.set()
        await self.go_on.wait()
        return await super().run(party, work)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x")


class Parked:
    """A call that has been parked, and what became of it."""

    def __init__(self, hub: ScriptedHub, child: FakeChild, top: Path) -> None:
        self.hub, self.child, self._top = hub, child, top
        self.caller = self.sharing("a")
        self.result: Any = None

    def sharing(self, *roots: str) -> ScriptedCaller:
        """Return the client of the call, with these roots; judging takes the worker's time."""
        many = [f"{self._top}/a/{number}" for number in range(600)]
        return ScriptedCaller(
            self.hub,
            roots=tuple(self._top / root for root in roots),
            name="read",
            arguments={"path": f"{self._top}/a/x", "paths": [*many]},
        )

    async def begin(self, caller: ScriptedCaller | None = None) -> int:
        """Send the retry, and return its id."""
        key, _ = question(self.result)
        return await (caller or self.caller).begin({key: ACCEPTED}, self.result["requestState"])

    def hold_judging(self) -> LateWorker:
        """Have the next judgement wait."""
        worker = LateWorker()
        force_setattr(self.hub.services, "worker", worker)
        return worker

    async def answer(self) -> None:
        """Let the child answer the call while its client is away."""
        self.child.link.answer(self.child.link.requests("tools/call")[0]["id"], {"content": []})
        await all_tasks_blocked()

    async def assert_ended(self) -> None:
        """Make sure that the child has got no answer, and knows that its call is cancelled."""
        assert "error" in await self.child.link.reply("q")
        await self.child.link.request("notifications/cancelled")


@asynccontextmanager
async def parked(top: Path) -> AsyncGenerator[Parked]:
    child = silent(READ)
    async with scripted(child, config={"audit": {"file": str(top / "audit.jsonl")}}) as hub:
        one = Parked(hub, child, top)
        one.result = await asked(child, one.caller)
        yield one


def verdicts(top: Path, *, by_cached_route: bool) -> list[str]:
    """Return the verdicts in the audit log, but for that of the call that made a route known."""
    lines = (top / "audit.jsonl").read_text().splitlines()
    return [json.loads(line)["verdict"] for line in lines][int(by_cached_route) :]


REFUSING: list[dict[str, Any]] = [
    {"roots": {"deny": ["x"]}},
    {"roots": {"ceiling": ["/nowhere"]}},
    {"servers": {"files": {**SERVER, "tools": {"overrides": {"read": {"access": "write"}}}}}},
]


@pytest.mark.parametrize("keys", REFUSING)
async def test_a_parked_call_that_the_config_of_now_refuses_gets_no_answers(
    top: Path, keys: dict[str, Any]
) -> None:
    access: JsonObject = {"path": str(top / "a"), "access": "read"}
    keys = keys if "roots" in keys else {**keys, "roots": {"access": [access]}}
    audit: JsonObject = {"file": str(top / "audit.jsonl")}
    async with parked(top) as one:
        await one.hub.take(audit=audit, **keys)
        refused = await one.caller.end(await one.begin())
        assert text_of(refused).startswith("Access denied: ")
        await one.assert_ended()
    assert verdicts(top, by_cached_route=one.caller.client.by_cached_route) == ["refused"]


@pytest.mark.parametrize(
    "servers", [{"other": SERVER}, {"files": {**SERVER, "tools": {"deny": ["read"]}}}]
)
async def test_a_parked_call_of_what_is_no_longer_offered_gets_no_answers(
    top: Path, servers: JsonObject
) -> None:
    audit: JsonObject = {"file": str(top / "audit.jsonl")}
    async with parked(top) as one:
        await one.hub.take(audit=audit, servers=servers)
        answer = await one.caller.client.end(await one.begin())
        error: Any = answer["error"]
        assert error["code"] == INVALID_PARAMS
        assert "does not offer 'read' any more" in error["message"]
        await one.assert_ended()
    assert verdicts(top, by_cached_route=one.caller.client.by_cached_route) == ["failed"]


async def test_a_parked_call_goes_on_under_a_config_that_admits_it(top: Path) -> None:
    async with parked(top) as one:
        await one.hub.take(roots={"deny": ["other"]})
        id_ = await one.begin()
        assert (await one.child.link.reply("q"))["result"] == ACCEPTED
        await completed(one.child, one.caller, id_)


async def test_a_config_that_comes_while_a_retry_is_judged_counts(top: Path) -> None:
    async with parked(top) as one:
        worker = one.hold_judging()
        id_ = await one.begin()
        await worker.has_work.wait()
        await one.hub.take(roots={"deny": ["x"]})
        worker.go_on.set()
        assert text_of(await one.caller.end(id_)).startswith("Access denied: ")
        await one.assert_ended()


@virtual_time
@pytest.mark.parametrize("outcome", ["admitted", "refused", "cancelled"])
async def test_the_record_says_what_the_client_got_whose_retry_was_judged_for_long(
    top: Path, outcome: str
) -> None:
    async with parked(top) as one:
        await one.answer()
        worker = one.hold_judging()
        caller = one.sharing("b" if outcome == "refused" else "a")
        id_ = await one.begin(caller)
        await worker.has_work.wait()
        await anyio.sleep(KEPT + 1)
        if outcome == "cancelled":
            await caller.client.notify_cancelled(id_)
        worker.go_on.set()
        if outcome != "cancelled":
            answer = await caller.end(id_)
            assert answer.get("isError", False) is (outcome == "refused")
    assert verdicts(top, by_cached_route=one.caller.client.by_cached_route) == [outcome]


async def test_answers_that_are_too_many_end_no_call_whose_retry_is_judged(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.calls.modern_calls.MAX_KEPT_BYTES", 0)
    async with parked(top) as one:
        worker = one.hold_judging()
        id_ = await one.begin()
        await worker.has_work.wait()
        await one.answer()
        worker.go_on.set()
        assert "isError" not in await one.caller.end(id_)
    assert verdicts(top, by_cached_route=one.caller.client.by_cached_route) == ["admitted"]
