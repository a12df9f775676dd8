"""Stand-ins that remember: a disk, a clock, an audit log, the other ends of connections."""

from __future__ import annotations

import asyncio  # noqa: TID251 - a transport
import itertools
import json
import os
import resource
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, Literal, TypeVar, cast

import anyio
from msgspec.structs import replace

from hub.audit.log_file import AuditRecord, Recordable
from hub.jsonrpc import messages, parsing, requests
from hub.jsonrpc.errors import GoneError
from hub.jsonrpc.exact_json import RequestId, UnreadableAnswerError, encode
from hub.jsonrpc.messages import (
    Failure,
    Message,
    Notification,
    Payload,
    Request,
    Response,
    as_object,
    to_bytes,
)
from hub.jsonrpc.peer import Outlet
from hub.jsonrpc.peer_conduct import PeerConduct
from hub.jsonrpc.pipes import BatchedWriter
from hub.jsonrpc.requests import UNSAID, RequestOwner
from hub.launch.plan import LaunchPlan
from hub.paths.resolve import Entry, LinkReader, PathError
from hub.protocol.constants import (
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    LISTS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    SERVER_INFO_META,
)
from hub.protocol.input_requests import NO_RETRY, ChildInputRound
from hub.specs import ServerSpec
from hub.system.machine import OsDisk
from hub.system.tasks import FairWorker
from hub.values import Json, JsonObject, ServerName, SessionKey, object_or_empty
from tests.kit.loops import in_time

Result = TypeVar("Result")


class RecordingDisk(OsDisk):
    """The machine's disk; remembers each path whose entry it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def entry(self, path: str) -> Entry | None:
        self.asked.append(path)
        return super().entry(path)


class FakeLinks(LinkReader):
    """A disk: `/dir/`, `/file`, `/link => target`, `/pipe|`; parents are made along the way."""

    def __init__(self, *lines: str) -> None:
        self.entries: dict[str, Entry] = {}
        self.targets: dict[str, str] = {}
        self.unreadable: set[str] = set()
        self._inodes = itertools.count(100)
        for line in lines:
            self.plant(line)

    def plant(self, line: str) -> None:
        """Put something new (a new inode) in the place that the line names."""
        name, arrow, target = line.partition(" => ")
        path = name.rstrip("/|")
        parent = path.rpartition("/")[0]
        if parent and parent not in self.entries:
            self.plant(parent + "/")
        if arrow:
            self.targets[path] = target
        kind: Literal["directory", "file", "link", "other"] = "link" if arrow else "file"
        if name.endswith("/"):
            kind = "directory"
        elif name.endswith("|"):
            kind = "other"
        self.entries[path] = Entry(kind, 1, next(self._inodes))

    def remove(self, path: str) -> Entry:
        """Remove the entry at `path`; returns it, so that it can be put back."""
        return self.entries.pop(path)

    def entry(self, path: str) -> Entry | None:
        if path in self.unreadable:
            raise PathError("the system cannot look it up: Permission denied")
        return self.entries.get(path)

    def target(self, path: str) -> str:
        return self.targets[path]


class FakeClock:
    """A clock that moves only when a test advances it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class RecordingAudit:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def write(self, end: Recordable) -> None:
        self.records.append(end.record())


@contextmanager
def no_descriptor_free(but: int = 0) -> Generator[None]:
    """Let this process open nothing more, or at most `but` more."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + but if but else 0, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


class Signals:
    """Lets a test wait until something that it can look up has become true."""

    def __init__(self) -> None:
        self._moved = anyio.Event()

    def moved(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def until(self, true: Callable[[], bool], seconds: float = 20) -> None:
        with in_time(seconds):
            while not true():
                await self._moved.wait()


class RecordingOutlet:
    """An outlet that records messages; with `gone` it is closed, with `stuck` it blocks."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.gone = False
        self.stuck = False
        self.signals = Signals()
        self._turned = 0

    async def send(self, message: Message) -> None:
        if self.gone:
            raise GoneError("nobody reads")
        self.messages.append(message)
        self.signals.moved()
        if self.stuck:
            await anyio.sleep_forever()

    async def next(self) -> Message:
        """Return the first message that was not returned before."""
        await self.signals.until(lambda: len(self.messages) > self._turned)
        self._turned += 1
        return self.messages[self._turned - 1]

    async def next_request(self) -> Request:
        message = await self.next()
        assert isinstance(message, Request), message
        return message

    @property
    def lines(self) -> list[Any]:
        """What was sent, as JSON reads it."""
        return [json.loads(to_bytes(message)) for message in self.messages]

    def notified(self, method: str) -> list[Notification]:
        return [
            message
            for message in self.messages
            if isinstance(message, Notification) and message.method == method
        ]


class RecordingSink:
    """A reply sink that remembers; one that `is_stuck` takes answers only if they are delivered."""

    def __init__(self) -> None:
        self.outlet = RecordingOutlet()
        self.answers: list[requests.Answer] = []
        self.resolved_again: list[Request] = []
        self.is_stuck = False
        self.on_deliver: Callable[[], None] = lambda: None
        self.signals = Signals()

    def give(self, answer: requests.Answer) -> bool:
        if self.is_stuck and answer is not None:
            return False
        self.answers.append(answer)
        self.signals.moved()
        return True

    async def deliver(self, answer: Response | Failure) -> None:
        self.on_deliver()
        self.answers.append(answer)
        self.signals.moved()

    async def next(self) -> JsonObject:
        """Wait for an answer, which must be a result."""
        await self.signals.until(lambda: bool(self.answers))
        answer = self.answers[-1]
        assert isinstance(answer, Response)
        return as_object(answer.result)

    def resolve_again(self, request: Request) -> None:
        self.resolved_again.append(request)
        self.signals.moved()


class RecordingWorker(FairWorker):
    """A worker that keeps what it made, and calls `before` each piece of work."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.made: list[object] = []
        self.signals = Signals()
        self.before = before

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        self.before()
        made = await super().run(party, work)
        self.made.append(made)
        self.signals.moved()
        return made


class RecordingAsker:
    """A caller that records what a child asks and tells it."""

    def __init__(self, name: str = "caller", *, progress: bool = False) -> None:
        self.session = self.party = self.queue_key = SessionKey(name)
        self.reports: list[Payload] = []
        self.asked: list[tuple[str, JsonObject]] = []
        self.told: list[Notification] = []
        self.answer: JsonObject = {"answered": name}
        self.log_level: str | None = None
        self.is_present = True
        self.retry = NO_RETRY
        self.asks: JsonObject = {}
        self.rounds: list[ChildInputRound] = []
        self.is_done = False
        self.unasked = False
        self.gave_up = False
        self.progress: Callable[[Payload], Awaitable[None]] | None = (
            self._report if progress else None
        )
        self.reason = UNSAID
        self.signals = Signals()

    async def _report(self, params: Payload) -> None:
        self.reports.append(params)
        self.signals.moved()

    async def ask(
        self, method: str, params: JsonObject, request_owner: RequestOwner | None = None
    ) -> Payload:
        self.asked.append((method, params))
        return self.answer

    async def inputs(
        self, spec: ServerSpec, requests: Mapping[str, JsonObject], round_: ChildInputRound
    ) -> JsonObject:
        self.rounds.append(round_)
        answers: JsonObject = {}
        for key, request in requests.items():
            params = object_or_empty(request.get("params"))
            answers[key] = messages.as_object(await self.ask(str(request["method"]), params))
        return answers

    def done(self) -> None:
        self.is_done = True

    async def flush(self) -> None:
        """Have nothing to wait for."""

    async def tell(self, spec: ServerSpec, notification: Notification) -> None:
        self.told.append(notification)
        self.signals.moved()

    def want_roots(self) -> bool:
        self.gave_up = self.unasked
        return self.unasked


class RecordingLessee:
    """Somebody who uses a child and listens."""

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self.arrivals: list[str] = []
        self.signals = Signals()

    async def told(self, spec: ServerSpec, notification: Notification) -> None:
        self.heard.append(notification)
        self.signals.moved()

    async def came(self, spec: ServerSpec) -> None:
        self.arrivals.append(spec.name)
        self.signals.moved()


class RecordingListener(RecordingLessee):
    """Somebody who listens, and lists by other requests."""

    def __init__(self) -> None:
        super().__init__()
        self.unlisted: list[str] = []

    def missed(self, server: ServerName) -> None:
        self.unlisted.append(server)


class Silence:
    """The answer of a child that gives none."""


SILENT = Silence()
Answer = bytes | JsonObject | Silence | messages.Failure
Script = Callable[[Request], Answer]
ECHO: JsonObject = {
    "name": "echo",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
READ: JsonObject = {
    "name": "read",
    "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


def taken_into(kept: list[Any]) -> Callable[[object], bool]:
    """Return what keeps everything it is given, and says that it was waited for."""

    def take(one: object) -> bool:
        kept.append(one)
        return True

    return take


class FakeLink:
    """One connection to a FakeChild; it is its own outlet. It carries JSON text."""

    def __init__(self, child: FakeChild, plan: LaunchPlan | None) -> None:
        self.child = child
        self.plan = plan
        self.seen: list[Any] = []
        self.pid: int | None = None
        self.conduct = PeerConduct("fake")
        self.private_directory = "/private" if plan is not None and plan.cwd is None else None
        self._send, self.received = anyio.create_memory_object_stream[bytes | messages.Failure](
            float("inf")
        )
        self._end = "the fake child ended"

    @property
    def outlet(self) -> Outlet:
        return self

    async def next(self) -> Message:
        try:
            said = await self._received()
            return parsing.parse_child(said) if isinstance(said, bytes) else said
        except UnreadableAnswerError as exc:
            return messages.Failure(exc.id, {"code": INTERNAL_ERROR, "message": str(exc)})
        except anyio.EndOfStream:
            raise GoneError(self._end) from None

    def hand_answers_to(self, settle: Callable[[Response | messages.Failure], bool]) -> None:
        """Return them from `next`, as all messages."""

    def post(self, message: Message) -> bool:
        if self.child.is_full or self.child.is_stuck:
            return False
        self._taken(message)
        return True

    async def _received(self) -> bytes | messages.Failure:
        if self.child.is_read_at_once:
            with suppress(anyio.WouldBlock):
                return self.received.receive_nowait()
        return await self.received.receive()

    async def send(self, message: Message) -> None:
        if self.child.is_stuck:
            await anyio.sleep_forever()
        self._taken(message)

    def _taken(self, message: Message) -> None:
        self.seen.append(json.loads(to_bytes(message)))
        if isinstance(message, Request):
            self.answer(message.id, self.child.answer_to(message))
        self.child.signals.moved()

    def requests(self, method: str) -> list[Any]:
        """Return what the hub has sent with this method, requests and notifications alike."""
        return [line for line in self.seen if line.get("method") == method]

    async def request(self, method: str, *, nth: int = 1) -> Any:
        """Wait for the nth message with this method."""
        await self.child.signals.until(lambda: len(self.requests(method)) >= nth)
        return self.requests(method)[nth - 1]

    def answer(self, id_: RequestId, answer: Answer) -> None:
        """Answer a request; a silent one can be answered later."""
        match answer:
            case bytes():
                self.say(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(id_), answer))
            case messages.Failure():
                self._send.send_nowait(replace(answer, id=id_))
            case Silence():
                pass
            case _:
                self.say(to_bytes(messages.Response(id_, answer)))

    def say(self, line: bytes) -> None:
        """Write a line as it is."""
        self._send.send_nowait(line)

    def ask(self, id_: RequestId, method: str, params: JsonObject) -> None:
        self.say(to_bytes(Request(id_, method, params)))

    def notify(self, method: str, params: JsonObject) -> None:
        self.say(to_bytes(Notification(method, params)))

    async def reply(self, id_: RequestId) -> Any:
        """Wait for the hub's answer to a request of the child's own."""

        def found() -> list[Any]:
            return [one for one in self.seen if one.get("id") == id_ and "method" not in one]

        await self.child.signals.until(lambda: bool(found()))
        return found()[0]

    def crash(self, reason: str = "exited with code 1") -> None:
        self._end = reason
        self._send.close()

    def close(self) -> None:
        self._send.close()
        self.received.close()


class FakeChild:
    """A child server in memory with a scripted answer for each method.

    An answer is a result (bytes: exactly these), a `Failure`, `SILENT`, or a function of the
    request. A child that `is_full` takes nothing at once; one that `is_stuck` reads nothing.
    What one that `is_read_at_once` says is read without a pause. A connection to one with
    `may_close` is not closed before that.
    """

    def __init__(
        self,
        *tools: JsonObject,
        answers: Mapping[str, Answer | Script] | None = None,
        era: Literal["legacy", "modern"] = "legacy",
        capabilities: JsonObject | None = None,
    ) -> None:
        self.links: list[FakeLink] = []
        self.closed = 0
        self.signals = Signals()
        self.refuses_to_open: Exception | None = None
        self.is_full = False
        self.is_stuck = False
        self.is_read_at_once = False
        self.may_close: anyio.Event | None = None
        self.answers: dict[str, Answer | Script] = {
            **self._greeting(era, capabilities or {"tools": {"listChanged": True}}),
            "tools/list": {"tools": list[Json](tools)},
            "tools/call": _echo,
            **(answers or {}),
        }

    @staticmethod
    def _greeting(
        era: Literal["legacy", "modern"], capabilities: JsonObject
    ) -> dict[str, Answer | Script]:
        info: JsonObject = {"name": "fake", "version": "1"}
        if era == "modern":
            return {
                "server/discover": {
                    "supportedVersions": list[Json](MODERN_VERSIONS),
                    "capabilities": capabilities,
                    "_meta": {SERVER_INFO_META: info},
                    "resultType": "complete",
                }
            }
        return {
            "initialize": {
                "protocolVersion": HANDSHAKE_VERSIONS[-1],
                "capabilities": capabilities,
                "serverInfo": info,
                "instructions": "Be kind.",
            }
        }

    @contextmanager
    def serving_another(self) -> Generator[None]:
        """Answer calls that are none of the test's meanwhile, and forget them."""
        answer = self.answers["tools/call"]
        seen = {id(link): len(link.seen) for link in self.links}
        self.answers["tools/call"] = {"content": [], "resultType": "complete"}
        try:
            yield
        finally:
            self.answers["tools/call"] = answer
            for link in self.links:
                new = slice(seen.get(id(link), 0), None)
                kept = [line for line in link.seen[new] if line.get("method") != "tools/call"]
                link.seen[new] = kept

    @property
    def link(self) -> FakeLink:
        """The newest connection."""
        return self.links[-1]

    async def connected(self, times: int = 1) -> FakeLink:
        """Wait for the nth connection."""
        await self.signals.until(lambda: len(self.links) >= times)
        return self.links[times - 1]

    async def ended(self, times: int = 1) -> None:
        """Wait until the hub has closed so many connections."""
        await self.signals.until(lambda: self.closed >= times)

    def answer_to(self, request: Request) -> Answer:
        answer = self.answers.get(request.method)
        if answer is None:
            return failure(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return answer(request) if callable(answer) else answer

    def opened(
        self, spec: ServerSpec, plan: LaunchPlan | None
    ) -> AbstractAsyncContextManager[FakeLink]:
        """Open a connection: an `Opener` for one child."""
        return self._open(plan)

    def connect(self) -> AbstractAsyncContextManager[FakeLink]:
        """Open a connection without a plan, as a `Child` does."""
        return self._open(None)

    @asynccontextmanager
    async def _open(self, plan: LaunchPlan | None) -> AsyncGenerator[FakeLink]:
        if self.refuses_to_open is not None:
            raise self.refuses_to_open
        link = FakeLink(self, plan)
        self.links.append(link)
        self.signals.moved()
        try:
            try:
                yield link
            finally:
                if self.may_close is not None:
                    await self.may_close.wait()
        finally:
            link.close()
            self.closed += 1
            self.signals.moved()


class WrittenTransport:
    """A transport that keeps what is written into it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, piece: bytes) -> None:
        self.written.append(piece)

    def is_closing(self) -> bool:
        return self.closing


def batched_writer(given: WrittenTransport | None = None) -> tuple[BatchedWriter, WrittenTransport]:
    """Return a writer, and the transport that it writes into."""
    transport = given or WrittenTransport()
    return BatchedWriter(cast("asyncio.WriteTransport", transport)), transport


def failure(code: int, message: str) -> messages.Failure:
    """Return an error answer; the id is filled in when it is sent."""
    return messages.Failure(None, {"code": code, "message": message})


def _echo(request: Request) -> JsonObject:
    """Answer a call with its own arguments."""
    return {
        "content": [{"type": "text", "text": "ok"}],
        "structuredContent": request.params.get("arguments"),
    }


def paged(method: str, *pages: Sequence[JsonObject]) -> Script:
    """Return the script of a listing of several pages."""

    def page(request: Request) -> JsonObject:
        number = int(str(request.params.get("cursor", "0")))
        more: JsonObject = {} if number + 1 == len(pages) else {"nextCursor": str(number + 1)}
        return {LISTS[method]: list[Json](pages[number]), **more}

    return page
