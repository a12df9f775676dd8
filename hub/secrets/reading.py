"""From references to secrets to their values, which may block; those in files are read here.

`SecretReader` does that for a child at its launch, in a thread.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import structlog
from anyio import CapacityLimiter, to_thread

from hub.errors import ChildError
from hub.launch.secret_references import (
    CommandSecret,
    FileSecret,
    KeyringSecret,
    SecretReference,
    SecretText,
)
from hub.secrets.values import MAX_BYTES, ReadingScope, SecretError, value_in

AT_ONCE = 8
"""Number of children whose secrets are read at the same time."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A FIFO must not block."""
_OTHERS: Final = 0o077
log = structlog.stdlib.get_logger(__name__)


def file_value(path: str) -> str:
    """Return the content of a file. It may be a link, but must lead to a regular file.

    Raises: SecretError.
    """
    try:
        number = os.open(path, _FLAGS)
    except FileNotFoundError:
        fix = "Write the secret into it, or correct the path."
        raise SecretError(f"there is no file {path}", fix) from None
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise SecretError(f"{path} is not a file", "Name a file with the secret alone.")
        with open(number, "rb", closefd=False) as file:
            return value_in(file.read(MAX_BYTES + 1), path)
    except OSError as exc:
        raise _unreadable(path, exc) from None
    finally:
        os.close(number)


def _unreadable(path: str, exc: OSError | ValueError) -> SecretError:
    why = exc.strerror if isinstance(exc, OSError) else "it is no path"
    return SecretError(f"{path} cannot be read ({why})", "Let the hub's user read it.")


def open_to_others(path: str) -> str | None:
    """Return a sentence if other users may read or write a file, with a remedy; else None."""
    if sys.platform == "win32":
        return None
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - as text
    except (OSError, ValueError):
        return None
    if not mode & _OTHERS:
        return None
    return f"{path} is open to other users (mode {mode:04o}): `chmod 600` keeps it to its owner"


def text_value(
    text: SecretText, environment: Mapping[str, str], scope: ReadingScope | None = None
) -> str:
    """Return a text with its secrets. Commands in it get `environment`.

    Raises: SecretError.
    """
    until = scope or ReadingScope()
    return "".join(
        part if isinstance(part, str) else _value(part, environment, until) for part in text.parts
    )


def _value(reference: SecretReference, environment: Mapping[str, str], scope: ReadingScope) -> str:
    match reference:
        case FileSecret(path):
            return file_value(path)
        case CommandSecret(_, directory):
            from hub.secrets.commands import command_value  # noqa: PLC0415 - seldom needed

            return command_value(
                reference.argv, directory=directory, environment=environment, scope=scope
            )
        case KeyringSecret(service, user):
            from hub.secrets.keyrings import keyring_value  # noqa: PLC0415 - seldom needed

            return keyring_value(service, user, scope)
        case _:
            assert_never(reference)


class SecretReader:
    """Reads secrets for children; nothing is kept but which files it has warned of."""

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._limiter = CapacityLimiter(AT_ONCE)

    async def values(
        self, at: str, wanted: Mapping[str, SecretText], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the values of `wanted`, texts by key; `at` is their place in the config.

        Raises: ChildError with the first that cannot be read.
        """
        scope = ReadingScope()

        def read() -> dict[str, str]:
            found: dict[str, str] = {}
            for key, text in wanted.items():
                try:
                    found[key] = text_value(text, environment, scope)
                except SecretError as exc:
                    fix = exc.fix.removesuffix(".")
                    raise ChildError(f"{at}.{key}: {exc.what}. {fix}") from None
            return found

        try:
            made = await to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            scope.cancel()
        self._warn(wanted.values())
        return made

    def _warn(self, texts: Iterable[SecretText]) -> None:
        paths = {
            one.path for text in texts for one in text.references if isinstance(one, FileSecret)
        }
        for path in sorted(paths - self._warned):
            self._warned.add(path)
            if (sentence := open_to_others(path)) is not None:
                log.warning("others can read a secret", what=sentence)
