"""An MCP server (legacy era, stdio) that costs next to nothing: `python bench/child.py [OPTIONS]`.

It reads what there is, takes each message's id and method, and writes prepared results: whatever
stands before it in a measurement is what is measured. Options: `--tools N` lists N tools more than
the four that can be called, `--delay S` begins to read when its process is S seconds old (Linux),
`--offers 1` has a resource, a prompt and a tool whose argument an HTTP header must repeat as well,
`--few 1` has none of the four tools.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

CHUNK = 1 << 20
LARGE = 1 << 20
"""How many bytes of text the large answer has."""
KEPT = 31 << 20
"""Bytes freed at the start: glibc then keeps what is read into, whatever was read before."""
START_TIME = 19
"""Where `/proc/self/stat` has when the process was started, of what follows its name (proc(5))."""


ABSENT = msgspec.Raw(b"")


class Parameters(msgspec.Struct):
    """What of a request's parameters decides its answer."""

    name: str = ""
    version: str = msgspec.field(name="protocolVersion", default="")


class Request(msgspec.Struct):
    """What of a message decides its answer."""

    method: str = ""
    id: msgspec.Raw = ABSENT
    params: msgspec.Raw = ABSENT


def text(value: str) -> bytes:
    """Return the result of a tool that answers one text."""
    return json.dumps({"content": [{"type": "text", "text": value}]}).encode()


def tool(name: str, description: str, **arguments: Any) -> dict[str, Any]:
    """Return the definition of a read-only tool, all whose arguments are required."""
    schema = {"type": "object", "properties": arguments, "required": list(arguments)}
    hints = {"readOnlyHint": True}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": hints,
    }


STRING = {"type": "string"}
TOOLS = [
    tool("echo", "Says something.", text=STRING),
    tool("read_file", "Reads a file.", path={**STRING, "description": "Path of the file"}),
    tool("read_files", "Reads files.", paths={"type": "array", "items": STRING}),
    tool("large", "Answers much.", text=STRING),
]
RESULTS = {"large": text("x" * LARGE)}
RESULT = text("done")
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


MARKED = tool("marked", "Says something.", text={**STRING, "x-mcp-header": "Text"})
OFFERS: dict[str, Any] = {
    "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "note://one", "text": "done"}]},
    "prompts/list": {"prompts": [{"name": "ask", "arguments": [{"name": "path"}]}]},
    "prompts/get": {"messages": []},
}


def handshake(version: str) -> bytes:
    """Return the result of a handshake with a client of this version."""
    spoken = version if version in VERSIONS else VERSIONS[-1]
    info = {"name": "bench-child", "version": "1"}
    result: dict[str, Any] = {
        "protocolVersion": spoken,
        "capabilities": {"tools": {}, **({"resources": {}, "prompts": {}} if offers() else {})},
        "serverInfo": info,
    }
    return json.dumps(result).encode()


def filler(number: int) -> dict[str, Any]:
    """Return a tool of the usual size that is only listed."""
    return tool(
        f"tool_{number}",
        f"Does thing number {number} with what it is given, and says how that went.",
        path={**STRING, "description": "Path of the file to work on"},
        query={**STRING, "description": "What to look for in it"},
        limit={"type": "integer", "description": "How many answers at most"},
    )


def results(more: int) -> dict[str, bytes]:
    """Return the results that are always the same, by method."""
    called = [] if option("--few") != "0" else TOOLS
    tools = [*called, *map(filler, range(more)), *([MARKED] if offers() else [])]
    known = {"tools/list": {"tools": tools}, "ping": {}, **(OFFERS if offers() else {})}
    return {method: json.dumps(result).encode() for method, result in known.items()}


def answering(known: dict[str, bytes]) -> Callable[[bytes], bytes]:
    """Return what answers one line; `known` are the results that are always the same."""
    decode = msgspec.json.Decoder(Request).decode
    parameters_of = msgspec.json.Decoder(Parameters).decode

    def answer(line: bytes) -> bytes:
        request = decode(line)
        id_, method = request.id, request.method
        if id_ is ABSENT:
            return b""
        if method == "tools/call" and request.params is not ABSENT:
            result = RESULTS.get(parameters_of(request.params).name, RESULT)
        elif (found := known.get(method)) is not None:
            result = found
        elif method == "initialize":
            result = handshake(parameters_of(request.params).version)
        else:
            error = b'{"code":-32601,"message":"Method not found"}'
            return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (id_, error)
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id_, result)

    return answer


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer until stdin ends."""
    parts: list[bytes] = []
    while chunk := os.read(0, CHUNK):
        *lines, rest = chunk.split(b"\n")
        if lines and parts:
            lines[0] = b"".join([*parts, lines[0]])
            parts.clear()
        if rest:
            parts.append(rest)
        for line in lines:
            out = answer(line)
            while out:
                out = out[os.write(1, out) :]


def option(name: str) -> str:
    """Return what stands after an option; 0 without it."""
    # Some launchers give every server more arguments than it was configured with.
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else "0"


def offers() -> bool:
    """Return whether there is more than tools."""
    return option("--offers") != "0"


def age() -> float:
    """Return how many seconds ago this process was started, in hundredths."""
    with open("/proc/self/stat", encoding="utf-8") as stat:  # noqa: PTH123 - starts sooner so
        fields = stat.read().rpartition(")")[2].split()
    started = int(fields[START_TIME]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def main() -> None:
    """Serve as the options say."""
    bytes(KEPT)
    if "--delay" in sys.argv:
        time.sleep(max(0.0, float(option("--delay")) - age()))
    serve(answering(results(int(option("--tools")))))


if __name__ == "__main__":
    main()
