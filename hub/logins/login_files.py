"""Keeps logins in files: sealed, of mode 0600, in a directory that no call and no child reaches.

The key is in a file beside them, or in the user's keyring. A keyring gets the key and not the
logins: a login may be too long for one (2560 bytes on Windows), is written at each renewal, and has
to be locked meanwhile. Whoever opens a login needs both, its file and the key.
"""

from __future__ import annotations

import errno
import hashlib
import secrets
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Final

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from hub.errors import StartError
from hub.logins.login import Login
from hub.secrets.reading import SecretError, find_in_keyring, put_into_keyring
from hub.system.atomic_file import alone_in, replace_file
from hub.system.private_file import append_private, private_directory, read_private, secret_in
from hub.system.sealing import Sealer, SealingSecrets
from hub.system.tasks import in_own_thread

if sys.platform != "win32":
    import os

    from hub.system.private_file import is_locked

_KEY: Final = "login-key"
_LOGINS: Final = "logins"
_MOST: Final = 256 * 1024
_NAME: Final = 32
"""Characters of a hash in a file's name."""
SERVICE: Final = "roots-hub"
USER: Final = "logins"
"""Where the key is in a keyring."""
_BYTES: Final = 32
_UNFIT: Final = frozenset({errno.EPERM, errno.EINVAL, errno.ELOOP})
"""Errors of a file that is there, but that is not the hub's alone, or none of its kind."""
AGAIN: Final = 0.02
"""Seconds between two attempts to lock a login."""


class KeyFile(Struct, frozen=True):
    """A key in a file of its user alone; `for_writing` makes one if there is none.

    Raises in all methods, as `KeyringKey` does: OSError, SecretError.
    """

    path: Path

    def candidates(self, given_up: Event) -> Iterator[bytes]:
        """Yield the keys that a login may have been sealed by, the likeliest first."""
        yield secret_in(self.path)

    def for_writing(self) -> bytes:
        return secret_in(self.path)


class KeyringKey:
    """A key in the user's keyring; `directory` is locked while one is made.

    It is remembered: a login must not be lost because the keyring was locked before a renewal.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: bytes | None = None

    def candidates(self, given_up: Event) -> Iterator[bytes]:
        known = self._known
        if known is not None:
            yield known
        self._known = _found(given_up)
        if self._known is not None and self._known != known:
            yield self._known

    def for_writing(self) -> bytes:
        if self._known is None:
            private_directory(self._directory)
            with alone_in(self._directory):
                self._known = _found_or_made()
        return self._known


def _found_or_made() -> bytes:
    given_up = Event()
    if (found := _found(given_up)) is not None:
        return found
    put_into_keyring(SERVICE, USER, secrets.token_hex(_BYTES), given_up)
    if (found := _found(given_up)) is None:
        raise SecretError("the keyring keeps nothing", "Run `keyring diagnose`.")
    return found


def _found(given_up: Event) -> bytes | None:
    text = find_in_keyring(SERVICE, USER, given_up)
    if text is not None and len(text) != 2 * _BYTES:
        what = f"{SERVICE}/{USER} in the keyring is no key of the hub's"
        raise SecretError(what, f"Run `keyring del {SERVICE} {USER}`, and log in again.")
    return None if text is None else text.encode()


class LoginFiles:
    """The logins of one owner, by the URL of the server; `directory` is the hub's own.

    `owner` is a principal; empty: this machine's user. A login opens under the name alone that it
    was kept by, so that a file which is put in the place of another one opens for nobody.

    Raises in all methods: OSError if a file cannot be read or written, or others may access it;
    SecretError if the key cannot be had.
    """

    def __init__(self, directory: Path, owner: str = "", *, in_keyring: bool = False) -> None:
        self.owner = owner
        self._directory = directory / _LOGINS
        self._key: KeyFile | KeyringKey = KeyFile(directory / _KEY)
        if in_keyring:
            self._key = KeyringKey(self._directory)

    def prepare(self) -> None:
        """Make sure that a login could be kept. A keyring may want to be unlocked for that."""
        private_directory(self._directory)
        self._key.for_writing()

    async def find(self, url: str) -> Login | None:
        """Return what `read` returns; meanwhile other tasks run, and a caller may give up."""
        given_up = Event()
        try:
            # A keyring may wait for its user: that may take no place of a shared pool of threads.
            return await in_own_thread(partial(self.read, url, given_up), "login")
        finally:
            given_up.set()

    def read(self, url: str, given_up: Event | None = None) -> Login | None:
        """Return the login to a server; None if there is none that can be opened."""
        login = self._opened(url, self._path(url), given_up or Event())
        return login if login is not None and login.owner == self.owner else None

    def of_principals(self, url: str) -> list[Login]:
        """Return the logins of all principals to a server, but for those that cannot be opened."""
        given_up = Event()
        kept = sorted(self._directory.glob(f"{_hash(url)}-{'?' * _NAME}"))
        found = (self._opened(url, path, given_up) for path in kept)
        return [login for login in found if login is not None]

    def _opened(self, url: str, path: Path, given_up: Event) -> Login | None:
        try:
            text = read_private(path, _MOST).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        for key in self._key.candidates(given_up):
            plain = _sealer(key).open(text, _bound_to(url, path))
            if plain is not None:
                with suppress(msgspec.MsgspecError):
                    return msgspec.json.decode(plain, type=Login)
        return None

    def write(self, url: str, login: Login) -> None:
        """Keep a login, in place of an older one to that server."""
        path = self._path(url)
        private_directory(path.parent)
        sealer = _sealer(self._key.for_writing())
        plain = msgspec.json.encode(replace(login, owner=self.owner))
        replace_file(path, sealer.seal(plain, _bound_to(url, path)).encode())

    async def keep(self, url: str, login: Login) -> None:
        """Write a new login, alone: a renewal of the older one would take its place again."""
        async with self.alone(url):
            await to_thread.run_sync(self.write, url, login)

    def remove(self, url: str) -> bool:
        """Forget the login to a server; return whether there was one."""
        try:
            self._path(url).unlink()
        except FileNotFoundError:
            return False
        return True

    @asynccontextmanager
    async def alone(self, url: str) -> AsyncGenerator[None]:
        """Hold a lock on a login against all processes, so that one of them renews it."""
        path = self._path(url).with_suffix(".lock")
        if sys.platform == "win32":
            yield
            return
        descriptor = await to_thread.run_sync(_lock_file, path)
        try:
            while not is_locked(descriptor):  # noqa: ASYNC110 - another process has it
                await anyio.sleep(AGAIN)
            yield
        finally:
            os.close(descriptor)

    def _path(self, url: str) -> Path:
        of_owner = f"-{_hash(self.owner)}" if self.owner else ""
        return self._directory / f"{_hash(url)}{of_owner}"


def unkept(server: str, exc: OSError | SecretError) -> StartError:
    """Return the error of the login at a server, which cannot be read or written."""
    if isinstance(exc, SecretError):
        return StartError(
            f"servers.{server}.auth.keep: {exc.what}", f"{exc.fix} Or say `keep: file`."
        )
    fix = "Make that place writable for you, or name another one in XDG_STATE_HOME."
    if exc.errno in _UNFIT:
        fix = "Make that file its owner's alone, or remove it."
    return StartError(f"{exc.filename}: {exc.strerror}", fix)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_NAME]


def _bound_to(url: str, path: Path) -> str:
    """Return what a login in this file is sealed for: the server, and whose it is."""
    _, _, of_owner = path.name.partition("-")
    return f"{url}\n{of_owner}" if of_owner else url


def _sealer(key: bytes) -> Sealer:
    return Sealer(SealingSecrets((key,)), "login")


if sys.platform != "win32":

    def _lock_file(path: Path) -> int:
        private_directory(path.parent)
        return append_private(path)
