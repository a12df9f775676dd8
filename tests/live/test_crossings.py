"""Two principals with a profile each, at one hub: what is one's never reaches the other.

CROSSING_CALLS says how many calls are made.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from hub.protocol.constants import CLIENT_CAPABILITIES_META, PROTOCOL_VERSION_META
from hub.protocol.http_headers import token_hash
from hub.protocol.input_requests import ROOTS_KEY
from tests.kit.trees import plant
from tests.live.programs import config_file, http_hub
from tests.live.test_http_endpoint import HEADERS
from tests.live.test_named_tokens import SERVERS
from tests.live.test_parked_calls import CHILD

CALLS: Final = int(os.environ.get("CROSSING_CALLS", "600"))
OLD, NEW = "2025-11-25", "2026-07-28"
PEOPLE: Final = ("anna", "ben")
ENVELOPE: Final[dict[str, Any]] = {
    PROTOCOL_VERSION_META: NEW,
    CLIENT_CAPABILITIES_META: {"roots": {}, "elicitation": {}},
}


def token(name: str) -> str:
    return f"rh_of-{name}-0123456789"


class PersonWithClients:
    """A principal and its clients: legacy sessions, and modern requests.

    `seen` counts what was tried; `crossings` has each answer that the other's property made.
    """

    def __init__(self, name: str, url: str, http: httpx2.AsyncClient, top: Path) -> None:
        self.name, self.top = name, top
        self.sessions: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.seen = Counter[str]()
        self.crossings: list[Any] = []
        self._url, self._http = url, http
        self._folder = top / name
        self._next = 0

    async def post(self, message: dict[str, Any], **more: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        headers = {**HEADERS, "authorization": f"Bearer {token(self.name)}", **named}
        self._next += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._next, **message})
        return await self._http.post(self._url, content=body, headers=headers)

    async def begin(self) -> None:
        """Open a legacy session whose client has no roots: the ceiling counts."""
        info = {"name": self.name, "version": "1"}
        params = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": info}
        answer = await self.post({"method": "initialize", "params": params})
        assert answer.status_code == 200
        self.sessions.append(answer.headers["mcp-session-id"])

    async def call(self, tool: str, session: str | None, **arguments: Any) -> dict[str, Any]:
        """Call a tool in a session, or as a modern client."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        message = {"method": "tools/call", "params": params}
        if session is not None:
            return (await self.post(message, mcp_session_id=session)).json()
        return await self._modern(params)

    async def _modern(self, params: dict[str, Any]) -> dict[str, Any]:
        roots = {ROOTS_KEY: {"roots": [{"uri": self._folder.as_uri()}]}}
        answers = {**roots, **params.get("inputResponses", {})}
        whole = {**params, "inputResponses": answers, "_meta": ENVELOPE}
        headers = {
            "mcp_protocol_version": NEW,
            "mcp_method": "tools/call",
            "mcp_name": str(params["name"]),
        }
        return (await self.post({"method": "tools/call", "params": whole}, **headers)).json()

    async def step(self, other: PersonWithClients, chance: random.Random) -> None:
        """Make one call, of its own or one that tries what the other has."""
        session = chance.choice([*self.sessions, None, None])
        kind = chance.choice(["own", "keep", "path", "tool", "session", "stream", "ask", "state"])
        self.seen[f"{kind} {'modern' if session is None else 'legacy'}"] += 1
        await getattr(self, f"_{kind}")(other, chance, session)

    async def _own(
        self, _other: PersonWithClients, _chance: random.Random, session: str | None
    ) -> None:
        answer = await self.call("keeping__read_file", session, path=str(self._folder / "f"))
        self._expect(answer, lambda text: text == f"of {self.name}")

    async def _keep(
        self, _other: PersonWithClients, _chance: random.Random, session: str | None
    ) -> None:
        answer = await self.call("keeping__remember", session, text=self.name)
        self._expect(answer, lambda text: set(list[str](json.loads(text))) == {self.name})

    async def _path(
        self, other: PersonWithClients, _chance: random.Random, session: str | None
    ) -> None:
        answer = await self.call(
            "keeping__read_file", session, path=str(self.top / other.name / "f")
        )
        self._refused(answer)

    async def _tool(
        self, other: PersonWithClients, _chance: random.Random, session: str | None
    ) -> None:
        self._refused(await self.call(f"own-{other.name}__pid", session))

    async def _session(
        self, other: PersonWithClients, chance: random.Random, _session: str | None
    ) -> None:
        params: dict[str, Any] = {"name": "keeping__pid", "arguments": {}}
        key = chance.choice(other.sessions)
        answer = await self.post({"method": "tools/call", "params": params}, mcp_session_id=key)
        if answer.status_code != 404:
            self.crossings.append(answer.text)

    async def _stream(
        self, other: PersonWithClients, chance: random.Random, _session: str | None
    ) -> None:
        headers = {
            "authorization": f"Bearer {token(self.name)}",
            "accept": "text/event-stream",
            "mcp-session-id": chance.choice(other.sessions),
            "last-event-id": f"{chance.randrange(4)}-{chance.randrange(2)}",
        }
        answer = await self._http.get(self._url, headers=headers)
        if answer.status_code != 404:
            self.crossings.append(answer.text)

    async def _ask(
        self, _other: PersonWithClients, _chance: random.Random, _session: str | None
    ) -> None:
        """Answer what a call asked; without one, begin a call that asks.

        One at a time: a server of the old era does not say which of two calls a question is for.
        """
        if not self.asked:
            params: dict[str, Any] = {"name": "asking__ask", "arguments": {"times": 1}}
            result = (await self._modern(params))["result"]
            (key,) = set(result["inputRequests"]) - {ROOTS_KEY}
            said = {"action": "accept", "content": {"n": PEOPLE.index(self.name)}}
            answers = {key: said}
            again = {"inputResponses": answers, "requestState": result["requestState"]}
            self.asked.append({**params, **again})
            return
        answer = await self._modern(self.asked.pop(0))
        told = [{"action": "accept", "content": {"n": PEOPLE.index(self.name)}}]
        self._expect(answer, lambda text: json.loads(text) == told)

    async def _state(
        self, other: PersonWithClients, chance: random.Random, _session: str | None
    ) -> None:
        if other.asked:
            self._refused(await self._modern(chance.choice(other.asked)))

    def _expect(self, answer: dict[str, Any], is_own: Callable[[str], bool]) -> None:
        result = answer.get("result", {})
        if result.get("isError") or not is_own(result["content"][0]["text"]):
            self.crossings.append(answer)

    def _refused(self, answer: dict[str, Any]) -> None:
        result = answer.get("result")
        if result is not None and not result.get("isError"):
            self.crossings.append(answer)


async def test_two_principals_with_two_profiles_never_meet(tmp_path: Path) -> None:
    top = plant(tmp_path, *(f"{name}/f" for name in PEOPLE))
    for name in PEOPLE:
        (top / name / "f").write_text(f"of {name}")
    (server,) = SERVERS.values()
    profiles = {
        name: {
            "match": {"tokens": [name]},
            "servers": ["keeping", "asking", f"own-{name}"],
            "roots": {"ceiling": [str(top / name)]},
        }
        for name in PEOPLE
    }
    log = {"ASKING_LOG": str(tmp_path / "asking.log")}
    asking = {"command": CHILD[0], "args": CHILD[1:], "env": log}
    servers = {"keeping": server, "asking": asking, **{f"own-{name}": server for name in PEOPLE}}
    tokens = [{"name": name, "sha256": token_hash(token(name))} for name in PEOPLE]
    config = config_file(
        tmp_path, servers, listen={"tokens": tokens}, profiles=profiles, expose="tools"
    )
    with http_hub("--config", config, cwd=tmp_path) as url:
        async with httpx2.AsyncClient(timeout=60.0) as http:
            people = [PersonWithClients(name, url, http, top) for name in PEOPLE]
            await _prepare(people)
            async with anyio.create_task_group() as tasks:
                for seed, (one, other) in enumerate((people, people[::-1])):
                    tasks.start_soon(_go_on, one, other, random.Random(seed))  # noqa: S311 - no secret
    for person in people:
        assert person.crossings == []
        assert {kind.split()[0] for kind in person.seen} == {
            *("own", "keep", "path", "tool", "session", "stream", "ask", "state")
        }


async def _prepare(people: list[PersonWithClients]) -> None:
    for person in people:
        for _ in range(3):
            await person.begin()
        await person.call("keeping__read_file", None, path=str(person.top / person.name / "f"))


async def _go_on(one: PersonWithClients, other: PersonWithClients, chance: random.Random) -> None:
    for _ in range(CALLS // 2):
        await one.step(other, chance)
