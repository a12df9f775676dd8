"""Limits on running children: which idle ones end so that another can start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from msgspec import Struct

from hub.children.slot import ChildSlot
from hub.errors import ChildError
from hub.usage.principals import UsageLimits
from hub.values import ServerName, principal_in


class ChildLimits(Struct, frozen=True):
    """Limits on running children: `in_all`, and `per_session` for those that one session uses."""

    in_all: int
    per_session: int

    def made_for(
        self, slot: ChildSlot, running: Iterable[ChildSlot], limits: Iterable[UsageLimits] = ()
    ) -> list[ChildSlot]:
        """Return the children in `running` that must end before the child of `slot` starts.

        `limits` are those of the principal that it is for, in its profile and in all; for each of
        them an idle child of that principal, there or anywhere, makes room. Then each session that
        waits for it must be below its limit: a child that no other session uses makes room. Then
        the total must be below its limit: an unused child makes room, else the one that was used
        least recently. Only idle children are returned.

        Raises: ChildError if every child that could make room is busy; then none needs to end.
        """
        left, ended = list(running), list[ChildSlot]()

        def make_room(among: Iterable[ChildSlot], how_many: str, knob: str) -> None:
            spare = _least_missed(among) or _full(slot.spec.name, how_many, knob)
            left.remove(spare)
            ended.append(spare)

        principal = principal_in(slot.key.principal)
        for one in limits:
            its = [other for other in left if other.is_of(principal, one.profile)]
            if one.children is not None and len(its) >= one.children:
                knob = f"{one.key}.children: {one.children}; call it again when one has ended"
                make_room(its, f"{principal} uses {len(its)} children", knob)
        for session in slot.users:
            own = [other for other in left if other.is_used_by(session)]
            if len(own) >= self.per_session:
                alone = [other for other in own if other.users.keys() <= {session}]
                knob = f"max_children_per_session: {self.per_session}"
                make_room(alone, f"this session uses {len(own)} children", knob)
        if len(left) >= self.in_all:
            make_room(left, f"{len(left)} children run", f"max_children: {self.in_all}")
        return ended


def _least_missed(among: Iterable[ChildSlot]) -> ChildSlot | None:
    """Return the slot of the idle child to end first; None if there is none.

    First those that nobody uses, then those that keep nothing for one client, then the others; of
    each kind the one that was used least recently.
    """
    idle = (other for other in among if other.is_idle)
    return min(idle, key=_how_missed, default=None)


def _how_missed(slot: ChildSlot) -> tuple[bool, bool, float]:
    is_owned = slot.key.session is not None
    return is_owned or bool(slot.users), is_owned, slot.used_at


def _full(name: ServerName, how_many: str, knob: str) -> NoReturn:
    raise ChildError(
        f"server {name!r} is not started: {how_many} already, and all of them serve calls ({knob})"
    )
