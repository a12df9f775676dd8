from __future__ import annotations

import pytest

from hub.launch.known_servers import (
    has_filesystem_word,
    is_known,
    keeps_nothing,
    program_index,
    runs_elsewhere,
    short_name,
)


@pytest.mark.parametrize(
    "name", ["filesystem", "filesystem-2", "my_filesystem", "myFilesystem", "FILESYSTEM2"]
)
def test_filesystem_is_found_as_a_word(name: str) -> None:
    assert has_filesystem_word(name)


@pytest.mark.parametrize("name", ["profile-svc", "filesystems", "files", "notafilesystem", ""])
def test_a_part_of_a_word_is_not_the_word(name: str) -> None:
    assert not has_filesystem_word(name)


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem /data", 2),
        ("npx.cmd -p @modelcontextprotocol/server-filesystem mcp-server-filesystem /data", 3),
        ("/usr/bin/python3.12 -X dev -m mcp_server_filesystem /data", 4),
        ("uvx --from git+https://x/y mcp-server-filesystem /data", 3),
        ("uv tool run mcp-server-filesystem", 3),
        ("uv run --directory /opt/fs python -m server /data", 6),
        ("cmd /c npx -y server /data", 4),
        ("node /opt/fs/dist/index.js /data", 1),
        ("deno run -A npm:server", 3),
        ("mcp-server-filesystem run /data", 0),
        ("npx", 0),
        ("npx -p", 0),
    ],
)
def test_the_program_is_what_a_runner_runs(argv: str, program: int) -> None:
    assert program_index(argv.split()) == program


@pytest.mark.parametrize(
    "program",
    [
        "@modelcontextprotocol/server-filesystem",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        "npm:@modelcontextprotocol/server-filesystem@latest",
        "mcp-server-filesystem",
        "mcp-server-filesystem==1.0",
        "mcp-server-filesystem[extra]>=1",
        "mcp_server_filesystem",
        "/opt/a=b/bin/rust-mcp-filesystem",
        r"C:\Tools\mcp-filesystem-server.EXE",
        "/x/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
        "/x/node_modules/.pnpm/a@1/node_modules/mcp-server-filesystem/index.js",
    ],
)
def test_known_servers_are_known_by_package_version_and_path(program: str) -> None:
    assert is_known(program)


@pytest.mark.parametrize(
    "program",
    [
        "mcp-server-git",
        "/srv/mcp-server-filesystem/other.js",
        "server-filesystems",
        "@someone/mcp-server-filesystem",
        "@someone/mcp-server-filesystem@latest",
        "/x/node_modules/@someone/mcp-server-filesystem/dist/index.js",
        "",
    ],
)
def test_other_programs_are_not_known(program: str) -> None:
    assert not is_known(program)


def test_a_container_runs_elsewhere() -> None:
    assert runs_elsewhere(["/usr/bin/docker", "run", "mcp/filesystem", "/projects"])
    assert not runs_elsewhere(["npx", "docker"])


def test_a_short_name_is_what_people_call_a_program() -> None:
    assert short_name("@modelcontextprotocol/server-filesystem@2026.8.31") == "server-filesystem"
    assert short_name(r"C:\Tools\Fs.EXE") == "fs"


@pytest.mark.parametrize(
    "command",
    [
        "npx -y @modelcontextprotocol/server-filesystem@2026.8.31 /srv",
        "npx -y @modelcontextprotocol/server-github",
        "npx -y @upstash/context7-mcp@latest",
        "node /srv/node_modules/@upstash/context7-mcp/dist/index.js",
        "/srv/node_modules/.bin/context7-mcp",
        "uvx mcp-server-git --repository /srv",
        "uvx --from mcp-server-time==2026.1 mcp-server-time",
        "python3 -m mcp_server_fetch",
        "python -P -m hub.file_server.server ${roots}",
        "docker run -i --rm -v /srv:/srv mcp/git:latest",
    ],
)
def test_servers_that_keep_nothing_are_known_by_their_program(command: str) -> None:
    assert keeps_nothing(command.split())


@pytest.mark.parametrize(
    "command",
    [
        "npx -y @modelcontextprotocol/server-sequential-thinking",
        "npx -y @modelcontextprotocol/server-memory",
        "npx @playwright/mcp@latest",
        "npx -y @someone/mcp-server-git",
        "npx -y @someone/mcp-server-filesystem /srv",
        "npx -y @someone/server-github",
        "server-github",
        "docker run -i --rm mcp/puppeteer",
        "docker run -i --rm someone/mcp/git2",
        "my-filesystem",
    ],
)
def test_nothing_is_assumed_of_other_programs(command: str) -> None:
    assert not keeps_nothing(command.split())
