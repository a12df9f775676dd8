"""What commands print, where that is known: `$PWD/..` for `$(dirname $PWD)`; and what runs that."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import dropwhile
from posixpath import normpath

from hub.guard.text.emptiness import ERRORS, NAME_OF_ROOT, UNSURE
from hub.guard.text.shell import Script, SimpleCommand, without_quotes

_INNERMOST = re.compile(r"\$\((?!\()([^()`]*)\)|\\`([^`()\\]*)\\`|`([^`()\\]*)`")
_LONGEST = 512
_MOST_DEEP = 8
_IN_A_ROOT = {
    "pwd": "$PWD",
    "pwd -L": "$PWD",
    "pwd -P": "$PWD",
    "git rev-parse --show-toplevel": "$PWD",
    "git rev-parse --absolute-git-dir": f"$PWD{UNSURE}.git",
    "git rev-parse --git-dir": f".{UNSURE}.git",
    "npm prefix": "$PWD",
    "npm root": f".{UNSURE}node_modules",
    "true": "",
    ":": "",
}
"""What these print in a root. In a folder below one, some print that of a folder above."""
_CD_AND_PWD = re.compile(r"cd (?:-- )?([^\s;&|]+) *(?:&&|;) *pwd(?: -[LP])?")
_WORDS = re.compile(r"(?:[\w./:@%+=~$#{}\[\] -]|\"[^\"\\`;&|<>()\s]*\"|'[^'$\\;&|<>()\s]*')*")
_OUTSIDE_QUOTES = r"(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*\Z)"
_EITHER, _PIPE = (re.compile(rf"{sign}{_OUTSIDE_QUOTES}") for sign in (r"\|\|", r"\|"))
_LIKE_DIRNAME = re.compile(
    r"""xargs dirname(?: --)?|sed (?:-[Er] )?['"]s(.)(?:\\?/)?\[\^\\?/\][*+]\$\1\1['"]"""
)
_CHANGES = re.compile(
    r"(?P<reversed>rev)|base64 (?:-d|-D|--decode)(?P<base64>)|(?P<hex>xxd (?:-r -p|-p -r|-rp))"
    r"|tr (['\"]?)(?P<from>[^\s'\"\\\[-]+)\4 (['\"]?)(?P<to>[^\s'\"\\\[-]+|/)\6"
    r"|tr -d (['\"]?)(?P<gone>[^\s'\"\\\[-]+)\8|cut -[bc] ?(?P<start>[1-9]\d{0,3})-"
    r"|sed (?:-[Er] )?(['\"]?)s(.)(?P<old>[\w /:@,=-]+)\12(?P<new>[\w ./:@,=-]*)\12(?P<all>g?)\11"
)
"""A filter that makes of a text another one that is known."""
_UNKNOWN = re.compile(r"[$~`{]|" + re.escape(UNSURE))
_NO_PATH = re.compile(r"[^\w./:@%+=~-]")
_OPENS_PRINTED = re.compile(
    r"\s*(?:sudo )?(?:\w+=\S* )*(?:xargs(?!(?: -\w+| \d+)* (?:echo|printf)\b)|parallel"
    r"|(?:[akz]|ba|da|fi)?sh|source|\.|while|read|mapfile|python[\d.]*|node|perl|ruby|php)(?![\w.-])"
)
"""What may open the words of a text, or run it."""
_ONE_TEXT = re.compile(r"echo (['\"])([^'\"$`\\]*)\1")
_ONLY_PRINTS = re.compile(
    r"[;\n]\s*do\s+(?:echo|printf) [^;|&<>`()\n*?\[{~]{0,512}[;\n]\s*done\s*(?:\Z|&&|[;\n]\s*\w)"
)
"""The rest of a loop that opens nothing: `while read x; do echo "$x"; done`."""
_PRINTS_FOLDERS = re.compile(
    r"ls(?: -\S+| [\w./-]+)*? (?:-[a-zA-Z]*[af][a-zA-Z]*|--all)(?!\S)|(?:print)?env\Z"
)
"""Prints `..`, or the variable `HOME` with the others."""
_FROM_TEXT = re.compile(
    r"(?<![^\s;&|($`])((?:rev|tr|base64|xxd|cut|sed)(?: [^|;&<>()`\n]{0,64})?) ?<<< ?"
    r"('[^']{0,512}'|\"[^\"$`]{0,512}\"|[\w./:@%+=-]{1,512})"
)
"""A filter of a text, which `echo` could print."""
_FROM_PRINTED = re.compile(r"(?<![\w.-])((?:(?:[akz]|ba|da)?sh|source|\.) )<\(")
_DATE = re.compile(r" *date(?!.*%\W*[nt])(?: -u)?(?: \+[%\w:-]+| (['\"])\+[%\w:-]+\1)? *", re.ASCII)
_SAME = re.compile(r"(?:head|tail) (?:-n ?)?-?1|cat|sort|uniq|xargs|tr -d ['\"]?\\n['\"]?")
_SCRIPT = frozenset({"$0", "${0}", "$BASH_SOURCE", "${BASH_SOURCE}", "${BASH_SOURCE[0]}"})
_HELD = re.compile(r"\b(\w+)=([\"']?)((?:\$\w+|\$\{\w+\})?[\w./~-]*+)\2(?=[\s;&|)]|\Z)", re.ASCII)
"""A variable that is set to a text that is known, but for one variable at its start."""
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_QUOTED_VARIABLE = re.compile(rf'"{_VARIABLE.pattern}"', re.ASCII)
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
_PIPED = re.compile(
    r"(?<![^\s;&|(\"'])(?:pwd|echo|printf|dirname|realpath|readlink|git rev-parse|npm prefix|ls|env"
    rf"|printenv)(?![\w-])(?:[^|;&()`\n]|(?<!\|)\|(?!\|)){{0,{_LONGEST}}}(?=\|)"
    rf"[^;&()`\n]{{0,{_LONGEST}}}"
)
"""A command whose words pipes may hand to others."""
_XARGS = re.compile(r"\bxargs\b[^|;&\n]*? (?:-I *|--replace=)['\"]?([^\s'\"]+)")
"""The mark for what `xargs` puts into its command."""
_CLIMBS = re.compile(
    r"(?:\$\((?! *npm root *\))(?:[^()`]|\$\([^()`]*\))*\)|`[^`]*`|\{\})" + _BEFORE_CLIMB
)
"""What a program prints or finds, before a `..`: `$(git describe)/..`, `find . -exec ls {}/..`."""

_PRINTS, _SAVE = frozenset({"echo", "printf"}), frozenset({"tee", "cat", "dd"})
_TAKES_PRINTED = re.compile(r"(?:.*/)?(?:(?:[akz]|ba|da|fi)?sh|xargs|parallel|su|source|\.)|\./.+")
"""What may run a text that is printed, or open the words of it."""
_RUN_BY_CODE = re.compile(
    r"\b(?:system|\w*popen|exec\w*|spawn\w*|run|call|check_\w+|get(?:status)?output|passthru)"
    r"[\s(\[]*[fr]?(?:'([^']{1,512})'|\"([^\"]{1,512})\"|`([^`]{1,512})`)",
    re.IGNORECASE,
)
"""What code hands to a shell: `os.system('ls /')`, `execSync("ls /")`."""
_SUBSTITUTES = re.compile(
    r"(?:\A|[;{}\s\d])s(?=\W|(?<=\As))([^\s\\])(?:\\.|(?!\1).){0,256}\1((?:\\.|(?!\1).){0,256})\1"
)
_ESCAPED, _STARTS_AS_PATH = re.compile(r"\\(.)"), re.compile(r"\.\.|/|~")
_BEFORE_PROGRAM = frozenset({"{", "!", "do", "then", "else", "command", "builtin", "time"})


def with_printed(command: str) -> str:
    """Return a command with what its `$(...)` print in their places, if that is known.

    What is not known is `.` before a `..`, and so is the mark of `xargs -I` that begins a word,
    since it may be the folder that the command runs in.
    """
    held = dict[str, str]()
    if "<" in command:
        command = _FROM_PRINTED.sub(r"\1$(", _FROM_TEXT.sub(r"echo \2 | \1", command))
    for _ in range(_MOST_DEEP):
        held = _held_in(command)
        before, command = command, _INNERMOST.sub(partial(_in_place, held=held), command)
        if command == before:
            break
    if marks := {re.escape(mark) for mark in _XARGS.findall(command)}:
        # As a name with more behind it, the mark may be that of the folder itself.
        part = rf"(?:{'|'.join(marks)}|\.)"
        word = re.compile(rf"(?<![^\s'\"])(?:{part}+(?=/)|{part}{{2,}}(?=[\s'\"]|\Z))")
        one = re.compile("|".join(marks))
        command = word.sub(lambda of: one.sub(".", of[0]), command)
    command = _CLIMBS.sub(".", _PIPED.sub(partial(_handed_on, held=held), command))
    unknown = {*_SET_TO_UNKNOWN.findall(command)}
    return _CLIMBING.sub(lambda of: "." if (of[1] or of[2]) in unknown else of[0], command)


def _held_in(command: str) -> dict[str, str]:
    """Return the value of each variable that surely has one; itself if it has several."""
    held = {"PWD": "$PWD", "OLDPWD": "$OLDPWD"}
    for name, _, value in _HELD.findall(command):
        held[name] = value if held.get(name, value) == value else f"${name}"
    return held


def _in_place(substitution: re.Match[str], held: Mapping[str, str]) -> str:
    printed = _printed(substitution[substitution.lastindex or 0], held)
    if printed is None:
        return substitution[0]
    goes_on = _GOES_ON.match(substitution.string, substitution.end()) is not None
    is_found = UNSURE in printed and printed != NAME_OF_ROOT
    may_fail = is_found or _MAY_FAIL.match(substitution[0]) is not None
    climbs = normpath(printed.replace("$PWD", ".")).startswith("..")
    # If nothing is printed, what follows is a path of its own.
    return substitution[0] if goes_on and may_fail and not climbs else printed


def _handed_on(pipe: re.Match[str], held: Mapping[str, str]) -> str:
    """Return a pipe of commands, with the path before it that its first ones hand on to others."""
    first, *others = _PIPE.split(pipe[0])
    printed = _of_one(_ONE_TEXT.sub(r"echo \2", first.replace("%s\\n", "%s")), held) or ""
    given = "" if first.lstrip()[:8] == "printenv" else printed
    if _ONLY_PRINTS.match(pipe.string, pipe.end()):
        others = [one for one in others if "while" not in one]
    if any(map(_OPENS_PRINTED.match, others)) and _PRINTS_FOLDERS.match(first.strip()):
        printed = "~" if "env" in first else ".."
    for other in others:
        filtered = _filtered(printed, other.strip(), held)
        is_opened = filtered is None and _OPENS_PRINTED.match(other) is not None
        if _is_above(printed) and (is_opened or not _PRINTS_FOLDERS.match(first.strip())):
            return f"{printed} | {pipe[0]}"
        if is_opened and printed != given:
            return f"{printed} | {pipe[0]}"
        printed = printed if filtered is None else filtered
    return f"{printed} | {pipe[0]}" if _is_above(printed) and printed != given else pipe[0]


def _is_above(printed: str) -> bool:
    return printed == ".." or normpath(printed.replace("$PWD", ".")).startswith("..")


def _filtered(printed: str, command: str, held: Mapping[str, str]) -> str | None:
    """Return what a filter makes of what is printed; None if that is not known."""
    if _LIKE_DIRNAME.fullmatch(command):
        return _parent(printed, held)
    if _SAME.fullmatch(command):
        return printed
    changed = _CHANGES.fullmatch(command) if not _UNKNOWN.search(printed) else None
    if changed is None:
        return None
    plain = _changed(printed, {name: of for name, of in changed.groupdict().items() if of})
    return None if plain is None else " ".join(_NO_PATH.sub(" ", plain).split())


def _changed(printed: str, how: Mapping[str, str]) -> str | None:
    if "old" in how:  # without the signs of a pattern
        number = 0 if "all" in how else 1
        return printed.replace(how["old"], how.get("new", ""), number or -1)
    if "from" in how:
        signs, to = how["from"], how.get("to", "")
        return printed.translate({ord(x): to[min(n, len(to) - 1)] for n, x in enumerate(signs)})
    if "gone" in how:
        return printed.translate(dict.fromkeys(map(ord, how["gone"])))
    if "start" in how:
        return printed[int(how["start"]) - 1 :]
    if "reversed" in how:
        return printed[::-1]
    return decoded(printed, is_hex="hex" in how)


def decoded(text: str, *, is_hex: bool) -> str | None:
    """Return what a text says in base64, or in hexadecimal digits; None if it is none."""
    try:
        raw = bytes.fromhex(text) if is_hex else b64decode(text + "==")
    except ValueError:
        return None
    return raw.decode("utf-8", "replace")


def _printed(command: str, held: Mapping[str, str]) -> str | None:
    """Return what a command prints, as words of a shell; None if that is not known."""
    if len(command) > _LONGEST:
        return None
    command, *others = _EITHER.split(ERRORS.sub(" ", command))
    if any(_printed(other, held) not in {".", "$PWD"} for other in others):
        return None
    entered = _CD_AND_PWD.fullmatch(command.strip())
    if entered and UNSURE in entered[1] and entered[1][0] not in "\"'":
        return "~"  # where `cd` goes if it is given nothing
    first, *filters = _PIPE.split(f"realpath {entered[1]}" if entered else command)
    printed = _of_one(first.replace("%s\\n", "%s"), held)
    if printed is None and entered and _QUOTED_VARIABLE.fullmatch(entered[1]):
        printed = "$PWD"  # if the variable is nothing, `cd "$x"` stays there
    for each in map(str.strip, filters):
        printed = _filtered(printed, each, held) if printed is not None else None
    return printed


def _of_one(command: str, held: Mapping[str, str]) -> str | None:
    if _DATE.fullmatch(command):
        return "0"
    if not _WORDS.fullmatch(command):
        return None
    name, *given = [without_quotes(word) for word in command.split()] or [":"]
    words = [word for word in given if word[:1] != "-"]
    if name in {"echo", "printf", "printenv"}:
        return told_by(name, words)
    known = _IN_A_ROOT.get(" ".join((name, *given)))
    match name, words:
        case "ls", _:
            known = ". .." if _PRINTS_FOLDERS.match(command) and "l" not in given[0] else None
        case "dirname", [path]:
            known = _parent(path, held)
        case "basename", [path, *_] if len(words) == 1 or path == "$PWD":
            known = _name(path, held)
        case "realpath" | "readlink", [path]:
            known = _real(path, held)
        case _:
            pass
    return known


def told_by(name: str, words: list[str]) -> str | None:
    """Return what `echo`, `printf` or `printenv` prints; None if that is not known."""
    if name == "echo" or not words:
        return " ".join(words)
    if name == "printenv":
        return f"${words[0]}"
    form, *rest = words
    number = len(_PLACES.findall(form))
    rounds = -(-len(rest) // number) if 0 < number < len(rest) <= _MOST_WORDS else 1
    texts = iter(rest)
    told = _PLACES.sub(lambda of: _cut(next(texts, ""), of), form * rounds)
    return None if "%" in _PLACES.sub("", form) else told.strip()


def _cut(text: str, place: re.Match[str]) -> str:
    """Return what a place in a format takes of a text."""
    return text[:1] if place[2] == "c" else text[: int(place[1] or 0)] if place[1] else text


_PLACES = re.compile(r"%[-+ #0]*\d*(?:\.(\d{1,4}))?([sbqc])")
_MOST_WORDS = 64


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
        yield from _run_by_code([command[one.start : one.end] for one in script.documents])
        takers = [one for one in script.commands if _takes_printed(one)]
        is_piped = any(one.before == "|" for one in takers)
        opened = _names_opened(script) if takers else None
        saves = any(
            one.before == "|" and any(word.text in _SAVE for word in one.given[:1])
            for one in script.commands
        )
        for one in script.commands:
            words = [*dropwhile(_BEFORE_PROGRAM.__contains__, (word.text for word in one.given))]
            signs = {word.operator for word in one.words}
            given = [word.text for word in one.words if word.operator == "<<<"]
            goes_on = (
                is_piped
                or (saves and one.after == "|")
                or (">" in "".join(signs) and not _stays(one, opened))
            )
            prints = words[:1] and words[0] in _PRINTS and goes_on
            if takers and (prints or given):
                yield f"xargs {' '.join(given or words[1:])}"
            if (takers or one.depth) and "sed" in words:
                put = (of[2] for word in words for of in _SUBSTITUTES.finditer(word))
                plain = (_ESCAPED.sub(r"\1", text).strip("&") for text in put)
                yield from (f"xargs {text}" for text in plain if _STARTS_AS_PATH.match(text))
            yield from _run_by_code(words)


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


def _stays(command: SimpleCommand, opened: str | None) -> bool:
    """Return whether no other command names the file that one writes."""
    files = [word.text for word in command.words if word.operator[:1] == ">"]
    name = files[0].rpartition("/")[2] if len(files) == 1 else ""
    return bool(name) and opened is not None and name not in opened


_KEEPS_FILES = re.compile(r"(?:(?:ba|da|z)?sh|echo|printf|mkdir|chmod|\./[\w./-]+)\Z")
_COMPUTES = re.compile(r"\$\(|[<>]\(|`")
_QUOTES, _MAY_NAME = re.compile(r"['\"\\]"), re.compile(r"[$`*?\[{<]|^-\w*c", re.MULTILINE)


def _run_by_code(texts: list[str]) -> Iterator[str]:
    for run in (of for text in texts for of in _RUN_BY_CODE.finditer(text)):
        yield run[run.lastindex or 0]


def _takes_printed(command: SimpleCommand) -> bool:
    return any(_TAKES_PRINTED.fullmatch(word.text) for word in command.given)
