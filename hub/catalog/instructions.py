"""Merge the `instructions` of the servers (for models) into one text."""

from __future__ import annotations

from collections.abc import Mapping

from hub.legible import legible
from hub.roots.roots import RootSet
from hub.values import ServerName


def merged(texts: Mapping[ServerName, str], *, preface: str | None, several: bool) -> str | None:
    """Return the operator's `preface` and the servers' texts, in order; None if all are empty.

    If `several`, each server's text gets a heading with the server's name. Hidden characters in the
    servers' texts are escaped.
    """
    parts = [] if preface is None else [preface]
    for server, text in texts.items():
        if text.strip():
            shown = legible(text)
            parts.append(f"# {server}\n\n{shown}" if several else shown)
    return "\n\n".join(parts) or None


def is_for_all(text: str, roots: RootSet) -> bool:
    """Return whether a child's text names none of its `roots`, so that any client may read it."""
    return not any(root.path in text or root.uri in text for root in roots.roots)
