"""Many sessions that call at once, waited for in one place: the kernel."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Any

from bench.piped import WrongAnswerError, checked
from bench.posting import IDS, TIMEOUT, Session, message_in


class Flood:
    """One call of each session under way at any time."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = sessions
        self._by_file: dict[int, Session] = {}
        self._bodies: list[bytes] = []
        self._sent = IDS

    @property
    def answered(self) -> int:
        """How many calls were answered."""
        return len(self._bodies)

    def run(self, params: dict[str, Any], seconds: float) -> float:
        """Call for `seconds`; return how many calls were answered per second.

        Raises: WrongAnswerError.
        """
        for session in self._sessions:
            session.prepare(params)
        self._by_file = {file: session for session in self._sessions for file in session.files()}
        with select.epoll() as poll:
            for file in self._by_file:
                poll.register(file, select.EPOLLIN)
            began = time.perf_counter()
            for session in self._sessions:
                self._call(session)
            until, waiting = began + seconds, len(self._sessions)
            while waiting:
                events = poll.poll(TIMEOUT)
                if not events:
                    raise WrongAnswerError(f"{waiting} calls without an answer")
                running = time.perf_counter() < until
                waiting -= sum(self._take(file, running) for file, _ in events)
            elapsed = time.perf_counter() - began
        checked([message_in(body) for body in self._bodies], range(IDS, self._sent))
        return (self._sent - IDS) / elapsed

    def _call(self, session: Session) -> None:
        session.call(self._sent)
        self._sent += 1

    def _take(self, file: int, again: bool) -> int:
        """Take what came; return how many sessions have no call under way any more."""
        session = self._by_file[file]
        found = session.arrived(file)
        if not found:
            return 0
        self._bodies += found
        if again:
            self._call(session)
            return 0
        return 1
