"""Secrets in the user's keyring: `${keyring:SERVICE/USER}`. Needs the package `keyring`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

from hub.secrets.values import SecretError, value_in
from hub.secrets.waiting import ReadingScope, within

LIMIT: Final = 30.0
"""Seconds that the keyring may take: its user may have to unlock it."""


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...


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
    try:
        found = within(limit, lambda: _password(service, user), scope)
    except TimeoutError:
        what = f"the keyring did not answer within {limit:g} s"
        raise SecretError(what, "Unlock it.") from None
    except SecretError:
        raise
    except Exception as exc:  # noqa: BLE001 - backends raise what they like; its text is not ours
        what = f"the keyring cannot be read ({type(exc).__name__})"
        raise SecretError(what, "Run `keyring diagnose`.") from None
    if found is None:
        raise SecretError(f"the keyring has no {entry}", f"Run `keyring set {service} {user}`.")
    return value_in(found.encode(errors="replace"), f"{entry} in the keyring")


def _password(service: str, user: str) -> str | None:
    try:
        keyring = cast("_Keyring", import_module("keyring"))
    except ModuleNotFoundError as exc:
        if exc.name == "keyring":
            raise not_installed() from None
        raise
    return keyring.get_password(service, user)
