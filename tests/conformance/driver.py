"""A client before the hub, whose one server is a scenario of the suite: `driver URL`, run by it.

The suite looks at what the hub sends; this client makes the hub send it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from hub.protocol.constants import MODERN_VERSIONS
from tests.live.programs import ROOTS_HUB, config_file, connected

HUBS_OWN = {"get-roots"}


async def main() -> None:
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    with tempfile.TemporaryDirectory() as directory:
        revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
        era = "modern" if revision in MODERN_VERSIONS else "auto"
        # What is looked at is the wire: a scenario's resources lie in no folder of this machine.
        server = {"url": url, "era": era, "guard": "off"}
        config = config_file(Path(directory), {"scenario": server})
        command = [ROOTS_HUB, "run", "--config", config, "--stdio"]
        # A client that can be asked for everything, so that the hub can be asked for it too.
        async with connected(command, [Path(directory)], elicitation_callback=filled_in) as client:
            await STEPS[scenario](client)


async def filled_in(_context: object, params: ElicitRequestParams) -> ElicitResult:
    """Accept a form: with the default of each field that has one, else with yes."""
    fields: Mapping[str, Any] = {}
    if isinstance(params, ElicitRequestFormParams):
        fields = params.requested_schema["properties"]
    content = {name: field.get("default", True) for name, field in fields.items()}
    return ElicitResult(action="accept", content=content)


async def listed(client: Client) -> None:
    """List the tools."""
    await client.list_tools()


async def summed(client: Client) -> None:
    """Call the one tool with two numbers."""
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def called(client: Client) -> None:
    """Call every listed tool, in order, with made-up required arguments."""
    for tool in (await client.list_tools()).tools:
        if tool.name not in HUBS_OWN:
            needed = tool.input_schema.get("required", [])
            await client.call_tool(tool.name, dict.fromkeys(needed, "x"))


async def everything_called(client: Client) -> None:
    """Make a request of each kind that carries a name."""
    await called(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def called_as_told(client: Client) -> None:
    """Make the calls that the scenario describes."""
    told = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    for one in told["toolCalls"]:
        await client.call_tool(one["name"], one["arguments"])


async def echoed(client: Client) -> None:
    """Send a tool's schema back as it came."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


async def interleaved(client: Client) -> None:
    """Call tools that ask for input, and others meanwhile."""

    async def call(name: str) -> None:
        await client.call_tool(name)

    async with anyio.create_task_group() as tasks:
        for tool in (await client.list_tools()).tools:
            if tool.name not in HUBS_OWN:
                tasks.start_soon(call, tool.name)


STEPS: Mapping[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": listed,
    "tools_call": summed,
    "elicitation-sep1034-client-defaults": called,
    "sse-retry": called,
    "request-metadata": listed,
    "sep-2322-client-request-state": interleaved,
    "http-standard-headers": everything_called,
    "http-custom-headers": called_as_told,
    "http-invalid-tool-headers": called,
    "json-schema-ref-no-deref": listed,
    "json-schema-2020-12-preservation": echoed,
}

if __name__ == "__main__":
    anyio.run(main)
