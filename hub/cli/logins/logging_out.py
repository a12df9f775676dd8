"""One logout: the authorization server is told, and the login is forgotten here in any case."""

from __future__ import annotations

import sys
from typing import Final

import anyio
from msgspec import Struct

from hub.legible import on_one_line
from hub.logins.issuer_requests import NotRevokedError, revoke
from hub.logins.login_files import LoginFiles, unkept
from hub.secrets.values import SecretError
from hub.system.this_process import run_loop

PATIENCE: Final = 25.0
"""Seconds for it all: a hub that renews the login holds it for up to ten, and so does a server."""
_MOST: Final = 200
"""Characters of a reason that are shown."""


class _Outcome(Struct, frozen=True):
    """What came of a logout. `issuer`: who was told; else `why_not`, if anybody was logged in."""

    issuer: str | None = None
    why_not: str | None = None


def perform(name: str, url: str, files: LoginFiles, patience: float = PATIENCE) -> int:
    """Log out at the server `name`, say what happened, and return the exit code.

    It takes `patience` seconds at most.

    Raises: StartError if the login cannot be forgotten here.
    """
    try:
        outcome = run_loop(_logged_out, url, files, patience)
    except OSError as exc:
        raise unkept(name, exc) from exc
    whose = f"of {files.owner} " if files.owner else ""
    print(on_one_line(_said(name, whose, outcome)), file=sys.stderr)
    return 0


async def _logged_out(url: str, files: LoginFiles, patience: float) -> _Outcome:
    """Tell the server and forget the login, alone: a hub that renews it would keep it again."""
    try:
        with anyio.move_on_after(patience):
            async with files.alone(url):
                try:
                    outcome = await _revoked(url, files)
                finally:
                    was_there = files.remove(url)
                return outcome if was_there else _Outcome()
        return _Outcome(why_not=f"there was no time for it within {patience:g} seconds")
    finally:
        files.remove(url)


async def _revoked(url: str, files: LoginFiles) -> _Outcome:
    try:
        login = await files.find(url)
    except SecretError as exc:
        return _Outcome(why_not=f"the login here cannot be opened: {exc.what}")
    except OSError as exc:
        return _Outcome(why_not=f"the login here cannot be read: {exc.strerror}")
    if login is None:
        return _Outcome(why_not="the login here cannot be opened")
    try:
        await revoke(login)
    except NotRevokedError as exc:
        return _Outcome(why_not=str(exc)[:_MOST])
    return _Outcome(issuer=login.issuer)


def _said(name: str, whose: str, outcome: _Outcome) -> str:
    if outcome.issuer is not None:
        return f"The login {whose}at {name} is forgotten here, and also at {outcome.issuer}."
    if outcome.why_not is None:
        return (
            f"There was no login {whose}at {name}." if whose else f"Nobody was logged in at {name}."
        )
    return (
        f"The login {whose}at {name} is forgotten here. The authorization server could not be told "
        f"({outcome.why_not}): there it counts until it ends."
    )
