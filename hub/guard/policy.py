"""What the operator decided: modes, rights per root, patterns that are never reached."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OwnFiles
from hub.paths.resolve import is_inside
from hub.roots.roots import UnsafePaths

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Access: TypeAlias = Literal["read", "write"]


class Mode(Enum):
    """What a refusal does."""

    ENFORCE = "enforce"
    """The call does not reach the child."""
    REPORT = "report"
    """The call goes on and the refusal is recorded."""
    OFF = "off"
    """Nothing is judged, but for what is the hub's own."""


class AccessRule(Struct, frozen=True):
    """At and below the place `parts`, tools may do no more than `access`."""

    parts: tuple[str, ...]
    access: Access


class DenyPatterns:
    """Gitignore patterns, relative to a root, for paths that no call reaches.

    As with git, a pattern with `!` cannot bring back what lies in a denied directory.

    Raises:
        ValueError: a pattern that gitignore does not have.
    """

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self.lines = lines
        self._spec: GitIgnoreSpec | None = None
        self._folded: GitIgnoreSpec | None = None
        self.brings_back = False
        if lines:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 - takes time, and most need it not

            self._spec = GitIgnoreSpec.from_lines(lines)
            self._folded = GitIgnoreSpec.from_lines(map(str.casefold, lines))
            self.brings_back = any(one.include is False for one in self._spec.patterns)

    def refuses(self, relative: tuple[str, ...], *, folded: bool) -> bool:
        """Return whether the components below a root match; `folded`: names there have no case."""
        spec = self._folded if folded else self._spec
        if spec is None:
            return False
        path = "/".join(relative)
        if folded:
            path = path.casefold()
        # A pattern that ends in a slash matches directories only: the path may be one.
        if spec.match_file(path) or spec.match_file(path + "/"):
            return True
        ends = [at + 1 for at, sign in enumerate(path) if sign == "/"] if self.brings_back else []
        return any(spec.match_file(path[:end]) for end in ends)

    def effort(self, depth: int) -> int:
        """Return what it takes to ask about a path of so many components."""
        return len(self.lines) * (depth if self.brings_back else 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DenyPatterns) and other.lines == self.lines

    def __hash__(self) -> int:
        return hash(self.lines)

    def __bool__(self) -> bool:
        return self._spec is not None


class Policy(Struct, frozen=True):
    """An operator's decisions for a server; the default enforces and adds nothing.

    `unsafe` None lifts the built-in list. `refuse_options`: no leading `-` where a revision goes.
    `on_refused`: whether the client's user may let a path outside of the roots pass. `paths`:
    whether absolute paths are those of this machine; `file:` URIs always are. `own` are the hub's
    own files, which no mode and no consent opens.
    """

    mode: Mode = Mode.ENFORCE
    access: tuple[AccessRule, ...] = ()
    deny: DenyPatterns = field(default_factory=DenyPatterns)
    unsafe: UnsafePaths | None = None
    symlinks: Literal["follow", "deny"] = "follow"
    rewrite: Literal["verbatim", "canonical"] = "verbatim"
    refuse_options: bool = False
    on_refused: Literal["refuse", "ask"] = "refuse"
    paths: Literal["local", "remote"] = "local"
    own: OwnFiles | None = None

    def access_at(self, parts: tuple[str, ...]) -> Access:
        """Return what the innermost rule around `parts` allows; without one, everything."""
        context = [rule for rule in self.access if is_inside(parts, rule.parts)]
        return max(context, key=lambda rule: len(rule.parts)).access if context else "write"


class ToolPolicy(Struct, frozen=True):
    """A server's policy and what its operator says about one tool.

    `arguments` maps JSON pointers (`*` stands for any index or key) to the kind of what is there.
    `access` is what the tool needs, whatever its annotations claim.
    """

    policy: Policy = field(default_factory=Policy)
    arguments: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    access: Access | None = None
