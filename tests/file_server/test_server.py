import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from time import sleep

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from hub.file_server.files import MAX_FOUND, SharedFiles, shared_directory
from hub.file_server.server import FileTools, file_server

READERS = {
    "read_file",
    "read_media_file",
    "list_directory",
    "search_files",
    "get_file_info",
    "list_allowed_directories",
}
NO_NEW_TEXT = "argument 'edits.0.newText' is missing"
NO_NUMBER = "argument 'tail': must be a whole number, not 'a'"
DESTROYERS = {"write_file", "edit_file", "move_file", "delete_file"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with Client(file_server([shared_directory(str(tmp_path))])) as client:
        yield client


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert not result.is_error, block.text
    return block.text


def error(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert result.is_error, block.text
    return block.text.partition(": ")[2]


async def test_every_tool_says_what_it_does_and_how_dangerous_it_is(client: Client) -> None:
    tools = (await client.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in tools if tool.annotations and tool.description}
    assert len(hints) == len(tools)
    assert {name for name, hint in hints.items() if hint.read_only_hint} == READERS
    assert {name for name, hint in hints.items() if hint.destructive_hint} == DESTROYERS


async def test_a_file_lives_from_its_directory_to_its_end(client: Client, tmp_path: Path) -> None:
    call = client.call_tool
    text(await call("create_directory", {"path": "notes"}))
    text(await call("write_file", {"path": "notes/a.md", "content": "eins\nzwei\ndrei\n"}))
    assert text(await call("read_file", {"path": "notes/a.md", "head": 1})) == "eins\n"
    assert text(await call("read_file", {"path": "notes/a.md", "tail": 2})) == "zwei\ndrei\n"
    assert text(await call("list_directory", {"path": "notes"})) == "[FILE] a.md"
    found = text(await call("search_files", {"path": ".", "pattern": "*.md"}))
    assert found == str(tmp_path / "notes/a.md")
    assert "size: 15\n" in text(await call("get_file_info", {"path": "notes/a.md"}))
    text(await call("move_file", {"source": "notes/a.md", "destination": "b.md"}))
    assert text(await call("read_file", {"path": "b.md"})) == "eins\nzwei\ndrei\n"
    text(await call("delete_file", {"path": "b.md"}))
    assert text(await call("search_files", {"path": ".", "pattern": "*.md"})) == "No matches found"
    assert text(await call("list_allowed_directories", {})) == str(tmp_path)


async def test_an_edit_is_made_whole_or_not_at_all(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one\r\ntwo\r\n")
    edits = [{"oldText": "one\ntwo", "newText": "1\n2"}, {"oldText": "2", "newText": "zwei"}]
    shown = text(await client.call_tool("edit_file", {"path": "a", "edits": edits, "dryRun": True}))
    assert "-two" in shown
    assert "+zwei" in shown
    assert file.read_bytes() == b"one\r\ntwo\r\n"
    text(await client.call_tool("edit_file", {"path": "a", "edits": edits}))
    assert file.read_bytes() == b"1\r\nzwei\r\n"
    edits = [{"oldText": "1", "newText": "x"}, {"oldText": "gone", "newText": ""}]
    reason = error(await client.call_tool("edit_file", {"path": "a", "edits": edits}))
    assert reason == "'a' has this text 0 times, not once: 'gone'"
    assert file.read_bytes() == b"1\r\nzwei\r\n"


async def test_an_edit_of_a_large_file_is_shown_at_once(client: Client, tmp_path: Path) -> None:
    lines = "".join(f"{number % 150}\n" for number in range(300_000))
    (tmp_path / "a").write_text(f"{lines}middle\n{lines}")
    edits = [{"oldText": "middle", "newText": "MIDDLE"}]
    said = text(await client.call_tool("edit_file", {"path": "a", "edits": edits}))
    assert said.splitlines()[2:7] == [
        "@@ -299998,7 +299998,7 @@",
        " 147",
        " 148",
        " 149",
        "-middle",
    ]
    (tmp_path / "a").write_text(f"first\n{lines}last\n")
    edits = [{"oldText": "first", "newText": "1"}, {"oldText": "last\n", "newText": ""}]
    said = text(await client.call_tool("edit_file", {"path": "a", "edits": edits}))
    assert said == "The changes in a are too far apart to be shown: lines 1 to 300002"


async def test_a_binary_file_is_returned_as_media(client: Client, tmp_path: Path) -> None:
    for name in ["a.png", "a.mp3", "a b.bin"]:
        (tmp_path / name).write_bytes(b"\xff\x00")
    reason = error(await client.call_tool("read_file", {"path": "a.png"}))
    assert reason == "'a.png' is not UTF-8 text; read_media_file returns any file"
    image, audio, other = [
        (await client.call_tool("read_media_file", {"path": name})).content[0]
        for name in ["a.png", "a.mp3", "a b.bin"]
    ]
    assert isinstance(image, ImageContent)
    assert (image.data, image.mime_type) == ("/wA=", "image/png")
    assert isinstance(audio, AudioContent)
    assert isinstance(other, EmbeddedResource)
    assert isinstance(other.resource, BlobResourceContents)
    assert (other.resource.blob, other.resource.mime_type) == ("/wA=", "application/octet-stream")
    assert other.resource.uri == (tmp_path / "a b.bin").as_uri()


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("read_file", {"path": "gone"}, "'gone' does not exist"),
        ("read_file", {"path": "x", "head": 1, "tail": 1}, "Give head or tail, not both"),
        ("write_file", {"path": "x", "content": "\ud800"}, "The text has half a character at 0"),
        ("delete_file", {"path": "\udcff"}, "'\ufffd\ufffd\ufffd' does not exist"),
        ("read_file", {}, "argument 'path' is missing"),
        ("move_file", {}, "argument 'source' is missing; argument 'destination' is missing"),
        ("edit_file", {"path": "x", "edits": [{"oldText": "a"}]}, NO_NEW_TEXT),
        ("edit_file", {"path": "x", "edits": "y"}, "argument 'edits': must be a list, not 'y'"),
        ("read_file", {"path": "x", "head": 0}, "argument 'head': must be at least 1, not 0"),
        ("read_file", {"path": "x", "tail": "a"}, NO_NUMBER),
        ("read_file", {"path": ["\udcff"]}, "argument 'path': must be a text, not ['\\udcff']"),
    ],
)
async def test_an_error_names_what_is_wrong(
    client: Client, tool: str, arguments: dict[str, object], reason: str
) -> None:
    assert error(await client.call_tool(tool, arguments)) == reason


async def test_a_path_outside_is_refused(client: Client) -> None:
    reason = error(await client.call_tool("read_file", {"path": "/etc/passwd"}))
    assert reason.startswith("Access denied: Path '/etc/passwd' is outside the shared directories")


async def test_a_long_search_says_that_there_is_more(client: Client, tmp_path: Path) -> None:
    for number in range(MAX_FOUND + 1):
        (tmp_path / f"{number}").touch()
    found = text(await client.call_tool("search_files", {"path": ".", "pattern": "*"}))
    assert found.splitlines()[MAX_FOUND:] == ["(more than 1000: narrow the pattern)"]


async def test_a_search_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}").mkdir()
    looked = 0

    class Slow(SharedFiles):
        def search(
            self,
            path: str,
            pattern: str,
            exclude: Sequence[str],
            is_wanted: Callable[[], bool] = lambda: True,
        ) -> list[str]:
            def slowly() -> bool:
                nonlocal looked
                looked += 1
                sleep(0.1)
                return is_wanted()

            return super().search(path, pattern, exclude, slowly)

    tools = FileTools(Slow([shared_directory(str(tmp_path))]))
    with anyio.move_on_after(0.25) as scope:
        await to_thread.run_sync(tools.search_files, ".", "none")
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert 0 < looked < 100


@pytest.mark.live
def test_a_directory_that_is_not_there_is_skipped_with_a_warning(tmp_path: Path) -> None:
    gone, there = tmp_path / "gone", tmp_path / "there"
    there.mkdir()
    found = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-m", "hub.file_server.server", str(gone), str(there)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stderr == f"file server: not shared: '{gone}' does not exist\n"


@pytest.mark.live
def test_what_it_imports_is_not_searched_for_garbage() -> None:
    code = """
import atexit, gc, runpy, sys
sys.argv[1:] = ["--help"]
atexit.register(lambda: print(gc.isenabled(), gc.get_stats()[2]["collections"]))
runpy.run_module("hub.file_server.server", run_name="__main__")
"""
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - this Python
    assert said.splitlines()[-1] == "True 0"


@pytest.mark.live
async def test_it_serves_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    command = ["-m", "hub.file_server.server", str(tmp_path)]
    server = StdioServerParameters(command=sys.executable, args=command)
    with anyio.fail_after(60):
        async with Client(server) as client:
            assert text(await client.call_tool("read_file", {"path": "a"})) == "hello"
