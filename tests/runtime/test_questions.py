from __future__ import annotations

from hub.runtime.peer import Asked
from hub.runtime.questions import Question
from hub.runtime.waiting import UNSAID
from hub.runtime.wire import Request
from tests.fakes import RecordingOutlet


async def test_why_it_is_taken_back_is_what_the_child_says() -> None:
    asked = Asked(Request("q", "m", {}), RecordingOutlet())
    question = Question(asked)
    assert (question.reason, question.progress) == (UNSAID, None)
    asked.cancel("enough")
    assert question.reason == "enough"
