"""Recognise commands of servers: those that take directories as arguments or keep nothing."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Final

FILE_SERVER: Final = "hub.file_server.server"
"""The embedded file server, as `python -m` takes it."""

_FILESYSTEM: Final = frozenset(
    {
        "@modelcontextprotocol/server-filesystem",
        "mcp-server-filesystem",
        "rust-mcp-filesystem",
        "mcp-filesystem-server",
    }
)
"""Names of packages and commands that take directories as positional arguments."""

RUNNERS: Final = frozenset(
    {"npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "node"}
    | {"uv", "uvx", "pipx", "python", "py", "cmd", "env"}
)
"""Commands that run the program in their arguments; options before it are the runner's own."""

_RUNNER_WORDS: Final = frozenset({"run", "dlx", "exec", "x", "tool", "/c", "/C"})
_OPTIONS_WITH_VALUE: Final = frozenset(
    {"-p", "--package", "--from", "--with", "--python", "--directory", "--project", "--prefix"}
    | {"--index-url", "-r", "--require", "--import", "--loader", "--env-file", "-C", "-W", "-X"}
)
_ELSEWHERE: Final = frozenset({"docker", "podman", "nerdctl", "kubectl", "ssh", "wsl"})

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_INSTALLED: Final = re.compile(r"node_modules[\\/](?!\.bin[\\/])((?:@[^\\/]+[\\/])?[^\\/]+)")
_VERSION: Final = re.compile(r"(?<=[^/\\])@|[=<>~!\[]")
_SUFFIX: Final = re.compile(r"\.(?:exe|cmd|bat|ps1)$")


def has_filesystem_word(name: str) -> bool:
    """Return whether `filesystem` is a word in a server's name, as in `my_filesystem-2`."""
    return any(word.lower() == "filesystem" for word in _WORD.findall(name))


def program_index(argv: Sequence[str]) -> int:
    """Return the index in `argv` of the program: the package or script after a runner such as npx.

    The elements after it are the server's own arguments. 0: no runner, or nothing after it.
    """
    index = 0
    while index < len(argv):
        word = argv[index]
        if word in _OPTIONS_WITH_VALUE:
            index += 2
        elif _is_runners(word, first=index == 0):
            index += 1
        else:
            return index
    return 0


@lru_cache(256)
def is_known(program: str) -> bool:
    """Return whether an argv element is a known filesystem server: bare, with version or path."""
    return package_name(program) in _FILESYSTEM or _has_command(program, _FILESYSTEM)


def package_name(program: str) -> str:
    """Return the package of an argv element, with its scope, without version: `@scope/name`."""
    return _VERSION.split(_installed(program))[0]


def command_name(program: str) -> str:
    """Return the name of a package or command; of a script, that of the package it is part of."""
    return short_name(_installed(program))


def _has_command(program: str, commands: Container[str]) -> bool:
    """Return whether a program has one of these names; that of another's scope is another one."""
    is_scoped = package_name(program).startswith("@")
    return not is_scoped and command_name(program).replace("_", "-") in commands


def _installed(program: str) -> str:
    text = program.lower().removeprefix("npm:")
    for installed in _INSTALLED.finditer(text):
        text = installed[1].replace("\\", "/")
    return text


def short_name(program: str) -> str:
    """Return the name of a package or command without scope, directory, version and suffix."""
    return _VERSION.split(_command(program))[0]


def runs_elsewhere(argv: Sequence[str]) -> bool:
    """Return whether the command starts the server elsewhere (container, other host)."""
    return _command(argv[0]) in _ELSEWHERE


def _is_runners(word: str, *, first: bool) -> bool:
    if _command(word).rstrip("0123456789.") in RUNNERS:
        return True
    return not first and (word.startswith("-") or word in _RUNNER_WORDS)


@lru_cache(256)
def _command(word: str) -> str:
    return _SUFFIX.sub("", re.split(r"[\\/]", word)[-1].lower())


_STATELESS_PACKAGES: Final = frozenset(
    {
        FILE_SERVER,
        "@modelcontextprotocol/server-brave-search",
        "@modelcontextprotocol/server-github",
        "@modelcontextprotocol/server-gitlab",
        "@modelcontextprotocol/server-google-maps",
        "@modelcontextprotocol/server-slack",
        "@upstash/context7-mcp",
    }
)
"""Packages and modules whose answers depend on arguments, disk and network alone: clients may
share them."""

_STATELESS_COMMANDS: Final = frozenset(
    {
        "context7-mcp",
        "markitdown-mcp",
        "mcp-server-fetch",
        "mcp-server-git",
        "mcp-server-time",
    }
)
"""The same, by the names of commands and modules, wherever they are installed."""

_STATELESS_IMAGES: Final = frozenset({"mcp/fetch", "mcp/filesystem", "mcp/git", "mcp/time"})
"""Container images of such servers."""


def keeps_nothing(argv: Sequence[str]) -> bool:
    """Return whether a command is a server known to keep nothing between calls.

    `argv` is the command as configured. A name that a user gave to the server is no evidence.
    """
    if runs_elsewhere(argv):
        return any(word.partition(":")[0] in _STATELESS_IMAGES for word in argv)
    program = argv[program_index(argv)]
    if is_known(program) or package_name(program) in _STATELESS_PACKAGES:
        return True
    return _has_command(program, _STATELESS_COMMANDS)
