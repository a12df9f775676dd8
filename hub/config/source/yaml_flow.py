"""Write values as YAML on one line: plain where that is safe, else in double quotes.

And find the nodes of a text that is to be edited.
"""

from __future__ import annotations

import math
import re
from typing import Final, cast

import yaml

PLAIN: Final = re.compile(r"[A-Za-z0-9_./~](?:[A-Za-z0-9_./~@+= -]*[A-Za-z0-9_./~@+=-])?")
"""Texts that may be plain scalars, unless YAML reads them as a number or the like."""


def scalar(text: str) -> str:
    """Return a text as a YAML scalar."""
    if PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Return a text as a YAML scalar in double quotes."""
    return yaml.safe_dump(text, default_style='"', allow_unicode=True, width=math.inf).strip()


def flow(value: object) -> str:
    """Return a parsed value in YAML's flow style; its texts are in double quotes."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{scalar(key)}: {flow(one)}' for key, one in inner)}}}"
    if isinstance(value, float):
        return yaml.safe_dump(float(value)).split("\n")[0]
    return "null" if value is None else str(value)


def composed(text: str) -> yaml.Node | None:
    """Return the top node of a text; None if it is empty."""
    return cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType] - untyped in the stubs
