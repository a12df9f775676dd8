"""Which changes would let a refused call pass. For the operator's eyes; a client is told of one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec import Struct

from hub.guard.containment import OUTSIDE
from hub.guard.decide import Refused
from hub.guard.own_files import OWN
from hub.guard.policy import DenyPatterns
from hub.paths.resolve import Flavour, LinkReader, is_inside, parts_of
from hub.roots.effective import EffectiveRoots
from hub.roots.roots import RootSet
from hub.sessions.session import Session
from hub.specs import ServerSpec
from hub.values import Call, Json

CLIENT: Final = "client"
"""The key of a change that the client's user makes: one more shared folder."""
_SETTINGS: Final = {
    "it is not safe for sharing": ("roots.allow_unsafe", True),
    "symbolic links are not followed here": ("guard.symlinks", "follow"),
    "a revision must not begin with '-': the program would read it as an option": (
        "guard.refuse_options",
        False,
    ),
}
"""The settings that lift a reason; those of the guard are the server's own."""
_OF_PROFILES: Final = frozenset({"roots.ceiling", "roots.access", "roots.deny"})
"""Keys that a profile has, too."""
READ_ONLY: Final = "it is read-only"


class Change(Struct, frozen=True):
    """One change. `key` is a key of hub.yaml, `--root`, `HUB_ROOTS`, or `CLIENT`."""

    key: str
    op: Literal["add", "set", "remove"]
    value: Json

    @property
    def text(self) -> str:
        """The change as one line."""
        if self.key == CLIENT:
            return f"the client has to share {self.value}, or a folder around it"
        if "." not in self.key:
            return f"{self.key}: add {self.value}"
        return f"{self.key}: {self.op} {json.dumps(self.value)}"


class Circumstances(Struct, frozen=True):
    """What a call was refused under.

    `effective` are the roots before they are cut to the server's own `spec.ceiling`. `announced`
    are what the client shares; None if it shares none. `has_config` False: the folders of the
    command line are the ceiling. `has_file` False: no file has the server's keys, as with `wrap`.
    `profile` is the client's, if it has one: its rules are among those that refuse. `no_overlap`
    says why no path is admitted, if roots and the server's own directories do not overlap, and, as
    the only change that a client is told, the key that lets the roots stand in for these.
    """

    spec: ServerSpec
    effective: EffectiveRoots
    ceiling: RootSet | None
    announced: RootSet | None
    has_config: bool
    links: LinkReader
    flavour: Flavour
    has_file: bool = True
    profile: str | None = None
    no_overlap: str | None = None

    @staticmethod
    def of(
        session: Session, spec: ServerSpec, effective: EffectiveRoots, here: EffectiveRoots
    ) -> Circumstances:
        """Return the circumstances of a client's calls at a server, where `here` is in force."""
        services, last = session.services, session.roots.state.last
        machine, has_file = services.machine, services.config_file.state.file is not None
        return Circumstances(
            spec=spec,
            effective=effective,
            ceiling=services.operator.ceiling,
            announced=None if last is None else last.announcement.roots,
            has_config=services.has_config,
            links=machine.links,
            flavour=machine.flavour,
            has_file=has_file,
            profile=services.profile,
            no_overlap=_no_overlap(spec, effective.roots, here.roots, has_file=has_file),
        )


def _no_overlap(spec: ServerSpec, roots: RootSet, here: RootSet, *, has_file: bool) -> str | None:
    if spec.ceiling is None or here.roots or not roots.roots:
        return None
    own = ", ".join(spec.ceiling.paths)
    why = (
        f"the client's roots ({', '.join(roots.paths)}) and the directories that "
        f"server {spec.name!r} is started with ({own}) do not overlap"
    )
    if not has_file:
        return why
    return f"{why}; with {_args_key(spec)}: replace, the roots stand in for the directories"


def _args_key(spec: ServerSpec) -> str:
    return f"servers.{spec.name}.roots.args"


def allowed_by(refused: Refused, call: Call, at: Circumstances) -> str:
    """Return what would lift a refusal, for the log; a client's profile may be where its key is."""
    places = () if refused.leads_to is None else (refused.leads_to,)
    changes = changes_for(refused, call, at, places)
    told = "; ".join(one.text for one in changes) or "nothing that is known"
    if at.profile is None or _OF_PROFILES.isdisjoint(one.key for one in changes):
        return told
    return f"{told}; or the same below profiles.{at.profile}"


def changes_for(
    refused: Refused, call: Call, at: Circumstances, places: Iterable[str]
) -> tuple[Change, ...]:
    """Return the changes that lift this refusal; none if nothing lifts it, or nothing is known.

    `places` are the paths, links followed, that the refused value leads to. After the changes the
    guard may have another reason to refuse the call.
    """
    if refused.reason == OWN:
        return ()
    if refused.reason == OUTSIDE:
        found = [change for place in places for change in _into_roots(place, at)]
    elif refused.reason in _SETTINGS:
        key, value = _SETTINGS[refused.reason]
        key = f"servers.{at.spec.name}.{key}" if key.startswith("guard.") else key
        found = [Change(key, "set", value)]
    elif refused.reason == READ_ONLY:
        found = [
            Change("roots.access", "add", {"path": place, "access": "write"}) for place in places
        ]
    elif refused.reason.endswith("deny patterns"):
        found = [change for place in places for change in _undenied(place, at)]
    else:
        found = _unread(refused, call, at)
    if not at.has_config and any("." in one.key for one in found):
        return ()  # without a config only the command line can be changed
    return tuple(one for index, one in enumerate(found) if one not in found[:index])


def _unread(refused: Refused, call: Call, at: Circumstances) -> list[Change]:
    """Return the change for a value that cannot be read as a path: it is said to be none."""
    if call.method != "tools/call" or not refused.pointer:
        return []
    key = f"servers.{at.spec.name}.tools.overrides.{call.name}.arguments"
    return [Change(key, "add", {refused.pointer: "ignore"})]


def _into_roots(place: str, at: Circumstances) -> Iterator[Change]:
    """Yield the changes that bring `place` inside of all roots that bound the call."""
    folder, own_files = _folder_of(place, at), at.spec.policy.own
    if folder is None:
        return
    inner, parts = parts_of(place, at.flavour), parts_of(folder, at.flavour)
    if own_files is not None and any(is_inside(inner, one.parts) for one in own_files.secret):
        return
    yield from _shared(folder, parts, at)
    if at.ceiling is not None and at.ceiling.covers(parts) is None:
        yield Change("roots.ceiling" if at.has_config else "--root", "add", folder)
    own = at.spec.ceiling
    if own is not None and own.covers(parts) is None:
        yield _beside(own, folder, at)
    unsafe = at.spec.policy.unsafe
    if unsafe is not None and unsafe.refuses(inner):
        yield Change("roots.allow_unsafe", "set", True)


def _shared(folder: str, parts: tuple[str, ...], at: Circumstances) -> Iterator[Change]:
    """Yield the changes that add `folder` to the client's roots, or to the fallback."""
    source, here = at.effective.source, at.effective.roots
    if at.announced is not None:
        if at.announced.covers(parts) is None:
            yield Change(CLIENT, "add", folder)
        elif at.effective.stale and not here.roots:
            yield Change("roots.strict", "set", False)
    elif not at.effective.enforcing or source == "ceiling" or here.covers(parts) is not None:
        return  # the ceilings are all that bounds the client
    elif source in {"--root", "HUB_ROOTS"}:
        yield Change(source, "add", folder)
    else:
        # A detected project counts no more once there is a fallback.
        kept = here.paths if source == "detected" else ()
        yield from (Change("roots.fallback", "add", path) for path in (*kept, folder))


def _beside(own: RootSet, folder: str, at: Circumstances) -> Change:
    """Return what lets a server with directories in its arguments serve `folder`, too."""
    if not at.has_file:
        return Change("the server's own arguments", "add", folder)
    shared = at.announced
    if shared is not None and not shared.within(own).roots:
        return Change(_args_key(at.spec), "set", "replace")
    return Change(f"servers.{at.spec.name}.args", "add", folder)


def _undenied(place: str, at: Circumstances) -> Iterator[Change]:
    """Yield the removal of each pattern that matches `place` below a root."""
    parts = parts_of(place, at.flavour)
    roots = (*at.effective.roots.roots,)
    starts = [len(root.parts) for root in roots if root.covers(parts)] or [0]
    for line in at.spec.policy.deny.lines:
        pattern = DenyPatterns((line,))
        folded = at.flavour is not Flavour.POSIX
        if any(pattern.refuses(parts[start:], folded=folded) for start in starts):
            yield Change("roots.deny", "remove", line)


def _folder_of(place: str, at: Circumstances) -> str | None:
    """Return the folder that has to be shared for `place`: itself, or the nearest one above it.

    At the top of the file system that is the file alone; None if there is none.
    """
    path = place
    while True:
        entry = at.links.entry(path)
        if entry is not None and entry.kind == "directory":
            break
        above = os.path.dirname(path)  # noqa: PTH120 - text
        if above == path:
            return None
        path = above
    if parts_of(path, at.flavour):
        return path
    return place if at.links.entry(place) is not None and place != path else None
