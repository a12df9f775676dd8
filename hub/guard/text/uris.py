"""Find what a server may take out of a resource's URI, by a template such as `docs://{+path}`."""

from __future__ import annotations

import re
from itertools import islice

_OWN_SCHEME = re.compile(
    r"(?!(?:https?|wss?|file|data|urn|mailto):)[a-z][a-z0-9+.-]*:(?://)?", re.I
)
"""The start of a URI whose scheme the server made up; that of a web page names another machine."""
_END = re.compile(r"[?#]")
_PARAMETERS = re.compile(r"[?#&;]")
_SLASH = re.compile("/")
_MOST = 32
"""No template has so many names before its last value."""


def uri_parts(uri: str) -> list[str]:
    """Return the texts that may be values of a URI's template, still encoded, each once.

    A value may start behind the scheme and behind each slash; so does each parameter's value.
    """
    scheme = _OWN_SCHEME.match(uri)
    if scheme is None:
        return []
    text = uri[scheme.end() :]
    end = _END.search(text)
    path = text if end is None else text[: end.start()]
    parts = [path, *(path[slash.end() :] for slash in islice(_SLASH.finditer(path), _MOST))]
    if end is not None:
        parameters = _PARAMETERS.split(text[end.start() :])
        parts += (one.partition("=")[2] or one for one in parameters)
    return [part for part in dict.fromkeys(parts) if part]
