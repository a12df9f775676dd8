import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hub.app.client_access import limits_of
from hub.config.models import HubConfig
from hub.protocol.http_headers import token_hash
from hub.server.http.auth.credentials import BearerTokens
from hub.server.http.bounds.failed_logins import MOST
from hub.values import JsonObject
from tests.kit.asgi import Connection
from tests.kit.fakes import ECHO, SILENT, FakeChild, FakeClock
from tests.kit.loops import all_tasks_blocked
from tests.server.http.test_app import MODERN_CALL, Web, asked, echo, enveloped, web

ANNA, BEN = ({"authorization": f"Bearer {name}-0123456789"} for name in ("anna", "ben"))
TOKENS = BearerTokens(None, {name: token_hash(f"{name}-0123456789") for name in ("anna", "ben")})
ECHOED: JsonObject = {"content": [{"type": "text", "text": "hi"}]}


def listen(**limits: Any) -> dict[str, Any]:
    return {"listen": {"limits": limits}}


def clocked(site: Web) -> FakeClock:
    """Let the limits go by a clock that the test moves."""
    clock = FakeClock()
    site.hub.usage.clock = clock
    return clock


async def modern(site: Web, **sent: str) -> Connection:
    return await site.post(enveloped(echo()), **MODERN_CALL, **sent)


async def test_calls_over_the_rate_are_refused_whatever_session_they_come_in() -> None:
    async with web(tokens=TOKENS, config=listen(calls_per_second=2, burst=4)) as site:
        clock = clocked(site)
        first = await site.session(sent=ANNA)
        assert [(await site.post(echo(), first, **ANNA)).status for _ in range(3)] == [200] * 3
        second = await site.session(sent=ANNA)
        assert (await site.post(echo(), second, **ANNA)).status == 200
        for refused in (
            await site.post(echo(id_=7), second, **ANNA),
            await site.post(echo(id_=7), await site.session(sent=ANNA), **ANNA),
            await modern(site, **ANNA),
        ):
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert refused.json["id"] in {2, 7}
            message = refused.json["error"]["message"]
            assert message == (
                "the limit listen.limits.calls_per_second: 2 of anna is reached; try again in 1 s"
            )
        assert (await site.post(asked("tools/list"), first, **ANNA)).status == 200
        assert (await modern(site, **BEN)).status == 200
        clock.advance(0.5)
        assert [(await modern(site, **ANNA)).status for _ in range(2)] == [200, 429]


async def test_a_minute_has_its_own_limit() -> None:
    async with web(tokens=TOKENS, config=listen(calls_per_minute=3)) as site:
        clock = clocked(site)
        statuses = [(await modern(site, **ANNA)).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert (await modern(site, **ANNA)).headers["retry-after"] == "61"
        clock.advance(61)
        assert (await modern(site, **ANNA)).status == 200


async def test_bytes_count_in_both_directions() -> None:
    async with web(tokens=TOKENS, config=listen(bytes_per_minute=2000)) as site:
        clock = clocked(site)
        key = await site.session(sent=ANNA)
        statuses = [(await site.post(echo(), key, **ANNA)).status for _ in range(30)]
        assert statuses[0] == 200
        assert statuses[-1] == 429
        over = await site.post(asked("tools/list"), key, **ANNA)
        assert (over.status, "bytes_per_minute: 2000" in str(over.json)) == (429, True)
        clock.advance(60)
        assert (await site.post(echo(), key, **ANNA)).status == 200


async def test_sessions_are_counted_by_principal_and_not_by_address() -> None:
    async with web(tokens=TOKENS, config=listen(sessions=2)) as site:
        keys = [await site.session(sent=ANNA) for _ in range(2)]
        for key in keys:
            assert (await site.post(echo(), key, **ANNA)).status == 200
        refused = await site.post(
            {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {}}, **ANNA
        )
        assert (refused.status, refused.json["id"]) == (429, 9)
        assert refused.headers["retry-after"]
        await site.session(sent=BEN)
        assert (await site.use("DELETE", keys[0], **ANNA)).status == 200
        await site.session(sent=ANNA)


async def test_a_session_without_a_call_makes_room_for_the_next_one() -> None:
    async with web(tokens=TOKENS, config=listen(sessions=1)) as site:
        first = await site.session(sent=ANNA)
        await site.session(sent=ANNA)
        assert (await site.post(echo(), first, **ANNA)).status == 404


async def test_a_changed_limit_counts_from_the_next_call() -> None:
    async with web(tokens=TOKENS, config=listen(calls_per_minute=100)) as site:
        clocked(site)
        assert [(await modern(site, **ANNA)).status for _ in range(5)] == [200] * 5
        changed = {"version": 1, "servers": {"files": {"command": "x"}}}
        lower = HubConfig.model_validate({**changed, **listen(calls_per_minute=3)})
        site.hub.usage.follow(limits_of(lower))
        assert (await modern(site, **ANNA)).status == 429
        site.hub.usage.follow(limits_of(HubConfig.model_validate(changed)))
        assert (await modern(site, **ANNA)).status == 200


async def test_get_roots_shows_the_limits_and_what_is_used_of_them() -> None:
    limits = listen(calls_per_minute=10, sessions=3, in_flight=2, children=4)
    async with web(tokens=TOKENS, config=limits) as site:
        key = await site.session(sent=ANNA)
        await site.post(echo(), key, **ANNA)
        call: JsonObject = {"name": "get-roots", "arguments": {}}
        answer = await site.post(
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}, key, **ANNA
        )
        assert answer.json["result"]["structuredContent"]["limits"] == {
            "calls_per_minute": {"limit": 10, "used": 2},
            "in_flight": {"limit": 2, "used": 1},
            "sessions": {"limit": 3, "used": 1},
            "children": {"limit": 4, "used": 1},
        }
        assert [one["principal"] for one in site.hub.usage.all_shown()] == ["anna"]


async def test_without_limits_nothing_is_counted() -> None:
    async with web(tokens=TOKENS) as site:
        assert (await modern(site, **ANNA)).status == 200
        assert not site.hub.usage.is_limited
        assert site.hub.usage.all_shown() == []


async def test_what_is_refused_is_audited(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    config = {**listen(calls_per_minute=1), "audit": {"file": str(audit)}}
    async with web(tokens=TOKENS, config=config) as site:
        key = await site.session(sent=ANNA)
        await site.post(echo(), key, **ANNA)
        assert (await site.post(echo(), key, **ANNA)).status == 429
    admitted, refused = (json.loads(line) for line in audit.read_text().splitlines())
    assert (refused["principal"], refused["tool"], refused["verdict"]) == (
        "anna",
        "echo",
        "refused",
    )
    assert "calls_per_minute: 1" in refused["reason"]
    assert refused["session"] == admitted["session"]


# Tokens that are refused


async def test_who_guesses_tokens_is_told_to_wait_and_nobody_else() -> None:
    async with web(tokens=TOKENS) as site:
        wrong = {"authorization": "Bearer guessed"}
        statuses = [(await site.post(asked("ping"), **wrong)).status for _ in range(MOST + 1)]
        assert statuses == [401] * MOST + [429]
        refused = await site.post(asked("ping"), **wrong)
        assert 0 < int(refused.headers["retry-after"]) <= 61
        assert (await modern(site, **ANNA)).status == 200
        unsent = await site.post(asked("ping"))
        assert (unsent.status, "www-authenticate" in unsent.headers) == (401, True)


# Calls under way


def calls_at(child: FakeChild) -> int:
    return sum(line.get("method") == "tools/call" for link in child.links for line in link.seen)


@asynccontextmanager
async def one_under_way(**limits: Any) -> AsyncGenerator[tuple[Web, FakeChild, str]]:
    """Yield an endpoint with a call of Anna's that the child has, and does not answer."""
    child = FakeChild(ECHO)
    async with web(child, tokens=TOKENS, config=listen(**limits)) as site:
        key = await site.session(sent=ANNA)
        assert (await site.post(echo(), key, **ANNA)).status == 200
        child.answers["tools/call"] = SILENT
        site.start("POST", key, echo(id_=3), **ANNA)
        await child.signals.until(lambda: calls_at(child) == 2)
        yield site, child, key


async def test_more_calls_under_way_than_allowed_are_answered_with_when_to_come_again() -> None:
    async with one_under_way(in_flight=1) as (site, child, key):
        told = "the limit listen.limits.in_flight: 1 of anna is reached"
        other = await site.session(sent=ANNA)  # its first call has no cached route
        for answer in (
            await site.post(echo(id_=4), key, **ANNA),
            await site.post(echo(id_=4), other, **ANNA),
            await modern(site, **ANNA),
        ):
            assert answer.status == 200
            assert answer.json["result"]["isError"]
            assert told in str(answer.json)
            assert "when one of its calls has ended" in str(answer.json)
        assert calls_at(child) == 2
        gone: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        gone["params"] = {"requestId": 3}
        assert (await site.post(gone, key, **ANNA)).status == 202
        child.answers["tools/call"] = ECHOED
        await all_tasks_blocked()
        assert "isError" not in (await site.post(echo(id_=5), other, **ANNA)).json["result"]


async def test_the_calls_of_others_are_not_counted() -> None:
    async with one_under_way(in_flight=1) as (site, child, _):
        child.answers["tools/call"] = ECHOED
        assert "isError" not in (await modern(site, **BEN)).json["result"]
