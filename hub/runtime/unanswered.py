"""What to say of a call that its child did not answer."""

from __future__ import annotations

from hub.core.errors import ChildError
from hub.core.specs import ServerSpec
from hub.runtime.peer import GoneError, LostError, SilentError


def unanswered(
    spec: ServerSpec, why: SilentError | LostError | GoneError, outlook: str
) -> ChildError:
    """Return the error for a call without an answer; `outlook` is what the hub does next."""
    name = spec.name
    match why:
        case SilentError():
            within = f"within {spec.timeout:g} s"
            return ChildError(
                f"server {name!r} did not answer {within}; the hub cancelled the call"
            )
        case LostError():
            return ChildError(
                f"server {name!r} gave no answer: {why}; the hub sends the next call as ever"
            )
        case GoneError():
            return ChildError(f"server {name!r} went away during the call: {why}; {outlook}")
