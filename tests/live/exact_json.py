"""JSON compared as it was written: every digit of a number counts, the order of keys does not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True)
class Number:
    """A number's own spelling."""

    text: str


def exact(raw: bytes | str) -> Any:
    """Return what `raw` holds.

    Raises: AssertionError where an object has a key twice.
    """

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        assert len(made) == len(found), f"a key stands twice in {found!r:.300}"
        return made

    text = raw if isinstance(raw, str) else raw.decode()
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=pairs)


def member(raw: bytes, key: str) -> bytes:
    """Return the bytes of a message's last field, in which it was written."""
    _, found, rest = raw.partition(b'"%b":' % key.encode())
    assert found, raw[:300]
    return rest.rstrip()[:-1].strip()


def differences(ours: Any, theirs: Any, at: str = "") -> list[str]:
    """Return where two values differ, each place with what stands there, in a few words."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        mine, others = cast("dict[str, Any]", ours), cast("dict[str, Any]", theirs)
        found = [f"{at}/{key}: missing" for key in others if key not in mine]
        found += [f"{at}/{key}: added, {mine[key]!r:.100}" for key in mine if key not in others]
        for key in mine.keys() & others.keys():
            found += differences(mine[key], others[key], f"{at}/{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list):
        left, right = cast("list[Any]", ours), cast("list[Any]", theirs)
        if len(left) != len(right):
            return [f"{at}: {len(left)} elements instead of {len(right)}"]
        pairs = enumerate(zip(left, right, strict=True))
        return [it for n, (a, b) in pairs for it in differences(a, b, f"{at}/{n}")]
    return [] if ours == theirs else [f"{at}: {ours!r:.100} instead of {theirs!r:.100}"]
