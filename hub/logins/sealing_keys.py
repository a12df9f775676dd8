"""The key that logins are sealed by: in a file beside them, or in the user's keyring.

A keyring gets the key, not the logins: a login may be too long for one (2560 bytes on Windows), is
written at each renewal, and has to be locked meanwhile. Nobody opens it without both.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from hub.secrets.keyrings import find_in_keyring, put_into_keyring
from hub.secrets.values import SecretError
from hub.secrets.waiting import ReadingScope
from hub.system.atomic_file import alone_in
from hub.system.private_file import private_directory, secret_in

SERVICE: Final = "roots-hub"
USER: Final = "logins"
_BYTES: Final = 32


class LoginKey(Protocol):
    """Where the key is. Raises in all methods: OSError, SecretError."""

    def candidates(self, scope: ReadingScope) -> Iterator[bytes]:
        """Yield the keys that a login may have been sealed by, the likeliest first."""
        ...

    def for_writing(self) -> bytes:
        """Return the key that seals; it is made if there is none."""
        ...


class KeyFile:
    """A key in a file of its user alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def candidates(self, scope: ReadingScope) -> Iterator[bytes]:
        yield secret_in(self._path)

    def for_writing(self) -> bytes:
        return secret_in(self._path)


class KeyringKey:
    """A key in the user's keyring; `directory` is locked while one is made.

    It is remembered: a login must not be lost because the keyring was locked before a renewal.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: bytes | None = None

    def candidates(self, scope: ReadingScope) -> Iterator[bytes]:
        known = self._known
        if known is not None:
            yield known
        self._known = _found(scope)
        if self._known is not None and self._known != known:
            yield self._known

    def for_writing(self) -> bytes:
        if self._known is None:
            private_directory(self._directory)
            with alone_in(self._directory):
                self._known = _found_or_made(ReadingScope())
        return self._known


def _found_or_made(scope: ReadingScope) -> bytes:
    found = _found(scope)
    if found is None:
        put_into_keyring(SERVICE, USER, secrets.token_hex(_BYTES), scope)
        found = _found(scope)
    if found is None:
        raise SecretError("the keyring keeps nothing", "Run `keyring diagnose`.")
    return found


def _found(scope: ReadingScope) -> bytes | None:
    text = find_in_keyring(SERVICE, USER, scope)
    if text is not None and len(text) != 2 * _BYTES:
        what = f"{SERVICE}/{USER} in the keyring is no key of the hub's"
        raise SecretError(what, f"Run `keyring del {SERVICE} {USER}`, and log in again.")
    return None if text is None else text.encode()
