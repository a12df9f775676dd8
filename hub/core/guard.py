"""The decision: may this call reach its child?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass

from hub.core.paths import Flavour, LinkReader, PathError, collapse, parts_of, resolve
from hub.core.policy import Mode, ToolPolicy
from hub.core.roots import RootSet
from hub.core.uris import UriError, path_from_uri
from hub.core.values import Call, Json, JsonObject
from hub.core.vocabulary import FLOOR_WORDS

_TOKEN = object()
_OUTSIDE = "outside the allowed roots boundaries"


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that does not reach its child: the argument, its path as the client wrote it, why."""

    pointer: str
    path: str
    reason: str
    roots: tuple[str, ...]

    def message(self) -> str:
        """Return the one line that a client (and the model behind it) reads."""
        if self.reason != _OUTSIDE:
            return f"Access denied: {self.reason}"
        path = _one_line(self.path)
        return (
            f"Access denied: Path '{path}' is {_OUTSIDE}. Current roots: {json.dumps(self.roots)}"
        )


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call that may reach its child, exactly as it is here. Only this module makes one.

    `would_refuse` is what enforcing would have said to a call that only `report` lets through.
    """

    call: Call
    would_refuse: Refused | None = None
    token: InitVar[object] = None

    def __post_init__(self, token: object) -> None:
        if token is not _TOKEN:
            raise TypeError("only the guard admits a call")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The world that one call is judged in: what its client shares and where its child runs.

    `enforcing` False: no roots are in force for this client; only the operator's refusals are.
    """

    roots: RootSet
    cwd: str | None
    env: Mapping[str, str]
    links: LinkReader
    flavour: Flavour
    enforcing: bool = True


@dataclass(frozen=True, slots=True)
class ToolGuard:
    """How the calls of one tool are judged: compiled once per schema and policy."""

    policy: ToolPolicy
    needs_write: bool


def compile_tool(schema: Json, *, read_only: bool, policy: ToolPolicy) -> ToolGuard:
    """Return the guard of a tool with this input schema; any JSON at all is a schema."""
    return ToolGuard(policy, (policy.access or ("read" if read_only else "write")) == "write")


def names_paths(guard: ToolGuard, arguments: JsonObject) -> bool:
    """Return whether anything in these arguments is judged, so that roots are needed."""
    if guard.policy.policy.mode is Mode.OFF:
        return False
    return any(True for _ in _claims(arguments, "", claimed=False))


def decide(call: Call, guard: ToolGuard, around: Surroundings) -> Admitted | Refused:
    """Return whether `call` may reach its child. Total: whatever goes wrong inside is a refusal."""
    policy = guard.policy.policy
    if policy.mode is Mode.OFF:
        return Admitted(call, token=_TOKEN)
    try:
        refused = _refusal(call, guard, around)
    except Exception:  # noqa: BLE001 - deny on every doubt, our own mistakes included
        refused = Refused("", "", "the arguments could not be judged", around.roots.uris)
    if refused is None or policy.mode is Mode.REPORT:
        return Admitted(call, refused, token=_TOKEN)
    return refused


def decide_resource(call: Call, guard: ToolGuard, around: Surroundings) -> Admitted | Refused:
    """Return whether a resource may be read or subscribed to: by its `uri` alone."""
    return decide(call, guard, around)


def _refusal(call: Call, guard: ToolGuard, around: Surroundings) -> Refused | None:
    for pointer, value in _claims(call.arguments, "", claimed=False):
        reason = _objection(value, guard, around)
        if reason is not None:
            return Refused(pointer, value, reason, around.roots.uris)
    return None


def _claims(value: Json, pointer: str, *, claimed: bool) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if claimed or value.startswith("/") or "file://" in value:
            yield pointer, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            named = claimed or any(word in key.lower() for word in FLOOR_WORDS)
            yield from _claims(inner, f"{pointer}/{_escape(key)}", claimed=named)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _claims(inner, f"{pointer}/{index}", claimed=claimed)


def _objection(value: str, guard: ToolGuard, around: Surroundings) -> str | None:
    flavour, roots = around.flavour, around.roots
    try:
        path = path_from_uri(value, flavour) if value[:5].lower() == "file:" else value
        lexical = collapse(path, cwd=around.cwd, flavour=flavour)
        for reading in (path,) if lexical is None else (path, lexical):
            found = resolve(reading, cwd=around.cwd, links=around.links, flavour=flavour)
            parts = parts_of(found, flavour)
            root = roots.covers(parts)
            if root is None and around.enforcing:
                return _OUTSIDE
            policy = guard.policy.policy
            if policy.unsafe is not None and policy.unsafe.refuses(parts):
                return f"Path '{_one_line(value)}' is not safe for sharing"
            relative = parts[len(root.parts) :] if root is not None else parts
            if policy.deny.refuses(relative, folded=flavour is not Flavour.POSIX):
                return f"Path '{_one_line(value)}' is denied by the operator"
            if guard.needs_write and policy.access_at(parts) == "read":
                return f"Path '{_one_line(value)}' may only be read"
    except (PathError, UriError) as exc:
        return f"Path '{_one_line(value)}' is refused: {exc}" if around.enforcing else None
    return None


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:4096])
