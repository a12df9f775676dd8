"""A relay as most are written: `bare_streams.py COMMAND ARGS...` relays one client to a child.

It does what `bare_relay.py` does, on asyncio's streams: a line is read, passed on and, where the
other end is slow, waited for, before the next one is read.
"""

import asyncio  # noqa: TID251 - no part of the hub
import sys
from collections.abc import Callable

from bare_relay import Ids

LONGEST = 64 * 1024 * 1024
"""Bytes that a line may have."""


async def standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams from and to the client."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, sys.stdin)
    transport, _ = await loop.connect_write_pipe(lambda: protocol, sys.stdout)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


async def passing(
    reader: asyncio.StreamReader, change: Callable[[bytes], bytes], writer: asyncio.StreamWriter
) -> None:
    """Pass on what is read, each line changed, to its end."""
    while line := await reader.readline():
        writer.write(change(line))
        await writer.drain()
    writer.close()


async def main(command: list[str]) -> None:
    """Relay until the client closes its end."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LONGEST)
    assert child.stdin is not None
    assert child.stdout is not None
    reader, writer = await standard_streams()
    ids = Ids()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(passing(reader, ids.to_child, child.stdin))
        tasks.create_task(passing(child.stdout, ids.to_client, writer))
    await child.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
