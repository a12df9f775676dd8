from __future__ import annotations

import pytest

from hub.launch.stateless_servers import keeps_nothing


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
        "npx -y @someone/server-github",
        "server-github",
        "docker run -i --rm mcp/puppeteer",
        "docker run -i --rm someone/mcp/git2",
        "my-filesystem",
    ],
)
def test_nothing_is_assumed_of_other_programs(command: str) -> None:
    assert not keeps_nothing(command.split())
