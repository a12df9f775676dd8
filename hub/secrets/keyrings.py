"""Secrets in the user's keyring: `${keyring:SERVICE/USER}`. Needs the package `keyring`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, TypeVar, cast

from hub.secrets.values import ReadingScope, SecretError, value_in, within

LIMIT: Final = 30.0
"""Seconds that the keyring may take: its user may have to unlock it."""


T = TypeVar("T")


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str) -> None: ...


def is_installed() -> bool:
    """Return whether the package `keyring` is installed. It is not loaded."""
    try:
        return find_spec("keyring") is not None
    except ValueError:  # it is hidden
        return False


def not_installed() -> SecretError:
    """Return the error for a hub without the package `keyring`."""
    what = "the package `keyring` is not installed"
    return SecretError(what, "Install it: pip install 'roots-hub[keyring]'")


def keyring_value(service: str, user: str, scope: ReadingScope, *, limit: float = LIMIT) -> str:
    """Return a password from the user's keyring.

    Raises: SecretError.
    """
    entry = f"{service}/{user}"
    found = find_in_keyring(service, user, scope, limit=limit)
    if found is None:
        raise SecretError(f"the keyring has no {entry}", f"Run `keyring set {service} {user}`.")
    return value_in(found.encode(errors="replace"), f"{entry} in the keyring")


def find_in_keyring(
    service: str, user: str, scope: ReadingScope, *, limit: float = LIMIT
) -> str | None:
    """Return a password from the user's keyring; None if it has none of that name.

    Raises: SecretError.
    """
    return _asked("read", lambda keyring: keyring.get_password(service, user), scope, limit)


def put_into_keyring(service: str, user: str, value: str, scope: ReadingScope) -> None:
    """Put a password into the user's keyring.

    Raises: SecretError.
    """
    _asked("written", lambda keyring: keyring.set_password(service, user, value), scope, LIMIT)


def _asked(how: str, work: Callable[[_Keyring], T], scope: ReadingScope, limit: float) -> T:
    try:
        return within(limit, lambda: work(_loaded()), scope)
    except TimeoutError:
        what = f"the keyring did not answer within {limit:g} s"
        raise SecretError(what, "Unlock it.") from None
    except SecretError:
        raise
    except Exception as exc:  # noqa: BLE001 - backends raise what they like; its text is not ours
        what = f"the keyring cannot be {how} ({type(exc).__name__})"
        raise SecretError(what, "Run `keyring diagnose`.") from None


def _loaded() -> _Keyring:
    try:
        return cast("_Keyring", import_module("keyring"))
    except ModuleNotFoundError as exc:
        if exc.name == "keyring":
            raise not_installed() from None
        raise
