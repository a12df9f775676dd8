"""Room for another child: how many may run at once, and which of them is missed least."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from msgspec import Struct

from hub.children.slot import Place
from hub.errors import ChildError
from hub.values import ServerName


class Room(Struct, frozen=True):
    """How many children may run: `in_all`, and `per_session` of those that one session uses."""

    in_all: int
    per_session: int

    def made_for(self, place: Place, running: Iterable[Place]) -> list[Place]:
        """Return which of the children `running` have to end before that of `place` starts.

        There must be room with each session that waits for it: that makes room with what it alone
        uses. Then there must be room in all, which a child of nobody's makes, else the idlest.

        Raises: ChildError if all that could make room are at work; nobody needs to end then.
        """
        name, left, ended = place.spec.name, list(running), list[Place]()
        for session in place.lessees:
            own = [other for other in left if other.is_used_by(session)]
            if len(own) >= self.per_session:
                alone = [other for other in own if other.lessees.keys() <= {session}]
                spare = _least_missed(alone) or _full(
                    name,
                    f"this session uses {len(own)} children",
                    f"max_children_per_session: {self.per_session}",
                )
                left.remove(spare)
                ended.append(spare)
        if len(left) >= self.in_all:
            full = f"{len(left)} children run", f"max_children: {self.in_all}"
            ended.append(_least_missed(left) or _full(name, *full))
        return ended


def _least_missed(among: Iterable[Place]) -> Place | None:
    """Return whose child is missed least; None if all are at work."""
    idle = (other for other in among if other.is_idle)
    return min(idle, key=lambda other: (bool(other.lessees), other.used_at), default=None)


def _full(name: ServerName, how_many: str, knob: str) -> NoReturn:
    raise ChildError(
        f"server {name!r} is not started: {how_many} already, and all are at work ({knob})"
    )
