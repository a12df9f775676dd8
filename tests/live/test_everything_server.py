"""Through the hub to npm's server-everything: each feature arrives as it does without the hub."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)

from tests.kit.warm import WARM_HUB
from tests.live.programs import Target, call, config_file, connected, program

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "päth /etc/passwd \U0001f600"}),
    ("get-sum", {"a": 1, "b": 2.5}),
    ("get-tiny-image", {}),
    ("get-structured-content", {"location": "Chicago"}),
    ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("get-resource-links", {"count": 3}),
    ("echo", {"no message": 1}),
]


@pytest.fixture(scope="module")
def command(npm_program: Callable[[str], str]) -> str:
    return npm_program("mcp-server-everything")


@pytest.fixture(scope="module")
def config(tree: Path, command: str) -> str:
    return config_file(tree, {"everything": {"command": command}})


@dataclass
class Heard:
    """What the client of these tests was asked and told."""

    sampled: list[CreateMessageRequestParams] = field(
        default_factory=list[CreateMessageRequestParams]
    )
    elicited: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])
    logged: anyio.Event = field(default_factory=anyio.Event)

    def forget(self) -> None:
        """Start again."""
        self.sampled, self.elicited, self.logged = [], [], anyio.Event()

    async def sample(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        self.sampled.append(params)
        content = TextContent(type="text", text="the client's own words")
        return CreateMessageResult(role="assistant", content=content, model="none")

    async def elicit(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        self.elicited.append(params)
        return ElicitResult(action="decline")

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        if "message" in str(params.data):
            self.logged.set()

    def connect(self, target: Target, roots: list[Path]) -> AbstractAsyncContextManager[Client]:
        """Connect a client that can do everything."""
        return connected(
            target,
            roots,
            sampling_callback=self.sample,
            elicitation_callback=self.elicit,
            logging_callback=self.log,
        )


@pytest.fixture(scope="module")
async def direct(command: str, tree: Path) -> AsyncGenerator[Client]:
    """The server itself, without the hub."""
    async with Heard().connect([command], [tree / "project"]) as client:
        yield client


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@contextmanager
def listening(kind: str, command: str, tree: Path) -> Generator[str]:
    """Run the server over HTTP, and yield the path of a config for a hub before it."""
    argv = ["node", "--require", str(Path(__file__).parent / "loopback.cjs"), command, kind]
    with program(argv, cwd=tree) as running:
        url = running.first_line("serves ")
        path, transport = ("/sse", "sse") if kind == "sse" else ("/mcp", "http")
        yield config_file(tree, {"everything": {"url": url + path, "transport": transport}})


@pytest.fixture(scope="module", params=["stdio", "http", "stdio to streamableHttp", "stdio to sse"])
async def client(  # noqa: PLR0913, PLR0917 - fixtures, each needed
    request: pytest.FixtureRequest, url: str, config: str, command: str, tree: Path, heard: Heard
) -> AsyncGenerator[Client]:
    """The server through the hub: over each transport on each side."""
    side, _, kind = request.param.partition(" to ")
    heard.forget()
    with listening(kind, command, tree) if kind else nullcontext(config) as file:
        target = url if side == "http" else [WARM_HUB, "run", "--config", file]
        async with heard.connect(target, [tree / "project"]) as connection:
            yield connection


async def test_listings_are_the_servers_own(direct: Client, client: Client) -> None:
    own = (await direct.list_tools()).tools
    through = [tool for tool in (await client.list_tools()).tools if tool.name != "get-roots"]
    assert through == own
    assert (await client.list_prompts()).prompts == (await direct.list_prompts()).prompts
    assert (await client.list_resources()).resources == (await direct.list_resources()).resources
    found = (await client.list_resource_templates()).resource_templates
    assert found == (await direct.list_resource_templates()).resource_templates


async def test_results_are_the_servers_own(direct: Client, client: Client) -> None:
    for tool, arguments in CALLS:
        expected = await direct.call_tool(tool, arguments)
        found = await client.call_tool(tool, arguments)
        assert found.model_dump() == expected.model_dump(), tool


async def test_resources_and_prompts_are_the_servers_own(direct: Client, client: Client) -> None:
    for resource in (await direct.list_resources()).resources:
        expected = await direct.read_resource(resource.uri)
        assert await client.read_resource(resource.uri) == expected
    blob = await client.read_resource("demo://resource/dynamic/blob/1")
    assert blob.contents[0].uri == "demo://resource/dynamic/blob/1"
    arguments = {"city": "Paris", "state": "x"}
    for prompt, given in (("simple-prompt", None), ("args-prompt", arguments)):
        assert await client.get_prompt(prompt, given) == await direct.get_prompt(prompt, given)


async def test_completions_are_the_servers_own(direct: Client, client: Client) -> None:
    prompt = PromptReference(type="ref/prompt", name="completable-prompt")
    template = ResourceTemplateReference(
        type="ref/resource", uri="demo://resource/dynamic/text/{resourceId}"
    )
    for ref, argument, context in (
        (prompt, {"name": "department", "value": "E"}, None),
        (prompt, {"name": "name", "value": ""}, {"department": "Sales"}),
        (template, {"name": "resourceId", "value": "1"}, None),
    ):
        expected = await direct.complete(ref, argument, context)
        found = await client.complete(ref, argument, context)
        assert found.completion == expected.completion
        assert found.completion.values


async def test_errors_are_the_servers_own(direct: Client, client: Client) -> None:
    errors: list[tuple[int, str]] = []
    for server in (direct, client):
        for attempt in (
            server.get_prompt("args-prompt", {}),
            server.read_resource("demo://resource/dynamic/text/none"),
        ):
            with pytest.raises(MCPError) as raised:
                await attempt
            errors.append((raised.value.error.code, raised.value.error.message))
    assert errors[:2] == errors[2:]


async def test_unknown_names_are_invalid_params(client: Client) -> None:
    for attempt, text in (
        (client.call_tool("nope", {}), "Unknown tool: nope"),
        (client.get_prompt("nope"), "Unknown prompt: nope"),
    ):
        with pytest.raises(MCPError) as raised:
            await attempt
        assert (raised.value.error.code, raised.value.error.message) == (-32602, text)


async def test_progress_reaches_the_caller(client: Client) -> None:
    seen: list[tuple[float, float | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    await client.call_tool(
        "trigger-long-running-operation",
        {"duration": 0.2, "steps": 3},
        progress_callback=progressed,
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_sampling_is_answered_by_the_client(client: Client, heard: Heard) -> None:
    text = await call(client, "trigger-sampling-request", prompt="hello", maxTokens=7)
    assert "the client's own words" in text
    assert heard.sampled[0].max_tokens == 7
    assert heard.sampled[0].system_prompt == "You are a helpful test server."


async def test_elicitation_is_answered_by_the_client(client: Client, heard: Heard) -> None:
    text = await call(client, "trigger-elicitation-request")
    assert "declined" in text
    assert heard.elicited[0].message == "Please provide inputs for the following fields:"


async def test_log_messages_reach_the_client(client: Client, heard: Heard) -> None:
    await client.call_tool("toggle-simulated-logging", {})
    with anyio.fail_after(60):
        await heard.logged.wait()
    await client.call_tool("toggle-simulated-logging", {})


async def test_a_cancelled_call_is_cancelled_and_the_session_lives_on(client: Client) -> None:
    begun = anyio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    async def operate() -> None:
        arguments = {"duration": 60, "steps": 600}
        await client.call_tool(
            "trigger-long-running-operation", arguments, progress_callback=progressed
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(operate)
        with anyio.fail_after(60):
            await begun.wait()
        tasks.cancel_scope.cancel()
    assert await call(client, "echo", message="still here") == "Echo: still here"


async def test_the_servers_own_question_for_roots_is_answered_by_the_hub(
    client: Client, tree: Path
) -> None:
    assert (tree / "project").as_uri() in await call(client, "get-roots-list")


async def test_what_the_client_cannot_do_the_server_does_not_offer(url: str, tree: Path) -> None:
    async with connected(url, [tree / "project"]) as plain:
        names = {tool.name for tool in (await plain.list_tools()).tools}
        assert "echo" in names
        assert "trigger-sampling-request" not in names
        assert "trigger-elicitation-request" not in names
