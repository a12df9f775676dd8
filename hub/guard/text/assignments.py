"""The variables that a command sets, and the command with their values: `x=.; ls $x.`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase, translate
from itertools import dropwhile, pairwise, product
from math import prod
from typing import TypeAlias

from hub.guard.budget import TooManyWaysError
from hub.guard.text.code import told_by
from hub.guard.text.emptiness import SET_BY_SHELL, SETS_DEFAULT
from hub.guard.text.expansion import COMPUTED, VARIABLE, plainly
from hub.guard.text.shell import Script, SimpleCommand, parsed, without_quotes
from hub.guard.text.sure_commands import BEHIND

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=(.*)", re.ASCII | re.DOTALL)
"""A name and its value; with a `+` between, what is added to it."""
_GIVES_OTHERWISE = re.compile(
    r"\b(?:read|declare|typeset|unset|let|getopts|mapfile|readarray|printf -v|select)\b|\$\{\w+:?="
)
_IS_SET = re.compile(rf"_|(?:OLD)?PWD|{SET_BY_SHELL}", re.ASCII)
FOLDER = re.compile(r"[\w./@][\w./@+-]*")
_FOLDERS = re.compile(rf"{FOLDER.pattern}|(?:{FOLDER.pattern}/)?\*/?")
MOST_VALUES = 16
"""So many folders a variable may name that `cd` is followed to."""
_PART = re.compile(r":(?!-) ?(-?\d{1,4}|)(?::(-?\d{1,4}))?", re.ASCII)
_SLASH = re.compile(r"(?<!\\)/")
_ELEMENT = re.compile(r"\[[^\]]*\]=")
_FROM_HERE = re.compile(r"\$\(|`|<\(")
_READS = frozenset({"read", "mapfile", "readarray"})
_PRINTS = frozenset({"echo", "printf"})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset", "env", "eval"})
_KEEPS = re.compile(r":?[-=?]|@[^LU]|\^(?!\^)")
"""What is behind the name of a variable, and leaves its value as it is."""
_GIVEN = re.compile(
    r"\$(?:([A-Za-z_]\w*|[0-9@*])|\{!?(\w+|[@*])(?:\[[^\[\]{}]*\])?([^{}\w][^{}]*)?\})", re.ASCII
)
"""A variable that a command may set: its name (group 1 or 2), and how it is altered."""
_SETS = re.compile(r"\(\s*\)|\b(?:for|select|read|mapfile|readarray|set|printf|function|eval)\b")
"""Signs that a command may set a variable in another way than by `x=`."""
COMPUTES = re.compile(
    r"\$[\w{(@*]|`|\balias\s|\(\s*\)|(?<![\w.])(?:[aksz]|ba|da)?sh(?![\w.])", re.ASCII
)
"""Signs and words that may hand the text of a word to a shell once more."""
_ENDS = frozenset({"&&", "||", ";", "&", "\n"})
_POSITIONS = frozenset("0123456789*")
_MOST_VALUES = 256
_LONGEST_VALUE = 4096
_LONGEST = 4 * 4096
_MOST_ALTERED = 64
_LONGEST_ALTERED = 512
_ONLY_READS = re.compile(r"\bIFS=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])* +read\b")
_MOST_TEXT = 32 * _LONGEST
_TURNS = 3
"""So often a value may refer to another one: `a=/; b=$a; ls $b`."""


def with_assigned(command: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield a command with the values of the variables that it sets: `x=.; ls $x.`, `ls ..`.

    As a shell that does not quote them, so that they are split at spaces. Of `env` only what a
    command takes a part of counts: `${PWD%/*}`.

    Raises:
        TooManyWaysError: there are too many values.
    """
    used = list(_GIVEN.finditer(command)) if "$" in command else []
    if not used:
        return
    altered = [of[2] for of in used if of[3]]
    if len(altered) > _MOST_ALTERED:
        raise TooManyWaysError
    names = {of[1] or of[2] for of in used}
    known = {name: [env[name]] for name in (*altered, "PWD") if altered and name in env}
    can_set = _SETS.search(command) or any(
        f"{name}{sign}" in command for name in names for sign in ("=", "+=", ":=", "[")
    )
    values = {**known, **(_values_in(command) if can_set else {})}
    values |= {name: values["@"] for name in names & _POSITIONS if "@" in values}
    if not values:
        return
    in_words = _joined_in(command, values)
    joined = [name for name in values if name in in_words]
    number = max(prod(len(values[name]) for name in joined), *map(len, values.values()))
    varying = _varying_in(command) if number > 1 else command
    if number > min(_MOST_VALUES, max(1, _MOST_TEXT // (len(varying) + 1))):
        raise TooManyWaysError
    ways = list(product(*(values[name] for name in joined)))
    for n in range(number):
        chosen = {name: of[n % len(of)] for name, of in values.items()}
        chosen |= zip(joined, ways[n % len(ways)], strict=True)
        yield from _with_values(varying if n else command, chosen)


def _varying_in(command: str) -> str:
    """Return the commands of a command in which something is computed, each once.

    With other values of the variables the rest is as it was.
    """
    script = parsed(command) if "<<" not in command else None
    if script is None or not script.is_closed:
        return command
    starts = [
        one.words[0].start for one in script.commands if not one.depth and _ENDS & {one.before}
    ]
    parts = (command[start:end] for start, end in pairwise((0, *starts, len(command))))
    return "".join(dict.fromkeys(part for part in parts if COMPUTES.search(part)))


def folders_given(
    command: str, commands: list[SimpleCommand], env: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the values of the variables that only have names of folders, or `*/`, as values."""
    values = dict[str, list[str]]()
    for one in commands if not _GIVES_OTHERWISE.search(command) else ():
        words = list(dropwhile(lambda word: word.raw in BEHIND, one.given))
        texts = [word.text for word in words]
        assigned = [of for of in map(_ASSIGNED.fullmatch, texts) if of]
        given = [(of[1], of[3] if of.end(1) + 1 == of.start(3) else "") for of in assigned]
        if texts[:1] == ["for"]:
            found = (word.raw if "*" in word.text else word.text for word in words[3:])
            given = [(texts[1], value) for value in found] or [(texts[-1], "")]
        for name, value in given:
            values.setdefault(name, []).append(value)
    own = {name: of for name, of in values.items() if not (name in env or _IS_SET.fullmatch(name))}
    few = {name: of for name, of in own.items() if len(of) <= MOST_VALUES}
    return {name: of for name, of in few.items() if all(map(_FOLDERS.fullmatch, of))}


def _joined_in(command: str, values: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the names of the variables that stand in a word, or a value, with others."""
    texts = [*command.split(), *(text for of in values.values() for text in of)]
    found = set[str]()
    for text in texts:
        names = {of[1] or of[2] for of in _GIVEN.finditer(text)} if "$" in text else set[str]()
        known = names & values.keys()
        if len(known) > 1 or (known and text not in command):
            found |= known
    return found


def _with_values(command: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield a command with values; each turn of one that has itself in it, too: `x=$x.`."""
    grows = any(f"${{{name}}}" in value for name, value in values.items())
    for _ in range(_TURNS):
        longer = _GIVEN.sub(lambda of: _value_of(of, values), command)
        if longer == command or len(longer) > max(_LONGEST, 2 * len(command)):
            break
        command = longer
        if grows:
            yield command
    yield command


def _value_of(variable: re.Match[str], values: Mapping[str, str]) -> str:
    name = variable[1] or variable[2]
    value = values.get(name)
    if value is None:
        return variable[0]
    if not variable[3]:
        return f"${{{value}}}" if variable[0][:3] == "${!" else value
    whole = VARIABLE.sub(lambda of: values.get(of[1] or of[2], of[0]), value)  # `x=$PWD`
    how = VARIABLE.sub(lambda of: values.get(of[1] or of[2], of[0]), variable[3])
    return whole if _KEEPS.match(how) else _altered(whole, how)


def _values_in(command: str) -> dict[str, list[str]]:
    """Return the values of each variable that a command sets, and of `$1` and so on, as `@`."""
    found: dict[str, list[str]] = {}
    commands = parsed(command).commands
    functions = {one.words[0].text for one in commands if one.after == "(" and one.words}
    ends = [one for one in commands if one.words and one.words[0].raw == "done"]
    printed = [word.text for one in ends for word in one.words if word.operator == "<<<"]
    for one in commands:
        for name, texts, is_added in _given_by(one, functions, printed):
            known = found.setdefault(name, [])
            before = known[-1] if is_added and known else ""
            known += (before + text for text in texts)
        words = [word.text for word in one.given]
        if one.after == "|" and not _PRINTS.isdisjoint(words):
            printed += words[1:]
    names = {*found, "PWD", "HOME"}
    told = {name: _told(texts, names) for name, texts in found.items()}
    if signs := {*"".join(told.get("IFS", ()))} - {*" \t\n"}:  # a shell splits values there
        split = str.maketrans(dict.fromkeys(signs, " "))
        for name, texts in told.items():
            parts = [text.translate(split) for text in texts]
            parts += [one for text in parts for one in text.split()]
            told[name] = list(dict.fromkeys((*texts, *parts)))
    return {name: texts for name, texts in told.items() if texts}


def split_elsewhere(command: str, scripts: list[Script]) -> Iterator[str]:
    """Yield the parts of words, where a command says that a shell splits them: `IFS=_; ls a_b`.

    Each part with the rest behind it, too, which the last name behind `read` gets. If that is only
    said for `read`, the words that are printed, and the lines of here-documents.

    Raises:
        TooManyWaysError: a word has too many parts.
    """
    values = _values_in(command).get("IFS", ()) if "IFS" in command else ()
    signs = {*"".join(values)} - {*" \t\n"}
    if not signs:
        return
    is_for_all = "IFS" in _ONLY_READS.sub("", command)
    is_closed = command.count("(") == command.count(")")
    at = re.compile(f"[{re.escape(''.join(signs))}]+")
    for one in (one for script in scripts for one in script.commands):
        prints = not _PRINTS.isdisjoint(word.text for word in one.given)
        # To `zsh` an open bracket may be one of the text: `read a b <<< (a_b; ls $b`.
        is_text = prints or one.lines_of is not None or (one.before == "(" and not is_closed)
        for word in one.words:
            parts = at.split(word.text) if is_for_all or is_text or word.operator == "<<<" else ()
            if len(parts) > _MOST_ALTERED:
                raise TooManyWaysError
            yield from parts
            yield from (word.text[of.end() :] for of in at.finditer(word.text) if parts)


_Given: TypeAlias = "tuple[str, list[str], bool]"
"""A name, the values that it may have, and whether they are added to what it had before."""


def _given_by(
    command: SimpleCommand, functions: AbstractSet[str], printed: Sequence[str]
) -> Iterator[_Given]:
    words = [word.text for word in command.given]
    declares, refers = not _DECLARES.isdisjoint(words), "-n" in words
    for word in command.given:
        is_name = declares or word.raw[:1] not in "'\""
        one = _ASSIGNED.match(word.text) if is_name else None
        if one is not None:
            yield one[1], [f"${one[3]}"] if refers else _elements(one[3]), bool(one[2])
        yield from ((of[1], [of[2]], False) for of in SETS_DEFAULT.finditer(word.text))
    for n, word in enumerate(words[:-2]):
        if words[n + 2] == "in" and word in {"for", "select"}:
            yield words[n + 1], words[n + 3 :], False
    if words[-2:-1] == ["for"]:
        yield words[-1], ["$@"], False
    yield from _given_to(command, words, functions, printed)


def _given_to(
    command: SimpleCommand, words: list[str], functions: AbstractSet[str], printed: Sequence[str]
) -> Iterator[_Given]:
    """Yield what the words behind `set`, `read`, `printf -v` or a function's name are given."""
    first = next((word for word in words if not _ASSIGNED.match(word)), "")
    at = words.index(first) + 1 if first else 0
    if first == "set" or first in functions:
        yield "@", _and_joined([text for text in words[at:] if text != "--"]), False
    if first == "printf" and words[at : at + 1] == ["-v"]:
        name, *told = words[at + 1 :] or [""]
        yield name, [*told, told_by("printf", told) or ""], False
    if not _READS.isdisjoint(words):
        names = words[min(words.index(one) for one in _READS if one in words) + 1 :]
        texts = [word.text for word in command.words if word.operator == "<<<"] or printed
        parts = [part for text in texts for part in (text, *text.split())]
        yield from ((name, list(dict.fromkeys(parts)), False) for name in names if parts)


def _elements(value: str) -> list[str]:
    """Return what a variable is set to: one value, or the elements of an array."""
    if value[:1] != "(":
        return [_FROM_HERE.split(value)[0]]
    inner = parsed(value[1:-1]).commands
    return _and_joined([_ELEMENT.sub("", word.text) for one in inner for word in one.given])


def _and_joined(elements: list[str]) -> list[str]:
    """Return elements, and all in one as by `${x[*]}` if only that leads up."""
    joined = "".join(elements)
    climbs = ".." in joined and not any(".." in one for one in elements)
    return [*elements, joined] if climbs else elements


def _altered(value: str, how: str) -> str:
    """Return a value as a shell alters it: `%y` removes `y` at its end, `#y` at its start.

    `/y/z` puts `z` for `y`, `:2:3` takes a part. Other ways, and of a long value, give nothing.
    """
    if len(value) > _LONGEST_ALTERED or len(how) > _LONGEST_ALTERED:
        return ""
    sign, wanted = how[:1], how.lstrip(how[:1])
    part = _PART.fullmatch(how)
    if part is not None:
        start, length = int(part[1] or 0), int(part[2] or len(value))
        return value[start:][:length]
    if sign in {",", "^", "@"}:
        return value.lower() if sign == "," or how == "@L" else value.upper()
    if sign == "/" and ":" not in how:
        old, *rest = map(without_quotes, _SLASH.split(wanted.lstrip("#%"), 1))
        pattern = translate(plainly(old))[:-2]  # without the sign for the end
        ends = {"#": "".join(rest) + value, "%": value + "".join(rest)}
        return (
            re.sub(pattern, lambda _: "".join(rest), value) if old else ends.get(wanted[:1], value)
        )
    if sign in {"%", "#"}:
        ends = range(len(value) + 1)
        pattern = plainly(without_quotes(wanted))
        pieces = [value[:n] if sign == "%" else value[n:] for n in ends]
        cut = [value[n:] if sign == "%" else value[:n] for n in ends]
        fits = [
            piece for piece, gone in zip(pieces, cut, strict=True) if fnmatchcase(gone, pattern)
        ]
        return (min if how[1:2] == sign else max)(fits, key=len, default=value)
    return ""


def _told(texts: list[str], names: set[str]) -> list[str]:
    """Return the values that are known, each once: a variable that is not set in `names` is empty.

    What is computed is empty, too, but tells nothing if no name stands before it.
    """
    known = {name: f"${{{name}}}" for name in names}
    plain = (VARIABLE.sub(lambda of: known.get(of[1] or of[2], ""), text) for text in texts)
    shown = (text if len(text) <= _LONGEST_VALUE else _ends_of(text) for text in plain)
    emptied = ((text, COMPUTED.sub("", text)) for text in shown)
    told = (new for old, new in emptied if new == old or new[:1] != "/")
    return [text for text in dict.fromkeys(told) if text.strip("$")]


def _ends_of(text: str) -> str:
    """Return the words at both ends of a long value: the others are joined with nothing."""
    words = text.split()
    return (
        " ".join(word for word in (words[0], words[-1]) if len(word) <= _LONGEST_VALUE)
        if words
        else ""
    )
