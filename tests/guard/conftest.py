"""What the tests of the guard share."""

import faulthandler
from collections.abc import Generator

import pytest


@pytest.fixture
def half_a_minute() -> Generator[None]:
    """End the test's process if the test takes longer."""
    faulthandler.dump_traceback_later(30, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
