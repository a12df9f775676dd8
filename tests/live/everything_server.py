"""An MCP server with all that the conformance suite asks for: `everything_server.py [http]`.

Made with the SDK, so it speaks both protocol eras; over stdio, or over HTTP on a free port.
"""

from __future__ import annotations

import base64
import gc
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeAlias

if __name__ == "__main__":
    gc.disable()  # it would look at all that is imported, which takes as long as a test

import anyio
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    JSONRPCMessage,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field, JsonValue

STEP = 0.05
"""Seconds between two things that a tool tells while it works."""
LONG = 1.5
"""Seconds that a call takes whose stream is closed meanwhile."""
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
KEY = b"not a secret: the servers of these tests are all the same"

Asks: TypeAlias = str | InputRequiredResult

server = MCPServer(
    "everything",
    version="1.0.0",
    log_level="WARNING",
    request_state_security=RequestStateSecurity(keys=[KEY]),
)


def main() -> None:
    if sys.argv[1:] != ["http"]:
        server.run("stdio")
        return
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"serves http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201 - who started it waits for this
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=0)
    anyio.run(uvicorn.Server(config).serve, [listener])


class Events(EventStore):
    """Keeps all that was ever sent, in one list; an event's id is its place there, from 1."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        seen = int(last_event_id)
        if not 0 < seen <= len(self._sent):
            return None
        stream = self._sent[seen - 1][0]
        for place, (stream_id, message) in enumerate(self._sent[seen:], seen + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream


# What tools can answer with


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return EmbeddedResource(type="resource", resource=resource)


def said(text: str) -> TextContent:
    return TextContent(type="text", text=text)


@server.tool()
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@server.tool(structured_output=False)
def test_image_content() -> list[ImageContent]:
    """Answer with an image."""
    return [ImageContent(type="image", data=PIXEL, mime_type="image/png")]


@server.tool(structured_output=False)
def test_audio_content() -> list[AudioContent]:
    """Answer with a sound."""
    return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]


@server.tool(structured_output=False)
def test_embedded_resource() -> list[EmbeddedResource]:
    """Answer with a resource in it."""
    text = "This is an embedded resource content."
    return [embedded("test://embedded-resource", "text/plain", text)]


@server.tool(structured_output=False)
def test_multiple_content_types() -> list[ContentBlock]:
    """Answer with a text, an image and a resource."""
    return [
        said("Multiple content types test:"),
        ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        ),
    ]


@server.tool()
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool("test_x_mcp_header")
def with_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none",
) -> str:
    """Answer with an argument that an HTTP header repeats."""
    return f"region {region}"


@server.tool()
def json_schema_2020_12_tool() -> str:
    """Have an input schema that uses what the draft of 2020-12 offers."""
    return "done"


def _schema_of_2020_12() -> dict[str, Any]:
    fields = ("name", "phone", "email")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("street", "city")},
            }
        },
        "properties": {
            **{name: {"type": "string"} for name in fields},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }


# The SDK makes a tool's schema from its function's signature, and has no way to give another one.
server._tool_manager._tools["json_schema_2020_12_tool"].parameters = _schema_of_2020_12()  # pyright: ignore[reportPrivateUsage]


# What becomes a task at a server that has tasks; this one answers at once


@server.tool()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@server.tool()
def slow_compute(seconds: float) -> str:
    """Claim to have worked for so long."""
    return f"computed for {seconds} seconds"


@server.tool()
def confirm_delete(filename: str) -> str:
    """Delete nothing."""
    return f"{filename} is kept"


# What a tool tells while it works


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three times."""
    for text in ("started", "processing data", "completed"):
        await ctx.info(f"Tool {text}")  # pyright: ignore[reportDeprecated]
        await anyio.sleep(STEP)
    return "logged three times"


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Log once."""
    await ctx.info("at work")  # pyright: ignore[reportDeprecated]
    return "logged once"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(STEP)
    return "reported three times"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Close the stream that answers, and answer later, where the transport has one."""
    await ctx.info("before the stream ends")  # pyright: ignore[reportDeprecated]
    await ctx.close_sse_stream()
    await anyio.sleep(LONG)
    await ctx.info("after it ended")  # pyright: ignore[reportDeprecated]
    return "answered on another stream"


# What a tool asks the client for, in the handshake era


def without_client(ctx: Context, capability: str) -> bool:
    """Return whether the client has not declared a capability."""
    declared = ctx.client_capabilities
    return declared is None or getattr(declared, capability) is None


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Have the client's model answer a prompt."""
    answer = await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
        [SamplingMessage(role="user", content=said(prompt))],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    text = answer.content.text if isinstance(answer.content, TextContent) else "no text"
    return f"LLM response: {text}"


async def elicited(ctx: Context, message: str, schema: type[BaseModel]) -> str:
    answer = await ctx.elicit(message, schema)
    content = answer.data.model_dump() if answer.action == "accept" else {}
    return f"action={answer.action}, content={json.dumps(content)}"


class Person(BaseModel):
    username: str = Field(description="Name of the user")
    email: str = Field(description="Address of the user")


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user who it is."""
    return f"User response: {await elicited(ctx, message, Person)}"


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user for what has a default."""
    return f"Elicitation completed: {await elicited(ctx, 'Check these, please', Defaults)}"


def _titled(*values: str) -> list[JsonValue]:
    return [{"const": value, "title": f"The {value} one"} for value in values]


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2"]})  # noqa: N815 - the suite's name
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled("value1", "value2")})  # noqa: N815
    legacyEnum: str = Field(  # noqa: N815
        json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["Option 1", "Option 2"]}
    )
    untitledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2"]}}
    )
    titledMulti: list[str] = Field(  # noqa: N815
        json_schema_extra={"items": {"anyOf": _titled("value1", "value2")}}
    )


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose, in each way there is."""
    return f"Elicitation completed: {await elicited(ctx, 'Choose, please', Choices)}"


# What a tool asks the client for, since 2026-07-28: by its result


def asking(field: str, message: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def prompting(text: str) -> CreateMessageRequest:
    messages = [SamplingMessage(role="user", content=said(text))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=messages, max_tokens=50))


def wanting(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def filled_in(ctx: Context, key: str, field: str) -> Any:
    """Return what the user filled in, if this request brings it."""
    answer = (ctx.input_responses or {}).get(key)
    return (answer.content or {}).get(field) if isinstance(answer, ElicitResult) else None


NAME = asking("name", "What is your name?")
OK = asking("ok", "Please confirm", "boolean")


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> Asks:
    """Greet the user by name."""
    name = filled_in(ctx, "user_name", "name")
    return wanting(user_name=NAME) if name is None else f"Hello, {name}!"


@server.tool()
async def test_streaming_elicitation(ctx: Context) -> Asks:
    """Greet the user by name, with progress before."""
    await ctx.report_progress(0, 1)
    return await test_input_required_result_elicitation(ctx)


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> Asks:
    """Have the client's model answer."""
    answer = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(answer, CreateMessageResult) or not isinstance(answer.content, TextContent):
        return wanting(capital_question=prompting("What is the capital of France?"))
    return answer.content.text


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> Asks:
    """Say which roots the client shares."""
    answer = (ctx.input_responses or {}).get("client_roots")
    if answer is None:
        return wanting(client_roots=ListRootsRequest())
    return answer.model_dump_json()


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> Asks:
    """Tell whether the state came back."""
    if filled_in(ctx, "confirm", "ok") is None or ctx.request_state != "asked":
        return wanting("asked", confirm=OK)
    return "state-ok"


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> Asks:
    """Ask once; the SDK refuses a state that was changed."""
    return wanting("asked", confirm=OK) if ctx.request_state is None else "state-ok"


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> Asks:
    """Ask for three things at once."""
    wanted: dict[str, InputRequest] = {
        "user_name": NAME,
        "greeting": prompting("Greet somebody"),
        "client_roots": ListRootsRequest(),
    }
    came = wanted.keys() <= (ctx.input_responses or {}).keys()
    return "all three came" if came else wanting("asked", **wanted)


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> Asks:
    """Ask for one thing after another."""
    name = ctx.request_state if ctx.request_state != "name" else None
    name = name or filled_in(ctx, "step1", "name")
    if name is None:
        return wanting("name", step1=NAME)
    colour = filled_in(ctx, "step2", "color")
    if colour is None:
        return wanting(name, step2=asking("color", f"Which colour do you like, {name}?"))
    return f"{name} likes {colour}"


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> Asks:
    """Ask for what the client can do alone."""
    wanted = {"sampling": prompting("Say hello"), "elicitation": NAME}
    can = {key: ask for key, ask in wanted.items() if not without_client(ctx, key)}
    return wanting("asked", **can)


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Refuse a client that has no model."""
    if without_client(ctx, "sampling"):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "sampling is needed",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return "the client has a model"


# What changes


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Add a tool for a moment."""
    server.add_tool(lambda: "here", name="passing", description="A tool that goes again")
    server.remove_tool("passing")
    await ctx.notify_tools_changed()
    return "changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Add a prompt for a moment."""
    server.add_prompt(Prompt.from_function(lambda: "here", name="passing"))
    server.remove_prompt("passing")
    await ctx.notify_prompts_changed()
    return "changed"


# Resources, prompts, and what the SDK has no decorator for


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def from_template(id: str) -> str:  # noqa: A002 - the suite's name
    """What a template makes of an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A text that clients subscribe to."""
    return "unchanged so far"


@server.prompt()
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803
    """A prompt with a resource in it."""
    text = "Embedded resource content for testing."
    return [
        UserMessage(embedded(resourceUri, "text/plain", text)),
        UserMessage("Please process the embedded resource above."),
    ]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with an image in it."""
    return [
        UserMessage(ImageContent(type="image", data=PIXEL, mime_type="image/png")),
        UserMessage("Please analyze the image above."),
    ]


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """A prompt that the user fills in."""
    context = filled_in(ctx, "user_context", "context")
    if context is None:
        return wanting(user_context=asking("context", "What context should the prompt use?"))
    return f"Use this context: {context}"


@server.completion()
async def complete(*_: Any) -> Completion:
    """Suggest the same for everything."""
    return Completion(values=["paris", "park", "party"], total=3, has_more=False)


Answering: TypeAlias = Callable[[ServerRequestContext[Any], Any], Awaitable[EmptyResult]]


async def accept(_context: ServerRequestContext[Any], _params: Any) -> EmptyResult:
    return EmptyResult()


ACCEPTED: Mapping[str, type[BaseModel]] = {
    "logging/setLevel": SetLevelRequestParams,
    "resources/subscribe": SubscribeRequestParams,
    "resources/unsubscribe": UnsubscribeRequestParams,
}
for method, params_type in ACCEPTED.items():
    server._lowlevel_server.add_request_handler(method, params_type, accept)  # pyright: ignore[reportPrivateUsage]

if __name__ == "__main__":
    main()
