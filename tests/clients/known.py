"""The clients that are tried: how each is run, and which features it does not have."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT
from tests.kit.nodes import node

INSTALLED = PROJECT / ".clients"
DRIVERS = Path(__file__).parent / "drivers"
INSPECTORS_NODE = (22, 19)
"""What the Inspector wants; the SDKs are content with less."""

Target = str | list[str]
"""A URL, or a command line."""


@dataclass(frozen=True)
class Packages:
    """Where the clients are installed."""

    root: Path
    """The folder that has `node_modules`."""
    venvs: Mapping[str, Path]

    def npm(self, package: str) -> Path:
        return self.root / "node_modules" / package

    def node(self, needed: tuple[int, int] = (20, 0)) -> str:
        return node(self.root / "node_modules", needed)

    def beside(self, program: Path) -> str:
        """Return a program where Node finds the packages: it looks beside the program itself."""
        if program.is_relative_to(self.root):
            return str(program)
        return str(shutil.copy(program, self.root))

    def python(self, name: str) -> str:
        return str(self.venvs[name] / "bin/python")


def made() -> Packages:
    """Return what `make clients` installs."""
    names = ("python-1", "python-2", "fastmcp")
    return Packages(INSTALLED, {name: INSTALLED / name for name in names})


def at_hand() -> Packages:
    """Return what the tests have anyway."""
    return Packages(PROJECT, {"python-2": Path(sys.prefix)})


@dataclass(frozen=True)
class Known:
    """A client in one era."""

    key: str
    name: str
    era: str
    version: Callable[[Packages], str | None]
    """Say which version is installed; None if there is none."""
    command: Callable[[Packages], list[str]]
    """The driver's command line; the Inspector's own."""
    transports: tuple[str, ...] = ("stdio", "attach", "http")
    """Over stdio to a hub of its own, over stdio to a shared hub, over HTTP."""
    lacks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why the client is not tried with a feature."""
    through: Callable[[Packages, str], list[str]] | None = None
    """The command before the hub's URL that the client speaks to over stdio."""

    is_overtaken: bool = False
    """Whether a notification may be overtaken by the next call, so that one must wait between."""

    @property
    def is_inspector(self) -> bool:
        return self.key == "inspector"

    def target(self, packages: Packages, hub: Target) -> Target:
        """Return what the driver connects to, to reach a hub."""
        if self.through is None or not isinstance(hub, str):
            return hub
        return self.through(packages, hub)


def _from_npm(package: str) -> Callable[[Packages], str | None]:
    def version(packages: Packages) -> str | None:
        file = packages.npm(package) / "package.json"
        return json.loads(file.read_text())["version"] if file.exists() else None

    return version


def _from_pypi(venv: str, package: str) -> Callable[[Packages], str | None]:
    def version(packages: Packages) -> str | None:
        pattern = f"lib/python*/site-packages/{package}-*.dist-info"
        found = [*packages.venvs[venv].glob(pattern)] if venv in packages.venvs else []
        return found[0].name.removesuffix(".dist-info").partition("-")[2] if found else None

    return version


def _in_typescript(line: str) -> Callable[[Packages], list[str]]:
    return lambda packages: [packages.node(), packages.beside(DRIVERS / "typescript.mjs"), line]


def _in_python(venv: str, driver: str) -> Callable[[Packages], list[str]]:
    return lambda packages: [packages.python(venv), str(DRIVERS / driver)]


def _inspector(packages: Packages) -> list[str]:
    program = packages.npm("@modelcontextprotocol/inspector") / "clients/launcher/build/index.js"
    return [packages.node(INSPECTORS_NODE), str(program), "--cli"]


def _mcp_remote(*options: str) -> Callable[[Packages, str], list[str]]:
    def command(packages: Packages, url: str) -> list[str]:
        program = packages.npm("mcp-remote") / "dist/proxy.js"
        return [packages.node(), str(program), url, "--transport", "http-only", *options]

    return command


_ONE_REQUEST = "a run of the command line is one request: nothing can change or be cancelled in it"
_NOT_DECLARED = "the command line declares that it cannot be asked"
_INSPECTOR: Mapping[str, Any] = {
    "key": "inspector",
    "name": "Inspector CLI",
    "version": _from_npm("@modelcontextprotocol/inspector"),
    "command": _inspector,
    "lacks": {
        "roots change": _ONE_REQUEST,
        "progress": "the command line asks for no progress reports",
        "cancel": _ONE_REQUEST,
        "ask after a cancel": _ONE_REQUEST,
        "elicitation: form": _NOT_DECLARED,
        "elicitation: URL": _NOT_DECLARED,
        "sampling": _NOT_DECLARED,
        "ask while a call runs": _NOT_DECLARED,
        "completion": "the command line has no method for it",
        "8 MiB request": "a word of a command line has at most 128 KiB on Linux",
    },
}
_TYPESCRIPT_1: Mapping[str, Any] = {
    "version": _from_npm("@modelcontextprotocol/sdk"),
    "command": _in_typescript("one"),
}
_TYPESCRIPT_2: Mapping[str, Any] = {
    "key": "typescript-2",
    "name": "TypeScript SDK 2.x",
    "version": _from_npm("@modelcontextprotocol/client"),
    "command": _in_typescript("two"),
}
_PYTHON_2: Mapping[str, Any] = {
    "key": "python-2",
    "name": "Python SDK 2.x",
    "version": _from_pypi("python-2", "mcp"),
    "command": _in_python("python-2", "python_2.py"),
}
_FASTMCP: Mapping[str, Any] = {
    "key": "fastmcp",
    "name": "FastMCP client",
    "version": _from_pypi("fastmcp", "fastmcp"),
    "command": _in_python("fastmcp", "fastmcp_4.py"),
}
# What speaks to it is the TypeScript SDK 1.x; the era is the one that it speaks to the hub itself.
_MCP_REMOTE: Mapping[str, Any] = {
    "key": "mcp-remote",
    "version": _from_npm("mcp-remote"),
    "command": _in_typescript("one"),
    "transports": ("http",),
}
_BY_NOTIFICATION = (
    "it tells of a cancelled call with a notification, which means nothing to a server of this era "
    "over HTTP: there, a call is cancelled by leaving its response"
)

KNOWN = (
    Known(**_INSPECTOR, era="legacy"),
    Known(**_INSPECTOR, era="modern"),
    Known(key="typescript-1", name="TypeScript SDK 1.x", **_TYPESCRIPT_1, era="legacy"),
    Known(**_TYPESCRIPT_2, era="legacy"),
    Known(**_TYPESCRIPT_2, era="modern"),
    Known(
        key="python-1",
        name="Python SDK 1.x",
        version=_from_pypi("python-1", "mcp"),
        command=_in_python("python-1", "python_1.py"),
        era="legacy",
    ),
    Known(**_PYTHON_2, era="legacy"),
    Known(**_PYTHON_2, era="modern"),
    Known(**_FASTMCP, era="legacy"),
    Known(**_FASTMCP, era="modern"),
    Known(
        name="mcp-remote",
        **_MCP_REMOTE,
        through=_mcp_remote(),
        era="legacy",
        # It posts each message without waiting until the one before it was taken.
        is_overtaken=True,
    ),
    Known(
        name="mcp-remote `--protocol auto`",
        **_MCP_REMOTE,
        lacks={
            "cancel": _BY_NOTIFICATION,
            "ask after a cancel": _BY_NOTIFICATION,
            "elicitation: URL": "it answers a question of this kind with an error, as it documents",
        },
        through=_mcp_remote("--protocol", "auto"),
        era="modern",
    ),
)
