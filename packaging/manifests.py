"""What registries and clients read about the hub, made from pyproject.toml and the hub's version.

`python packaging/manifests.py --write` writes server.json (MCP registry), the manifest of the MCPB
bundle, and the plugin for Claude Code; without `--write` it says which is not up to date. The
address of the repository is in pyproject.toml alone, under `project.urls`.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).parent
PROJECT = HERE.parent
README = PROJECT / "README.md"
ABOUT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
VERSION = re.findall(r'__version__ = "(.*)"', (PROJECT / "hub/__init__.py").read_text())[0]
REPOSITORY: str = ABOUT["urls"]["Repository"]
OWNER = REPOSITORY.split("/")[-2]
REGISTRY_NAME = f"io.github.{OWNER}/roots-hub"
"""The registry's name: GitHub proves that its namespace is the owner's."""
TITLE = "roots-hub"
SUMMARY = "One endpoint in front of many MCP servers; every path stays inside the client's roots."
"""The registry takes 100 characters."""
LAUNCH = {"command": "uvx", "args": ["roots-hub", "run"]}
"""How a client starts the hub without a config: for the files of its folders."""


def server_json() -> dict[str, Any]:
    """Return what the MCP registry lists."""
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": REGISTRY_NAME,
        "title": TITLE,
        "description": SUMMARY,
        "version": VERSION,
        "repository": {"url": REPOSITORY, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "registryBaseUrl": "https://pypi.org",
                "identifier": "roots-hub",
                "version": VERSION,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "run"}],
                "environmentVariables": [
                    {
                        "name": "HUB_CONFIG",
                        "description": "A hub.yaml or an mcpServers JSON with the servers behind "
                        "the hub. Without it the hub serves files of the client's roots.",
                        "format": "filepath",
                    },
                    {
                        "name": "HUB_ROOTS",
                        "description": "Folders for a client that shares none; separated as in "
                        "PATH.",
                        "format": "filepath",
                    },
                ],
            }
        ],
    }


def bundle_manifest() -> dict[str, Any]:
    """Return the manifest of the MCPB bundle: the host installs it by uv."""
    return {
        "manifest_version": "0.4",
        "name": "roots-hub",
        "display_name": TITLE,
        "version": VERSION,
        "description": SUMMARY,
        "long_description": "Serves the files of the folders that you choose, or the servers of "
        "your hub.yaml. A call whose path leaves the folders is refused.",
        "author": {"name": "The roots-hub authors", "url": REPOSITORY},
        "repository": {"type": "git", "url": REPOSITORY},
        "documentation": f"{REPOSITORY}#readme",
        "server": {
            "type": "uv",
            "entry_point": "src/server.py",
            "mcp_config": {
                "command": "uv",
                "args": [
                    "run",
                    "--directory",
                    "${__dirname}",
                    "src/server.py",
                    "${user_config.folders}",
                ],
                "env": {"HUB_CONFIG": "${user_config.config}"},
            },
        },
        "user_config": {
            "folders": {
                "type": "directory",
                "title": "Folders",
                "description": "What calls may reach. No call leaves these folders.",
                "multiple": True,
                "required": True,
            },
            "config": {
                "type": "file",
                "title": "hub.yaml",
                "description": "The servers behind the hub. Without it, the hub serves the files "
                "of the folders itself.",
                "required": False,
                "default": "",
            },
        },
        "tools_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": ABOUT["requires-python"]},
        },
        "keywords": ABOUT["keywords"],
        "license": ABOUT["license"],
    }


def plugin_manifest() -> dict[str, Any]:
    """Return what Claude Code reads about the plugin."""
    return {
        "name": "roots-hub",
        "version": VERSION,
        "description": SUMMARY,
        "author": {"name": "The roots-hub authors", "url": REPOSITORY},
        "repository": REPOSITORY,
        "license": ABOUT["license"],
        "keywords": ABOUT["keywords"],
    }


def marketplace() -> dict[str, Any]:
    """Return the marketplace whose one plugin is the hub's."""
    return {
        "name": "roots-hub",
        "owner": {"name": "The roots-hub authors", "url": REPOSITORY},
        "metadata": {"description": SUMMARY},
        "plugins": [{"name": "roots-hub", "source": "./", "description": SUMMARY}],
    }


def plugin_servers() -> dict[str, Any]:
    """Return the servers that the plugin brings: the hub of the plugin's version."""
    args = [f"roots-hub@{VERSION}", *LAUNCH["args"][1:]]
    return {"mcpServers": {"roots-hub": {"command": LAUNCH["command"], "args": args}}}


def install_links() -> dict[str, str]:
    """Return the links that put the hub into an editor's config, by editor."""
    entry = json.dumps(LAUNCH, separators=(",", ":"))
    coded = quote(base64.b64encode(entry.encode()).decode(), safe="")
    return {
        "Cursor": f"https://cursor.com/en/install-mcp?name=roots-hub&config={coded}",
        "VS Code": "https://insiders.vscode.dev/redirect/mcp/install?name=roots-hub&config="
        + quote(entry, safe=""),
    }


FILES = {
    PROJECT / "server.json": server_json,
    HERE / "mcpb/manifest.json": bundle_manifest,
    HERE / "claude-code/.claude-plugin/plugin.json": plugin_manifest,
    HERE / "claude-code/.claude-plugin/marketplace.json": marketplace,
    HERE / "claude-code/.mcp.json": plugin_servers,
}


def missing_from_readme() -> Iterator[str]:
    """Yield what README.md must have and has not."""
    text = README.read_text(encoding="utf-8")
    # The registry reads it from the page on PyPI: whoever publishes the package owns the name.
    wanted = [f"<!-- mcp-name: {REGISTRY_NAME} -->"]
    wanted += [f"[{name}]({link})" for name, link in install_links().items()]
    yield from (line for line in wanted if line not in text)


def main(words: list[str]) -> int:
    """Write the files, or say which is not up to date."""
    code = 0
    for file, make in FILES.items():
        text = json.dumps(make(), indent=2, ensure_ascii=False) + "\n"
        if file.is_file() and file.read_text(encoding="utf-8") == text:
            continue
        if words == ["--write"]:
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(PROJECT)}: written")
        else:
            code = 1
            print(f"{file.relative_to(PROJECT)} is not up to date: make manifests", file=sys.stderr)
    for line in missing_from_readme():
        code = 1
        print(f"README.md needs: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
