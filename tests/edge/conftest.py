"""What the edge's tests share."""

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(autouse=True)
def own_logs() -> Generator[None]:
    """Let a test that configures the log, as `main` does, change it for no other test."""
    root, hub = logging.getLogger(), logging.getLogger("hub")
    handlers, levels = root.handlers[:], (root.level, hub.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    hub.setLevel(levels[1])
