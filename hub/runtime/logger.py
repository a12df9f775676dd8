"""What the hub says of itself: an event in words, and the fields that say of whom and of what."""

from __future__ import annotations

import logging


class Logger:
    """Says what happens in one module. Where that goes, and in which form, the edge decides."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, *, exc_info: BaseException | None = None, **fields: object) -> None:
        self._say(logging.DEBUG, event, fields, exc_info)

    def info(self, event: str, **fields: object) -> None:
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._say(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the exception that is being handled."""
        self._say(logging.ERROR, event, fields, True)

    def _say(
        self,
        level: int,
        event: str,
        fields: dict[str, object],
        exc_info: BaseException | bool | None = None,
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, exc_info=exc_info, extra={"fields": fields})


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the fields that a record was logged with; a library's has none."""
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields
