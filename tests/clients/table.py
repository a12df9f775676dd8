"""The table of what works with which client, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from tests.clients.features import FEATURES
from tests.clients.known import Packages
from tests.clients.trials import ClientAndTransport, Outcome

Found = Mapping[ClientAndTransport, Mapping[str, Outcome]]


def table(found: Found, packages: Packages) -> str:
    """Return the table and its notes."""
    notes: dict[str, int] = {}
    rows = [
        ["client", "era", "transport", *FEATURES],
        ["---"] * (3 + len(FEATURES)),
        *([*_head(pair, packages), *_cells(pair, found[pair], notes)] for pair in found),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *_listed(notes), ""])


def _listed(notes: Mapping[str, int]) -> list[str]:
    return [
        f"{number}. {note[0].upper()}{note[1:].removesuffix('.')}."
        for note, number in notes.items()
    ]


def _head(pair: ClientAndTransport, packages: Packages) -> list[str]:
    known = pair.known
    transport = pair.transport if known.through is None else f"stdio to {pair.transport}"
    return [f"{known.name} ({known.version(packages)})", known.era, transport]


def _cells(
    pair: ClientAndTransport, outcomes: Mapping[str, Outcome], notes: dict[str, int]
) -> list[str]:
    def noted(word: str, reason: str) -> str:
        number = notes.setdefault(reason, len(notes) + 1)
        return f"{word} ({number})"

    cells: list[str] = []
    for feature in FEATURES:
        if feature in pair.known.lacks:
            cells.append(noted("not in this client", pair.known.lacks[feature]))
        elif outcomes[feature] is None:
            cells.append("ok")
        else:
            cells.append(noted("**FAIL**", str(outcomes[feature])))
    return cells
