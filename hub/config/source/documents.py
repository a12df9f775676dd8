"""Read a config's text, from a file or inline, and show mistakes in it."""

from __future__ import annotations

import codecs
import difflib
import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Final, Literal, TypeAlias, cast

from hub.config.source.json_text import read_json
from hub.config.source.places import (
    JsonPlaces,
    Mistake,
    Path,
    Place,
    Places,
    SyntaxMistakesError,
    excerpt,
    line_and_column,
    masked,
    places_in_toml,
    places_in_yaml,
    shown_key,
    spelled,
    syntax_excerpt,
    value_at,
)
from hub.errors import ConfigError, Fault

Form: TypeAlias = Literal["yaml", "json", "toml"]
ParsedConfig: TypeAlias = dict[str, Any]
"""A mapping as parsed from a file."""

MAX_BYTES: Final[dict[Form, int]] = {"yaml": 1 << 20, "json": 64 << 20, "toml": 4 << 20}
"""The largest file of each form. The parser of YAML needs seconds for a megabyte."""
_ANOTHER: Final = "Name a file that exists, by --config or HUB_CONFIG."
_USUAL: Final = ("hub.yaml", "hub.yml", ".mcp.json", "mcp.json")
_START: Final[dict[Form, str]] = {
    "yaml": "Start with `version: 1` and `servers:`.",
    "json": 'Start with {"mcpServers": {"NAME": {"command": "..."}}}.',
    "toml": "Start with `version = 1` and `[servers.NAME]`.",
}


class Document:
    """The text of a config and its value `raw`; `origin` names it in errors."""

    def __init__(self, origin: str, text: str, form: Form) -> None:
        """Parse a text. Raises: ConfigError if that is not possible, with all mistakes."""
        self.origin = origin
        self.form: Form = real_form(text, form)
        self.text = text
        try:
            raw = _parsed(text, self.form)
        except SyntaxMistakesError as error:
            raise ConfigError.of([self._shown(mistake) for mistake in error.mistakes]) from None
        if raw is None:
            raise ConfigError(origin, "is empty", _START[self.form])
        if not isinstance(raw, dict):
            raise ConfigError(origin, "must be a mapping", _not_a_mapping(text, self.form))
        self.raw = cast("ParsedConfig", raw)

    def fault(self, path: Path, what: str, fix: str, *, of_key: bool = False) -> Fault:
        """Return the fault at a path; `of_key`: the key is wrong, not its value."""
        while len(path) > 1 and isinstance(value_at(self.raw, path[:-1]), str | int | float):
            # The file has `guard: off` for `guard: {mode: off}`.
            fix = fix.replace(f"`{path[-1]}: ", f"`{path[-2]}: ")
            path = path[:-1]
        shown_path = _legible(path)
        for part, shown_part in zip(path, shown_path, strict=True):
            if part != shown_part:
                what = what.replace(str(part), str(shown_part))
                fix = fix.replace(str(part), str(shown_part))
        place = self._nearest(path)
        shown = "" if place is None else self._excerpt(place, path, of_key=of_key)
        where = f"{self.origin}: {spelled(shown_path)}" if path else self.origin
        return Fault(where, what, _in_form(fix, self.form), shown)

    def position(self, path: Path) -> int:
        """Return where in the text a path is, or what is nearest around it."""
        place = self._nearest(path)
        return 0 if place is None else place.start

    def _excerpt(self, place: Place, path: Path, *, of_key: bool) -> str:
        # A list's or a mapping's value is not shown.
        of_key = (of_key or place.value == place.start) and place.key_end > place.start
        if of_key:
            start, end = place.start, place.key_end
        else:
            start, end = place.value, place.value_end
        return excerpt(
            self.origin, self.text, (place.start, place.value_end), (start, end), path=path
        )

    def _nearest(self, path: Path) -> Place | None:
        """Return the place of a path, or of what is nearest around it; None at the top."""
        if isinstance(self._places, JsonPlaces):
            return self._places.nearest(path)
        around = (self._places.get(path[:length]) for length in range(len(path), 0, -1))
        return next(filter(None, around), None)

    @cached_property
    def _places(self) -> Places | JsonPlaces:
        if self.form == "json":
            return JsonPlaces(self.text)
        return places_in_yaml(self.text) if self.form == "yaml" else places_in_toml(self.text)

    def _shown(self, mistake: Mistake) -> Fault:
        number, column = line_and_column(self.text, mistake.at)
        where = f"{self.origin}: line {number}, column {column}"
        shown = syntax_excerpt(self.origin, self.text, mistake.at)
        return Fault(where, masked(mistake.what), masked(mistake.fix), shown)


def _legible(path: Path) -> Path:
    """Return a path without what may be a secret in its keys."""
    return tuple(
        shown_key(part, path[:at]) if isinstance(part, str) else part
        for at, part in enumerate(path)
    )


_PIECE: Final = re.compile(r"`(?P<key>[\w-]+): (?P<value>[^`]*)`")
_UNQUOTED: Final = re.compile(r"-?[\d.]+|true|false|[\[{\"].*|\.\.\.")


def _in_form(fix: str, form: Form) -> str:
    """Return a remedy with its pieces of YAML, such as `strict: true`, in another form."""
    if form == "yaml":
        return fix

    def respelled(found: re.Match[str]) -> str:
        value = found["value"]
        quoted = value if _UNQUOTED.fullmatch(value) else f'"{value}"'
        return f'`"{found["key"]}": {quoted}`' if form == "json" else f"`{found['key']} = {quoted}`"

    return _PIECE.sub(respelled, fix)


def form_of(source: str) -> Form:
    """Return the form of a config by its name, or JSON if `source` is JSON text itself."""
    if is_inline(source) or source.endswith((".json", ".jsonc")):
        return "json"
    return "toml" if source.endswith(".toml") else "yaml"


def is_inline(source: str) -> bool:
    """Return whether `source` is a config itself, not the name of a file."""
    return source.lstrip().startswith("{")


def read(source: str, directory: FilePath, digest: str | None = None) -> Document:
    """Return the config `source`: the name of a file, or JSON text.

    With `digest` only a file with this SHA-256 hash is read.

    Raises: ConfigError if it cannot be read or parsed.
    """
    if is_inline(source):
        return Document("the config", source, "json")
    text = text_in(directory / source, source, digest)
    return Document(source, text.replace("\r\n", "\n"), form_of(source))


def text_in(path: FilePath, source: str, digest: str | None = None) -> str:
    """Return the text of the file that `source` names in errors; raises as `read` does."""
    content = _content(path, source, MAX_BYTES[form_of(source)])
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        fix = "Start again to be asked about it."
        raise ConfigError(source, "changed since it was trusted", fix)
    return _decoded(content, source)


def real_form(text: str, form: Form) -> Form:
    """Return the form of a text. JSON may be indented with tabs, YAML may not."""
    if form == "yaml" and re.match(r"\s*\{\s*\"", text):
        with suppress(SyntaxMistakesError):
            read_json(text)
            return "json"
    return form


def _parsed(text: str, form: Form) -> object:
    if form == "json":
        return read_json(text)
    if form == "toml":
        from hub.config.source.toml import read_toml  # noqa: PLC0415 - few configs are TOML

        return read_toml(text)
    from hub.config.source.strict_yaml import read_yaml  # noqa: PLC0415 - PyYAML is slow to load; JSON and `wrap` need none

    return read_yaml(text)


def _not_a_mapping(text: str, form: Form) -> str:
    if form == "yaml" and re.match(r"\s*\w+\s*=", text):
        return f"Write `key: value`, with a colon. {_START[form]}"
    return _START[form]


def _content(path: FilePath, source: str, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(limit + 1)
    except FileNotFoundError:
        raise ConfigError(source, "no such file", _missing_file(path, source)) from None
    except IsADirectoryError:
        raise ConfigError(source, "is a directory", _file_in(path, source)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "is no name of a file"
        fix = _ANOTHER
        if isinstance(error, PermissionError):
            fix = "Make the file readable for this user."
        raise ConfigError(source, why, fix) from None
    if len(found) > limit:
        what = f"is larger than {limit >> 20} MiB"
        raise ConfigError(source, what, "Name the file with the servers.")
    return found


def _decoded(found: bytes, source: str) -> str:
    if found[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}:
        raise ConfigError(source, "is not UTF-8 but UTF-16", "Save the file as UTF-8.")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: line {line} has a character in another encoding"
        raise ConfigError(source, what, "Save the file as UTF-8.") from None


def _missing_file(path: FilePath, source: str) -> str:
    near = difflib.get_close_matches(path.name, _names(path.parent), n=1, cutoff=0.8)
    if near:
        return f"Did you mean {source.removesuffix(path.name)}{near[0]}?"
    return _ANOTHER


def _file_in(path: FilePath, source: str) -> str:
    names = _names(path)
    usual = next((name for name in _USUAL if name in names), None)
    place = source.rstrip("/")
    return "Name the file in it." if usual is None else f"Name the file in it: {place}/{usual}"


def _names(directory: FilePath) -> Iterable[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir() if entry.is_file())
    except OSError:
        return []
