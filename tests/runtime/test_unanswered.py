from __future__ import annotations

import pytest

from hub.core.protocol import INTERNAL_ERROR
from hub.runtime.peer import GoneError, LostError, SilentError
from hub.runtime.unanswered import unanswered
from tests.runtime.rigs import remote


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            SilentError("late"),
            "server 'files' did not answer within 300 s; the hub cancelled the call",
        ),
        (
            LostError(INTERNAL_ERROR, "it broke off"),
            "server 'files' gave no answer: it broke off; the hub sends the next call as ever",
        ),
        (
            GoneError("exited with code 1"),
            "server 'files' went away during the call: exited with code 1; the next call starts it",
        ),
    ],
)
def test_it_says_which_server_what_happened_and_what_the_hub_does_next(
    why: SilentError | LostError | GoneError, said: str
) -> None:
    assert str(unanswered(remote("files"), why, "the next call starts it")) == said
