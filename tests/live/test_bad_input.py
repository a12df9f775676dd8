"""Section 8 of the design over stdio: a clear error on that message alone, and the hub lives on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pytest

from tests.kit.warm import WARM_HUB, popen
from tests.live.programs import RECORDER, SOON, environment


class PipedHub:
    """A hub on two pipes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin = stdin
        self._stdout = stdout

    def say(self, line: bytes) -> None:
        """Send one line."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next message."""
        return json.loads(self._stdout.readline())

    def ask(self, line: bytes) -> dict[str, Any]:
        """Send one line, and return what comes back."""
        self.say(line)
        return self.hear()

    def lives(self) -> bool:
        """Return whether the hub still answers."""
        return self.ask(b'{"jsonrpc":"2.0","id":"p","method":"ping"}') == {
            "jsonrpc": "2.0",
            "id": "p",
            "result": {},
        }


@contextmanager
def hub(arguments: list[str], cwd: Path, **env: str) -> Generator[PipedHub]:
    """Run the hub; it must end well when its stdin is closed."""
    with popen(
        [WARM_HUB, *arguments],
        cwd=cwd,
        env=environment(**env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield PipedHub(process.stdin, process.stdout)
        finally:
            process.stdin.close()
            assert process.wait(SOON) == 0


def begin(line: PipedHub) -> None:
    """Do the handshake of a client without roots that asks for an unknown version."""
    info = {"name": "line", "version": "1"}
    params = {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": info}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    begun = line.ask(json.dumps(request).encode())
    assert begun["result"]["protocolVersion"] == "2025-11-25"
    line.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


@pytest.fixture(scope="module")
def line(tree: Path) -> Generator[PipedHub]:
    """A hub before the embedded file server, after the handshake."""
    with hub(["run", "--stdio"], tree / "project") as line:
        early = line.ask(b'{"jsonrpc":"2.0","id":0,"method":"tools/list"}')
        assert early["error"]["code"] == -32600
        begin(line)
        yield line


@pytest.mark.parametrize(
    ("sent", "id_", "code"),
    [
        (b"{", None, -32700),
        (b"hello", None, -32700),
        (b"\xff\xfe", None, -32700),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":NaN}', None, -32700),
        (b"[]", None, -32600),
        (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', None, -32600),
        (b"7", None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":1,"a":2}}', 5, -32600),
        (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}', 5, -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"no/such"}', 5, -32601),
        (b'{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}', 5, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call"}', 5, -32602),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":7}}', 5, -32602),
        (
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nope"}}',
            5,
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":'
            b'{"name":"read_file","arguments":[]}}',
            5,
            -32602,
        ),
        (b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"x"}}', 5, -32602),
    ],
)
def test_bad_input_gets_an_error_and_the_hub_lives_on(
    line: PipedHub, sent: bytes, id_: int | None, code: int
) -> None:
    answer = line.ask(sent)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    if id_ is not None:
        assert answer["id"] == id_
    assert line.lives()


@pytest.mark.parametrize(
    ("value", "code"),
    [(b"[" * 9999 + b"]" * 9999, -32600), (b"9" * 9999, -32700)],
    ids=["deep", "long number"],
)
def test_what_no_parser_should_try_gets_an_error(line: PipedHub, value: bytes, code: int) -> None:
    answer = line.ask(b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":' + value + b"}}")
    assert answer["error"]["code"] == code
    assert line.lives()


def test_an_unknown_tool_is_named(line: PipedHub) -> None:
    sent = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nope"}}'
    assert line.ask(sent)["error"]["message"] == "Unknown tool: nope"


def test_a_message_that_is_too_large_gets_an_error_and_the_hub_lives_on(line: PipedHub) -> None:
    sent = b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"' + b"x" * (70 << 20) + b'"}}'
    assert line.ask(sent)["error"]["code"] == -32600
    assert line.lives()


def test_empty_lines_and_answers_to_no_question_are_passed_over(line: PipedHub) -> None:
    line.say(b'{"jsonrpc":"2.0","id":99,"result":{"roots":[]}}')
    line.say(b'{"jsonrpc":"2.0","id":98,"error":{"code":1,"message":"x"}}')
    line.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
    line.say(b'{"jsonrpc":"2.0","method":"notifications/unknown"}')
    line.say(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}')
    assert line.lives()


def test_numbers_and_unknown_fields_pass_unchanged_in_both_directions(tree: Path) -> None:
    records = tree / "records of numbers"
    records.mkdir()
    with hub(["wrap", "--", *RECORDER], tree, RECORD=str(records)) as line:
        begin(line)
        listed = line.ask(b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}')
        (tool,) = (tool for tool in listed["result"]["tools"] if tool["name"] == "read_file")
        assert tool["example.com/unknown"] == {"kept": [1, 2.5, 10000000000000000000001]}
        arguments = b'{"a":1.50,"b":1e400,"c":10000000000000000000001,"d":"\\ud83d\\ude00 \\u0041"}'
        params = b'{"name":"pid","arguments":' + arguments + b',"_meta":{"x/y":0.10},"later":[]}'
        answer = line.ask(
            b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":' + params + b"}"
        )
        assert answer["result"]["example.com/x"] == {"y": [1.5]}
    (record,) = records.iterdir()
    sent = json.loads(record.read_text().splitlines()[-1], parse_float=Decimal)["params"]
    assert sent == json.loads(params, parse_float=Decimal)
