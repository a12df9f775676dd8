"""An MCP server made with the SDK that speaks both eras, and uses all they have.

`era_server.py SOCKET [NAME...]` serves each name over HTTP, on a port of its own, and at the socket
the stdin and stdout of each `era_child.py`: a server for each, with so many tools that a list of
them has pages if that is wanted. Names make the resources' URIs differ.
"""

from __future__ import annotations

import gc
import json
import socket
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

if __name__ == "__main__":
    gc.disable()  # it would look at all that is imported, which takes as long as a test

import anyio
import uvicorn
from anyio.abc import SocketStream, UNIXSocketStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

Context: TypeAlias = ServerRequestContext[Any, Any]
Answer: TypeAlias = CallToolResult | InputRequiredResult
Question: TypeAlias = CreateMessageRequest | ElicitRequest | ListRootsRequest

MAX_BODY = 64 * 1024 * 1024
NAMES = (
    "ask_roots ask_model ask_form ask_url steps hold release wait cancelled "
    "log add touch big size_of"
)

MANY = 1100
"""How many tools more there are if so wanted."""

QUESTIONS: dict[str, tuple[Question, type[BaseModel]]] = {
    "ask_roots": (ListRootsRequest(), ListRootsResult),
    "ask_model": (
        CreateMessageRequest(
            params=CreateMessageRequestParams(
                messages=[
                    SamplingMessage(role="user", content=TextContent(type="text", text="Well?"))
                ],
                max_tokens=17,
            )
        ),
        CreateMessageResult,
    ),
    "ask_form": (
        ElicitRequest(
            params=ElicitRequestFormParams(
                message="How many?",
                requested_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
            )
        ),
        ElicitResult,
    ),
    "ask_url": (
        ElicitRequest(
            params=ElicitRequestURLParams(
                message="Look here", url="https://example.com/form", elicitation_id="e-1"
            )
        ),
        ElicitResult,
    ),
}


class TellingServer(Server[Any]):
    """The SDK's server; it always declares that it tells of changed lists."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        every = NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(every, experimental_capabilities, extensions)


def text(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)])


class EraServer:
    """One server; whoever connects to it shares its lists."""

    def __init__(self, name: str, more: int = 0) -> None:
        self.uri = f"era://{name}/one"
        tools = [f"many_{number}" for number in range(more)]
        self.added: dict[str, list[str]] = {"tool": tools, "resource": [], "prompt": []}
        self._cancelled: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)
        self._released: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)
        self._bus = InMemorySubscriptionBus()
        self.server = TellingServer(
            name,
            version="1",
            instructions=f"{name} asks and tells.",
            on_list_tools=self._tools,
            on_call_tool=self._call,
            on_list_resources=self._resources,
            on_list_resource_templates=self._templates,
            on_read_resource=self._read,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self._bus),
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
            on_completion=self._complete,
        )
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    async def _tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        reading = Tool(name="read_file", input_schema=schema)
        names = [*NAMES.split(), *self.added["tool"]]
        others = [Tool(name=name, input_schema={"type": "object"}) for name in names]
        return ListToolsResult(tools=[reading, *others])

    async def _resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        more = [Resource(uri=f"{self.uri}/{name}", name=name) for name in self.added["resource"]]
        return ListResourcesResult(resources=[Resource(uri=self.uri, name="one"), *more])

    async def _templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        any_ = ResourceTemplate(uri_template=f"{self.uri}/{{name}}", name="any")
        return ListResourceTemplatesResult(resource_templates=[any_])

    async def _prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        names = ["first", *self.added["prompt"]]
        return ListPromptsResult(prompts=[Prompt(name=name) for name in names])

    async def _prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        said = TextContent(type="text", text=params.name)
        return GetPromptResult(messages=[PromptMessage(role="user", content=said)])

    async def _complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        begun = params.argument.value
        return CompleteResult(completion=Completion(values=[f"{begun}e", f"{begun}f"]))

    async def _read(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        return ReadResourceResult(
            contents=[TextResourceContents(uri=params.uri, text=str(params.uri))]
        )

    async def _subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def _unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        return EmptyResult()

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    async def _call(self, context: Context, params: CallToolRequestParams) -> Answer:
        if params.name in QUESTIONS:
            return await self._ask(context, params)
        perform: dict[str, Callable[[Context, dict[str, Any]], Awaitable[str]]] = {
            "steps": self._steps,
            "hold": self._hold,
            "release": self._release,
            "wait": self._wait,
            "cancelled": self._was_cancelled,
            "log": self._log,
            "add": self._add,
            "touch": self._touch,
        }
        given = params.arguments or {}
        match params.name:
            case "read_file":
                return text(f"would read {given['path']}")
            case "big":
                return text("x" * given["size"])
            case "size_of":
                return text(str(len(given["text"])))
            case name:
                return text(await perform[name](context, given))

    async def _ask(self, context: Context, params: CallToolRequestParams) -> Answer:
        """Ask the client as its era wants it, and tell what it answered."""
        question, kind = QUESTIONS[params.name]
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            related = ServerMessageMetadata(related_request_id=context.request_id)
            answer = await context.session.send_request(question, kind, metadata=related)
            return text(answer.model_dump_json(by_alias=True, exclude_none=True))
        if params.input_responses is None:
            asked = {"question": question}
            return InputRequiredResult(input_requests=asked, request_state="as it was given")
        state, found = params.request_state, params.input_responses["question"]
        assert state == "as it was given", state
        return text(found.model_dump_json(by_alias=True, exclude_none=True))

    async def _steps(self, context: Context, given: dict[str, Any]) -> str:
        for step in (1, 2, 3):
            await context.session.report_progress(step, 3, f"step {step}")
        return "done"

    async def _hold(self, context: Context, given: dict[str, Any]) -> str:
        await context.session.report_progress(1, 3, "holding")
        await self._released[given["key"]].wait()
        return "held"

    async def _release(self, context: Context, given: dict[str, Any]) -> str:
        self._released[given["key"]].set()
        return "released"

    async def _wait(self, context: Context, given: dict[str, Any]) -> str:
        try:
            await context.session.report_progress(1, None, "waiting")
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self._cancelled[given["key"]].set()
            raise
        return "never"

    async def _was_cancelled(self, context: Context, given: dict[str, Any]) -> str:
        await self._cancelled[given["key"]].wait()
        return "cancelled"

    async def _log(self, context: Context, given: dict[str, Any]) -> str:
        for level in ("debug", "error"):
            await context.session.send_log_message(  # pyright: ignore[reportDeprecated] - it is what is tested
                level, {"of": given["key"]}, "era", related_request_id=context.request_id
            )
        return "logged"

    async def _add(self, context: Context, given: dict[str, Any]) -> str:
        kind, name = given["kind"], given["name"]
        self.added[kind].append(name)
        if kind == "tool":
            await self._bus.publish(ToolsListChanged())
            await context.session.send_tool_list_changed()
        elif kind == "resource":
            await self._bus.publish(ResourcesListChanged())
            await context.session.send_resource_list_changed()
        else:
            await self._bus.publish(PromptsListChanged())
            await context.session.send_prompt_list_changed()
        return "added"

    async def _touch(self, context: Context, given: dict[str, Any]) -> str:
        await self._bus.publish(ResourceUpdated(uri=self.uri))
        await context.session.send_resource_updated(self.uri)
        return "touched"


async def over_stdio(child: SocketStream) -> None:
    """Serve what a child hands over, until its stdin ends; then let the child end, too."""
    assert isinstance(child, UNIXSocketStream)
    async with child:
        asked, (stdin, stdout) = await child.receive_fds(1024, 2)
        name, *more = json.loads(asked)
        server = EraServer(name, MANY if more else 0).server
        async with (
            await anyio.open_file(stdin, encoding="utf-8") as reads,
            await anyio.open_file(stdout, "w", encoding="utf-8") as writes,
            stdio_server(reads, writes) as (read, write),
        ):
            await server.run(read, write, server.create_initialization_options())


async def serve(path: str, names: list[str]) -> None:
    children = await anyio.create_unix_listener(path)
    serving: list[tuple[uvicorn.Server, socket.socket]] = []
    urls: dict[str, str] = {}
    for name in names:
        listener = socket.create_server(("127.0.0.1", 0))
        urls[name] = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        app = EraServer(name).server.streamable_http_app(max_request_body_size=MAX_BODY)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0)
        serving.append((uvicorn.Server(config), listener))
    sys.stdout.write(f"serves {json.dumps(urls)}\n")
    sys.stdout.flush()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(children.serve, over_stdio)
        for server, listener in serving:
            tasks.start_soon(server.serve, [listener])


def main() -> None:
    path, *names = sys.argv[1:]
    anyio.run(serve, path, names)


if __name__ == "__main__":
    main()
