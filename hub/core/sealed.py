"""Short texts that prove, when a client brings them back, what they were made for."""

from __future__ import annotations

import hashlib
import hmac
import json
import re

from hub.core.values import Json

_SEAL = re.compile(r"([0-9]{1,15})\.([0-9a-f]{64})")


def seal(key: bytes, subject: Json, *, expires: float) -> str:
    """Return a text that `holds` for this subject alone, until `expires`; it tells nothing of it.

    `expires` is a moment of the clock that `holds` is told the time of.
    """
    until = str(int(expires))
    return f"{until}.{_mac(key, until, subject)}"


def holds(key: bytes, text: Json, subject: Json, *, now: float) -> bool:
    """Return whether `text` was sealed with `key` for this subject and has not expired."""
    found = _SEAL.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return False
    until, mac = found.groups()
    return hmac.compare_digest(mac, _mac(key, until, subject)) and now <= int(until)


def digest(value: Json) -> str:
    """Return a hash of any JSON: the same for the same value, whatever the order of its keys."""
    return hashlib.sha256(_text(value)).hexdigest()


def _mac(key: bytes, until: str, subject: Json) -> str:
    return hmac.new(key, _text([until, subject]), hashlib.sha256).hexdigest()


def _text(value: Json) -> bytes:
    # ASCII, so that half of a character has a form too; `repr` tells a decimal from its text.
    return json.dumps(value, sort_keys=True, default=repr).encode("ascii")
