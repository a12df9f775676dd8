"""What commands print, where that is known: `$PWD/..` for `$(dirname $PWD)`; and what runs that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import dropwhile
from posixpath import normpath

from hub.guard.text.code import SELECTS, changed_by, put_by_sed, run_by_code, told_by
from hub.guard.text.emptiness import NAME_OF_ROOT, UNSURE
from hub.guard.text.shell import CommandWord, Script, SimpleCommand, parsed

_INNERMOST = re.compile(r"\$\((?!\()([^()`]*)\)|\\`([^`()\\]*)\\`|`([^`()\\]*)`")
_LONGEST, _MOST_DEEP = 512, 8
_IN_A_ROOT = {
    "git rev-parse --show-toplevel": "$PWD",
    "git rev-parse --absolute-git-dir": f"$PWD{UNSURE}.git",
    "git rev-parse --git-dir": f".{UNSURE}.git",
    "npm prefix": "$PWD",
    "npm root": f".{UNSURE}node_modules",
    "true": "",
    ":": "",
}
"""What these print in a root. In a folder below one, some print that of a folder above."""
_KNOWN = re.compile(
    r"\s*(?:(?:cd|pwd|git|npm|true|echo|printf|printenv|ls|dirname|basename|realpath|readlink|date|rev"
    r"|tr|base64|xxd|cut|tail|sed)\b|:?\s*\Z)"
)
_SAFE = re.compile(r"[\w./:@%+=~$#{}\[\] ,-]*")
"""What may stand in a command in place of the `$(...)` that prints it."""
_LIKE_DIRNAME = re.compile(
    r"xargs dirname(?: --)?|sed (?:-[Er] )?s(.)(?:\\?/)?\[\^\\?/\][*+]\$\1\1"
)
_SAME = re.compile(r"(?:head|tail)(?: -n)? ?-?1|cat|sort|uniq|xargs|tr -d \\?n")
_UNKNOWN = re.compile(r"[$~`{]|" + re.escape(UNSURE))
_NO_PATH = re.compile(r"[^\w./:@%+=~-]")
_OPENS_PRINTED = re.compile(
    r"\s*(?:sudo )?(?:\w+=\S* )*(?:xargs(?!(?: -[\w{}%]+| \d+)* (?:echo|printf)\b)|parallel"
    r"|(?:[akz]|ba|da|fi)?sh|source|\.|while|read|mapfile)(?![\w.-])"
    r"|(?:python[\d.]*|node|perl|ruby|php)(?:(?: -)?\Z"
    r"|\b.*(?:open|dir|exec|system|glob|walk|Path|File|<))"
)
"""What may open the words of a text, or run it."""
_ONLY_PRINTS = re.compile(
    r"[;\n]\s*do\s+(?:echo|printf(?! -v)) [^;|&<>`()\n*?\[{~]{0,512}[;\n]\s*done\s*"
    r"(?:\Z|(?:&&|[;\n])(?:(?!\b(?:done|fi|esac|xargs)\b)[^$`|<>(){}'\"\\])*\Z)"
)
"""The rest of a loop that opens nothing, and whose output and variable nothing uses."""
_PRINTS_FOLDERS = re.compile(
    r"(?:(?:[a-z]*sh|eval) (?:.*[\s;&|(])?)?ls(?: -\S+| [\w./][\w./-]*)*?"
    r" (?:-[a-zA-Z]*[af][a-zA-Z]*|--all)(?!\S)|(?:print)?env\Z",
    re.DOTALL,
)
"""Prints `..`, perhaps in another shell, or the variable `HOME` with the others."""
_DATE = re.compile(r"date(?!.*%\W*[nt])(?: -u)?(?: \+[%\w:-]+)?", re.ASCII)
_SCRIPT = frozenset({"$0", "${0}", "$BASH_SOURCE", "${BASH_SOURCE}", "${BASH_SOURCE[0]}"})
_HELD = re.compile(r"\b(\w+)=([\"']?)((?:\$\w+|\$\{\w+\})?[\w./~-]*+)\2(?=[\s;&|)]|\Z)", re.ASCII)
"""A variable that is set to a text that is known, but for one variable at its start."""
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_MAY_FAIL = re.compile(r"[$(` ]*(?:git|npm|cd|realpath|readlink)\b")
"""A command that is known, and prints nothing where it fails."""
_GOES_ON = re.compile(r"[\"']?[\w./$~]")
"""Behind `$(...)`: the same word goes on."""
_SET_TO_UNKNOWN = re.compile(
    rf"\b(\w+)=[\"']?(?:\$\((?! *npm root *\))|`|[\w./$-]{{0,{_LONGEST}}}{UNSURE}(?!node_modules))",
    re.ASCII,
)
"""A variable that is set to what a program may print."""
_BEFORE_CLIMB = r"(?=[\"']?/\.\.(?![\w.]))"
_CLIMBING = re.compile(rf"{_VARIABLE.pattern}{_BEFORE_CLIMB}", re.ASCII)
_XARGS = re.compile(r"\bxargs\b[^|;&\n]*? (?:-I *|--replace=)['\"]?([^\s'\"]+)")
"""The mark for what `xargs` puts into its command."""
_CLIMBS = re.compile(
    r"(?:\$\((?! *npm root *\))(?:[^()`]|\$\([^()`]*\))*\)|`[^`]*`|\{\})" + _BEFORE_CLIMB
)
"""What a program prints or finds, before a `..`: `$(git describe)/..`, `find . -exec ls {}/..`."""

_HERE = {"PWD": "$PWD", "OLDPWD": "$OLDPWD"}
_PRINTS, _SAVE = frozenset({"echo", "printf"}), frozenset({"tee", "cat", "dd"})
_TAKES_PRINTED = re.compile(r"(?:.*/)?(?:(?:[akz]|ba|da|fi)?sh|xargs|parallel|su|source|\.)|\./.+")
"""What may run a text that is printed, or open the words of it."""
_PIPES = re.compile(r"\||[<>=]\(")
_BEFORE_PROGRAM = re.compile(
    r"[{!]|if|while|until|do|then|else|command|builtin|exec|coproc|time|timeout|nohup|nice|sudo|env"
    r"|\w+=.*|-\w+|\d+[smhd]?",
    re.DOTALL,
)
"""A word before that of the program, as in `X=1 timeout 5 ls`; options of such words, too."""


def with_printed(command: str) -> str:
    """Return a command with what its `$(...)` print in their places, if that is known.

    What is not known is `.` before a `..`, and so is the mark of `xargs -I` that begins a word,
    since it may be the folder that the command runs in.
    """
    for _ in range(_MOST_DEEP):
        held = _held_in(command)
        before, command = command, _INNERMOST.sub(partial(_in_place, held=held), command)
        if command == before:
            break
    found = ["{}"] if "find" in command else list[str]()
    if marks := {*map(re.escape, (*found, *_XARGS.findall(command)))}:
        # As a name with more behind it, the mark may be that of the folder itself.
        part = rf"(?:{'|'.join(marks)}|\.)"
        word = re.compile(rf"(?<![^\s'\"])(?:{part}+(?=/)|{part}{{2,}}(?=[\s'\"]|\Z))")
        one = re.compile("|".join(marks))
        command = word.sub(lambda of: one.sub(".", of[0]), command)
    command = _CLIMBS.sub(".", command)
    unknown = {*_SET_TO_UNKNOWN.findall(command)}
    return _CLIMBING.sub(lambda of: "." if (of[1] or of[2]) in unknown else of[0], command)


def _held_in(command: str) -> dict[str, str]:
    """Return the value of each variable that surely has one; itself if it has several."""
    held = dict(_HERE)
    for name, _, value in _HELD.findall(command):
        held[name] = value if held.get(name, value) == value else f"${name}"
    return held


def _in_place(substitution: re.Match[str], held: Mapping[str, str]) -> str:
    printed = _printed(substitution[substitution.lastindex or 0], held)
    rest = substitution.string[substitution.end() :][:_LONGEST]
    if printed is None or (printed == ". .." and _ONLY_PRINTS.match(rest)):
        return substitution[0]
    goes_on = _GOES_ON.match(substitution.string, substitution.end()) is not None
    is_found = UNSURE in printed and printed != NAME_OF_ROOT
    may_fail = is_found or _MAY_FAIL.match(substitution[0]) is not None
    # If nothing is printed, what follows is a path of its own.
    return substitution[0] if goes_on and may_fail and not _is_above(printed) else printed


def _is_above(printed: str) -> bool:
    return normpath(printed.replace("$PWD", ".")).startswith("..")


def _printed(command: str, held: Mapping[str, str]) -> str | None:
    """Return what the command of a `$(...)` prints, as words of a shell; None if not known."""
    if len(command) > _LONGEST or not _KNOWN.match(command):
        return None
    command = re.sub(r"\\+([\"$])", r"\1", command)  # in the quotes of an inner shell
    ways, here, behind_cd = list[str | None](), "$PWD", False
    for one in parsed(command).commands:
        words = _behind_prefixes(one, "")
        is_next = one.before == "|" if ways else not one.before or behind_cd
        files = {word.text for word in one.words if word.operator not in {"", "<<<"}}
        if files - {"/dev/null", "1"} or not words or not (is_next or one.before == "||"):
            return None
        if words[0] == "cd" and not ways and words[1:]:
            here, behind_cd = _entered(one.given[-1], held), True
            continue
        if one.before == "|":
            ways[-1] = None if ways[-1] is None else _filtered(ways[-1], words, held)
        else:
            ways.append(_output(one, words, held, here))
    first, *others = ways or [None if behind_cd else ""]
    if first is None or any(other not in {".", "$PWD"} for other in others):
        return None
    first = " ".join(first.split())
    return first if _SAFE.fullmatch(first) else None


def _entered(word: CommandWord, held: Mapping[str, str]) -> str | None:
    """Return what `pwd` prints behind `cd`."""
    if UNSURE in word.raw and word.raw[0] not in "\"'":
        return "~"  # where `cd` goes if it is given nothing
    real = _real(word.text, held) if _SAFE.fullmatch(word.text) else None
    # If the variable is nothing, `cd "$x"` stays there.
    stays = word.raw[0] == '"' and _VARIABLE.fullmatch(word.text) is not None
    return "$PWD" if real is None and stays else real


def _output(
    command: SimpleCommand, words: list[str], held: Mapping[str, str], here: str | None = "$PWD"
) -> str | None:
    """Return what a command prints of its words, or of the text behind `<<<`."""
    text = next((word.text for word in command.words if word.operator == "<<<"), None)
    if text is not None:
        return _filtered(text, words, held)
    name, *given = words
    names = [word for word in given if word[:1] != "-"]
    line = " ".join(words)
    if name in {"echo", "printf", "printenv"}:
        told = told_by(name, names)
        return told and told.strip()
    match name, names:
        case "pwd", []:
            known = here
        case "ls", _:
            known = (
                ". .." if _PRINTS_FOLDERS.match(line[:_LONGEST]) and "l" not in given[0] else None
            )
        case "dirname", [path]:
            known = _parent(path, held)
        case "basename", [path, *_] if len(names) == 1 or path == "$PWD":
            known = _name(path, held)
        case "realpath" | "readlink", [path]:
            known = _real(path, held)
        case _:
            known = "0" if _DATE.fullmatch(line) else _IN_A_ROOT.get(line)
    return known


def _filtered(printed: str, words: list[str], held: Mapping[str, str]) -> str | None:
    """Return what a filter makes of what is printed; None if that is not known."""
    line = " ".join(words)
    if _LIKE_DIRNAME.fullmatch(line):
        return _parent(printed, held)
    if _SAME.fullmatch(line):
        return printed
    changed = None if _UNKNOWN.search(printed) else changed_by(words, printed)
    return None if changed is None else " ".join(_NO_PATH.sub(" ", changed).split())


def _real(path: str, held: Mapping[str, str]) -> str | None:
    """Return what `realpath` prints of a path, as a path that leads there."""
    if _VARIABLE.fullmatch(path):
        path = held.get(path.strip("${}"), path)
    variable = _VARIABLE.match(path)
    start = variable[0] if variable else ""
    if start and start.strip("${}") not in held:
        return None
    rest = path[len(start) :]
    if rest.rstrip("/") in {"", "."}:
        return start or ("/" if rest[:1] == "/" else "$PWD")
    before = start or ("" if rest[0] == "/" else ".")
    return f"{before}{UNSURE}{rest.lstrip('/')}"


def _name(path: str, held: Mapping[str, str]) -> str | None:
    """Return what `basename` prints of a path."""
    if _VARIABLE.fullmatch(path):
        path = held.get(path.strip("${}"), "${}")
        if _VARIABLE.fullmatch(path):
            return NAME_OF_ROOT
    name = path.rstrip("/").rpartition("/")[2]
    if "{}" in name or "$" in name:
        return None
    return f".{UNSURE}{name}" if UNSURE in path else name


def _parent(path: str, held: Mapping[str, str]) -> str | None:
    """Return what `dirname` prints of a path: `a` of `a/b`, `$PWD/..` of `$PWD`."""
    path = path.rstrip("/") or path
    if path in _SCRIPT:
        return "."
    if _VARIABLE.fullmatch(path):
        value = held.get(path.strip("${}"), path).rstrip("/")
        return _above(path, held) if _VARIABLE.fullmatch(value) else _parent(value, held)
    folder, slash, name = path.rpartition("/")
    if slash and (name in {".", ".."} or UNSURE in path):
        return _above(path, held)
    return None if "{}" in path else (folder or slash) if slash else "."


def _above(path: str, held: Mapping[str, str]) -> str | None:
    """Return the folder that a path is in, behind all links."""
    variable = _VARIABLE.match(path)
    is_known = variable is None or (variable[1] or variable[2]) in held
    return f"{path}/.." if is_known and "{}" not in path else None


def texts_run(command: str, scripts: list[Script]) -> Iterator[str]:
    """Yield what is printed, if something may run it, and what code hands to a shell."""
    for script in scripts:
        yield from run_by_code([command[one.start : one.end] for one in script.documents])
        takers = [one for one in script.commands if any(map(_TAKES_PRINTED.fullmatch, _texts(one)))]
        yield from _handed_on_in(command, script, _MOST_DEEP)
        if takers:
            yield from _printed_for(script, is_piped=any("|" in one.before for one in takers))
        for one in script.commands:
            words = _texts(one)
            if (takers or one.depth) and "sed" in words:
                yield from map("xargs {}".format, put_by_sed(words))
            yield from run_by_code(words)


def _handed_on_in(command: str, script: Script, depth: int) -> Iterator[str]:
    """Yield what pipes hand on in a script, and in each text in it that may be another one."""
    yield from _handed_on(command, script)
    texts = [command[one.start : one.end] for one in script.documents]
    texts += (word.text for one in script.commands for word in one.given if " " in word.text)
    for text in filter(_PIPES.search, texts if depth else ()):
        if text != command:
            yield from _handed_on_in(text, parsed(text), depth - 1)


def _handed_on(command: str, script: Script) -> Iterator[str]:
    """Yield what pipes hand to what opens the words of it, if it is known and does not stand there.

    What an unknown filter makes of the path of this folder may be that of the one above. What is
    computed and leads there is judged wherever it goes, and all in a `sh <(...)`.
    """
    printed, told = dict[int, str | None](), ""
    for one in script.commands:
        line = " ".join(word.raw for word in one.given)
        is_piped = not {"|", "|&"}.isdisjoint(one.signs)
        words = _behind_prefixes(one, "" if is_piped else "xargs")
        behind = words if SELECTS.match(line) else _from_known(words)
        given = printed.get(one.depth) if is_piped else None
        if given is None or not words:
            words = behind
            known = _output(one, words, _HERE) if words else None
            told = known if known and words[0] in _PRINTS else ""
            if _PRINTS_FOLDERS.match(" ".join(words)[:_LONGEST]) or (not words and "env" in line):
                known = "~" if "env" in line else ".."
            elif known and words[0] != "echo" and (_is_above(known) or (one.depth and not told)):
                yield f"xargs {known}"
            printed[one.depth] = known
            continue
        last = one.words[-1]
        is_other = not SELECTS.match(line) and any(map(_TAKES_PRINTED.fullmatch, words))
        is_opened = (_OPENS_PRINTED.match(line) or is_other) and not _ONLY_PRINTS.match(
            command, last.start + len(last.raw)
        )
        if is_opened and given != told:
            yield f"xargs {given}"
        filtered = _filtered(given, words, _HERE) or _filtered(given, behind, _HERE)
        if filtered and (one.depth or (filtered != given and _is_above(filtered))):
            yield f"xargs {filtered}"
        elif filtered is None and given[:4] == "$PWD" and not SELECTS.match(line):
            filtered = "$PWD/.."
        printed[one.depth] = given if filtered is None else filtered


def _from_known(words: list[str]) -> list[str]:
    """Return words from the first program on that is known: an unknown one may run it."""
    names = [one.rpartition("/")[2] or one for one in words]
    start = next((n for n, name in enumerate(names) if _KNOWN.fullmatch(name)), 0)
    return names[start : start + 1] + words[start + 1 :]


def _printed_for(script: Script, *, is_piped: bool) -> Iterator[str]:
    """Yield the texts that a script prints for what may run them, put together as in one file."""
    opened, whole = _names_opened(script), list[str]()
    written = [one for one in script.commands if _is_opened(one, opened)]
    is_piped = is_piped or any(_texts(one)[:1] in ([], ["}"], ["done"], ["fi"]) for one in written)
    kept = {*map(id, written)}
    saves = any("|" in one.signs and {*_texts(one)[:1]} & _SAVE for one in script.commands)
    for one in script.commands:
        words = _behind_prefixes(one, "xargs")
        goes_on = is_piped or one.depth > 0 or (saves and one.after == "|") or id(one) in kept
        whole += (f"{word.text}\n" for word in one.words if word.operator == "<<<")
        if goes_on and words[:1] == ["echo"]:
            whole.append(" ".join(words[1:]) + "\n" * ("-n" not in words))
        elif goes_on and words[:1] == ["printf"]:
            whole.append(told_by("printf", words[1:]) or " ".join(words[1:]))
    if whole:
        yield f"xargs {''.join(whole)}"


def _behind_prefixes(command: SimpleCommand, other: str) -> list[str]:
    """Return the words of a command from its program on; `other` is one more word before that."""
    texts = _texts(command)
    if texts[:1] in (["function"], ["coproc"]) and "{" in texts:
        texts = texts[texts.index("{") :]
    return [*dropwhile(lambda one: one == other or _BEFORE_PROGRAM.fullmatch(one), texts)]


def _texts(command: SimpleCommand) -> list[str]:
    return [word.text for word in command.given]


def _names_opened(script: Script) -> str | None:
    """Return the words of all commands that print nothing; None if they may open any file.

    Programs that are not known may hand a file on to others, and so may wildcards.
    """
    texts = list[str]()
    for one in script.commands:
        program = one.given[0].text if one.given else ""
        words = [word.text for word in one.words]
        is_known = _KEEPS_FILES.match(program) is not None and one.before != "|"
        if not is_known or (program in _PRINTS and _COMPUTES.search(" ".join(words))):
            return None
        texts += words if program not in _PRINTS else ()
    opened = "\n".join(texts)
    return None if _MAY_NAME.search(opened) else _QUOTES.sub("", opened)


def _is_opened(command: SimpleCommand, opened: str | None) -> bool:
    """Return whether a command writes to a file that another one may open."""
    files = [word.text for word in command.words if word.operator[:1] == ">"]
    name = files[0].rpartition("/")[2] if len(files) == 1 else ""
    stays = bool(name) and opened is not None and name not in opened
    return not stays and any(">" in word.operator for word in command.words)


_KEEPS_FILES = re.compile(r"(?:(?:ba|da|z)?sh|echo|printf|mkdir|chmod|\./[\w./-]+)\Z")
_COMPUTES = re.compile(r"\$\(|[<>]\(|`")
_QUOTES, _MAY_NAME = re.compile(r"['\"\\]"), re.compile(r"[$`*?\[{<]|^-\w*c", re.MULTILINE)
