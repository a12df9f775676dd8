r"""Half characters in JSON, such as `"\ud83d"`: JavaScript writes one for a cut emoji."""

from __future__ import annotations

import re
from typing import Literal

from hub.values import Json

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def has_surrogates(text: bytes) -> bool:
    """Return whether JSON text has an escape for a half character in it, alone or in a pair."""
    return _SURROGATE.search(text) is not None


def masked(text: bytes, letter: Literal["A", "B"] = "A") -> bytes:
    """Return JSON text of the same length with the escape of a letter for each half character.

    A decoder that refuses half characters takes it, and finds everything else where it is.
    """
    return _SURROGATE.sub(rb"\\u00%02x" % ord(letter), text)


def mended(value: Json) -> Json:
    """Return `value` with pairs of half characters put together and lone ones replaced."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {str(mended(key)): mended(inner) for key, inner in value.items()}
    return [mended(inner) for inner in value] if isinstance(value, list) else value
