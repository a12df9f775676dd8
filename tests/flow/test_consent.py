"""`on_refused: ask`, through a whole hub: who is asked, what the answer opens, what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import force_setattr

from hub.config.models import HubConfig
from hub.jsonrpc.messages import Notification
from hub.protocol.constants import (
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    INVALID_PARAMS,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META,
)
from hub.protocol.input_requests import CONSENT_KEY, ROOTS_KEY
from hub.values import Json, JsonObject
from tests.kit.hubs import READ_FILE, FakeClient, FlowHub, flow_hub, text_of
from tests.kit.trees import plant

ASK: dict[str, Any] = {"guard": {"on_refused": "ask"}}
BOTH: JsonObject = {"roots": {}, "elicitation": {}}
WRITE_FILE: JsonObject = {"name": "write_file", "inputSchema": READ_FILE["inputSchema"]}


def decided(decision: str) -> JsonObject:
    return {"action": "accept", "content": {"decision": decision}}


ONCE, SESSION = decided("allow once"), decided("allow for this session")
REFUSE = decided("refuse")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return plant(tmp_path, "a/x", "b/x", "b/y", "b/.env", "c/x")


def shared(top: Path) -> list[Json]:
    return [{"uri": f"file://{top}/a"}]


async def greeted(hub: FlowHub, top: Path, capabilities: JsonObject = BOTH) -> FakeClient:
    return await hub.connected(shared(top), capabilities=capabilities)


def asked(client: FakeClient) -> list[JsonObject]:
    """Return the questions that came so far."""
    return [sent for sent in client.received if sent.get("method") == "elicitation/create"]


async def read(client: FakeClient, path: str, *answers: JsonObject, tool: str = "read_file") -> str:
    """Call a tool, answer the questions that come, and return the text of the result."""
    before = len(asked(client))
    id_ = await client.begin("tools/call", {"name": tool, "arguments": {"path": path}})
    for number, answer in enumerate(answers, before + 1):
        await client.until(lambda number=number: len(asked(client)) >= number)
        await client.answer(asked(client)[-1], answer)
    result = cast("JsonObject", (await client.end(id_))["result"])
    assert len(asked(client)) == before + len(answers)
    return text_of(result)


def is_refused(text: str) -> bool:
    return text.startswith("Access denied: ")


def audited(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_allowed_once_is_allowed_for_that_call_alone(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        assert not is_refused(await read(client, f"{top}/b/x", ONCE))
        assert hub.child.calls == [{"name": "read_file", "arguments": {"path": f"{top}/b/x"}}]
        assert is_refused(await read(client, f"{top}/b/x", REFUSE))
        assert len(hub.child.calls) == 1


async def test_the_question_names_server_tool_argument_and_path(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        await read(client, f"{top}/b/x", REFUSE)
        params = cast("JsonObject", asked(client)[0]["params"])
        assert params["message"] == (
            'Allow access outside of the shared folders? Server "files", tool "read_file", '
            f'argument "/path" wants to read the file "{top}/b/x"'
        )


async def test_allowed_for_the_session_is_not_asked_again(top: Path) -> None:
    async with flow_hub(ASK, tools=(READ_FILE, WRITE_FILE)) as hub:
        client = await greeted(hub, top)
        assert not is_refused(await read(client, f"{top}/b", SESSION))
        assert not is_refused(await read(client, f"{top}/b/y"))
        assert is_refused(await read(client, f"{top}/c/x", REFUSE)), "another place"
        assert is_refused(await read(client, f"{top}/b/y", REFUSE, tool="write_file")), "writing"
        other = await greeted(hub, top)
        assert is_refused(await read(other, f"{top}/b/y", REFUSE)), "another client"


@pytest.mark.parametrize(
    "answer", [REFUSE, {"action": "decline"}, {"action": "cancel"}, decided("yes"), {}]
)
async def test_any_other_answer_is_a_refusal(top: Path, answer: JsonObject) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        text = await read(client, f"{top}/b/x", answer)
        assert text.startswith(f"Access denied: Path '{top}/b/x' is outside")
        (entry,) = cast("list[JsonObject]", (await client.get_roots())["recentRefusals"])
        assert (entry["path"], entry["consent"]) == (f"{top}/b/x", "refused")
        assert hub.children == [] or hub.child.calls == []


async def test_an_error_for_an_answer_is_a_refusal(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        await client.call("read_file", path=f"{top}/a/x")
        client.fails = True
        assert is_refused(await read(client, f"{top}/b/x", {}))


async def test_no_answer_in_time_is_a_refusal(top: Path) -> None:
    async with flow_hub({**ASK, "roots": {"timeout": 0.05}}) as hub:
        client = await greeted(hub, top)
        id_ = await client.begin(
            "tools/call", {"name": "read_file", "arguments": {"path": f"{top}/b/x"}}
        )
        result = cast("JsonObject", (await client.end(id_))["result"])
        assert is_refused(text_of(result))
        assert "notifications/cancelled" in [sent.get("method") for sent in client.received]


async def test_a_cancelled_call_takes_its_question_back(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        id_ = await client.begin(
            "tools/call", {"name": "read_file", "arguments": {"path": f"{top}/b/x"}}
        )
        await client.until(lambda: len(asked(client)) == 1)
        taken_back: JsonObject = {"requestId": id_}
        await client.connection.peer.receive(Notification("notifications/cancelled", taken_back))
        await client.until(
            lambda: any(
                sent.get("method") == "notifications/cancelled"
                and cast("JsonObject", sent["params"])["requestId"] == asked(client)[0]["id"]
                for sent in client.received
            )
        )


@pytest.mark.parametrize("capabilities", [{"roots": {}}, {"roots": {}, "elicitation": {"url": {}}}])
async def test_a_client_that_shows_no_forms_is_not_asked(
    top: Path, capabilities: JsonObject
) -> None:
    async with flow_hub(ASK) as hub:
        assert is_refused(await read(await greeted(hub, top, capabilities), f"{top}/b/x"))


async def test_nobody_is_asked_unless_the_operator_wants_it(top: Path) -> None:
    async with flow_hub() as hub:
        assert is_refused(await read(await greeted(hub, top), f"{top}/b/x"))
    own = {"servers": {"files": {"command": "x", "guard": {"on_refused": "refuse"}}}}
    async with flow_hub({**ASK, **own}) as hub:
        assert is_refused(await read(await greeted(hub, top), f"{top}/b/x"))


async def test_the_operators_own_word_is_not_up_for_asking(top: Path) -> None:
    roots: JsonObject = {
        "deny": ["**/.env"],
        "ceiling": [f"{top}/a", f"{top}/b"],
        "access": [{"path": f"{top}/b", "access": "read"}],
    }
    async with flow_hub({**ASK, "roots": roots}, tools=(READ_FILE, WRITE_FILE)) as hub:
        client = await greeted(hub, top)
        for path in (f"{top}/b/.env", f"{top}/c/x", "/etc/passwd", "a\x00b", "~bob/x"):
            assert is_refused(await read(client, path))
        assert is_refused(await read(client, f"{top}/b/x", tool="write_file"))
        assert not is_refused(await read(client, f"{top}/b", SESSION))
        assert is_refused(await read(client, f"{top}/b/.env")), "nor inside of what is granted"


async def test_several_places_are_asked_about_one_after_the_other(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        path = cast("Any", [f"{top}/b/x", f"{top}/c/x"])
        assert not is_refused(await read(client, path, ONCE, SESSION))
        assert not is_refused(await read(client, f"{top}/c/x")), "allowed for the session"
        assert is_refused(await read(client, path, REFUSE)), "the first no ends it"


async def test_roots_that_change_under_a_question_count(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        client = await greeted(hub, top)
        paths: Json = [f"{top}/a/x", f"{top}/b/x"]
        id_ = await client.begin("tools/call", {"name": "read_file", "arguments": {"path": paths}})
        await client.until(lambda: len(asked(client)) == 1)
        client.roots = [{"uri": f"file://{top}/c"}]
        await client.changed()
        await client.answer(asked(client)[0], ONCE)
        result = cast("JsonObject", (await client.end(id_))["result"])
        assert text_of(result).startswith(f"Access denied: Path '{top}/a/x' is outside")


async def test_what_was_said_is_audited(top: Path) -> None:
    file = top / "audit.jsonl"
    async with flow_hub({**ASK, "audit": {"file": str(file)}}) as hub:
        client = await greeted(hub, top)
        await read(client, f"{top}/a/x")
        await read(client, f"{top}/b/x", ONCE)
        await read(client, f"{top}/b/x", SESSION)
        await read(client, f"{top}/b/x")
        await read(client, f"{top}/c/x", REFUSE)
    assert [
        (line["verdict"], line["consent"], line["path"], line["reason"] is None)
        for line in audited(file)
    ] == [
        ("admitted", None, None, True),
        ("admitted", "once", f"{top}/b/x", True),
        ("admitted", "session", f"{top}/b/x", True),
        ("admitted", "session", f"{top}/b/x", True),
        ("refused", "refused", f"{top}/c/x", False),
    ]


async def test_a_call_by_call_tool_is_asked_about_in_the_clients_own_words(top: Path) -> None:
    async with flow_hub({**ASK, "expose": "search"}) as hub:
        client = await greeted(hub, top)
        arguments: JsonObject = {
            "serverName": "files",
            "toolName": "read_file",
            "toolArgs": {"path": f"{top}/b/x"},
        }
        id_ = await client.begin("tools/call", {"name": "call-tool", "arguments": arguments})
        await client.until(lambda: len(asked(client)) == 1)
        await client.answer(asked(client)[0], ONCE)
        assert not is_refused(text_of(cast("JsonObject", (await client.end(id_))["result"])))
        message = str(cast("JsonObject", asked(client)[0]["params"])["message"])
        assert 'tool "read_file", argument "/toolArgs/path"' in message


# Modern clients


class Modern:
    """A client of 2026-07-28 that calls `read_file`."""

    def __init__(self, hub: FlowHub, top: Path, capabilities: JsonObject = BOTH) -> None:
        self.client = hub.client()
        self.roots: JsonObject = {ROOTS_KEY: {"roots": shared(top)}}
        self._meta: JsonObject = {
            PROTOCOL_VERSION_META: MODERN_VERSIONS[-1],
            CLIENT_CAPABILITIES_META: capabilities,
            CLIENT_INFO_META: {"name": "modern", "version": "1"},
        }

    def _params(self, path: Json, answer: Json, state: Json, name: str) -> JsonObject:
        said: JsonObject = {} if answer is None else {CONSENT_KEY: answer}
        held: JsonObject = {} if state is None else {"requestState": state}
        return {
            "name": name,
            "arguments": {"path": path},
            "inputResponses": {**self.roots, **said},
            "_meta": self._meta,
            **held,
        }

    async def read(
        self, path: Json, answer: Json = None, state: Json = None, *, name: str = "read_file"
    ) -> JsonObject:
        """Call with roots, and with an answer to a question where there is one."""
        return await self.client.request("tools/call", self._params(path, answer, state, name))

    async def error(
        self, path: Json, answer: Json, state: Json, *, name: str = "read_file"
    ) -> JsonObject:
        """Call like that, and return the error that it is answered with."""
        id_ = await self.client.begin("tools/call", self._params(path, answer, state, name))
        return cast("JsonObject", (await self.client.end(id_))["error"])


async def test_a_modern_client_is_asked_by_the_result_and_answers_with_the_retry(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        modern = Modern(hub, top)
        first = await modern.read(f"{top}/b/x")
        assert first["resultType"] == "input_required"
        requests = cast("dict[str, JsonObject]", first["inputRequests"])
        assert requests[ROOTS_KEY] == {"method": "roots/list"}
        assert requests[CONSENT_KEY]["method"] == "elicitation/create"
        assert not {"ttlMs", "cacheScope"} & set(first)
        params = cast("JsonObject", requests[CONSENT_KEY]["params"])
        assert str(params["message"]).endswith(f'wants to read the file "{top}/b/x"')
        second = await modern.read(f"{top}/b/x", ONCE, first["requestState"])
        assert second["resultType"] == "complete"
        assert not is_refused(text_of(second))
        (sent,) = hub.child.calls
        assert sent == {"name": "read_file", "arguments": {"path": f"{top}/b/x"}}


async def test_a_modern_clients_yes_serves_that_call_alone(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        modern = Modern(hub, top)
        first = await modern.read(f"{top}/b/x")
        assert not is_refused(
            text_of(await modern.read(f"{top}/b/x", SESSION, first["requestState"]))
        )
        assert (await modern.read(f"{top}/b/x"))["resultType"] == "input_required"


async def test_an_answer_for_one_question_is_none_to_another(top: Path) -> None:
    async with flow_hub(ASK, tools=(READ_FILE, WRITE_FILE)) as hub:
        modern = Modern(hub, top)
        state = (await modern.read(f"{top}/b/x"))["requestState"]
        for path, name, retry in (
            (f"{top}/b/y", "read_file", state),
            (f"{top}/b", "read_file", state),
            ([f"{top}/b/x"], "read_file", state),
            (f"{top}/b/x", "write_file", state),
            (f"{top}/b/x", "read_file", str(state).swapcase()),
            (f"{top}/b/x", "read_file", {"state": state}),
        ):
            path = cast("Json", path)
            error = await modern.error(path, ONCE, retry, name=name)
            assert error["code"] == INVALID_PARAMS
        assert is_refused(text_of(await modern.read(f"{top}/b/x", ONCE)))
        assert hub.children == [] or hub.child.calls == []
    async with flow_hub(ASK) as another:
        error = await Modern(another, top).error(f"{top}/b/x", ONCE, state)
        assert error["code"] == INVALID_PARAMS


@pytest.mark.parametrize("answer", [REFUSE, {"action": "decline"}, "yes", [], {}])
async def test_any_other_answer_of_a_modern_client_is_a_refusal(top: Path, answer: Json) -> None:
    async with flow_hub(ASK) as hub:
        modern = Modern(hub, top)
        state = (await modern.read(f"{top}/b/x"))["requestState"]
        assert is_refused(text_of(await modern.read(f"{top}/b/x", answer, state)))


async def test_a_modern_client_is_asked_about_one_place_after_the_other(top: Path) -> None:
    async with flow_hub(ASK) as hub:
        modern = Modern(hub, top)
        paths: Json = [f"{top}/b/x", f"{top}/c/x"]
        first = await modern.read(paths)
        second = await modern.read(paths, ONCE, first["requestState"])
        assert second["resultType"] == "input_required"
        assert f'"{top}/c/x"' in json.dumps(second["inputRequests"]).replace('\\"', '"')
        error = await modern.error(paths, ONCE, first["requestState"])
        assert "it was used before" in str(error["message"])
        assert not is_refused(text_of(await modern.read(paths, ONCE, second["requestState"])))


async def test_an_answer_that_comes_too_late_counts_no_more(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: list[float] = [1000.0]
    clock: Callable[[], float] = lambda: now[0]  # noqa: E731
    async with flow_hub(ASK) as hub:
        force_setattr(hub.services.machine, "wall_clock", clock)
        modern = Modern(hub, top)
        state = (await modern.read(f"{top}/b/x"))["requestState"]
        now[0] += 61
        assert "it has expired" in str((await modern.error(f"{top}/b/x", ONCE, state))["message"])


async def test_a_modern_client_without_roots_is_held_to_the_fallback_and_asked(top: Path) -> None:
    async with flow_hub(ASK, given=[str(top / "a")]) as hub:
        modern = Modern(hub, top, {"elicitation": {}})
        first = await modern.read(f"{top}/b/x")
        assert list(cast("JsonObject", first["inputRequests"])) == [CONSENT_KEY]
        assert not is_refused(text_of(await modern.read(f"{top}/b/x", ONCE, first["requestState"])))


async def test_both_rounds_of_a_modern_call_are_audited(top: Path) -> None:
    file = top / "audit.jsonl"
    async with flow_hub({**ASK, "audit": {"file": str(file)}}) as hub:
        modern = Modern(hub, top)
        state = (await modern.read(f"{top}/b/x"))["requestState"]
        await modern.read(f"{top}/b/x", ONCE, state)
    lines = [(line["verdict"], line["consent"]) for line in audited(file)]
    assert lines == [("refused", None), ("admitted", "once")]


# The other keys of the guard


async def test_absolute_paths_go_on_in_their_canonical_form(top: Path) -> None:
    plant(top, "way => a")
    async with flow_hub({"guard": {"rewrite": "canonical"}}) as hub:
        client = await greeted(hub, top)
        await read(client, f"{top}/way/x")
        await read(client, "x")
        sent = [cast("JsonObject", call["arguments"])["path"] for call in hub.child.calls]
        assert sent == [f"{top}/a/x", "x"]


async def test_options_are_refused_where_a_revision_goes(top: Path) -> None:
    async with flow_hub({"guard": {"refuse_options": True}}) as hub:
        client = await greeted(hub, top)
        refused = text_of(await client.call("read_file", branch="-D"))
        assert (
            "a revision must not begin with '-': the program would read it as an option" in refused
        )
        assert not is_refused(text_of(await client.call("read_file", branch="main")))
    async with flow_hub() as hub:
        client = await greeted(hub, top)
        assert not is_refused(text_of(await client.call("read_file", branch="-D")))


@pytest.mark.parametrize(
    ("changed", "questions"),
    [
        ({"roots": {"deny": ["x"]}}, 1),
        ({"guard": {"on_refused": "refuse"}}, 1),
        ({"servers": {"files": {"command": "files-server", "guard": {"symlinks": "deny"}}}}, 2),
    ],
)
async def test_a_config_that_changes_while_the_user_is_asked_counts(
    top: Path, changed: dict[str, Any], questions: int
) -> None:
    servers = {"files": {"command": "files-server"}}
    async with flow_hub({"servers": servers, **ASK}) as hub:
        client = await greeted(hub, top)
        arguments: JsonObject = {"path": f"{top}/b/x"}
        id_ = await client.begin("tools/call", {"name": "read_file", "arguments": arguments})
        await client.until(lambda: len(asked(client)) == 1)
        new = HubConfig.model_validate({"version": 1, "servers": servers, **ASK, **changed})
        await hub.running.take(hub.running.own, new)
        await client.answer(asked(client)[0], ONCE)
        if questions == 2:
            await client.until(lambda: len(asked(client)) == 2)
            await client.answer(asked(client)[1], REFUSE)
        assert is_refused(text_of(cast("JsonObject", (await client.end(id_))["result"])))
        assert len(asked(client)) == questions
