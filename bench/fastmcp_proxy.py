"""FastMCP as a proxy: `fastmcp_proxy.py CONFIG [PORT]`, on stdio or over HTTP.

It runs in an environment of its own.
"""

import json
import sys
from pathlib import Path

from fastmcp.server import create_proxy

config = json.loads(Path(sys.argv[1]).read_text())
proxy = create_proxy(config, name="proxy")
if len(sys.argv) > 2:
    proxy.run(
        "http",
        show_banner=False,
        host="127.0.0.1",
        port=int(sys.argv[2]),
        path="/mcp",
        log_level="warning",
        uvicorn_config={"access_log": False},
    )
else:
    proxy.run("stdio", show_banner=False, log_level="warning")
