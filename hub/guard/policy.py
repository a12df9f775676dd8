"""The operator's policy: guard modes, read and write access, deny patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import comb
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from hub.guard.keys.vocabulary import Kind
from hub.guard.own_files import OwnFiles
from hub.paths.resolve import Entry, Flavour, LinkReader, PathError, is_inside, parts_of
from hub.roots.roots import RootSet, UnsafePaths

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Access: TypeAlias = Literal["read", "write"]

_STEPS = 20
"""So many steps of a regular expression take a microsecond, or less."""


class Mode(Enum):
    """What a refusal does."""

    ENFORCE = "enforce"
    """The call does not reach the child."""
    REPORT = "report"
    """The call reaches the child, and the refusal is recorded."""
    OFF = "off"
    """Nothing is judged, except whether the call reaches the hub's own files."""


class AccessRule(Struct, frozen=True):
    """At and below the path with the components `parts`, tools have no more than `access`."""

    parts: tuple[str, ...]
    access: Access


class DenyPatterns:
    """Gitignore patterns, relative to a root, for paths that no call may reach.

    As in git, a pattern with `!` cannot bring back a path that lies in a denied directory.

    Raises:
        ValueError: a line is no gitignore pattern.
    """

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self.lines = lines
        self._spec: GitIgnoreSpec | None = None
        self._folded: GitIgnoreSpec | None = None
        self.brings_back = False
        self._wildcards = tuple(map(_wildcards_in, lines))
        if lines:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 - slow, and seldom needed

            self._spec = GitIgnoreSpec.from_lines(lines)
            self._folded = GitIgnoreSpec.from_lines(map(str.casefold, lines))
            self.brings_back = any(one.include is False for one in self._spec.patterns)

    def refuses(self, relative: tuple[str, ...], *, folded: bool) -> bool:
        """Return whether the components below a root match; `folded` ignores their case."""
        spec = self._folded if folded else self._spec
        if spec is None:
            return False
        path = "/".join(relative)
        if folded:
            path = path.casefold()
        # A pattern that ends in a slash matches directories only: the path may be a directory.
        if spec.match_file(path) or spec.match_file(path + "/"):
            return True
        ends = [at + 1 for at, sign in enumerate(path) if sign == "/"] if self.brings_back else []
        return any(spec.match_file(path[:end]) for end in ends)

    def effort(self, parts: tuple[str, ...]) -> int:
        """Return the effort of `refuses` for a path, or more, in microseconds.

        Patterns become regular expressions, which try one way after the other in which their
        wildcards may match. The ways are counted here as if each was tried.
        """
        depth, longest = len(parts), max(map(len, parts), default=0)
        length = sum(map(len, parts)) + depth
        ways = sum(
            comb(depth + deep, max(deep - 1, 0)) * comb(longest + stars, max(stars - 1, 0))
            for deep, stars in self._wildcards
        )
        matched = len(self.lines) + length * ways // _STEPS
        return matched * (depth if self.brings_back else 1)

    @property
    def is_slow(self) -> bool:
        """Whether some pattern may try very many ways to match a long path."""
        return any(deep > 1 or stars > 1 for deep, stars in self._wildcards)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DenyPatterns) and other.lines == self.lines

    def __hash__(self) -> int:
        return hash(self.lines)


def _wildcards_in(line: str) -> tuple[int, int]:
    """Return how many wildcards of a gitignore line span directories, and the most in one name."""
    names = line.strip().strip("/").split("/")
    deep = names.count("**") + (len(names) == 1)  # a single name is sought in all directories
    return deep, max((name.count("*") for name in names if name != "**"), default=0)


class Policy(Struct, frozen=True):
    """The operator's settings for one server; the default enforces the roots and nothing more.

    `unsafe` None: no place is unsafe. `refuse_options`: no revision may start with `-`.
    `on_refused`: whether the client's user may be asked to allow a path outside the roots.
    `paths`: whether absolute paths are paths of this machine; `file:` URIs always are. `own` are
    the hub's own files, which no mode and no consent opens.
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
        """Return the access that the innermost rule for `parts` allows; without a rule, "write"."""
        rules = [rule for rule in self.access if is_inside(parts, rule.parts)]
        return max(rules, key=lambda rule: len(rule.parts)).access if rules else "write"

    def keeps(self, parts: tuple[str, ...], *, whole: bool) -> bool:
        """Return whether no tool may write at `parts`; `whole`: it acts on all that is below."""
        if self.access_at(parts) == "read":
            return True
        below = (rule for rule in self.access if whole and is_inside(rule.parts, parts))
        return any(rule.access == "read" for rule in below)


class ToolPolicy(Struct, frozen=True):
    """A server's policy, and the operator's settings for one of its tools.

    `arguments` maps JSON pointers (`*` stands for any index or key) to the kind of argument there.
    `access` is what the tool needs; it overrides the tool's annotations.
    """

    policy: Policy = field(default_factory=Policy)
    arguments: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    access: Access | None = None


class NoLinksBelow(LinkReader):
    """A disk on which links below a root raise `PathError`."""

    def __init__(self, links: LinkReader, roots: RootSet, flavour: Flavour) -> None:
        self._links = links
        self._roots = roots
        self._flavour = flavour

    def entry(self, path: str) -> Entry | None:
        found = self._links.entry(path)
        if found is None or found.kind != "link":
            return found
        if self._roots.covers(parts_of(path, self._flavour)) is not None:
            raise PathError("symbolic links are not followed here")
        return found

    def target(self, path: str) -> str:
        return self._links.target(path)

    def names(self, path: str) -> Sequence[str]:
        return self._links.names(path)

    def can_write(self, path: str) -> bool:
        return self._links.can_write(path)
