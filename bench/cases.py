"""What is called, and the folders that it is called about."""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from bench.piped import WrongAnswerError

Params = dict[str, Any]
SESSIONS = 64
AT_ONCE = 32
PLACES = {"one CPU": False, "a CPU of its own": True}
"""Where a program runs while it is measured, and whether that is apart from client and child."""
ECHO: Params = {"name": "echo", "arguments": {"text": "hello"}}
ANSWER: Params = {"name": "large", "arguments": {"text": "hello"}}
ARGUMENT: Params = {"name": "echo", "arguments": {"text": "x" * (1 << 20)}}
LARGE = {"result": ANSWER, "argument": ARGUMENT}
SEVERAL = 5


def reading(folder: Path) -> Params:
    """Return a call with one absolute path, of a file in a folder of `folder`."""
    return {"name": "read_file", "arguments": {"path": str(folder / "src" / "main.py")}}


class Client(Protocol):
    """One client of a program."""

    def request(self, method: str, params: Params) -> dict[str, Any]:
        """Return the result of a request."""
        ...

    def one_by_one(self, params: Params, times: int) -> list[float]:
        """Call `times` times, one after the other; return the seconds that each took."""
        ...


Calls = dict[str, tuple[int, Client, Params]]
"""By row: the process of a program, one client of it, and a call as the program wants it."""


def p50(client: Client, params: Params, times: int, unit: float) -> float:
    """Return the median of so many calls in parts of a second."""
    return statistics.median(client.one_by_one(params, times)) * unit


def pass_large(client: Client) -> None:
    """Have a program pass on several large messages both ways."""
    for _ in range(SEVERAL):
        for params in LARGE.values():
            client.request("tools/call", params)


def require_guard(client: Client) -> None:
    """Make sure that what is measured guards: a path outside of the roots is refused.

    Raises: SystemExit.
    """
    outside = {"name": "read_file", "arguments": {"path": "/etc/passwd"}}
    try:
        client.request("tools/call", outside)
    except WrongAnswerError as exc:
        if "Access denied" in str(exc):
            return
    raise SystemExit("a hub let a path outside of the roots pass")


def folder_in(stack: ExitStack, name: str = "project") -> Path:
    """Return a new folder with a file to name, for as long as `stack`; its parent is new too."""
    top = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    folder = Path(os.path.realpath(top), name)
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").touch()
    return folder
