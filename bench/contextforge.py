"""ContextForge before one server: `contextforge.py FOLDER PORT COMMAND ARGS...`.

It has no configuration file of servers: one that speaks stdio is put behind its own bridge to HTTP,
and registered at the running gateway. It runs in an environment of its own, asks for no login,
limits no rates, and caches nothing outside of itself.
"""

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

START = 60.0
"""Seconds that the gateway and the bridge may take until they answer."""


def register(port: int, command: list[str]) -> None:
    """Start the bridge, and register it once the gateway answers; return when the bridge ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        behind = probe.getsockname()[1]
    bridge = subprocess.Popen(
        [
            *[sys.executable, "-m", "mcpgateway.translate", "--stdio", shlex.join(command)],
            *["--expose-streamable-http", "--port", str(behind), "--logLevel", "warning"],
        ]
    )
    entry = {
        "name": "child",
        "url": f"http://127.0.0.1:{behind}/mcp",
        "transport": "STREAMABLEHTTP",
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/gateways",
        json.dumps(entry).encode(),
        {"content-type": "application/json"},
    )
    until = time.monotonic() + START
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(request, timeout=START).close()  # noqa: S310 - ours, on loopback
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            break
    bridge.wait()


def main() -> None:
    """Become the gateway."""
    folder, port, command = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if folder == Path("--register"):
        register(port, command)
        return
    settings = {
        "DATABASE_URL": f"sqlite:///{folder}/contextforge-{port}.db",
        "CACHE_TYPE": "memory",
        "AUTH_REQUIRED": "false",
        "MCP_REQUIRE_AUTH": "false",
        "ALLOW_UNAUTHENTICATED_ADMIN": "true",
        "JWT_SECRET_KEY": secrets.token_hex(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
        "PLATFORM_ADMIN_PASSWORD": "Bench-only-1",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "MCPGATEWAY_UI_ENABLED": "false",
        "RATE_LIMITING_ENABLED": "false",
        "LOG_LEVEL": "ERROR",
    }
    os.environ.update(settings)
    subprocess.Popen([sys.executable, __file__, "--register", str(port), *command])
    gateway = str(Path(sys.executable).with_name("mcpgateway"))
    os.execv(gateway, [gateway, "mcpgateway.main:app", "--host", "127.0.0.1", "--port", str(port)])  # noqa: S606


if __name__ == "__main__":
    main()
