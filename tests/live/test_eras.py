"""Clients of both eras before servers of both, each over stdio and HTTP: sixteen combinations.

Clients and servers are the SDK's; what one of them asks or tells must reach the other, whichever
era and transport is on its side.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    LoggingLevel,
    LoggingMessageNotificationParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    TextContent,
    ToolListChangedNotification,
)

from tests.kit.fakes import Signals
from tests.kit.warm import WARM_HUB
from tests.live.programs import (
    SOON,
    SharedFolders,
    call,
    config_file,
    connected,
    era_servers,
    http_hub,
    outside,
    text_of,
)

MIB = 1024 * 1024

Era = Literal["legacy", "modern"]
Transport = Literal["stdio", "http"]
SIDES: list[tuple[Era, Transport]] = [
    ("legacy", "stdio"),
    ("legacy", "http"),
    ("modern", "stdio"),
    ("modern", "http"),
]
MODES: dict[Era, Literal["legacy", "auto"]] = {"legacy": "legacy", "modern": "auto"}
# What the modern era removed is what its clients of the other are tested with.
pytestmark = pytest.mark.filterwarnings("ignore:resources/.* is removed:mcp.MCPDeprecationWarning")
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@dataclass
class Party:
    """A client, and what it was asked and told."""

    era: Era
    transport: Transport
    shared: SharedFolders
    sampled: list[CreateMessageRequestParams] = field(
        default_factory=list[CreateMessageRequestParams]
    )
    elicited: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])
    logged: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    told: list[object] = field(default_factory=list[object])
    signals: Signals = field(default_factory=Signals)
    client: Client = field(init=False)

    async def sample(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        self.sampled.append(params)
        content = TextContent(type="text", text="the client's own words")
        return CreateMessageResult(role="assistant", content=content, model="none")

    async def elicit(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        self.elicited.append(params)
        if isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="accept", content={"n": 7})
        return ElicitResult(action="accept")

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logged.append((params.level, params.data))
        self.signals.moved()

    async def hear(self, message: object) -> None:
        self.told.append(message)
        self.signals.moved()

    @asynccontextmanager
    async def listening(self, uri: str) -> AsyncGenerator[Callable[[type, type], Any]]:
        """Hear of changes as the client's era does; yields what waits for a kind of them."""
        if self.era == "legacy":
            self.told.clear()
            await self.client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated] - legacy

            async def notified(kind: type, _: type) -> object:
                await self.signals.until(
                    lambda: any(isinstance(it, kind) for it in self.told), SOON
                )
                return next(it for it in self.told if isinstance(it, kind))

            yield notified
            await self.client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated] - legacy
            return
        async with self.client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=[uri],
        ) as subscription:

            async def happened(_: type, kind: type) -> object:
                async for event in subscription:
                    if isinstance(event, kind):
                        return event
                raise AssertionError("the stream ended")

            yield happened


@pytest.fixture(scope="module")
def config(tree: Path) -> Generator[str]:
    with era_servers("legacy_http", "modern_http", cwd=tree) as running:
        servers: dict[str, Any] = {}
        for era, transport in SIDES:
            name = f"{era}_{transport}"
            found = running.reached if transport == "http" else running.launched
            servers[name] = {**found(name, era), "share": "roots"}
        yield config_file(tree, servers)


@asynccontextmanager
async def taking_part(
    side: tuple[Era, Transport], url: str, config: str, tree: Path
) -> AsyncGenerator[Party]:
    """Connect a client to the hub at `url`, or to one of its own."""
    era, transport = side
    target = url if transport == "http" else [WARM_HUB, "run", "--config", config]
    party = Party(era, transport, SharedFolders([tree / "project"]))
    async with connected(
        target,
        party.shared,
        mode=MODES[era],
        sampling_callback=party.sample,
        elicitation_callback=party.elicit,
        logging_callback=party.log,
        message_handler=party.hear,
    ) as party.client:
        yield party


@pytest.fixture(scope="module", params=SIDES, ids="-".join)
async def party(
    request: pytest.FixtureRequest, url: str, config: str, tree: Path
) -> AsyncGenerator[Party]:
    async with taking_part(request.param, url, config, tree) as party:
        yield party


@pytest.fixture(scope="module", params=SIDES, ids="-".join)
async def unasked(request: pytest.FixtureRequest, config: str, tree: Path) -> AsyncGenerator[Party]:
    """A client of a hub whose servers ask for no roots: lists and calls are of the same process."""
    with http_hub("--config", config, cwd=tree) as url:
        async with taking_part(request.param, url, config, tree) as party:
            yield party


@pytest.fixture(params=SIDES, ids="-".join)
def server(request: pytest.FixtureRequest) -> str:
    """Name the server to speak to."""
    return "_".join(request.param)


async def test_the_eras_are_those_of_the_table(party: Party, server: str, tree: Path) -> None:
    assert (party.client.protocol_version >= "2026") == (party.era == "modern")
    await call(party.client, f"{server}__read_file", path=str(tree / "project/a.txt"))
    report = (await party.client.call_tool("get-roots", {})).structured_content
    assert report is not None
    eras = {entry["name"]: entry["era"] for entry in report["servers"]}
    assert eras[server] == server.partition("_")[0]


async def test_roots_hold_and_the_server_learns_them(party: Party, server: str, tree: Path) -> None:
    inside, secret = str(tree / "project/a.txt"), str(tree / "private/secret.txt")
    assert await call(party.client, f"{server}__read_file", path=inside) == f"would read {inside}"
    refused = await party.client.call_tool(f"{server}__read_file", {"path": secret})
    assert refused.is_error
    assert text_of(refused) == outside(secret, tree / "project")
    learned = json.loads(await call(party.client, f"{server}__ask_roots"))
    assert [root["uri"] for root in learned["roots"]] == [(tree / "project").as_uri()]


async def test_sampling_is_answered_by_the_client(party: Party, server: str) -> None:
    party.sampled.clear()
    answer = json.loads(await call(party.client, f"{server}__ask_model"))
    assert answer["content"] == {"type": "text", "text": "the client's own words"}
    assert answer["model"] == "none"
    (asked,) = party.sampled
    assert asked.max_tokens == 17


async def test_a_form_is_filled_in_by_the_client(party: Party, server: str) -> None:
    party.elicited.clear()
    answer = json.loads(await call(party.client, f"{server}__ask_form"))
    assert (answer["action"], answer["content"]) == ("accept", {"n": 7})
    (asked,) = party.elicited
    assert isinstance(asked, ElicitRequestFormParams)
    assert asked.message == "How many?"
    assert asked.requested_schema == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }


async def test_a_url_is_opened_by_the_client(party: Party, server: str) -> None:
    party.elicited.clear()
    answer = json.loads(await call(party.client, f"{server}__ask_url"))
    assert answer["action"] == "accept"
    (asked,) = party.elicited
    assert isinstance(asked, ElicitRequestURLParams)
    assert asked.url == "https://example.com/form"


async def test_progress_reaches_the_caller(party: Party, server: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    done = await party.client.call_tool(f"{server}__steps", {}, progress_callback=progressed)
    assert text_of(done) == "done"
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_cancelled_call_is_cancelled_at_the_server(party: Party, server: str) -> None:
    key = f"{party.client.protocol_version} {id(party)}"
    begun = anyio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async def operate() -> None:
        await party.client.call_tool(f"{server}__wait", {"key": key}, progress_callback=progressed)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(operate)
        with anyio.fail_after(SOON):
            await begun.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(SOON):
        assert await call(party.client, f"{server}__cancelled", key=key) == "cancelled"


async def test_log_messages_reach_the_client_from_its_level_on(party: Party, server: str) -> None:
    levels: list[tuple[LoggingLevel, list[str]]] = [
        ("warning", ["error"]),
        ("debug", ["debug", "error"]),
    ]
    for level, expected in levels:
        party.logged.clear()
        meta: Any = {LOG_LEVEL: level} if party.era == "modern" else None
        if party.era == "legacy":
            await party.client.set_logging_level(level)  # pyright: ignore[reportDeprecated] - legacy
        name, arguments = f"{server}__log", {"key": f"{server} {level}"}
        await party.client.call_tool(name, arguments, meta=meta)
        await party.signals.until(lambda: any(it[0] == "error" for it in party.logged), SOON)
        assert [found for found, _ in party.logged] == expected
        assert {key["of"] for _, key in party.logged} == {f"{server} {level}"}


CHANGES: dict[str, tuple[type, type]] = {
    "tool": (ToolListChangedNotification, ToolsListChanged),
    "resource": (ResourceListChangedNotification, ResourcesListChanged),
    "prompt": (PromptListChangedNotification, PromptsListChanged),
}


async def names_of(client: Client, kind: str) -> set[str]:
    if kind == "tool":
        return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
    if kind == "resource":
        found = await client.list_resources(cache_mode="bypass")
        return {resource.name for resource in found.resources}
    return {prompt.name for prompt in (await client.list_prompts(cache_mode="bypass")).prompts}


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_changed_list_is_told_and_shown(unasked: Party, server: str, kind: str) -> None:
    party = unasked
    name = f"added_{kind}_{id(party)}"
    async with party.listening(f"era://{server}/one") as heard:
        with anyio.fail_after(SOON):
            await call(party.client, f"{server}__add", kind=kind, name=name)
            await heard(*CHANGES[kind])
            shown = name if kind == "resource" else f"{server}__{name}"
            while shown not in await names_of(party.client, kind):  # noqa: ASYNC110 - only the client knows
                # What was heard was that the server has started; this comes next.
                await anyio.sleep(0.05)


async def test_an_updated_resource_is_told_to_who_subscribed(unasked: Party, server: str) -> None:
    party = unasked
    uri = f"era://{server}/one"
    async with party.listening(uri) as heard:
        with anyio.fail_after(SOON):
            await call(party.client, f"{server}__touch")
            found = await heard(ResourceUpdatedNotification, ResourceUpdated)
    told = found.params if isinstance(found, ResourceUpdatedNotification) else found
    assert str(told.uri) == uri


async def test_a_result_of_one_mebibyte_arrives_whole(party: Party, server: str) -> None:
    assert await call(party.client, f"{server}__big", size=MIB) == "x" * MIB


async def test_sixteen_mebibytes_arrive_both_ways(party: Party) -> None:
    """From each side to the next: to a server of the client's own era, or to one of the other.

    So each side has them once: what is large makes no difference to how an era is bridged.
    """
    side = SIDES.index((party.era, party.transport))
    server = "_".join(SIDES[(side + 1) % len(SIDES)])
    big = "x" * (16 * MIB)
    assert await call(party.client, f"{server}__size_of", text=big) == str(len(big))
    assert await call(party.client, f"{server}__big", size=16 * MIB) == big
