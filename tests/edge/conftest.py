"""What the edge's tests share."""

import logging
from collections.abc import Generator
from typing import Any

import pytest
import structlog


@pytest.fixture(autouse=True)
def own_logs(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Let a test that configures the log, as `main` does, change it for no other test."""
    root, hub, configure = logging.getLogger(), logging.getLogger("hub"), structlog.configure
    handlers, levels = root.handlers[:], (root.level, hub.level)

    def uncached(**options: Any) -> None:
        # A logger that was used once would keep what it was configured for.
        del options["cache_logger_on_first_use"]
        configure(**options)

    monkeypatch.setattr(structlog, "configure", uncached)
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        hub.setLevel(levels[1])
