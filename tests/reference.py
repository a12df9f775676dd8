"""The reference pages that follow the code: docs/configuration.md and docs/command-line.md.

`python -m tests.reference --write` brings the pages up to date: the columns "values" and "default"
of each key, and the help of each command. What people write stays: a key's sentence, the texts
around tables and helps. A new key gets a row without a sentence, which tests/test_reference.py
refuses; a new command is put at the end of its page. Without `--write` it only says which page is
not up to date.
"""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple, cast

from hub.cli.command_line import parser
from hub.config.models import json_schema
from tests.conftest import PROJECT

CONFIGURATION = PROJECT / "docs/configuration.md"
COMMAND_LINE = PROJECT / "docs/command-line.md"
COLUMNS = 100
UNSAID = "..."
"""The sentence of a key that nobody has described yet."""

_ROW = re.compile(r"^\| `([\w.\[\]]+)` \| (.*?) \| (.*?) \| (.*) \|$")
_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"timeout|idle_stop|poll_after|debounce|reuse|drain|linger")

_WORDS = {"object": "mapping", "boolean": "`true`, `false`", "string": "text"}

Shape = Mapping[str, Any]


class ConfigKey(NamedTuple):
    """One key of hub.yaml: its place, what may stand there, and its default, as Markdown."""

    name: str
    values: str
    default: str


def keys() -> dict[str, ConfigKey]:
    """Return every key of hub.yaml by its name: `servers.NAME.tools.overrides.TOOL.access`."""
    schema = json_schema()
    return {key.name: key for key in _keys_of(schema, schema["$defs"], "")}


def _keys_of(shape: Shape, named: Shape, above: str) -> Iterator[ConfigKey]:
    for name, own in shape.get("properties", {}).items():
        path = f"{above}{name}"
        default = "required" if name in shape.get("required", ()) else _default(own)
        yield ConfigKey(path, _values(path, own, named), default)
        if above and name == "guard":
            continue  # the keys of the hub's `guard`
        for part, key in _parts(own, named):
            yield from _keys_of(part, named, f"{path}{key}.")


def _parts(own: Shape, named: Shape) -> Iterator[tuple[Shape, str]]:
    """Yield the mappings that a value may be or hold, and what stands for their keys."""
    for one in (own, *own.get("anyOf", ()), *own.get("oneOf", ())):
        if "$ref" in one and "properties" in (part := _named(one, named)):
            yield part, ""
    if "items" in own:
        yield from ((part, f"[]{key}") for part, key in _parts(own["items"], named))
    if isinstance(own.get("additionalProperties"), dict):
        placeholder = {"Overrides": ".TOOL"}.get(own.get("title", ""), ".NAME")
        inner = _parts(own["additionalProperties"], named)
        yield from ((part, f"{placeholder}{key}") for part, key in inner)


def _named(one: Shape, named: Shape) -> Shape:
    return cast("Shape", named[one["$ref"].rpartition("/")[2]])


def _default(own: Shape) -> str:
    default = own.get("default")
    if isinstance(default, dict) and default:
        return ""  # each key of the mapping has its own
    if default in (None, [], {}):
        return "none"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _values(path: str, own: Shape, named: Shape) -> str:
    if _SECONDS.search(path.rpartition(".")[2]):
        return "seconds"
    return " or ".join(dict.fromkeys(_kinds(own, named)))


def _kinds(own: Shape, named: Shape) -> Iterator[str]:
    if "$ref" in own:
        yield from _kinds(_named(own, named), named)
    for choice in (*own.get("anyOf", ()), *own.get("oneOf", ())):
        yield from _kinds(choice, named)
    if "enum" in own or "const" in own:
        yield ", ".join(f"`{value}`" for value in own.get("enum", [own.get("const")]))
    elif own.get("type") == "array":
        yield f"list of {' or '.join(dict.fromkeys(_kinds(own['items'], named)))}"
    elif own.get("type") in {"integer", "number"}:
        yield _numbers(own)
    elif (word := _WORDS.get(own.get("type", ""))) is not None:
        yield word


def _numbers(own: Shape) -> str:
    least, most = own.get("minimum"), own.get("maximum")
    if most is not None:
        return f"{least} to {most}"
    return "number" if least is None else f"number from {least}"


def rows(page: str) -> dict[str, tuple[ConfigKey, str]]:
    """Return the keys that a page has a row for, each with its sentence."""
    found = filter(None, map(_ROW.match, page.splitlines()))
    return {row[1]: (ConfigKey(row[1], row[2], row[3]), row[4]) for row in found}


def with_keys(page: str) -> str:
    """Return the page with a row for every key, and for no other."""
    real, lines = keys(), list[str]()
    for line in page.splitlines():
        row = _ROW.match(line)
        if row is None:
            lines.append(line)
        elif row[1] in real:
            lines.append(_row(real[row[1]], row[4]))
    for name in real.keys() - rows("\n".join(lines)).keys():
        place = max((_ends_of(line, name), at) for at, line in enumerate(lines))[1]
        lines.insert(place + 1, _row(real[name], UNSAID))
    return "\n".join(lines) + "\n"


def _ends_of(line: str, name: str) -> int:
    """Return how many of the first parts of a key's name a row's key has as well."""
    row = _ROW.match(line)
    if row is None:
        return -1
    parts = zip(row[1].split("."), name.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], parts)))


def _row(key: ConfigKey, sentence: str) -> str:
    return f"| `{key.name}` | {key.values} | {key.default} | {sentence} |"


def helps() -> dict[str, str]:
    """Return the help of every command, by the command: `roots-hub roots add`."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        return dict(_helps_of(parser()))
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _helps_of(command: ArgumentParser) -> Iterator[tuple[str, str]]:
    yield command.prog, command.format_help()
    for action in command._actions:  # pyright: ignore[reportPrivateUsage] - argparse has no other way
        choices: object = action.choices
        if isinstance(choices, dict):
            for below in cast("dict[str, ArgumentParser]", choices).values():
                yield from _helps_of(below)


def blocks(page: str) -> dict[str, str]:
    """Return the helps that a page has, by the heading above each."""
    parts = re.split(r"^## `(.*)`$", page, flags=re.MULTILINE)[1:]
    found = zip(parts[::2], parts[1::2], strict=True)
    return {name: block[1] for name, part in found if (block := _BLOCK.search(part))}


def with_helps(page: str) -> str:
    """Return the page with the help of every command, and of no other."""
    real = helps()
    head, *parts = re.split(r"^(?=## `)", page, flags=re.MULTILINE)
    made = [head]
    for part in parts:
        if (name := part[4:].partition("`")[0]) in real:
            text, found = real.pop(name), _BLOCK.search(part)
            # Versions of Python break a long usage at different words.
            is_same = found is None or found[1].split() == text.split()
            shown = f"```text\n{text}```"
            made.append(part if is_same else _BLOCK.sub(lambda _, new=shown: new, part, count=1))
    made += [f"\n## `{name}`\n\n```text\n{text}```\n" for name, text in real.items()]
    return "".join(made)


def main(words: list[str]) -> int:
    """Say which pages are not up to date, or with `--write` bring them up to date."""
    stale = 0
    for path, bring in ((CONFIGURATION, with_keys), (COMMAND_LINE, with_helps)):
        page = path.read_text(encoding="utf-8")
        if (made := bring(page)) == page:
            continue
        if "--write" in words:
            path.write_text(made, encoding="utf-8")
        print(f"{path.name}: {'written' if '--write' in words else 'is not up to date'}")  # noqa: T201
        stale += "--write" not in words
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
