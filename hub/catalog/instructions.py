"""What servers tell a model of their use, as one text of the hub's."""

from __future__ import annotations

from collections.abc import Mapping

from hub.legible import legible
from hub.roots.roots import RootSet
from hub.values import ServerName


def merged(texts: Mapping[ServerName, str], *, preface: str | None, several: bool) -> str | None:
    """Return the operator's text and those of the servers, in their order; None if there is none.

    Those of `several` servers stand each under the name that its tools begin with; that of a single
    one is left as it is. What is hidden in them is written out.
    """
    parts = [] if preface is None else [preface]
    for server, text in texts.items():
        if text.strip():
            shown = legible(text)
            parts.append(f"# {server}\n\n{shown}" if several else shown)
    return "\n\n".join(parts) or None


def is_for_all(text: str, roots: RootSet) -> bool:
    """Return whether a text that a child wrote, told of these roots, names none of them."""
    return not any(root.path in text or root.uri in text for root in roots.roots)
