"""From references to secrets to their values, which may block.

`SecretReader` does that for a child at its launch, in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

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
from hub.secrets.files import file_value, open_to_others
from hub.secrets.values import SecretError
from hub.secrets.waiting import ReadingScope


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


AT_ONCE = 8
"""Number of children whose secrets are read at the same time."""

log = structlog.stdlib.get_logger(__name__)


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
