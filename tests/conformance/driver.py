"""A client before the hub, whose one server is a scenario of the suite: `driver URL`, run by it.

The suite looks at what the hub sends; this client makes the hub send it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp import Client
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from hub.protocol.constants import MODERN_VERSIONS
from tests.kit.warm import ROOTS_HUB
from tests.live.programs import config_file, connected

HUBS_OWN = {"get-roots"}
LOGINS = "auth/"
"""What scenarios begin with where somebody logs in at the server."""
MOST_LOGINS = 3
"""A person gives up when the server wants further rights again and again."""
METADATA = "https://conformance-test.local/client-metadata.json"
"""The client ID metadata document that the suite expects."""


async def main() -> None:
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    with tempfile.TemporaryDirectory() as directory:
        revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
        era = "modern" if revision in MODERN_VERSIONS else "auto"
        # What is looked at is the wire: a scenario's resources lie in no folder of this machine.
        server: dict[str, Any] = {"url": url, "era": era, "guard": "off"}
        if scenario.startswith(LOGINS):
            await called_with_logins(server, Path(directory))
            return
        config = config_file(Path(directory), {"scenario": server})
        command = [ROOTS_HUB, "run", "--config", config, "--stdio"]
        # A client that can be asked for everything, so that the hub can be asked for it too.
        async with connected(command, [Path(directory)], elicitation_callback=filled_in) as client:
            await STEPS[scenario](client)


async def called_with_logins(server: dict[str, Any], directory: Path) -> None:
    """Log in, list and call all tools; log in again where the server wants further rights."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    auth = {name: given[name] for name in ("client_id", "client_secret") if name in given}
    if auth:  # an operator who has registered a client knows where
        auth["issuer"] = issuer_of(server["url"])
    server["auth"] = auth or {"client_metadata": METADATA}
    config = config_file(directory, {"scenario": server})
    command = [ROOTS_HUB, "run", "--config", config, "--stdio"]
    for _ in range(MOST_LOGINS):
        await anyio.to_thread.run_sync(log_in, config)
        async with connected(command, [directory]) as client:
            await called(client)
            report: Any = (await client.call_tool("get-roots")).structured_content
        reason: str = report["servers"][0].get("reason", "")
        wants = "wants further rights" in logins(config)
        if not wants and "roots-hub login" not in reason:
            return


def log_in(config: str) -> None:
    """Log in as a person would, whose browser follows all redirects.

    Raises: SystemExit if the hub refuses, as some scenarios want it to.
    """
    command = [ROOTS_HUB, "login", "scenario", "--config", config, "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:  # noqa: S603 - ours
        for line in running.stderr or ():
            sys.stderr.write(line)
            if line.startswith("  http"):
                httpx2.get(line.strip(), follow_redirects=True, timeout=10)
    if running.returncode:
        raise SystemExit(running.returncode)


def issuer_of(url: str) -> str:
    """Return the authorization server of a server, as its metadata names it."""
    place = urlsplit(url)
    at = f"{place.scheme}://{place.netloc}/.well-known/oauth-protected-resource"
    found = httpx2.get(at)
    if found.is_error:
        found = httpx2.get(f"{at}{place.path}")
    return found.json()["authorization_servers"][0]


def logins(config: str) -> str:
    """Return who is logged in."""
    command = [ROOTS_HUB, "login", "--config", config]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours


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
