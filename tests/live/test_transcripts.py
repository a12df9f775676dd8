"""What client and server say to each other, directly and through the hub: the same to the letter.

Where the design makes a difference, the difference is written down here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from hub.jsonrpc.requests import UNSAID
from tests.conftest import PROJECT
from tests.kit.warm import WARM_HUB
from tests.live import conversations
from tests.live.conversations import (
    ANSWERS,
    DISCOVERED,
    INITIALIZED,
    LEGACY,
    MODERN,
    ODD,
    Turn,
    listings,
    modern,
)
from tests.live.exact_json import differences, exact, member
from tests.live.programs import SOON, Target, config_file, http_hub, program
from tests.live.raw_client import Era, RawClient, raw_client

CHILD = str(Path(__file__).parent / "scripted_child.py")
SIDES = [(client, server) for client in ("stdio", "http") for server in ("stdio", "http")]
LISTS = [*listings()]
TURNS: dict[Era, list[Turn]] = {
    "legacy": [*LISTS, *LEGACY],
    "modern": [*(modern(turn) for turn in LISTS), *MODERN],
}
STANDALONE = ("list_changed", "resources/updated")
"""Endings of what is told outside of any request, in no order with what is in one."""
HUBS_OWN = frozenset({"ping", "logging/setLevel", "resources/unsubscribe"})
"""What the hub answers itself, or asks servers for on behalf of all its clients."""
ENVELOPE = "io.modelcontextprotocol/"
INFO = f"/_meta/{ENVELOPE}serverInfo"
GREETING: dict[Era, set[str]] = {
    "legacy": {
        *(f"/serverInfo/{key}" for key in ("name", "version", "title", "icons")),
    },
    "modern": {
        *(f"{INFO}/{key}" for key in ("name", "version", "title")),
        "/_meta/x",
        "/ttlMs",
    },
}
"""Where the hub speaks of itself."""
UNHEARD: dict[str, set[str]] = {"stdio": set(), "http": {"/instructions"}}
"""What the hub has not heard before its servers are started, by the transport of its client."""
WHO = '{"name":"raw","version":"1"}'
ABILITIES = '{"sampling":{},"elicitation":{"form":{},"url":{}}}'


@dataclass
class Exchange:
    """What a client heard between a request and its answer, the answer, and that to its retry."""

    heard: list[bytes]
    told: list[bytes]
    answer: bytes | None
    retried: bytes | None = None


@dataclass
class Transcript:
    """One conversation: what the client heard by request, and all that the server wrote down."""

    exchanges: dict[str, Exchange] = field(default_factory=dict[str, Exchange])
    record: list[Any] = field(default_factory=list[Any])

    def received(self, turn: Turn) -> list[Any]:
        """Return the requests of a turn as the server got them."""
        named = exact(turn.params)
        return [
            message
            for message in self.record
            if message.get("method") == turn.method
            and all(
                message.get("params", {}).get(key) == named.get(key)
                for key in ("name", "uri", "ref", "cursor")
            )
        ]


def is_standalone(raw: bytes) -> bool:
    return str(json.loads(raw)["method"]).endswith(STANDALONE)


class Speaker:
    """Speaks a client's part of one era."""

    def __init__(self, client: RawClient, era: Era) -> None:
        self._client = client
        self._era: Era = era
        self._ids = iter(range(1, 1000))

    def _params(self, params: str, *more: str) -> str:
        """Return params with a `_meta` of this client's in them, and in the era's envelope."""
        meta = [f'"x.example/own":{ODD}', *more]
        if self._era == "modern":
            values = {"protocolVersion": '"2026-07-28"', "clientInfo": WHO}
            values |= {"clientCapabilities": ABILITIES, "logLevel": '"debug"'}
            meta += [f'"{ENVELOPE}{key}":{value}' for key, value in values.items()]
        rest = "}" if params == "{}" else "," + params[1:]
        return f'{{"_meta":{{{",".join(meta)}}}{rest}'

    async def shake_hands(self) -> Exchange:
        """Begin the conversation."""
        if self._era == "modern":
            answer = await self._client.ask(0, "server/discover", self._params("{}"))
            return Exchange([], [], answer)
        asked = f'"protocolVersion":"2025-11-25","capabilities":{ABILITIES},"clientInfo":{WHO}'
        answer = await self._client.ask(0, "initialize", f"{{{asked}}}")
        await self._client.tell('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return Exchange([], [], answer)

    async def take(self, turn: Turn) -> Exchange:
        """Have one turn."""
        client, id_ = self._client, next(self._ids)
        client.heard, client.replies = [], turn.replies
        token = f'"progressToken":"token {id_}"'
        await client.begin(id_, turn.method, self._params(turn.params, token))
        answer = retried = None
        if turn.waits:
            await client.signals.until(lambda: bool(client.heard), SOON)
            await self._cancel(id_)
        else:
            answer = await client.end(id_)
        if answer is not None and b'"input_required"' in answer:
            retried = await self._retry(turn, answer)
        await client.signals.until(lambda: len(self._told()) >= len(turn.tells), SOON)
        told = self._told()
        return Exchange([raw for raw in client.heard if raw not in told], told, answer, retried)

    def _told(self) -> list[bytes]:
        return sorted(filter(is_standalone, self._client.heard))

    async def _cancel(self, id_: int) -> None:
        if self._era == "modern" and self._client.leave is not None:
            self._client.leave(id_)
            return
        cancelled = f'{{"requestId":{id_},"reason":"enough"}}'
        await self._client.tell(conversations.notification("notifications/cancelled", cancelled))

    async def _retry(self, turn: Turn, answer: bytes) -> bytes:
        wanted = json.loads(answer)["result"]
        retry: list[str] = []
        for key, asked in wanted["inputRequests"].items():
            mode = asked["params"].get("mode", "")
            reply = ANSWERS[f"{asked['method']} {mode}".strip()]
            retry.append(f"{json.dumps(key)}:{reply}")
        state = json.dumps(wanted["requestState"])
        more = f',"inputResponses":{{{",".join(retry)}}},"requestState":{state}}}'
        params = self._params(turn.params[:-1] + more)
        return await self._client.ask(next(self._ids), turn.method, params)


async def spoken(target: Target, era: Era, folder: Path, record: Path) -> Transcript:
    """Have a conversation, and return it.

    A hub on stdio waits for its server's instructions, but not for long: it is started again where
    the machine was too busy for them.
    """
    found = Transcript()
    while len(found.exchanges) <= 1:
        await anyio.Path(record).unlink(missing_ok=True)
        async with raw_client(target, era, cwd=folder) as client:
            speaker = Speaker(client, era)
            greeting = found.exchanges["greeting"] = await speaker.shake_hands()
            if isinstance(target, str) or b'"instructions"' in (greeting.answer or b""):
                for turn in TURNS[era]:
                    found.exchanges[turn.key] = await speaker.take(turn)
    found.record = [exact(line) for line in (await anyio.Path(record).read_bytes()).splitlines()]
    return found


@contextmanager
def child(transport: str, folder: Path, script: Path, record: Path) -> Generator[dict[str, Any]]:
    """Yield how the scripted server is launched or reached, as a server of the hub's config."""
    command = [sys.executable, CHILD, transport, str(script), str(record)]
    if transport == "stdio":
        yield {"command": command[0], "args": command[1:]}
        return
    with program(command, cwd=folder, env={"PYTHONPATH": str(PROJECT)}) as running:
        yield {"url": running.first_line("serves ")}


def scripted(folder: Path, era: Era) -> Path:
    """Write the server's script."""
    answers = {turn.key: turn.script() for turn in TURNS[era]}
    handshake = {"initialize": INITIALIZED} if era == "legacy" else {"server/discover": DISCOVERED}
    answers |= {key: {"answer": answer} for key, answer in handshake.items()}
    script = folder / f"{era}.json"
    script.write_text(json.dumps({"answers": answers}))
    return script


@dataclass
class TwoTranscripts:
    """The same conversation twice."""

    era: Era
    transport: str
    server: str
    direct: Transcript
    hub: Transcript

    @property
    def turns(self) -> Sequence[Turn]:
        """The requests that one server answers."""
        return LEGACY if self.era == "legacy" else MODERN


@pytest.fixture(scope="module", params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture(scope="module")
async def direct(era: Era, tmp_path_factory: pytest.TempPathFactory) -> Transcript:
    folder = tmp_path_factory.mktemp("direct")
    record = folder / "record.jsonl"
    with child("stdio", folder, scripted(folder, era), record) as alone:
        return await spoken([alone["command"], *alone["args"]], era, folder, record)


@pytest.fixture(scope="module", params=SIDES, ids="-".join)
async def pair(
    request: pytest.FixtureRequest,
    era: Era,
    direct: Transcript,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[TwoTranscripts]:
    client, server = request.param
    folder = tmp_path_factory.mktemp("hub")
    record = folder / "record.jsonl"
    with child(server, folder, scripted(folder, era), record) as behind:
        roots = {"fallback": [str(folder)]}
        config = config_file(folder, {"odd": {**behind, "era": era}}, roots=roots)
        if client == "stdio":
            command = [WARM_HUB, "run", "--config", config]
            yield TwoTranscripts(
                era, client, server, direct, await spoken(command, era, folder, record)
            )
            return
        with http_hub("--config", config, cwd=folder) as url:
            yield TwoTranscripts(
                era, client, server, direct, await spoken(url, era, folder, record)
            )


def without_id(raw: bytes) -> Any:
    """Return a message without what is between neighbours alone: ids, progress tokens."""
    found = exact(raw)
    found.pop("id", None)
    params = found.get("params", {})
    if found["method"] == "notifications/cancelled":
        del params["requestId"]
    params.get("_meta", {}).pop("progressToken", None)
    return found


def why_cancelled(transcript: Transcript) -> list[Any]:
    """Return what the server was told of calls that were taken back."""
    told = (it for it in transcript.record if it.get("method") == "notifications/cancelled")
    return [{**it["params"], "requestId": None} for it in told]


def reports(transcript: Transcript) -> list[Any]:
    """Return what the server was told of the progress of its questions."""
    return [it for it in transcript.record if it.get("method") == "notifications/progress"]


def without_server(raw: bytes) -> Any:
    """Return an answer without what it says of who answered, and how long that may be kept."""
    found = exact(raw)
    result = found.get("result", {})
    result.get("_meta", {}).pop(f"{ENVELOPE}serverInfo", None)
    for hint in ("ttlMs", "cacheScope"):
        result.pop(hint, None)
    if result.get("resultType") == "input_required":
        # The hub asks by keys of its own, and keeps what it needs for the retry in its own state.
        return list(result["inputRequests"].values())
    return found


def without_hop(message: Mapping[str, Any]) -> Any:
    """Return a request without what is between neighbours alone: id, progress token, envelope."""
    params = dict(message.get("params", {}))
    meta = dict(params.get("_meta", {}))
    kept = {
        key: value
        for key, value in meta.items()
        if key != "progressToken" and not key.startswith(ENVELOPE)
    }
    return {**params, "_meta": kept}


async def test_the_hub_answers_for_itself_in_the_greeting(pair: TwoTranscripts) -> None:
    ours = exact(pair.hub.exchanges["greeting"].answer or b"")["result"]
    theirs = exact(pair.direct.exchanges["greeting"].answer or b"")["result"]
    found = {it.split(":")[0] for it in differences(ours, theirs)}
    assert found == GREETING[pair.era] | UNHEARD[pair.transport]


async def test_results_are_byte_for_byte_the_servers_own(pair: TwoTranscripts) -> None:
    for turn in pair.turns:
        ours, theirs = pair.hub.exchanges[turn.key], pair.direct.exchanges[turn.key]
        for mine, its in ((ours.answer, theirs.answer), (ours.retried, theirs.retried)):
            assert (mine is None) == (its is None)
            if mine is None or its is None:
                continue
            kind = "error" if b'"error":' in its else "result"
            if pair.era == "legacy":
                assert member(mine, kind) == member(its, kind), turn.key
            assert differences(without_server(mine), without_server(its)) == [], turn.key


async def test_what_a_server_asks_and_tells_reaches_the_client_as_it_was_said(
    pair: TwoTranscripts,
) -> None:
    for turn in pair.turns:
        ours, theirs = pair.hub.exchanges[turn.key], pair.direct.exchanges[turn.key]
        for mine, its in ((ours.heard, theirs.heard), (ours.told, theirs.told)):
            assert differences([*map(without_id, mine)], [*map(without_id, its)]) == [], turn.key


async def test_what_a_client_asks_reaches_the_server_as_it_was_written(
    pair: TwoTranscripts,
) -> None:
    for turn in pair.turns:
        ours, theirs = pair.hub.received(turn), pair.direct.received(turn)
        if turn.method in HUBS_OWN:
            continue
        assert differences([*map(without_hop, ours)], [*map(without_hop, theirs)]) == [], turn.key


async def test_a_server_hears_why_a_call_is_taken_back(pair: TwoTranscripts) -> None:
    if pair.era == "modern" and "http" in {pair.transport, pair.server}:
        assert why_cancelled(pair.hub) in ([], [{"requestId": None, "reason": UNSAID}])
        return  # there, to leave is to cancel
    assert why_cancelled(pair.hub) == why_cancelled(pair.direct) != []


async def test_a_server_hears_what_its_client_reports_on_its_question(pair: TwoTranscripts) -> None:
    assert differences(reports(pair.hub), reports(pair.direct)) == []
    assert len(reports(pair.direct)) == (pair.era == "legacy")


async def test_lists_hold_the_servers_own_entries(pair: TwoTranscripts) -> None:
    for turn in LISTS:
        method, _, cursor = turn.key.partition(" ")
        if cursor:
            continue
        kind = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/")[0])
        ours = exact(pair.hub.exchanges[method].answer or b"")["result"][kind]
        if kind == "tools":
            assert ours.pop(0)["name"] == "get-roots"
        pages = (pair.direct.exchanges[key].answer or b"" for key in (method, f"{method} second"))
        theirs = [entry for page in pages for entry in exact(page)["result"][kind]]
        assert differences(ours, theirs) == []
