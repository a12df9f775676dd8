"""The embedded file server: `python -m hub.file_server.server DIRECTORY...`, MCP over stdio.

Tools and arguments have the same names as in npm's server-filesystem if both have them.
"""

import argparse
import base64
import gc
import inspect
import mimetypes
import reprlib
import sys
from asyncio import CancelledError  # noqa: TID251 - what anyio raises in a thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, Final

if __name__ == "__main__":
    gc.disable()  # what is imported is no garbage: to look for some, now and at the end, takes long

from anyio import from_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from hub import __version__
from hub.file_server.files import (
    FLAVOUR,
    SharedFiles,
    SharedFilesError,
    shared_directory,
    unified_diff,
)
from hub.paths.file_uris import uri_from_path

Path = Annotated[str, Field(description="Absolute, or relative to the first shared directory")]
LineCount = Annotated[int | None, Field(ge=1, description="Only this many lines")]
Patterns = Annotated[Sequence[str], Field(description="Glob patterns of what to leave out")]

_SAID: Final = {
    "sequence_str": "must be a list",
    "sequence_type": "must be a list",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be a text",
    "model_type": "must be an object",
    "greater_than_equal": "must be at least 1",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
"""What is wrong with an argument, by pydantic's name for it. Others are told as pydantic does."""

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
OVERWRITES = ADDS.model_copy(update={"destructive_hint": True})
CHANGES = OVERWRITES.model_copy(update={"idempotent_hint": False})


class Edit(BaseModel):
    """One exact piece of text and what stands there afterwards."""

    oldText: str = Field(min_length=1, description="Must occur exactly once")  # noqa: N815 (wire)
    newText: str = Field(description="Replaces it")  # noqa: N815 (wire)


class FileServer(MCPServer):
    """An MCP server that says in one line which argument of a call is wrong."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool by name. Raises: ToolError with what is wrong."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as exc:
            if not isinstance(exc.__cause__, ValidationError):
                raise
            wrong = "; ".join(map(_wrong_argument, exc.__cause__.errors(include_url=False)))
            raise ToolError(_printable(f"Error executing tool {name}: {wrong}")) from exc


class FileTools:
    """The tools; a docstring is what a model reads about the tool."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files

    def read_file(self, path: Path, head: LineCount = None, tail: LineCount = None) -> str:
        """Return a UTF-8 text file, or only its first (head) or last (tail) lines."""
        if head is not None and tail is not None:
            raise ToolError("Give head or tail, not both")
        if head is None and tail is None:
            return _text(path, self._files.read(path))
        return _text(path, self._files.read_lines(path, head=head, tail=tail))

    def read_media_file(self, path: Path) -> ImageContent | AudioContent | EmbeddedResource:
        """Return any file as base64: images and audio as such, others as a resource."""
        blob = base64.b64encode(self._files.read(path)).decode()
        mime = mimetypes.guess_type(path)[0] or "application/octet-stream"
        if mime.startswith("image/"):
            return ImageContent(type="image", data=blob, mime_type=mime)
        if mime.startswith("audio/"):
            return AudioContent(type="audio", data=blob, mime_type=mime)
        uri = uri_from_path(self._files.facts(path).path, FLAVOUR)
        resource = BlobResourceContents(uri=uri, mime_type=mime, blob=blob)
        return EmbeddedResource(type="resource", resource=resource)

    def write_file(self, path: Path, content: str) -> str:
        """Create a file with this text, or replace all that is in it. The directory must exist."""
        self._files.write(path, _bytes(content))
        return f"Wrote {path}"

    def edit_file(self, path: Path, edits: Sequence[Edit], dryRun: bool = False) -> str:  # noqa: N803 (wire)
        """Replace pieces of a text file, in order, all or none, and return the change as a diff.

        Each oldText must occur exactly once. dryRun only shows the diff.
        """
        before = _text(path, self._files.read(path))
        after = before
        for edit in edits:
            after = _edited(path, after, edit)
        if not dryRun:
            self._files.write(path, _bytes(after))
        return unified_diff(path, before, after)

    def list_directory(self, path: Path) -> str:
        """Return what a directory holds, one per line, as [FILE], [DIR] or [LINK] and its name."""
        entries = self._files.listing(path)
        return "\n".join(f"[{kind}] {name}" for kind, name in entries)

    def search_files(self, path: Path, pattern: str, excludePatterns: Patterns = ()) -> str:  # noqa: N803 (wire)
        """Return the absolute paths of all files and directories below path that match a glob.

        `*.py` matches at any depth, `docs/*.md` only in docs, `src/**/test_*` anywhere below src.
        """
        most = self._files.max_found
        found = self._files.search(path, pattern, excludePatterns, _is_wanted)
        if len(found) > most:
            found[most:] = [f"(more than {most}: narrow the pattern)"]
        return "\n".join(found) or "No matches found"

    def get_file_info(self, path: Path) -> str:
        """Return the type, size, time of change and permissions of a file or directory."""
        facts = self._files.facts(path)
        modified = facts.modified.isoformat(timespec="seconds")
        return (
            f"path: {facts.path}\ntype: {facts.kind}\nsize: {facts.size}\n"
            f"modified: {modified}\npermissions: {facts.permissions}"
        )

    def create_directory(self, path: Path) -> str:
        """Make a directory and any missing ones above it; one that exists is fine."""
        self._files.create_directory(path)
        return f"{path} is a directory"

    def move_file(self, source: Path, destination: Path) -> str:
        """Move or rename a file or directory. Nothing may exist at the destination."""
        self._files.move(source, destination)
        return f"Moved {source} to {destination}"

    def delete_file(self, path: Path) -> str:
        """Delete a file, or a link and not what it leads to. Directories are not deleted."""
        self._files.delete(path)
        return f"Deleted {path}"

    def list_allowed_directories(self) -> str:
        """Return the shared directories, one per line."""
        return "\n".join(self._files.directories) or "No directories are shared"


def _is_wanted() -> bool:
    """Return whether the call that this thread works for has not been cancelled."""
    try:
        from_thread.check_cancelled()
    except CancelledError:  # from a thread, not each anyio takes it for the end of its own scope
        return False
    return True


def file_server(directories: Sequence[str]) -> FileServer:
    """Return an MCP server for the files below `directories`, paths from `shared_directory`."""
    tools = FileTools(SharedFiles(directories))
    server = FileServer(
        "roots-hub-files",
        title="Files",
        version=__version__,
        instructions="Reads and writes files below the shared directories.",
        log_level="WARNING",
    )
    table: list[tuple[str, Callable[..., object], ToolAnnotations]] = [
        ("Read file", tools.read_file, READS),
        ("Read media file", tools.read_media_file, READS),
        ("Write file", tools.write_file, OVERWRITES),
        ("Edit file", tools.edit_file, CHANGES),
        ("List directory", tools.list_directory, READS),
        ("Search files", tools.search_files, READS),
        ("Get file info", tools.get_file_info, READS),
        ("Create directory", tools.create_directory, ADDS),
        ("Move file", tools.move_file, CHANGES),
        ("Delete file", tools.delete_file, CHANGES),
        ("List allowed directories", tools.list_allowed_directories, READS),
    ]
    for title, tool, annotations in table:
        server.add_tool(
            _explaining(tool),
            title=title,
            description=inspect.getdoc(tool),
            annotations=annotations,
            structured_output=False,
        )
    return server


def main(argv: Sequence[str] | None = None) -> None:
    """Serve the directories on the command line over stdio until the client disconnects.

    A directory that does not exist is skipped with a warning; the others are still served.
    """
    parser = argparse.ArgumentParser(prog="python -m hub.file_server.server")
    parser.add_argument("directory", nargs="*", help="a directory to share, with all below it")
    shared: list[str] = []
    for directory in parser.parse_args(argv).directory:
        try:
            shared.append(shared_directory(directory))
        except SharedFilesError as exc:
            sys.stderr.write(f"file server: not shared: {exc}\n")
    with suppress(KeyboardInterrupt):
        file_server(shared).run("stdio")


def _explaining(tool: Callable[..., object]) -> Callable[..., object]:
    """Return `tool` with results and error texts that can be encoded as UTF-8 for JSON."""

    @wraps(tool)
    def call(*args: object, **kwargs: object) -> object:
        try:
            result = tool(*args, **kwargs)
        except (SharedFilesError, ToolError) as exc:
            raise ToolError(_printable(str(exc))) from exc
        return _printable(result) if isinstance(result, str) else result

    return call


def _wrong_argument(error: ErrorDetails) -> str:
    """Return which argument is wrong, and how."""
    where = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"argument '{where}' is missing"
    what = _SAID.get(error["type"], error["msg"])
    return f"argument '{where}': {what[:1].lower()}{what[1:]}, not {reprlib.repr(error['input'])}"


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise ToolError(f"'{path}' is not UTF-8 text; read_media_file returns any file") from exc


def _bytes(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as exc:
        raise ToolError(f"The text has half a character at {exc.start}") from exc


def _edited(path: str, text: str, edit: Edit) -> str:
    old, new = edit.oldText, edit.newText
    if old not in text and "\r\n" in text:
        # A model sees and writes `\n` also for files with `\r\n`.
        old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (old, new))
    times = text.count(old)
    if times != 1:
        raise ToolError(f"'{path}' has this text {times} times, not once: {edit.oldText!r}")
    return text.replace(old, new)


def _printable(text: str) -> str:
    # File names may not be UTF-8, JSON must be.
    return text.encode(errors="surrogatepass").decode(errors="replace")


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    main()
