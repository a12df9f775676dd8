"""What is tighter, for lists of folders: the fallback and the ceiling of roots, and grants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from hub.config.models import FallbackRoot, Roots
from hub.config.reload.orders import Locate, tighter_by_key
from hub.guard.policy import DenyPatterns
from hub.paths.resolve import is_inside


def covered(paths: Sequence[str], tops: Sequence[str], locate: Locate) -> list[str]:
    """Return the paths that are among `tops` or below them, links followed."""
    return [path for path in paths if path in tops or is_below(path, tops, locate)]


def is_below(path: str, tops: Sequence[str], locate: Locate) -> bool:
    """Return whether a path is at or below one of `tops`, links followed."""
    parts = locate(path)
    places = map(locate, tops)
    return parts is not None and any(top is not None and is_inside(parts, top) for top in places)


def shared_paths(old: Sequence[str], new: Sequence[str], locate: Locate) -> tuple[str, ...]:
    """Return the paths of both lists that are at or below paths of the other."""
    found = covered(new, old, locate)
    if len(found) < len(new):
        found += [path for path in covered(old, new, locate) if path not in found]
    return tuple(found)


def _shared_roots(
    old: Sequence[str], new: Sequence[str], deny: Sequence[str], locate: Locate
) -> tuple[str, ...]:
    """Return the folders that both lists grant; `old`, if `deny` might deny less in them then."""
    shared = shared_paths(old, new, locate)
    gone = [path for path in old if path not in shared]
    for path in shared:
        # Of two folders, one in the other, patterns applied to both; from now on to one alone.
        nested = [one for one in gone if is_below(one, [path], locate)]
        nested += [path] if is_below(path, gone, locate) else []
        if not all(_denies_as_much(deny, one, locate) for one in nested):
            return tuple(old)
    return shared


def _denies_as_much(deny: Sequence[str], path: str, locate: Locate) -> bool:
    """Return whether patterns deny the same in a folder, be it a root itself or below a root.

    Patterns are relative to a root: `secret` denies nothing in a root with this name.
    """
    if not deny:
        return True
    parts = locate(path)
    if parts is None or not all(map(_is_of_names, deny)):
        return False
    patterns = DenyPatterns(tuple(deny))
    return not any(
        patterns.refuses(parts[start:], folded=folded)
        for start in range(len(parts))
        for folded in (False, True)
    )


def _is_of_names(line: str) -> bool:
    """Return whether a pattern is about names at any depth, and no exception."""
    name = line.strip().removeprefix("**/").removesuffix("/")
    return "/" not in name and not name.startswith("!")


def _tighter_ceiling(
    old: Roots, new: Roots, deny: Sequence[str], locate: Locate
) -> tuple[str, ...]:
    """Return the tighter ceiling of two; an empty list is no ceiling."""
    if not old.ceiling:
        # The clients' roots may lie above it.
        is_safe = all(_denies_as_much(deny, path, locate) for path in new.ceiling)
        return new.ceiling if is_safe else ()
    return _shared_roots(old.ceiling, new.ceiling, deny, locate) or old.ceiling


class _Fallback(Enum):
    """What clients without roots get."""

    UNSET = "what `when_missing` says"
    DETECTED = "the project around the hub's directory, else what `when_missing` says"
    DETECTED_OR_NOTHING = "the project around the hub's directory, else nothing"
    NOTHING = "nothing"
    LISTED = "folders"

    @staticmethod
    def of(roots: Roots) -> _Fallback:
        if roots.fallback:
            return _Fallback.LISTED
        is_set = "fallback" in roots.model_fields_set
        if roots.detect:
            return _Fallback.DETECTED_OR_NOTHING if is_set else _Fallback.DETECTED
        return _Fallback.NOTHING if is_set else _Fallback.UNSET


def tighter_roots(old: Roots, new: Roots, locate: Locate) -> Roots:
    """Return the tighter of two parts `roots`."""
    made = tighter_by_key(old, new, "roots")
    # All restrictions stay, so what is denied can only shrink by the patterns from before.
    deny = [line for line in old.deny if line in made.deny]
    made = made.model_copy(update={"ceiling": _tighter_ceiling(old, new, deny, locate)})
    before, after = _Fallback.of(old), _Fallback.of(new)
    if before is after is _Fallback.LISTED:
        entries = _shared_entries(old, new, deny, locate)
        return _granting(made, entries, detect=new.detect and bool(entries))
    # Where no project is found, the one with an empty list grants nothing.
    finds_no_more = before is _Fallback.DETECTED and after is _Fallback.DETECTED_OR_NOTHING
    is_tighter = before is after or after is _Fallback.NOTHING or finds_no_more
    return _like(made, new if is_tighter else old)


def _like(made: Roots, side: Roots) -> Roots:
    """Return `made` with the fallback of `side`."""
    if "fallback" in side.model_fields_set:
        return _granting(made, side.fallback, detect=side.detect)
    values = {key: getattr(made, key) for key in Roots.model_fields if key != "fallback"}
    return Roots.model_construct(None, **{**values, "detect": side.detect})


def _granting(made: Roots, entries: tuple[FallbackRoot, ...], *, detect: bool) -> Roots:
    # Set even if it is the default: an empty list grants nothing.
    return made.model_copy(update={"fallback": entries, "detect": detect})


def _shared_entries(
    old: Roots, new: Roots, deny: Sequence[str], locate: Locate
) -> tuple[FallbackRoot, ...]:
    if old.fallback == new.fallback:
        return new.fallback
    before, after = _by_path(old.fallback), _by_path(new.fallback)
    paths = _shared_roots([*before], [*after], deny, locate)
    return tuple(before.get(path) or after[path] for path in paths)


def _by_path(entries: Iterable[FallbackRoot]) -> dict[str, FallbackRoot]:
    found: dict[str, FallbackRoot] = {}
    for entry in entries:
        found.setdefault(entry.path, entry)
    return found
