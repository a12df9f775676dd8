from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from msgspec import Raw
from structlog.testing import capture_logs

from hub.children.link import ProcessLink, lost_in, message_in, parsed
from hub.children.process.process import Process, launch
from hub.children.process.process_tree import EndGraces, ProcessSupervisor, ProcessTree
from hub.errors import ChildError
from hub.jsonrpc import messages, parsing
from hub.jsonrpc.errors import GoneError, RpcError
from hub.jsonrpc.messages import Failure, Message, Notification, Request, Response
from hub.jsonrpc.peer_conduct import MAX_WASTE, PeerConduct
from hub.launch.plan import LaunchPlan
from hub.protocol.constants import INTERNAL_ERROR
from hub.roots.roots import EMPTY
from hub.system.shutdown import Shutdown
from tests.kit.fakes import taken_into

ENVIRONMENT = {"PATH": os.environ["PATH"]}
PING = b'{"id":1,"method":"ping"}'
EXPECTED = EndGraces(exit=0.001)
"""Nobody waits for the exit of what never ran."""


class Unlaunched(Process):
    """A process that is not started; the test writes its output."""

    def __init__(self) -> None:
        super().__init__("files", "/private", ProcessTree(ProcessSupervisor(Shutdown(), EXPECTED)))
        self.outlet = None  # pyright: ignore[reportAttributeAccessIssue] - nothing is sent


@contextmanager
def link(*lines: bytes, unfinished: bytes = b"") -> Generator[ProcessLink]:
    process = Unlaunched()
    process.lines.data_received(b"".join(line + b"\n" for line in lines) + unfinished)
    process.lines.eof_received()
    yield ProcessLink(process)
    process.lines.close()


async def test_messages_come_in_order() -> None:
    answer, told = (
        b'{"jsonrpc":"2.0","id":1,"result":{"n":1e400}}',
        b'{"jsonrpc":"2.0","method":"n"}',
    )
    with link(answer, told) as made:
        assert await made.next() == Response(1, Raw(b'{"n":1e400}'))
        assert await made.next() == Notification("n", {})
        assert made.private_directory == "/private"


async def test_output_that_is_no_message_is_reported_and_not_fatal() -> None:
    noise = b"Server \xff on port 1" + b"!" * 300
    with link(noise, b"{}", PING) as made, capture_logs() as logs:
        assert await made.next() == Request(1, "ping", {})
    assert [entry["event"] for entry in logs] == ["stdout is not JSON-RPC"] * 2
    assert logs[0]["text"].startswith("Server \ufffd on port 1!")
    assert len(logs[0]["text"]) == 200
    assert logs[0]["server"] == "files"


async def test_a_message_that_is_too_large_is_reported_and_not_fatal() -> None:
    with link(b'"' + b"x" * messages.MAX_MESSAGE_BYTES, PING) as made, capture_logs() as logs:
        assert await made.next() == Request(1, "ping", {})
    assert [entry["event"] for entry in logs] == ["message too large, dropped"]


async def test_an_answer_that_the_child_did_not_live_to_finish_is_none() -> None:
    """Its call is told that the child went away, not that the answer cannot be read."""
    half = b'{"jsonrpc":"2.0","id":7,"result":{"content":[{}'
    with link(PING, unfinished=half) as made, capture_logs() as logs:
        assert await made.next() == Request(1, "ping", {})
        with pytest.raises(GoneError, match="closed its output"):
            await made.next()
    assert [entry["event"] for entry in logs] == ["stdout ended inside a message"]
    with link(half) as made:
        assert isinstance(await made.next(), Failure), "a line that is whole, and no JSON"


async def test_a_last_message_needs_no_newline() -> None:
    with link(unfinished=PING) as made:
        assert await made.next() == Request(1, "ping", {})


async def test_the_end_of_the_output_says_how_it_came() -> None:
    with link() as made, pytest.raises(GoneError, match="closed its output"):
        await made.next()


@pytest.mark.live
async def test_a_launched_child_is_spoken_to_over_its_standard_streams(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.readline().replace('ask', 'answer'), flush=True)"
    argv = (sys.executable, "-c", code)
    plan = LaunchPlan(argv, (), str(tmp_path), EMPTY, argv)
    with anyio.fail_after(20):
        async with (
            ProcessSupervisor(Shutdown()) as supervisor,
            launch("files", plan, ENVIRONMENT, supervisor) as process,
        ):
            opened = ProcessLink(process)
            await opened.outlet.send(Request(1, "ask", {"a": 1}))
            assert await opened.next() == Request(1, "answer", {"a": 1})
            with pytest.raises(GoneError, match="exited with code 0"):
                await opened.next()


async def test_a_child_that_cannot_be_launched_is_an_error() -> None:
    argv = ("no-such-command",)
    plan = LaunchPlan(argv, (), "/", EMPTY, argv)
    with pytest.raises(ChildError):
        async with (
            ProcessSupervisor(Shutdown()) as supervisor,
            launch("files", plan, ENVIRONMENT, supervisor),
        ):
            pytest.fail("it runs")


@pytest.mark.parametrize(
    ("begins", "ends", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"', b'"}}', 7),
        (b'{"id":7,"jsonrpc":"2.0","result":{"a":"', b'"}}', 7),
        (b'{"result":{"a":"', b'"},"jsonrpc":"2.0","id":7}', 7),
        (b'{"result":{"a":"', b'"}, "id": 7, "jsonrpc": "2.0"}', 7),
        (b'{"result":{"a":"', b'","id":7}}', None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"', b'"}}', None),
        (b'{"method":"m","params":{"a":"', b'"},"id":7}', None),
    ],
)
async def test_an_answer_that_is_too_large_fails_its_own_request_at_once(
    begins: bytes, ends: bytes, id_: int | None
) -> None:
    large = begins + b"x" * messages.MAX_MESSAGE_BYTES + ends
    with link(large, PING) as made, capture_logs():
        found = await made.next()
    if id_ is None:
        assert found == Request(1, "ping", {})
    else:
        assert found == messages.lost(id_, f"it has more than {messages.MAX_MESSAGE_BYTES} bytes")


async def test_answers_are_handed_over_where_they_arrive_and_all_else_is_left() -> None:
    process, settled = Unlaunched(), list[Response | Failure]()
    made = ProcessLink(process)
    made.hand_answers_to(taken_into(settled))
    process.lines.data_received(b'{"id":1,"result":{"n":1.10}}\n{"id":2,"error":{"code":1}}\n')
    assert settled == [Response(1, Raw(b'{"n":1.10}')), Failure(2, Raw(b'{"code":1}'))]
    process.lines.data_received(b'{"method":"n"}\n{"id":3,"result":{}}\nnoise\n')
    assert len(settled) == 2, "the notification before it is not done with"
    assert await made.next() == Notification("n", {})
    process.lines.eof_received()
    with capture_logs() as logs, pytest.raises(GoneError):
        await made.next()
    assert settled[2:] == [Response(3, Raw(b"{}"))]
    assert [entry["text"] for entry in logs] == ["noise"]
    process.lines.close()


async def read_all(made: ProcessLink) -> None:
    while True:
        await made.next()


@pytest.mark.parametrize("line", [PING, b'{"method":"n"}', b'{"id":9,"result":{}}', b"noise"])
async def test_a_line_is_parsed_once(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    parse = parsing.parse_child

    def counted(text: bytes) -> messages.Message:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(parsing, "parse_child", counted)
    process = Unlaunched()
    made = ProcessLink(process)
    made.hand_answers_to(lambda _: False)
    process.lines.data_received(line + b"\n" + PING + b"\n" + line + b"\n")
    process.lines.eof_received()
    with capture_logs(), pytest.raises(GoneError):
        await read_all(made)
    assert read == [line, PING, line]
    process.lines.close()


def read(text: bytes) -> Message | None:
    return message_in(PeerConduct("files"), text, parsed(text), otherwise="no message")


def test_a_message_is_one() -> None:
    with capture_logs() as logs:
        assert read(b'{"jsonrpc":"2.0","id":1,"method":"ping"}') == Request(1, "ping", {})
    assert logs == []


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"n":NaN}}',
        b'{"jsonrpc":"2.0","id":7,"result":{"text":"\xff"}}',
        b'{"jsonrpc":"2.0","result":{"text":"\xff"},"id":7}',
    ],
)
def test_an_answer_that_cannot_be_read_fails_the_call_that_waits_for_it(text: bytes) -> None:
    with capture_logs() as logs:
        answer = read(text)
    assert isinstance(answer, Failure)
    failed = RpcError.received(answer.error)
    assert (answer.id, failed.code) == (7, INTERNAL_ERROR)
    assert str(failed).startswith("the answer of server 'files' cannot be read: ")
    assert logs == []


@pytest.mark.parametrize(
    "text", [b"hello", b"{}", b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":NaN}}']
)
def test_anything_else_is_logged(text: bytes) -> None:
    with capture_logs() as logs:
        assert read(text) is None
    assert [(entry["event"], entry["text"]) for entry in logs] == [("no message", text.decode())]


def test_what_was_too_large_fails_the_call_that_it_answers() -> None:
    said = f"it has more than {messages.MAX_MESSAGE_BYTES} bytes"
    with capture_logs() as logs:
        assert lost_in(PeerConduct("files"), b'{"id":7,"result":{"a":"xx') == messages.lost(7, said)
        assert lost_in(PeerConduct("files"), b'{"id":7,"method":"m","params":{"a":"xx') is None
    assert [entry["event"] for entry in logs] == ["message too large, dropped"] * 2


def test_one_that_sends_only_what_is_too_large_is_ended() -> None:
    conduct, ends = PeerConduct("files"), b'{"method":"m","params":{"a":"xx'
    with capture_logs():
        for _ in range(MAX_WASTE // messages.MAX_MESSAGE_BYTES):
            assert lost_in(conduct, ends) is None
        with pytest.raises(GoneError, match="messages that are too large, over 128 MiB"):
            lost_in(conduct, ends)
