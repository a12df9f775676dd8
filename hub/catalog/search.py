"""Search in the children's tools (`expose: search`): patterns, summaries, hints on wrong names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hub.catalog.merge import Catalog, Listing, Offer, merge
from hub.catalog.names import Names, spelled
from hub.errors import RouteError
from hub.legible import legible_entry
from hub.values import ChildRoute, Json, JsonObject, ServerName

Expose: TypeAlias = Literal["tools", "search"]
"""The key `expose`: clients see the children's tools, or meta tools to find and call them."""

SearchIn: TypeAlias = Literal["name", "description", "both"]

MAX_PATTERN: Final = 200
MAX_WORDS: Final = 16
"""Words of a pattern, in all alternatives: each is looked for in each tool, as others wait."""
SYNTAX: Final = (
    "Words separated by spaces must all occur, in any order; * stands for any characters; "
    "| separates alternatives. No regular expressions."
)

_LOOKED_AT: Final = 2000
"""How many characters of each text of a tool are searched."""
_SUMMARY: Final = 120
_NAME: Final = 100
_NEAR: Final = 3
_ALIKE: Final = 0.6
"""How similar a name must be to be suggested, as `difflib` measures it."""
_COMPARED, _COMPARED_WELL = 1000, 20
"""How many names are compared, those with the same start first; and how many of them exactly,
which takes a hundred times as long."""
_START: Final = 2
_PART: Final = 3
"""Minimum length of a common part for a name to be suggested."""


class SearchError(RouteError):
    """Unknown server or tool, or wrong arguments. The text tells a model what to do."""


class Pattern(Struct, frozen=True):
    """A search pattern: alternatives, each a list of words, each word split at its `*`.

    A search takes at most time proportional to pattern length times text length: a client's pattern
    never becomes a regular expression.
    """

    alternatives: tuple[tuple[tuple[str, ...], ...], ...]
    search_in: SearchIn = "both"
    case_sensitive: bool = False

    @classmethod
    def parse(
        cls, text: str, *, search_in: SearchIn = "both", case_sensitive: bool = False
    ) -> Pattern:
        """Return the pattern that `text` spells. Raises: SearchError if it is empty or too long."""
        if len(text) > MAX_PATTERN:
            raise SearchError(f"The pattern is too long: at most {MAX_PATTERN} characters")
        # In a regular expression, the usual part is `.*`.
        spelled = (text if case_sensitive else text.casefold()).replace(".*", "*")
        words = (dict.fromkeys(alternative.split()) for alternative in spelled.split("|"))
        found = dict.fromkeys(tuple(tuple(word.split("*")) for word in one) for one in words if one)
        alternatives = tuple(found)
        if not alternatives:
            raise SearchError(f"The pattern is empty. {SYNTAX}")
        if sum(map(len, alternatives)) > MAX_WORDS:
            raise SearchError(f"The pattern has too many words: at most {MAX_WORDS}")
        return cls(alternatives, search_in, case_sensitive)

    def matches(self, tool: Mapping[str, Json]) -> bool:
        """Return whether the searched texts of a tool match."""
        text = self._text(tool)
        return any(all(_occurs(word, text) for word in words) for words in self.alternatives)

    def _text(self, tool: Mapping[str, Json]) -> str:
        keys = {"name": ("name",), "description": ("title", "description")}
        searched = keys.get(self.search_in) or (*keys["name"], *keys["description"])
        values = (tool.get(key) for key in searched)
        text = "\n".join(value[:_LOOKED_AT] for value in values if isinstance(value, str))
        return text if self.case_sensitive else text.casefold()


def _occurs(word: tuple[str, ...], text: str) -> bool:
    """Return whether the parts of a word occur in this order, with anything in between."""
    start = 0
    for part in word:
        found = text.find(part, start)
        if found < 0:
            return False
        start = found + len(part)
    return True


def search_catalog(
    listings: Mapping[ServerName, Listing],
    *,
    names: Names,
    offers: Mapping[ServerName, Offer],
    builtins: Sequence[JsonObject],
) -> Catalog:
    """Return a catalog whose only public tools are the hub's own (`builtins`).

    The children's tools are in `own_tools`. A server without a listing is missing there.
    """
    toolless = {server: replace(listing, tools=()) for server, listing in listings.items()}
    own = {
        server: _offered(server, listings[server], offers.get(server, Offer()))
        for server in names.servers
        if server in listings
    }
    return replace(merge(toolless, names=names, builtins=builtins), own_tools=own)


def _offered(server: ServerName, listing: Listing, offer: Offer) -> dict[str, ChildRoute]:
    found: dict[str, ChildRoute] = {}
    for tool in listing.tools:
        name = tool.get("name")
        if isinstance(name, str) and offer.includes(name):
            shown = spelled(name)
            entry = legible_entry(tool) if shown == name else {**legible_entry(tool), "name": shown}
            found.setdefault(shown, ChildRoute(server, name, entry))
    return found


def summary(tool: Mapping[str, Json]) -> JsonObject:
    """Return a tool's name and the start of the first line of its description, or else title."""
    text = tool.get("description") or tool.get("title")
    line = text.strip().partition("\n")[0].strip() if isinstance(text, str) else ""
    if len(line) > _SUMMARY:
        line = line[: _SUMMARY - 1].rstrip() + "…"
    return {"toolName": tool.get("name"), **({"description": line} if line else {})}


def tools_of(catalog: Catalog, server: ServerName) -> Mapping[str, ChildRoute]:
    """Return the tools of a server that clients may use, by the server's own names.

    Raises: SearchError if the server does not exist, or its tools are not known yet.
    """
    if server not in catalog.servers:
        hint = _meant(near(server, catalog.servers)) or "list-servers shows the servers"
        raise SearchError(f"Unknown server {_shown(server)} ({hint})")
    tools = catalog.own_tools.get(server)
    if tools is None:
        raise SearchError(f"The tools of server {server!r} are not known")
    return tools


def tool_of(catalog: Catalog, server: ServerName, name: str) -> ChildRoute:
    """Return the route to the tool `name` of a server. Raises: SearchError if there is none."""
    tools = tools_of(catalog, server)
    route = tools.get(name)
    if route is None:
        others = [one for one, theirs in catalog.own_tools.items() if name in theirs]
        hint = f"server {_listed(others)} has it" if others else _meant(near(name, tools))
        unknown = f"Unknown tool {_shown(name)} of server {server!r}"
        raise SearchError(f"{unknown} ({hint or 'find-tools shows its tools'})")
    return route


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most 3 names of `known` that are similar to `name`."""
    wanted = name[:_NAME].casefold()
    folded = {one[:_NAME].casefold(): one for one in known}
    within = [one for one in folded if _holds(one, wanted) or _holds(wanted, one)]
    found = dict.fromkeys([*_alike(wanted, folded), *within])
    return [folded[one] for one in found][:_NEAR]


def _alike(wanted: str, names: Iterable[str]) -> list[str]:
    """Return at most 3 similar names, the most similar first."""
    start = wanted[:_START]
    compared = sorted(names, key=lambda one: not one.startswith(start))[:_COMPARED]
    matcher = SequenceMatcher(b=wanted)

    def upper_bound(name: str) -> float:
        matcher.set_seq1(name)
        return matcher.quick_ratio() if matcher.real_quick_ratio() >= _ALIKE else 0.0

    def ratio(name: str) -> float:
        matcher.set_seq1(name)
        return matcher.ratio()

    candidates = nlargest(_COMPARED_WELL, ((upper_bound(one), one) for one in compared))
    exact = [(ratio(one), one) for bound, one in candidates if bound >= _ALIKE]
    return [one for found, one in nlargest(_NEAR, exact) if found >= _ALIKE]


def _holds(name: str, part: str) -> bool:
    return len(part) >= _PART and part in name


def _meant(names: Sequence[str]) -> str:
    return f"did you mean {_listed(names)}?" if names else ""


def _listed(names: Sequence[str]) -> str:
    return " or ".join(_shown(name) for name in names[:_NEAR])


def _shown(name: str) -> str:
    return repr(name if len(name) <= _NAME else name[:_NAME] + "…")
