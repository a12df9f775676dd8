from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qs

import httpx2
import pytest
from msgspec.structs import replace

from hub.cli.logins.flow import LoginFailedError
from hub.cli.logins.logging_in import GRANT, LONGEST, DeviceCode, DeviceGrant
from hub.logins.login import RegisteredClient

PLACE: Final = "https://login.example.com/token"
CODE: Final = DeviceCode(
    device_code="d3vice",
    user_code="WDJB-MJHT",
    verification_uri="https://login.example.com/device",
    expires_in=60.0,
)
PENDING: Final = (400, {"error": "authorization_pending"})
SLOW: Final = (400, {"error": "slow_down"})
TOKENS: Final = (200, {"access_token": "t", "token_type": "Bearer"})


class GrantingServer:
    """An authorization server that answers by a script, and a clock that only waiting moves."""

    def __init__(self, *answers: tuple[int, Any] | Exception) -> None:
        self._answers = list(answers)
        self.now = 1000.0
        self.waits: list[float] = []
        self.forms: list[dict[str, str]] = []
        self.http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        form = parse_qs(request.content.decode())
        self.forms.append({name: value for name, (value,) in form.items()})
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx2.Response(status, content=content)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def grant(self) -> DeviceGrant:
        return DeviceGrant(
            RegisteredClient("hub"),
            "https://mcp.example.com/mcp",
            clock=lambda: self.now,
            sleep=self.sleep,
            http=self.http,
        )


def answer_of(code: DeviceCode = CODE, **changed: Any) -> tuple[int, dict[str, Any]]:
    given = {name: getattr(code, name) for name in code.__struct_fields__}
    return 200, {name: value for name, value in {**given, **changed}.items() if value is not None}


async def test_a_code_is_asked_for_with_scope_and_resource() -> None:
    world = GrantingServer(
        answer_of(verification_uri_complete="https://login.example.com/device?c=W")
    )
    code = await world.grant.code("https://login.example.com/device/new", "a b")
    assert code.user_code == CODE.user_code
    assert code.verification_uri_complete == "https://login.example.com/device?c=W"
    assert world.forms == [
        {"resource": "https://mcp.example.com/mcp", "scope": "a b", "client_id": "hub"}
    ]
    assert "d3vice" not in repr(code)


def test_what_is_shown_does_nothing_to_the_terminal() -> None:
    place = "https://login.example.com/"
    code = DeviceCode("d3vice", "A\x1b[2J\nB\u202e", f"{place}\x9b1", 60.0, f"{place}\r2")
    assert code.shown() == (
        "Open this address on any device:\n  https://login.example.com/\\x9b1\n"
        "Enter this code there:\n  A\\x1b[2J\\nB\\u202e\n"
        "Or open this one, and compare the code:\n  https://login.example.com/\\r2"
    )


async def test_without_an_interval_there_are_five_seconds_between_questions() -> None:
    world = GrantingServer(answer_of(interval=None), PENDING, PENDING, TOKENS)
    code = await world.grant.code(PLACE, None)
    assert json.loads(await world.grant.tokens(PLACE, code)) == TOKENS[1]
    assert world.waits == [5.0, 5.0, 5.0]
    assert world.forms[1] == {
        "grant_type": GRANT,
        "device_code": "d3vice",
        "resource": "https://mcp.example.com/mcp",
        "client_id": "hub",
    }


@pytest.mark.parametrize(
    ("interval", "answers", "waits"),
    [
        (2.0, [PENDING, TOKENS], [2.0, 2.0]),
        (0.0, [PENDING, TOKENS], [1.0, 1.0]),
        (-3.0, [TOKENS], [1.0]),
        (5.0, [SLOW, PENDING, SLOW, TOKENS], [5.0, 10.0, 10.0, 15.0]),
        (5.0, [httpx2.ConnectTimeout("slow"), PENDING, TOKENS], [5.0, 10.0, 10.0]),
        (5.0, [(503, b""), (429, b""), TOKENS], [5.0, 10.0, 20.0]),
        (5.0, [(400, {"error": "temporarily_unavailable"}), TOKENS], [5.0, 10.0]),
        # Some answer with status 200, whatever it is.
        (5.0, [(200, {"error": "authorization_pending"}), TOKENS], [5.0, 5.0]),
        (5.0, [(200, {"error": "slow_down"}), TOKENS], [5.0, 10.0]),
    ],
)
async def test_the_server_says_how_often_it_is_asked(
    interval: float, answers: list[Any], waits: list[float]
) -> None:
    world = GrantingServer(*answers)
    await world.grant.tokens(PLACE, replace(CODE, interval=interval))
    assert world.waits == waits


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("access_denied", "it was refused there"),
        ("expired_token", "nobody has entered the code in time"),
        ("invalid_grant", "its authorization server says invalid_grant"),
        ("\x1b[2J", "its authorization server answered with HTTP status 400"),
    ],
)
async def test_a_refusal_ends_the_waiting(error: str, why: str) -> None:
    world = GrantingServer(PENDING, (400, {"error": error, "error_description": "d3vice"}))
    with pytest.raises(LoginFailedError) as caught:
        await world.grant.tokens(PLACE, CODE)
    assert str(caught.value) == why
    assert len(world.forms) == 2


async def test_a_code_is_not_asked_with_after_its_end() -> None:
    world = GrantingServer(PENDING)
    with pytest.raises(LoginFailedError, match="within 12 seconds"):
        await world.grant.tokens(PLACE, replace(CODE, expires_in=12.0))
    assert world.waits == [5.0, 5.0, 2.0]
    assert len(world.forms) == 2


async def test_a_server_that_is_never_there_is_not_asked_for_ever() -> None:
    world = GrantingServer(httpx2.ConnectError("refused"))
    with pytest.raises(LoginFailedError):
        await world.grant.tokens(PLACE, replace(CODE, expires_in=1e9))
    assert sum(world.waits) == LONGEST
    assert max(world.waits) == 60.0


async def test_seconds_that_are_written_as_texts_count() -> None:
    code = await GrantingServer(answer_of(expires_in="90", interval="7")).grant.code(PLACE, None)
    assert (code.expires_in, code.interval) == (90.0, 7.0)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((200, b"no"), "has no code that can be read"),
        (answer_of(expires_in=None), "has no code that can be read"),
        (answer_of(user_code=" "), "gave no code that can be entered"),
        (answer_of(user_code="x" * 65), "gave no code that can be entered"),
        (answer_of(verification_uri="http://login.example.com"), "does not begin with https://"),
        (answer_of(verification_uri="javascript:1"), "does not begin with https://"),
        (answer_of(verification_uri_complete="http://x"), "does not begin with https://"),
        (answer_of(verification_uri="h\x1b]0;x\x07"), r"h\\x1b\]0;x\\x07"),
        ((500, b""), "answered with HTTP status 500"),
        (
            (400, {"error": "invalid_scope", "error_description": "not\x1b[2J a\nb"}),
            r"says invalid_scope: not\\x1b\[2J a\\nb",
        ),
    ],
)
async def test_what_is_no_code_is_refused(answer: tuple[int, Any], why: str) -> None:
    with pytest.raises(LoginFailedError, match=why):
        await GrantingServer(answer).grant.code(PLACE, None)


async def test_a_server_that_cannot_be_asked_for_a_code_is_told() -> None:
    world = GrantingServer(httpx2.ConnectError("refused"))
    with pytest.raises(LoginFailedError, match=r"cannot be asked \(refused\)"):
        await world.grant.code(PLACE, None)
