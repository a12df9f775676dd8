from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from structlog.testing import capture_logs

from hub.children.remote.exchange import ExchangeError
from hub.children.remote.messages import HttpOutbox, InboundQueue, RemoteLink, taken_back
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import RequestId, WireError
from hub.jsonrpc.messages import Message, Notification, Request, lost
from hub.jsonrpc.peer_conduct import PeerConduct
from tests.kit.loops import all_tasks_blocked

CALL = Request(7, "tools/call", {"name": "echo"})
TOLD = Notification("notifications/roots/list_changed", {})
CANCELLED = Notification("notifications/cancelled", {"requestId": 7})


class ScriptedTransport(RemoteLink):
    """A transport that records requests and notifications; a test decides when a request ends."""

    def __init__(self) -> None:
        self.arrivals = InboundQueue(PeerConduct("far"))
        self.asked: list[bytes] = []
        self.told: list[Message] = []
        self.ends: list[anyio.Event] = []
        self.given_up: list[RequestId] = []
        self.failure: str | None = None

    def asking(self, request: Request, body: bytes) -> Callable[[], Awaitable[None]]:
        self.asked.append(body)
        self.ends.append(anyio.Event())
        return partial(self._ask, request, self.ends[-1])

    async def _ask(self, request: Request, end: anyio.Event) -> None:
        try:
            await end.wait()
        except BaseException:
            self.given_up.append(request.id)
            raise
        self._fail()

    async def tell(self, message: Message, body: bytes) -> None:
        del body
        self.told.append(message)
        self._fail()

    def _fail(self) -> None:
        if self.failure is not None:
            raise ExchangeError(self.failure)


@asynccontextmanager
async def started_outbox() -> AsyncGenerator[tuple[HttpOutbox, ScriptedTransport]]:
    transport = ScriptedTransport()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            yield HttpOutbox(transport, transport.arrivals, tasks), transport
            tasks.cancel_scope.cancel()


async def test_sending_a_request_does_not_wait_for_its_response() -> None:
    async with started_outbox() as (outbox, transport):
        assert outbox.post(CALL)
        await outbox.send(Request("x", "ping", {}))
        assert [body[:24] for body in transport.asked] == [
            b'{"jsonrpc":"2.0","id":7,',
            b'{"jsonrpc":"2.0","id":"x',
        ]
        assert outbox.has(7)
        assert not outbox.has("7")
        transport.ends[0].set()
        await all_tasks_blocked()
        assert not outbox.has(7)
        assert outbox.has("x")


async def test_sending_a_notification_waits_until_it_is_accepted() -> None:
    async with started_outbox() as (outbox, transport):
        assert not outbox.post(TOLD)
        assert transport.told == []
        await outbox.send(TOLD)
        assert transport.told == [TOLD]


async def test_a_request_that_cannot_be_answered_fails() -> None:
    async with started_outbox() as (outbox, transport):
        await outbox.send(CALL)
        transport.failure = "it is away"
        transport.ends[0].set()
        assert await transport.arrivals.next() == lost(7, "it is away")


async def test_of_anything_else_that_is_lost_the_log_tells() -> None:
    async with started_outbox() as (outbox, transport):
        transport.failure = "it is away"
        with capture_logs() as logs:
            await outbox.send(TOLD)
        (entry,) = logs
        assert (entry["event"], entry["server"], entry["error"]) == (
            "message lost",
            "far",
            "it is away",
        )


@pytest.mark.parametrize("failure", [None, "it is away"])
async def test_a_request_that_is_taken_back_is_given_up(failure: str | None) -> None:
    async with started_outbox() as (outbox, transport):
        for id_ in (7, 8):
            await outbox.send(Request(id_, "m", {}))
        await all_tasks_blocked()
        transport.failure = failure
        await outbox.send(CANCELLED)
        await all_tasks_blocked()
        assert transport.told == [CANCELLED]
        assert transport.given_up == [7]
        assert (outbox.has(7), outbox.has(8)) == (False, True)


async def test_a_request_may_be_given_some_time_to_end() -> None:
    async with started_outbox() as (outbox, transport):
        await outbox.send(CALL)
        outbox.give_up(7, after=60)
        await all_tasks_blocked()
        assert outbox.has(7)
        outbox.give_up(7)
        await all_tasks_blocked()
        assert transport.given_up == [7]
        for unknown in (7, None):
            outbox.give_up(unknown)


async def test_the_end_of_a_request_is_not_that_of_a_later_one_with_its_id() -> None:
    async with started_outbox() as (outbox, transport):
        await outbox.send(CALL)
        await outbox.send(CALL)
        transport.ends[0].set()
        await all_tasks_blocked()
        assert outbox.has(7)


async def test_after_the_end_nothing_is_sent() -> None:
    async with started_outbox() as (outbox, transport):
        transport.arrivals.end("it left")
        assert not outbox.post(CALL)
        for message in (CALL, TOLD):
            with pytest.raises(GoneError, match="it left"):
                await outbox.send(message)
        assert (transport.asked, transport.told) == ([], [])


async def test_a_message_that_cannot_be_encoded_is_not_sent() -> None:
    async with started_outbox() as (outbox, transport):
        for message in (Request(7, "m", {"a": "\ud800"}), Notification("n", {"a": "\ud800"})):
            with pytest.raises(WireError):
                await outbox.send(message)
        assert (transport.asked, transport.told) == ([], [])
        assert not outbox.has(7)


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        (CANCELLED, 7),
        (Notification("notifications/cancelled", {"requestId": "x"}), "x"),
        (Notification("notifications/cancelled", {"requestId": True}), None),
        (Notification("notifications/cancelled", {"requestId": [7]}), None),
        (Notification("notifications/cancelled", {}), None),
        (Notification("notifications/progress", {"requestId": 7}), None),
        (CALL, None),
    ],
)
def test_a_request_is_taken_back_by_its_id(message: Message, id_: RequestId | None) -> None:
    assert taken_back(message) == id_
