"""What the hub logs while a test looks."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from hub.runtime.logger import fields_of


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = {"event": record.getMessage(), "log_level": record.levelname.lower()}
        self.entries.append({**fields_of(record), **said})


@contextmanager
def capture_logs() -> Generator[list[dict[str, Any]]]:
    """Give what the hub logs at any level, which goes nowhere else meanwhile."""
    logger, kept = logging.getLogger("hub"), _Kept()
    before = logger.level, logger.propagate
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield kept.entries
    finally:
        logger.removeHandler(kept)
        logger.setLevel(before[0])
        logger.propagate = before[1]
