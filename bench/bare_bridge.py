"""The yardstick for servers behind a URL: `bare_bridge.py URL` posts each line of its client there.

It is asyncio's streams and httpx2's client; an answer is written as it comes. No guard, no
sessions, no checks, no audit.
"""

import asyncio  # noqa: TID251 - no part of the hub
import sys

import httpx2
from bare_streams import standard_streams

HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-11-25",
}


async def main(url: str) -> None:
    """Bridge until the client closes its end."""
    reader, writer = await standard_streams()
    limits = httpx2.Limits(max_connections=None)

    async def carry(line: bytes) -> None:
        response = await client.post(url, content=line, headers=HEADERS)
        if response.content:
            writer.write(response.content + b"\n")

    async with (
        httpx2.AsyncClient(timeout=None, limits=limits) as client,
        asyncio.TaskGroup() as tasks,
    ):
        while line := await reader.readline():
            tasks.create_task(carry(line))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
