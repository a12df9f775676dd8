from __future__ import annotations

import socket
from pathlib import Path

import anyio
from structlog.testing import capture_logs

from hub.attach.frames import REFUSED
from hub.jsonrpc.rated_log import LINES
from tests.server.attached.test_no_free_descriptor import served


async def test_a_server_that_tries_to_attach_all_the_time_does_not_fill_the_log(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as place:
        with capture_logs() as logs:
            for _ in range(5 * LINES):
                with socket.socket(socket.AF_UNIX) as client:  # this process is the hub itself
                    client.connect(place.address)
                    await anyio.wait_readable(client)
                    assert REFUSED in client.recv(64)
    assert 0 < len(logs) < 5 * LINES
    assert {line["event"] for line in logs} == {"a client was not served"}
