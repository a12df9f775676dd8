"""The access tokens for the requests to one server; one process renews them for all."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

import anyio
import structlog
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from hub.errors import ChildError
from hub.logins.issuer_requests import LoginEndedError, RenewalFailedError, renewed
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from hub.secrets.reading import SecretError

Renew: TypeAlias = Callable[[Login, float], Awaitable[Login]]

PAUSE: Final = 5.0
"""Seconds between two attempts to renew a token that still counts."""
LOOK_EVERY: Final = 10.0
"""Seconds between two looks at the file: a logout counts though the token would last on."""

log = structlog.stdlib.get_logger(__name__)


class _Failed(Struct, frozen=True):
    """That a login could not be renewed, which is not tried again before `until`."""

    login: Login
    until: float
    why: str


class AccessTokens:
    """The tokens for the server `server` at `url`. `clock` gives seconds since 1970.

    They are renewed before they end, or when the server refuses one; requests meanwhile wait. A
    login that another process has ended or replaced is not used for much longer.
    `remedy` says what somebody does to log in; by default that is the command.

    Raises in all methods: ChildError with the remedy if somebody has to log in.
    """

    def __init__(  # noqa: PLR0913 - independent dependencies
        self,
        server: str,
        url: str,
        files: LoginFiles,
        clock: Callable[[], float],
        renew: Renew = renewed,
        *,
        remedy: str | None = None,
    ) -> None:
        self.remedy = remedy or f"run `roots-hub login {server}`"
        self._server = server
        self._url = url
        self._files = files
        self._clock = clock
        self._renew = renew
        self._login: Login | None = None
        self._turn = anyio.Lock()
        self._again_at = 0.0
        self._look_at = 0.0
        self._in_file: Login | None = None
        self._unkept: Login | None = None
        self._failed: _Failed | None = None

    async def current(self) -> str:
        """Return the token for a request."""
        login = self._login
        if login is None or self._is_due(login) or self._clock() >= self._look_at:
            login = await self._fresh(None)
        return login.access_token

    async def after(self, refused: str) -> str | None:
        """Return a token in place of one that the server refused; None if there is no newer one."""
        login = await self._fresh(refused)
        return None if login.access_token == refused else login.access_token

    async def lack(self, scope: str) -> None:
        """Keep which scope the server wants: the next login asks for it."""
        async with self._turn, self._files.alone(self._url):
            login = await self._read()
            if login is not None and scope and login.wanted != scope:
                await to_thread.run_sync(self._write, replace(login, wanted=scope))

    async def _fresh(self, refused: str | None) -> Login:
        async with self._turn:
            await self._look_again()
            login = self._login
            if login is None or not self._will_do(login, refused):
                async with self._files.alone(self._url):
                    login = self._login = await self._from_file_or_renewed(refused)
            return login

    async def _look_again(self) -> None:
        """Take what is in the file now, unless it cannot be read."""
        now = self._clock()
        if self._login is None or now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        with suppress(ChildError):
            self._login = await self._read()

    def _will_do(self, login: Login, refused: str | None) -> bool:
        return login.access_token != refused and not self._is_due(login)

    def _is_due(self, login: Login) -> bool:
        now = self._clock()
        return login.is_due(now) and (now >= self._again_at or login.has_ended(now))

    async def _from_file_or_renewed(self, refused: str | None) -> Login:
        """Return the login in the file, renewed if need be: another process may have done that."""
        login = await self._read()
        if login is None:
            raise ChildError(f"nobody is logged in: {self.remedy}")
        self._look_at = self._clock() + LOOK_EVERY
        if self._will_do(login, refused):
            return login
        self._check_failed(login)
        if login.is_over:
            raise ChildError(f"its login has ended: {self.remedy}")
        return await self._renewed(login, refused)

    async def _renewed(self, login: Login, refused: str | None) -> Login:
        now = self._clock()
        try:
            # A call may be cancelled; the new tokens may not be lost, as the old ones are used up.
            with anyio.CancelScope(shield=True):
                login = await self._renew(login, now)
                await to_thread.run_sync(self._write, login)
        except LoginEndedError as exc:
            why = f"its login has ended ({exc}): {self.remedy}"
            ended = replace(login, is_over=True)
            self._failed = _Failed(ended, math.inf, why)
            await to_thread.run_sync(self._write, ended)
            raise ChildError(why) from None
        except RenewalFailedError as exc:
            if login.has_ended(now) or login.access_token == refused:
                why = f"its login cannot be renewed now: {exc}; if it stays so, {self.remedy}"
                self._failed = _Failed(login, now + PAUSE, why)
                raise ChildError(why) from None
            self._again_at = now + PAUSE
            log.warning("a login cannot be renewed now", server=self._server, reason=str(exc))
            return login
        log.debug("login renewed", server=self._server)
        return login

    def _check_failed(self, login: Login) -> None:
        """Check that this login may be renewed: requests that wait shall not all ask in vain."""
        failed = self._failed
        if failed is not None and failed.login == login and self._clock() < failed.until:
            raise ChildError(failed.why)

    def _write(self, login: Login) -> None:
        try:
            self._files.write(self._url, login)
            self._unkept = None
        except (OSError, SecretError) as exc:
            self._unkept = login
            why = exc.what if isinstance(exc, SecretError) else exc.strerror
            log.warning("a renewed login cannot be kept", server=self._server, error=why)

    async def _read(self) -> Login | None:
        """Return the login in the file, or the newer one that could not be kept in its place."""
        found = await self._found()
        if self._unkept is not None and found == self._in_file:
            return self._unkept
        self._in_file, self._unkept = found, None
        return found

    async def _found(self) -> Login | None:
        try:
            return await self._files.find(self._url)
        except SecretError as exc:
            fix = exc.fix.removesuffix(".")
            raise ChildError(f"its login cannot be read: {exc.what}. {fix}") from None
        except OSError as exc:
            raise ChildError(f"its login cannot be read ({exc.strerror}): {self.remedy}") from exc
