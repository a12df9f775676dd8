"""Logging in on another device with a code that is shown here (RFC 8628), without the SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import httpx2
import msgspec
from msgspec import Struct

from hub.cli.logins.flow import LoginFailedError
from hub.legible import on_one_line
from hub.logins.issuer_requests import OK, IssuerAnswer, NoAnswerError, posted
from hub.logins.login import RegisteredClient
from hub.protocol.host_names import is_private

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
SHORTEST: Final = 1.0
"""Seconds between two questions, even where a server wants none."""
LONGEST: Final = 3600.0
"""Seconds that a code is waited for, even where it counts longer."""
SLOWER: Final = 5.0
"""Seconds that `slow_down` adds, for good (RFC 8628, section 3.5)."""
_SLOWEST: Final = 60.0
_FOR_NOW: Final = frozenset({"temporarily_unavailable", "server_error"})
_TOO_MANY, _SERVER_ERROR = 429, 500
_MOST_IN_CODE, _MOST_IN_ADDRESS, _MOST_SAID = 64, 2048, 200

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


class DeviceCode(Struct, frozen=True):
    """What somebody is to be shown, and the code by which the hub asks for the tokens."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str | None = None
    interval: float = 5.0

    def shown(self) -> str:
        """Return what to show on the terminal: no character in it is hidden or of its control."""
        lines = [
            f"Open this address on any device:\n  {on_one_line(self.verification_uri)}",
            f"Enter this code there:\n  {on_one_line(self.user_code)}",
        ]
        if self.verification_uri_complete is not None:
            whole = on_one_line(self.verification_uri_complete)
            lines.append(f"Or open this one, and compare the code:\n  {whole}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "DeviceCode()"  # it has a secret


class _Description(Struct, frozen=True):
    error_description: str = ""


class DeviceGrant:
    """The grant at one authorization server, for one client and one resource.

    `clock` need not tell the time of day. Raises in all methods: LoginFailedError.
    """

    def __init__(
        self,
        client: RegisteredClient,
        resource: str,
        *,
        clock: Clock,
        sleep: Sleep,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._sleep = sleep
        self._http = http

    async def code(self, endpoint: str, scope: str | None) -> DeviceCode:
        """Return a new code from the device authorization endpoint."""
        form = {"resource": self._resource}
        if scope:
            form["scope"] = scope
        try:
            answer = await posted(endpoint, form, self._client, self._http)
        except NoAnswerError as exc:
            raise LoginFailedError(f"its authorization server {exc}") from exc
        if answer.status != OK or answer.error:
            raise LoginFailedError(f"{_refusal(answer)}{_description(answer)}")
        return _code_in(answer)

    async def tokens(self, endpoint: str, code: DeviceCode) -> bytes:
        """Return the token endpoint's answer with tokens, once somebody has entered the code."""
        form = {"grant_type": GRANT, "device_code": code.device_code, "resource": self._resource}
        lasts = min(code.expires_in, LONGEST)
        interval, ends = max(code.interval, SHORTEST), self._clock() + lasts
        while (left := ends - self._clock()) > 0:
            await self._sleep(min(interval, left))
            if self._clock() >= ends:
                break
            try:
                answer = await posted(endpoint, form, self._client, self._http)
            except NoAnswerError:
                interval = _backed_off(interval)
                continue
            if answer.status == OK and not answer.error:
                return answer.body
            interval = _interval_after(answer, interval)
        raise LoginFailedError(f"nobody has entered the code within {lasts:g} seconds")


def _interval_after(answer: IssuerAnswer, interval: float) -> float:
    """Return how long to wait after an answer without tokens.

    Raises: LoginFailedError if there will be none.
    """
    if answer.error == "authorization_pending":
        return interval
    if answer.error == "slow_down":
        return interval + SLOWER
    if answer.error == "access_denied":
        raise LoginFailedError("it was refused there")
    if answer.error == "expired_token":
        raise LoginFailedError("nobody has entered the code in time")
    if answer.error in _FOR_NOW or answer.status == _TOO_MANY or answer.status >= _SERVER_ERROR:
        return _backed_off(interval)
    raise LoginFailedError(_refusal(answer))


def _backed_off(interval: float) -> float:
    """Return a longer interval; RFC 8628 wants that where a server cannot be reached."""
    return max(interval, min(2 * interval, _SLOWEST))


def _code_in(answer: IssuerAnswer) -> DeviceCode:
    try:
        code = msgspec.json.decode(answer.body, type=DeviceCode)
    except msgspec.MsgspecError:
        what = "its authorization server's answer has no code that can be read (RFC 8628)"
        raise LoginFailedError(what) from None
    if not code.device_code or not 0 < len(code.user_code.strip()) <= _MOST_IN_CODE:
        raise LoginFailedError("its authorization server gave no code that can be entered")
    for address in filter(None, (code.verification_uri, code.verification_uri_complete)):
        if len(address) > _MOST_IN_ADDRESS or not is_private(address):
            shown = on_one_line(address[:_MOST_SAID])
            raise LoginFailedError(f"the address to open does not begin with https://: {shown}")
    return code


def _refusal(answer: IssuerAnswer) -> str:
    said = f"says {answer.error}" if answer.error else f"answered with HTTP status {answer.status}"
    return f"its authorization server {said}"


def _description(answer: IssuerAnswer) -> str:
    try:
        said = msgspec.json.decode(answer.body, type=_Description).error_description
    except msgspec.MsgspecError:
        return ""
    return f": {on_one_line(said[:_MOST_SAID])}" if said else ""
