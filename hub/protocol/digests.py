"""Hashes of JSON, by what it says."""

from __future__ import annotations

import hashlib
import json

from hub.values import Json


def digest(value: Json) -> str:
    """Return a hash of any JSON: the same for the same value, whatever the order of its keys."""
    # ASCII, so that half of a character has a form too; `repr` tells a decimal from its text.
    text = json.dumps(value, sort_keys=True, default=repr).encode("ascii")
    return hashlib.sha256(text).hexdigest()
