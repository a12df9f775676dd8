"""What the tests of the guard share."""

import faulthandler
import signal
from collections.abc import Generator

import pytest


@pytest.fixture
def half_a_minute() -> Generator[None]:
    """End the test's process if the test takes more of a processor, even in a loop in C.

    On a busy machine it may take as long as it likes.
    """
    faulthandler.register(signal.SIGVTALRM, chain=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, 30)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    faulthandler.unregister(signal.SIGVTALRM)
