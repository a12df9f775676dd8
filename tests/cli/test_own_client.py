"""The hub's own client starts many servers, but not all of them at once."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from hub.children.child import Ready
from hub.cli.own_client import AT_ONCE, OwnClient
from hub.errors import ChildError
from hub.values import ServerName

pytestmark = pytest.mark.anyio


class Starting(OwnClient):
    """A client whose servers all fail, once others could have been started beside them."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def start(self, server: ServerName) -> Ready:
        self.now += 1
        self.most = max(self.most, self.now)
        if server == "hangs":
            await anyio.sleep_forever()
        for _ in range(10):
            await checkpoint()
        self.now -= 1
        raise ChildError(f"server {server!r} is not running")


async def test_of_many_servers_some_wait_for_their_turn_and_all_are_told() -> None:
    client, told = Starting(), dict[str, Ready | str]()
    names = [ServerName(f"s{number}") for number in range(3 * AT_ONCE)]
    await client.start_each(names, told.__setitem__)
    assert client.most == AT_ONCE
    assert told == dict.fromkeys(names, "is not running")


async def test_a_server_that_hangs_gets_its_time_and_keeps_no_other_waiting() -> None:
    client, told = Starting(), dict[str, Ready | str]()
    names = [ServerName("hangs"), ServerName("other")]
    await client.start_each(names, told.__setitem__, patience=0.01)
    assert told == {"hangs": "has not answered within 0 s", "other": "is not running"}
