"""Edit the list `roots.fallback` in the text of a hub.yaml; comments and layout are kept.

Every new text is parsed, and must have the values of the old one and the change, nothing else.
"""

from __future__ import annotations

from typing import Any, Final

from hub.config.editing import alike, parsed, section_of
from hub.config.source.places import awkward
from hub.config.source.yaml_text import YamlText, scalar

_FALLBACK: Final = ("roots", "fallback")


def entries(text: str) -> list[str]:
    """Return the paths in `roots.fallback` as written in the file."""
    return [one["path"] if isinstance(one, dict) else one for one in _listed(text)]


def added(text: str, path: str, name: str | None) -> str:
    """Return the text with one more entry at the end of the list.

    Raises: ConfigError if the text cannot be changed safely (`removed` and `renamed`, too).
    """
    entry = path if name is None else {"path": path, "name": name}
    written = scalar(path) if name is None else _named(scalar(path), name)
    new = YamlText(text).appended(_FALLBACK, [f"- {written}"], written, "[]")
    return _exactly(new, text, [*_listed(text), entry])


def removed(text: str, index: int) -> str:
    """Return the text without entry `index`. If that is the only entry, an empty list stays."""
    rest = [one for at, one in enumerate(_listed(text)) if at != index]
    return _exactly(YamlText(text).without((*_FALLBACK, index)), text, rest)


def renamed(text: str, index: int, name: str) -> str:
    """Return the text with `name` as the name of entry `index`."""
    names = list(_listed(text))
    old, place, document = names[index], (*_FALLBACK, index), YamlText(text)
    names[index] = {**(old if isinstance(old, dict) else {"path": old}), "name": name}
    if not isinstance(old, dict):
        written = document.written(place)
        path = written if written[:1] in {'"', "'"} else scalar(old)
        new = document.replaced(place, _named(path, name))
    elif document.node((*place, "name")) is not None:
        new = document.replaced((*place, "name"), scalar(name))
    else:
        line = f"name: {scalar(name)}"
        new = document.appended(place, [line], line)
    return _exactly(new, text, names)


def _named(path: str, name: str) -> str:
    return f"{{path: {path}, name: {scalar(name)}}}"


def _listed(text: str) -> list[Any]:
    return section_of(parsed(text, "yaml"), _FALLBACK[:1]).get("fallback") or []


def _exactly(text: str, before: str, fallback: list[Any]) -> str:
    raw = parsed(before, "yaml")
    try:
        found = parsed(text, "yaml")
    except ValueError:
        found = None
    if not alike(found, {**raw, "roots": {**section_of(raw, _FALLBACK[:1]), "fallback": fallback}}):
        awkward("roots.fallback")
    return text
