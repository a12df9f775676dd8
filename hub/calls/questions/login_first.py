"""Sends the person at a client to the login of a server, before a call that needs it.

URL elicitation of MCP: a legacy client (2025-11-25) is asked within the call, a modern one by the
call's result. This machine's user goes to the authorization server, as the browser comes back to a
port of this machine. A principal over HTTP goes to a page of the hub, which first has the browser
show that it is the principal's: whoever gets somebody else to open the address gets no login.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

import anyio
import structlog
from msgspec import Struct

from hub.children.clients import InputNeededError
from hub.errors import ChildError
from hub.jsonrpc import messages
from hub.jsonrpc.errors import GoneError, RpcError, SilentError
from hub.jsonrpc.exact_json import WireError
from hub.jsonrpc.peer import Asked
from hub.logins.login_process import LIMIT, LoginRun
from hub.protocol.input_requests import (
    ASKABLE,
    ELICITATION,
    ELICITED,
    LOGIN_KEY,
    NO_STATE,
    RetryInput,
    takes_urls,
)
from hub.secrets.reading import SecretError
from hub.sessions.logins import ServerLogins
from hub.sessions.session import Session
from hub.specs import RemoteLogin, RemoteTarget, ServerSpec
from hub.values import Json, JsonObject, is_this_user

UNASKED: Final = 60.0
"""Seconds after somebody was asked to log in, or has declined, until a call asks again."""

log = structlog.stdlib.get_logger(__name__)


class LoginNeed(Struct, frozen=True):
    """That an owner has to log in at a server before a call.

    `link` is the page that a principal is sent to; None: this machine's user goes to the
    authorization server.
    """

    spec: ServerSpec
    target: RemoteTarget
    login: RemoteLogin
    owner: str
    link: str | None

    @property
    def key(self) -> tuple[str, str]:
        """The login that is needed: where, and whose."""
        return self.target.url, self.owner


class LoginFirst:
    """Asks for logins; `logins` begins them."""

    def __init__(self, logins: ServerLogins) -> None:
        self._logins = logins
        self._declined: dict[tuple[str, str], float] = {}

    async def ask(
        self, session: Session, asked: Asked, retry: RetryInput, spec: ServerSpec
    ) -> None:
        """Have the client's user log in at a server, if that is needed and the client can be asked.

        Raises: InputNeededError if a modern client has to be asked first; ChildError if there is
            no login in the end.
        """
        if not _can_be_asked(session, asked):
            return
        need = await self._need(session, spec)
        if need is None:
            return
        client = session.client
        if client is not None and client.is_modern:
            await self._by_result(need, retry)
        else:
            await self._by_request(need, session, asked)

    async def _need(self, session: Session, spec: ServerSpec) -> LoginNeed | None:
        target = spec.target
        if not isinstance(target, RemoteTarget) or target.login is None:
            return None
        login, owner = target.login, target.login.owner_for(session.identity)
        is_for_another = login.is_shared and not is_this_user(session.identity)
        if is_for_another or self._has_declined((target.url, owner)):
            return None
        if not await self._is_missing(target.url, login, owner):
            self._logins.runs.found(target.url, owner)
            return None
        link = self._logins.link(spec, owner) if owner else None
        if owner and link is None:
            return None  # the server's start says so
        return LoginNeed(spec, target, login, owner, link)

    async def _is_missing(self, url: str, login: RemoteLogin, owner: str) -> bool:
        try:
            kept = await self._logins.files(login, owner).find(url)
        except (OSError, SecretError):
            return False  # the server's start says what is wrong with the file or its key
        return kept is None or not kept.is_of_use(time.time())

    def _has_declined(self, key: tuple[str, str]) -> bool:
        now = time.monotonic()
        self._declined = {one: until for one, until in self._declined.items() if now < until}
        return key in self._declined

    async def _by_request(self, need: LoginNeed, session: Session, asked: Asked) -> None:
        run = await self._begun(need)
        if session.peer is None or await _is_over_for_another(need, run):
            return
        id_ = secrets.token_urlsafe(16)
        params = {**_question(need, run), "elicitationId": id_}
        action: Json = None
        try:
            result = await session.peer.request(
                ELICITATION, params, timeout=LIMIT, outlet=asked.outlet
            )
            action = messages.as_object(result).get("action")
        except (GoneError, RpcError, SilentError, WireError) as exc:
            log.warning("not asked to log in", server=need.spec.name, error=str(exc))
            return
        finally:
            if action is None:
                run.asked = None  # the client failed, or gave the call up: the next call asks
        self._check_accepted(need, action)
        await _over(run)
        await session.peer.notify(ELICITED, {"elicitationId": id_}, outlet=asked.outlet)
        _check_over(need, run)

    async def _by_result(self, need: LoginNeed, retry: RetryInput) -> None:
        answer = retry.responses.get(LOGIN_KEY) if retry.is_retry else None
        if answer is None:
            run = await self._begun(need)
            if await _is_over_for_another(need, run):
                return
            asked: JsonObject = {"method": ELICITATION, "params": _question(need, run)}
            raise InputNeededError({LOGIN_KEY: asked}, NO_STATE, lasts=LIMIT)
        self._check_accepted(need, answer.get("action") if isinstance(answer, dict) else None)
        run = self._logins.runs.under_way(*need.key)
        if run is None:
            raise ChildError(_nobody(need, "the login was not finished"))
        await _over(run)
        _check_over(need, run)

    async def _begun(self, need: LoginNeed) -> LoginRun:
        if need.link is not None:
            return self._logins.runs.wanted(*need.key)  # it begins once its person goes on there
        try:
            return await self._logins.begun(need.spec, need.target, need.login, need.owner)
        except ChildError as exc:
            raise ChildError(_nobody(need, str(exc))) from None

    def _check_accepted(self, need: LoginNeed, action: Json) -> None:
        if action != "accept":
            self._declined[need.key] = time.monotonic() + UNASKED
            why, run = (
                "its user does not want to log in now",
                self._logins.runs.under_way(*need.key),
            )
            if run is not None:
                run.cancel(why)
            raise ChildError(_nobody(need, why))


def _can_be_asked(session: Session, asked: Asked) -> bool:
    client = session.client
    return (
        client is not None and asked.request.method in ASKABLE and takes_urls(client.capabilities)
    )


async def _is_over_for_another(need: LoginNeed, run: LoginRun) -> bool:
    """Wait for a login that another call has asked for just now; return whether it is over.

    Raises: ChildError if it has failed.
    """
    now = time.monotonic()
    if run.asked is not None and now < run.asked + UNASKED:
        with anyio.move_on_after(run.asked + UNASKED - now):
            await run.over.wait()
            _check_over(need, run)
            return True
    run.asked = time.monotonic()
    run.want()
    return False


async def _over(run: LoginRun) -> None:
    """Wait for the end of a login, however often its person is asked again meanwhile."""
    with anyio.move_on_after(2 * LIMIT):
        await run.over.wait()


def _question(need: LoginNeed, run: LoginRun) -> JsonObject:
    text = f"The server {need.spec.name!r} wants you to log in. The page opens in your browser."
    return {"mode": "url", "message": text, "url": need.link or run.page}


def _check_over(need: LoginNeed, run: LoginRun) -> None:
    if run.failed is not None:
        raise ChildError(_nobody(need, run.failed))


def _nobody(need: LoginNeed, why: str) -> str:
    name = need.spec.name
    remedy = f"run `roots-hub login {name}`"
    if need.link is not None:
        remedy = f"open {need.link.partition('?')[0]} in a browser, and log in there"
    return f"nobody is logged in at {name} ({why}): {remedy}"
