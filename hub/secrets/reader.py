"""Reads the secrets of children at their launch, in threads, and warns of what others can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog
from anyio import CapacityLimiter, to_thread

from hub.errors import ChildError
from hub.launch.secret_references import FileSecret, SecretText
from hub.secrets.files import open_to_others
from hub.secrets.reading import text_value
from hub.secrets.values import SecretError
from hub.secrets.waiting import ReadingScope

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
