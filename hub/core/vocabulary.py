"""The words that tell which arguments are paths: data, no logic."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """How the values of an argument are judged."""

    PATH = "path"
    """Every value, whatever its shape."""
    GLOB = "glob"
    """The part before the first wildcard; no `..` after it."""
    WEAK = "weak"
    """Values shaped like a path or a file URI."""
    NEUTRAL = "neutral"
    """Values shaped like a path, an absolute one only if its first component exists here."""
    PAYLOAD = "payload"
    """Nothing but a value that is as a whole a file URI."""
    COMMAND = "command"
    """Its shell tokens."""
    IGNORE = "ignore"
    """Nothing: by the operator's word only."""


FLOOR_WORDS = ("path", "file", "filepath", "filename", "directory", "folder")
"""A key that contains one of these names a path unless something better is known about it."""
