"""Limits of a profile: for each principal in it, beside those that hold for all it does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hub.app.client_access import limits_of
from hub.config.models import HubConfig
from hub.usage.principals import UsageByPrincipal
from hub.values import JsonObject, object_or_empty
from tests.kit.asgi import Connection
from tests.kit.callers import ACCEPTED, ELICITATION, EVERYTHING, FORM, question
from tests.kit.fakes import ECHO, SILENT, FakeChild
from tests.server.http.test_app import MODERN_CALL, Web, asked, echo, enveloped, initialize, web
from tests.server.http.test_limits import calls_at, clocked
from tests.server.http.test_profiles import ANNA, BEN, TOKENS, change, modern_call

ALL, FEW = "/mcp/all", "/mcp/few"
SERVER: Final = {"version": 1, "servers": {"files": {"command": "x"}}}


def profiles(**limits: Any) -> dict[str, Any]:
    """Return a profile without limits and one with these, both for Anna and Ben."""
    match = {"tokens": ["anna", "ben"]}
    return {"all": {"match": match}, "few": {"match": match, "limits": limits}}


@asynccontextmanager
async def limited(
    child: FakeChild | None = None, *, listen: Mapping[str, Any] | None = None, **limits: Any
) -> AsyncGenerator[Web]:
    """Yield an endpoint whose profile `few` has these limits; clients use it first."""
    config = {"profiles": profiles(**limits), "listen": {"limits": listen or {}}}
    async with web(child, tokens=TOKENS, config=config) as site:
        clocked(site)
        site.path = FEW
        yield site


async def call(site: Web, sent: Mapping[str, str], key: str | None = None) -> Connection:
    """Call a tool in a session, or as a modern client."""
    if key is not None:
        return await site.post(echo(), key, **sent)
    return await site.post(enveloped(echo()), None, **MODERN_CALL, **sent)


async def test_new_sessions_get_a_principal_no_more_calls_in_a_profile() -> None:
    async with limited(calls_per_minute=3) as site:
        first = await site.session(sent=ANNA)
        assert [(await call(site, ANNA, first)).status for _ in range(2)] == [200, 200]
        second = await site.session(sent=ANNA)
        assert (await call(site, ANNA, second)).status == 200
        for key in (first, second, await site.session(sent=ANNA), None):
            refused = await call(site, ANNA, key)
            assert (refused.status, refused.headers["retry-after"]) == (429, "61")
            assert refused.json["error"]["message"] == (
                "the limit profiles.few.limits.calls_per_minute: 3 of anna is reached; "
                "try again in 61 s"
            )
        assert (await site.post(asked("tools/list"), first, **ANNA)).status == 200
        site.path = ALL
        assert (await call(site, ANNA)).status == 200


async def test_two_principals_of_one_profile_have_a_limit_each() -> None:
    async with limited(calls_per_second=1) as site:
        for sent in (ANNA, BEN):
            assert [(await call(site, sent)).status for _ in range(2)] == [200, 429]


async def test_what_is_done_in_all_profiles_counts_together_for_all() -> None:
    async with limited(listen={"calls_per_minute": 3}, calls_per_minute=2) as site:
        assert [(await call(site, ANNA)).status for _ in range(3)] == [200, 200, 429]
        site.path = ALL
        assert (await call(site, ANNA)).status == 200
        refused = await call(site, ANNA)
        assert "the limit listen.limits.calls_per_minute: 3 of anna" in str(refused.json)
        assert (await call(site, BEN)).status == 200


async def test_a_higher_limit_of_a_profile_lets_through_no_more() -> None:
    async with limited(listen={"calls_per_minute": 1}, calls_per_minute=9) as site:
        assert [(await call(site, ANNA)).status for _ in range(2)] == [200, 429]


async def test_bytes_of_one_profile_keep_nobody_from_the_other() -> None:
    async with limited(bytes_per_minute=1000) as site:
        key = await site.session(sent=ANNA)
        statuses = [(await call(site, ANNA, key)).status for _ in range(20)]
        assert (statuses[0], statuses[-1]) == (200, 429)
        over = await site.post(asked("tools/list"), key, **ANNA)
        assert "profiles.few.limits.bytes_per_minute: 1000" in str(over.json)
        site.path = ALL
        assert (await call(site, ANNA)).status == 200


async def test_sessions_of_a_profile_are_counted_there_and_make_room_there() -> None:
    async with limited(sessions=1) as site:
        site.path = ALL
        unused = await site.session(sent=ANNA)
        site.path = FEW
        used = await site.session(sent=ANNA)
        assert (await call(site, ANNA, used)).status == 200
        refused = await site.post(initialize(), None, **ANNA)
        assert refused.status == 429
        assert "the limit profiles.few.limits.sessions: 1 of anna" in str(refused.json)
        await site.session(sent=BEN)
        assert (await site.use("DELETE", used, **ANNA)).status == 200
        first = await site.session(sent=ANNA)
        await site.session(sent=ANNA)
        assert (await call(site, ANNA, first)).status == 404, "it made room, without any call"
        site.path = ALL
        assert (await call(site, ANNA, unused)).status == 200


async def test_calls_under_way_are_counted_in_their_profile() -> None:
    child = FakeChild(ECHO)
    async with limited(child, in_flight=1) as site:
        key = await site.session(sent=ANNA)
        assert (await call(site, ANNA, key)).status == 200
        child.answers["tools/call"] = SILENT
        site.start("POST", key, echo(id_=3), **ANNA)
        await child.signals.until(lambda: calls_at(child) == 2)
        # The second one's route is not cached: it is counted in another place.
        for at in (key, await site.session(sent=ANNA), None):
            told = (await call(site, ANNA, at)).json["result"]
            assert told["isError"]
            assert "the limit profiles.few.limits.in_flight: 1 of anna is reached" in str(told)
        child.answers["tools/call"] = {"content": []}
        assert "isError" not in (await call(site, BEN)).json["result"]
        site.path = ALL
        assert "isError" not in (await call(site, ANNA)).json["result"]


async def test_a_call_that_goes_on_with_its_users_answer_counts_in_its_profile() -> None:
    child = FakeChild(ECHO, answers={"tools/call": SILENT})
    async with limited(child, in_flight=1) as site:
        first = enveloped(echo(), EVERYTHING)
        asking = site.start("POST", None, first, **ANNA, **MODERN_CALL)
        await (await child.connected()).request("tools/call")
        child.link.ask("q", ELICITATION, FORM)
        result = (await asking.over()).json["result"]
        key, _ = question(result)
        again = enveloped(echo(), EVERYTHING)
        object_or_empty(again["params"]).update(
            inputResponses={key: ACCEPTED}, requestState=result["requestState"]
        )
        resumed = site.start("POST", None, again, **ANNA, **MODERN_CALL)
        await child.link.reply("q")
        told = str((await call(site, ANNA)).json)
        assert "the limit profiles.few.limits.in_flight: 1 of anna is reached" in told
        child.link.answer(child.link.requests("tools/call")[0]["id"], {"content": []})
        assert "isError" not in (await resumed.over()).json["result"]


async def test_servers_that_run_for_a_profile_are_counted_there() -> None:
    child = FakeChild(ECHO)
    servers = {name: {"command": "x"} for name in ("a", "b")}
    config = {"profiles": profiles(children=1), "servers": servers}

    def named(server: str, id_: int = 4) -> JsonObject:
        params: JsonObject = {"name": f"{server}__echo", "arguments": {"text": "hi"}}
        return {**asked("tools/call", id_), "params": params}

    async with web(child, tokens=TOKENS, config=config) as site:
        site.path = FEW
        own, bens = await site.session(sent=ANNA), await site.session(sent=BEN)
        assert "result" in (await site.post(named("b"), own, **ANNA)).json
        child.answers["tools/call"] = SILENT
        site.start("POST", own, named("a"), **ANNA)  # the idle server makes room
        await child.signals.until(lambda: calls_at(child) == 2)
        child.answers["tools/call"] = {"content": []}
        refused = (await site.post(named("b", id_=5), own, **ANNA)).json["result"]
        assert refused["isError"]
        assert "anna uses 1 children already" in str(refused)
        assert "profiles.few.limits.children: 1" in str(refused)
        assert "isError" not in (await site.post(named("b"), bens, **BEN)).json["result"]
        site.path = ALL
        other = await site.session(sent=ANNA)
        assert "isError" not in (await site.post(named("b"), other, **ANNA)).json["result"]


async def test_get_roots_shows_the_limits_of_its_own_profile_and_of_all() -> None:
    of_all = {"in_flight": 4}
    async with limited(listen=of_all, calls_per_minute=5, sessions=2, children=3) as site:
        site.path = ALL
        await call(site, ANNA, await site.session(sent=ANNA))
        site.path = FEW
        await call(site, ANNA, await site.session(sent=ANNA))
        report = (await modern_call(site, "get-roots", ANNA)).json["result"]["structuredContent"]
        assert report["limits"] == {"in_flight": {"limit": 4, "used": 1}}
        assert report["profileLimits"] == {
            "calls_per_minute": {"limit": 5, "used": 2},
            "sessions": {"limit": 2, "used": 1},
            "children": {"limit": 3, "used": 1},
        }
        site.path = ALL
        report = (await modern_call(site, "get-roots", ANNA)).json["result"]["structuredContent"]
        assert report["limits"] == {"in_flight": {"limit": 4, "used": 1}}
        assert report["profileLimits"] is None
        assert "few" not in json.dumps(report)


async def test_changed_limits_of_a_profile_count_from_the_next_call() -> None:
    async with limited(calls_per_minute=100) as site:
        assert [(await call(site, ANNA)).status for _ in range(3)] == [200] * 3
        await change(site, profiles(calls_per_minute=3))
        assert (await call(site, ANNA)).status == 429
        await change(site, profiles())
        assert (await call(site, ANNA)).status == 200


async def test_a_change_of_limits_alone_ends_no_stream() -> None:
    async with limited(calls_per_minute=100) as site:
        key = await site.session(sent=ANNA)
        stream = site.start("GET", key, None, **ANNA, accept="text/event-stream")
        await stream.began()
        await change(site, profiles(calls_per_minute=3))
        assert (await site.post(asked("ping"), key, **ANNA)).status == 200
        assert not stream.is_over


async def test_what_a_profile_refuses_is_audited_with_its_name(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    config = {"profiles": profiles(calls_per_minute=1), "audit": {"file": str(audit)}}
    async with web(tokens=TOKENS, config=config) as site:
        site.path = FEW
        key = await site.session(sent=ANNA)
        assert [(await call(site, ANNA, key)).status for _ in range(2)] == [200, 429]
    admitted, refused = (json.loads(line) for line in audit.read_text().splitlines())
    assert (refused["principal"], refused["profile"], refused["verdict"]) == (
        "anna",
        "few",
        "refused",
    )
    assert "profiles.few.limits.calls_per_minute: 1" in refused["reason"]
    assert refused["session"] == admitted["session"]


async def test_profiles_without_limits_count_nothing() -> None:
    assert limits_of(HubConfig.model_validate({**SERVER, "profiles": profiles()})) is None
    async with limited() as site:
        key = await site.session(sent=ANNA)
        assert [(await call(site, ANNA, at)).status for at in (key, None)] == [200, 200]
        assert not site.hub.usage.is_limited
        assert site.hub.usage.all_shown() == []


def test_limits_are_those_of_the_profile_that_is_asked_for() -> None:
    raw = {**SERVER, "profiles": profiles(in_flight=1), "listen": {"limits": {"sessions": 2}}}
    usage = UsageByPrincipal()
    usage.follow(limits_of(HubConfig.model_validate(raw)))
    found = {name: [one.key for one in usage.limits_of("anna", name)] for name in ("all", "few")}
    assert found == {"all": ["listen.limits"], "few": ["profiles.few.limits", "listen.limits"]}


@pytest.mark.parametrize(
    "limits", [{"burst": 3}, {"in_flight": 0}, {"calls": 1}, {"sessions": 1.5}]
)
def test_what_limits_no_principal_limits_none_in_a_profile(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"profiles\.few\.limits"):
        HubConfig.model_validate({**SERVER, "profiles": profiles(**limits)})
