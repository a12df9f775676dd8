"""Asking a client's user, by single calls; tests/flow/test_consent.py plays whole conversations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

from hub.guard.consent import MAX_SEEN
from hub.guard.policy import DenyPatterns, Policy
from hub.jsonrpc.errors import RpcError
from hub.roots.effective import OperatorRoots
from hub.roots.roots import RootSet
from hub.sessions.services import RootsSettings
from hub.system.tasks import FairWorker, Result
from hub.values import Json, JsonObject
from tests.kit.fakes import READ, SILENT, FakeChild, Silence, failure
from tests.kit.loops import virtual_time
from tests.kit.rigs import ROOTS, Rig, RigClient, remote, rig, roots_at
from tests.kit.trees import plant
from tests.kit.worlds import views_of_disk

ASK = Policy(on_refused="ask")
SPECS = {"files": remote(policy=ASK)}
BOTH: JsonObject = {**ROOTS, "elicitation": {}}
ONCE: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}
SESSION: JsonObject = {"action": "accept", "content": {"decision": "allow for this session"}}
PROMPTS: JsonObject = {"resources": {"subscribe": True}, "prompts": {}, "completions": {}}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x", "c/x")


def asking(at: Rig, top: Path, answer: JsonObject = ONCE) -> RigClient:
    client = at.client(top / "a", capabilities=BOTH)
    client.answers["elicitation/create"] = answer
    return client


def questions(client: RigClient) -> list[str]:
    sent = [line for line in client.outlet.lines if line.get("method") == "elicitation/create"]
    return [line["params"]["message"] for line in sent]


async def test_a_call_passes_with_its_users_consent(top: Path) -> None:
    fake = FakeChild(READ)
    async with rig(SPECS, {"files": fake}) as at:
        client = asking(at, top)
        assert "isError" not in await client.call("read", {"path": f"{top}/b/x"})
        assert len(questions(client)) == 1
        (record,) = at.audit.records
        assert (record.verdict, record.consent) == ("admitted", "once")
        assert (record.pointer, record.path) == ("/path", f"{top}/b/x")
        assert not record.would_refuse
        assert client.session.refusals.recent == []


@pytest.mark.parametrize(("names", "kept"), [("", 1), ("/d" * MAX_SEEN, 0)])
async def test_little_of_what_a_verdict_saw_of_the_disk_is_kept_while_its_user_is_asked(
    top: Path, names: str, kept: int
) -> None:
    (top / f"b{names}").mkdir(parents=True, exist_ok=True)
    fake = FakeChild(READ, answers={"tools/call": SILENT})
    async with rig(SPECS, {"files": fake}) as at, anyio.create_task_group() as tasks:
        client, before = asking(at, top), views_of_disk()
        client.answers["elicitation/create"] = SILENT
        outside, inside = (dict[str, Json](path=f"{top}/{one}/x") for one in (f"b{names}", "a"))
        tasks.start_soon(client.call, "read", outside)
        await client.outlet.signals.until(lambda: bool(questions(client)))
        views = [one for one in views_of_disk() if one not in before]
        assert [one.size <= MAX_SEEN for one in views] == [True] * kept
        tasks.start_soon(client.call, "read", inside)
        await (await fake.connected()).request("tools/call")
        assert len(views_of_disk()) == len([*before, *views]), "a call at its child has none"
        tasks.cancel_scope.cancel()


async def test_a_client_that_is_gone_or_answers_with_an_error_has_asked_nobody(top: Path) -> None:
    async with rig(SPECS, {"files": FakeChild(READ)}) as at:
        client = asking(at, top)
        client.answers["elicitation/create"] = failure(-32603, "no")
        assert (await client.call("read", {"path": f"{top}/b/x"}))["isError"] is True
        client.answers["elicitation/create"] = Silence()
        client.session.peer = None
        assert (await client.call("read", {"path": f"{top}/b/x"}))["isError"] is True
        assert [record.consent for record in at.audit.records] == [None, None]


@virtual_time
async def test_a_person_who_says_nothing_refuses(top: Path) -> None:
    settings = RootsSettings(timeout=0.02, debounce=0.001)
    async with rig(SPECS, {"files": FakeChild(READ)}, settings=settings) as at:
        client = asking(at, top)
        client.answers["elicitation/create"] = Silence()
        assert (await client.call("read", {"path": f"{top}/b/x"}))["isError"] is True
        assert len(client.outlet.notified("notifications/cancelled")) == 1


def everything() -> FakeChild:
    return FakeChild(
        capabilities=PROMPTS,
        answers={
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "file:///{+path}"}]},
            "resources/list": {"resources": []},
            "resources/read": {"contents": []},
            "resources/subscribe": {},
            "prompts/list": {"prompts": [{"name": "ask"}]},
            "prompts/get": {"messages": []},
            "completion/complete": {"completion": {"values": []}},
        },
    )


async def test_resources_and_prompts_are_asked_about_too(top: Path) -> None:
    async with rig(SPECS, {"files": everything()}) as at:
        client = asking(at, top)
        uri = f"file://{top}/b/x"
        assert await client.request(client.asked_for("resources/read", {"uri": uri})) == {
            "contents": []
        }
        arguments: JsonObject = {"name": "ask", "arguments": {"path": f"{top}/b/x"}}
        await client.request(client.asked_for("prompts/get", arguments))
        resource, prompt = questions(client)
        assert f'resource "{uri}", argument "/uri"' in resource
        assert 'prompt "ask", argument "/path"' in prompt


async def test_nobody_is_asked_while_typing_but_what_the_session_allows_holds(top: Path) -> None:
    async with rig(SPECS, {"files": everything()}) as at:
        client = asking(at, top, SESSION)
        typed: JsonObject = {
            "ref": {"type": "ref/prompt", "name": "ask"},
            "argument": {"name": "path", "value": f"{top}/b/x"},
        }
        uri: JsonObject = {"uri": f"file://{top}/b/x"}
        for method, params in (("completion/complete", typed), ("resources/subscribe", uri)):
            with pytest.raises(RpcError):
                await client.request(client.asked_for(method, params))
        assert questions(client) == []
        await client.request(client.asked_for("resources/read", uri))
        for method, params in (("completion/complete", typed), ("resources/subscribe", uri)):
            await client.request(client.asked_for(method, params))
        assert len(questions(client)) == 1


async def test_a_grant_does_not_outlive_a_ceiling_that_moves(top: Path) -> None:
    operator = OperatorRoots(ceiling=roots_at(top))
    async with rig(SPECS, {"files": FakeChild(READ)}, operator=operator) as at:
        client = asking(at, top, SESSION)
        path: JsonObject = {"path": f"{top}/b/x"}
        assert "isError" not in await client.call("read", path)
        at.services.operator.take(OperatorRoots(ceiling=roots_at(top / "a")))
        assert (await client.call("read", path))["isError"] is True
        assert len(questions(client)) == 1


async def test_a_servers_own_directories_are_a_ceiling_too(top: Path) -> None:
    own: RootSet = roots_at(top / "a", top / "c")
    spec = remote(policy=ASK, ceiling=own)
    async with rig({"files": spec}, {"files": FakeChild(READ)}) as at:
        client = asking(at, top)
        assert (await client.call("read", {"path": f"{top}/b/x"}))["isError"] is True
        assert questions(client) == []
        assert "isError" not in await client.call("read", {"path": f"{top}/c/x"})


async def test_a_yes_that_came_too_late_for_a_link_that_moved_is_none(top: Path) -> None:
    plant(top, "a/l => ../b/x")

    async with rig(SPECS, {"files": FakeChild(READ)}) as at:
        client = asking(at, top)
        answered = client.answer

        async def swap(request: object) -> None:
            if questions(client):
                (top / "a/l").unlink()
                (top / "a/l").symlink_to("../c/x")
            await answered(request)  # pyright: ignore[reportArgumentType]

        client.answer = swap
        result = await client.call("read", {"path": f"{top}/a/l"})
        assert result["isError"] is True
        (record,) = at.audit.records
        assert (record.verdict, record.consent) == ("refused", "once")


def nothing(top: Path) -> None:
    """Change nothing."""


def replaced_by_link(top: Path) -> None:
    (top / "b/x").unlink()
    (top / "b/x").symlink_to("../c/x")


def folder_replaced_by_link(top: Path) -> None:
    (top / "b").rename(top / "old")
    (top / "b").symlink_to("c")


def root_gone(top: Path) -> None:
    (top / "a").rename(top / "old")


def root_replaced(top: Path) -> None:
    (top / "a").rename(top / "old")
    (top / "a").symlink_to("old")


@pytest.mark.parametrize(
    ("change", "admitted"),
    [
        (nothing, True),
        (replaced_by_link, False),
        (folder_replaced_by_link, False),
        (root_gone, True),  # the user has allowed this file, whatever else is shared
        (root_replaced, True),
    ],
)
async def test_a_yes_is_for_the_place_that_was_asked_about(
    top: Path, change: Callable[[Path], object], *, admitted: bool
) -> None:
    fake = FakeChild(READ)
    async with rig(SPECS, {"files": fake}) as at:
        client = asking(at, top)
        answered = client.answer

        async def answer(request: object) -> None:
            if questions(client):
                client.answer = answered
                change(top)
            await answered(request)  # pyright: ignore[reportArgumentType]

        client.answer = answer
        result = await client.call("read", {"path": f"{top}/b/x"})
        assert ("isError" not in result) is admitted
        assert calls(fake) == int(admitted)
        (record,) = at.audit.records
        assert record.verdict == ("admitted" if admitted else "refused")


async def test_three_questions_are_asked_and_no_more(top: Path) -> None:
    async with rig(SPECS, {"files": FakeChild(READ)}) as at:
        client = asking(at, top)
        three: list[Json] = [f"{top}/b/{n}" for n in range(3)]
        assert "isError" not in await client.call("read", {"path": three})
        assert len(questions(client)) == 3
        assert (await client.call("read", {"path": [*three, f"{top}/b/3"]}))["isError"] is True
        assert len(questions(client)) == 3


class HeldWorker(FairWorker):
    """Does the guard's work, and while it `holds`, keeps the results until they may go on."""

    def __init__(self, *, holds: bool = True) -> None:
        super().__init__()
        self.holds = holds
        self.began, self.may_go_on = threading.Event(), threading.Event()

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        return await super().run(party, partial(self._held, work) if self.holds else work)

    def _held(self, work: Callable[[], Result]) -> Result:
        result = work()
        self.began.set()
        assert self.may_go_on.wait(4)
        return result

    async def until_it_began(self) -> None:
        await anyio.to_thread.run_sync(self.began.wait)

    async def call(
        self, client: RigClient, arguments: JsonObject, meanwhile: Callable[[], None]
    ) -> JsonObject:
        """Return the result of a call; `meanwhile` is done while it is judged."""
        results: list[JsonObject] = []

        async def call() -> None:
            results.append(await client.call("read", arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await self.until_it_began()
            meanwhile()
            self.may_go_on.set()
        return results[0]


async def test_a_call_that_takes_long_to_judge_holds_up_no_other(top: Path) -> None:
    held = HeldWorker()
    paths: list[Json] = [f"{top}/a/{number}, b" for number in range(400)]
    long: JsonObject = {"paths": paths}
    long_refused: JsonObject = {"paths": [*paths, f"{top}/b/x"]}
    async with rig({"files": remote()}, {"files": FakeChild(READ)}, worker=held) as at:
        one, other = at.client(top / "a"), at.client(top / "a")
        results: list[JsonObject] = []

        async def call(arguments: JsonObject) -> None:
            results.append(await one.call("read", arguments))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, long)
            tasks.start_soon(call, long_refused)
            for _ in range(3):
                assert "isError" not in await other.call("read", {"path": f"{top}/a/x"})
            held.may_go_on.set()
        assert sorted("isError" in result for result in results) == [False, True]


LONG = [f"{number}, b" for number in range(400)]


def take(at: Rig, roots: OperatorRoots) -> None:
    at.services.operator.take(roots)


def long_list(*paths: object) -> JsonObject:
    """Return arguments that take long to judge, these paths last."""
    return {"paths": [*LONG, *map(str, paths)]}


def calls(fake: FakeChild) -> int:
    return sum(len(link.requests("tools/call")) for link in fake.links)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OperatorRoots(), OperatorRoots(when_missing="deny")),
        (OperatorRoots(when_empty="allow"), OperatorRoots(when_empty="deny")),
    ],
)
async def test_what_nothing_restricted_is_judged_anew_once_something_does(
    top: Path, before: OperatorRoots, after: OperatorRoots
) -> None:
    fake, held = FakeChild(READ), HeldWorker()
    spec = remote(policy=Policy(deny=DenyPatterns(("secret",))))
    async with rig({"files": spec}, {"files": fake}, operator=before, worker=held) as at:
        client = at.client(capabilities=ROOTS if before.when_empty == "allow" else {})
        result = await held.call(client, long_list(top / "b/x"), lambda: take(at, after))
        assert result["isError"] is True
        assert [record.verdict for record in at.audit.records] == ["refused"]
        assert calls(fake) == 0


async def test_a_grant_does_not_outlive_a_ceiling_that_moves_while_it_is_applied(top: Path) -> None:
    fake, held = FakeChild(READ), HeldWorker(holds=False)
    async with rig(SPECS, {"files": fake}, worker=held) as at:
        client = asking(at, top, SESSION)
        assert "isError" not in await client.call("read", {"path": f"{top}/b/x"})
        held.holds = True
        soon_refused_without: JsonObject = {"paths": [f"{top}/b/x", *LONG]}
        ceiling = OperatorRoots(ceiling=roots_at(top / "a"))
        result = await held.call(client, soon_refused_without, lambda: take(at, ceiling))
        assert result["isError"] is True
        assert calls(fake) == 1


@pytest.mark.parametrize("what", ["ceiling", "roots"])
async def test_a_root_that_is_gone_when_a_grant_is_applied_does_not_count(
    top: Path, what: str
) -> None:
    fake, held = FakeChild(READ), HeldWorker(holds=False)
    async with rig(SPECS, {"files": fake}, worker=held) as at:
        client = at.client(top / "a", top / "c", capabilities=BOTH)
        client.answers["elicitation/create"] = SESSION
        assert "isError" not in await client.call("read", {"path": f"{top}/b/x"})

        def meanwhile() -> None:
            if what == "ceiling":
                take(at, OperatorRoots(ceiling=roots_at(top / "a", top / "b")))
            else:
                client.session.roots.given({"roots": [{"uri": f"file://{top}/a"}]})

        held.holds = True
        both: JsonObject = {"paths": [*LONG, f"{top}/c/x", f"{top}/b/x"]}
        result = await held.call(client, both, meanwhile)
        # Its user may be asked about `c` now, but not a grant of `b` lets it pass.
        assert result.get("isError") is True or len(questions(client)) == 2


async def test_what_to_ask_about_is_found_beside_the_loop(top: Path) -> None:
    held = HeldWorker()
    async with rig(SPECS, {"files": FakeChild(READ)}, worker=held) as at:
        one, other = asking(at, top), asking(at, top)
        outside: JsonObject = {"path": f"{top}/b/x"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.call, "read", outside)
            assert "isError" not in await other.call("read", {"path": f"{top}/a/x"})
            held.may_go_on.set()
        assert len(questions(one)) == 1


async def test_a_call_that_is_cancelled_while_its_user_is_asked_is_cancelled(top: Path) -> None:
    async with rig(SPECS, {"files": FakeChild(READ)}) as at:
        client = asking(at, top)
        client.answers["elicitation/create"] = Silence()
        outside: JsonObject = {"path": f"{top}/b/x"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "read", outside)
            await client.outlet.signals.until(lambda: bool(questions(client)))
            tasks.cancel_scope.cancel()
        (record,) = at.audit.records
    assert (record.verdict, record.path, record.consent) == ("cancelled", f"{top}/b/x", None)


async def test_a_call_that_is_cancelled_while_it_is_judged_is_not_answered(top: Path) -> None:
    fake, held = FakeChild(READ), HeldWorker()
    async with rig({"files": remote()}, {"files": fake}, worker=held) as at:
        client = at.client(top / "a")
        results: list[JsonObject] = []

        async def call() -> None:
            results.append(await client.call("read", long_list(top / "b/x")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await held.until_it_began()
            tasks.cancel_scope.cancel()
            held.may_go_on.set()
        assert results == []
        assert [record.verdict for record in at.audit.records] == ["cancelled"]
        assert calls(fake) == 0
