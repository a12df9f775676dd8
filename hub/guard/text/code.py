"""Code in a command, and scripts of filters: what they make of constants and of known texts."""

from __future__ import annotations

import re
import string
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import dropwhile
from typing import TypeAlias

from hub.guard.text.shell import HereDocument, SimpleCommand
from hub.guard.text.sure_commands import BEHIND

_CODE = re.compile(
    r"\b(?:python[\d.]*|node|bun|perl|ruby|php)(?: -[\w=]+)*"
    r" (?:(?:-\w*[ceEpr]\w*|--eval|--print)[ =]?['\"a-z]|-? ?<<)|\b[gm]?awk |\bsqlite3 "
)
"""The start of code that an interpreter runs."""
_FOLDERS_IN_CODE = (
    (
        re.compile(r"(?<=[.(\[{'\"])HOME\b|(?:Path|Dir)\.home\b|\b(?:homedir|getpw(?:uid|nam))\b"),
        " ~/ ",
    ),
    (
        re.compile(
            # Not `Path("a/b").resolve().parent`.
            r"\bos(?:\.path)?\.pardir\b|\bupdir\b|(?:cwd|\((?:['\"]\.?['\"])?\)\.(?:resolve|absolute))\(\)\)?\.parents?\b"
            r"|\bdirname\((?:\w+\.)*(?:abspath|realpath|resolve)\((['\"])\.?\1\)"
            r"|\b(?:dirname|split)\((?:os\.getcwd|process\.cwd|Dir\.pwd|\w*cwd)\b"
        ),
        " ../ ",
    ),
)
"""What code has for the user's home, and for the folder above the one that it runs in."""
_QUOTED = r"(?:'([^']{1,512})'|\"([^\"]{1,512})\"|`([^`]{1,512})`)"
_RUN = r"\b(?:system|\w*popen|exec\w*|spawn\w*|run|call|check_\w+|get(?:status)?output|passthru)"
_RUN_BY_CODE = re.compile(rf"{_RUN}[\s(\[]*[fr]?{_QUOTED}", re.IGNORECASE)
"""What code hands to a shell: `os.system('ls /')`, `execSync("ls /")`."""
_MAY_RUN = re.compile(rf"{_RUN}\s*[(\['\"`]", re.IGNORECASE)
_SCRIPT_IN_CODE = re.compile(_QUOTED.replace("]{1", "\\n]{0"))
"""A constant of one line, from the first quote on so that none starts at the end of another."""
_RUNS_CODE = re.compile(r"(?:python[\d.]*|node)(?: -|\Z)")
_CLIMB_IN_CODE = re.compile(
    r"\b(?:sys\.path\.(?:insert\(\d+, ?|append\()|(?:require|import|open|readFileSync)\()\\?['\"]"
    r"(?=\.\.(?:/[\w./-]*)?\\?['\"][,)])"
)
"""Where code opens a path that it does nothing else with: `require('../x')`."""
_STARTS_ELSEWHERE = re.compile(
    r"chdir|cwd|dir_fd|opener|\bcd\b|(?:sub|child_)process|system|popen|getattr|__|\.name\b"
    r"|\b(?:open|require|readFileSync)\s*[=:'\"]|(?:\b(?:as|def|for|function)\s|:)\s*(?:open|require"
    r"|readFileSync)\b|\bsys\.path(?!\.(?:insert|append)\()"
)
"""What may open such a path from another folder, or by another function, or get it back."""

SELECTS = re.compile(
    r"(?:grep|head|tail|cat|sort|uniq|tee|wc|basename|xargs)\b|sed ['\"]?s(.)\.\*\\?/\1\1"
    r"|awk -F ?['\"]?/['\"]? '\{ ?print \$NF ?\}'"
)
"""Programs that print whole lines of what they read, or the last name of a path."""
_CUTS = re.compile(r"(?:cut -[bc] ?([1-9]\d{0,3})-|tail -c ?\+([1-9]\d{0,3}))")
_EDIT = re.compile(
    r"[\s;]*(?:s([^\w\s\\])((?:(?!\1)[^\\\n]|\\.){1,99})\1((?:(?!\1)[^\\\n]|\\.){0,99})\1(g?)"
    r"|y([^\w\s\\])((?:(?!\5)[^\\\n]){1,99})\5((?:(?!\5)[^\\\n]){1,99})\5)[\s;]*"
)
"""A command of `sed` that puts one text in place of another, or signs in place of others."""
_SUBSTITUTES = re.compile(
    r"(?:\A|[;{}\s\d])s(?=\W|(?<=\As))([^\s\\])(?:\\.|(?!\1).){0,256}\1((?:\\.|(?!\1).){0,256})\1"
)
_PLAIN_OLD = re.compile(r"\^|\$|\.\*|(?:[\w /:@,=!#%&~|-]|\\[./])+")
_ESCAPED = re.compile(r"\\(.)")
_CODE_OF_TR = re.compile(r"\\([0-7]{1,3})")
_CLASS_OF_TR = re.compile(r"\[(?::(\w+):|=(.)=|(.)\*\d*)\]", re.ASCII | re.DOTALL)
_CLASSES = {
    "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "alpha": string.ascii_uppercase + string.ascii_lowercase,
    "digit": string.digits,
    "alnum": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "punct": string.punctuation,
    "space": string.whitespace,
}
_RANGE = re.compile(r"([ -\[\]-~])-([ -~])")


def with_folders_of_code(command: str) -> str:
    """Return a command with `~` and `..` for the names that code in it has for these folders."""
    code = _CODE.search(command)
    if code is not None and (code[0][-4:] != "awk " or "ENVIRON" in command):
        start, lines = command[: code.start()], command[code.start() :]
        for named, folder in _FOLDERS_IN_CODE:
            lines = named.sub(folder, lines)
        command = start + lines
    return command


def constants_in(command: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield, each once, what code puts together of constants: `..` for `'.' * 2`, `chr(46)`.

    `texts` are the words and lines of `command` that may be code.
    """
    if not _CODE.search(command):
        return
    waiting, found = list(dict.fromkeys(texts)), dict[str, None]()
    for text in waiting:  # grows in the loop
        found |= {"/": None} if _TOP_IN_CODE.search(text.replace("\\", "")) else {}
        plain = _ANY_TEXT.sub(r"'\2'", text) if _MAY_JOIN.search(text) else ""
        # Also as it stands, since a name may be that of a variable and of a function.
        for code in dict.fromkeys((plain, _with_constants(plain, found))) if plain else ():
            _fold(code, found, fills=code != plain)
        encoded = ((of[1], "hex" in of[0]) for of in _ENCODED.finditer(text))
        inner = [one for of, is_hex in encoded if (one := decoded(of, is_hex=is_hex))]
        found |= dict.fromkeys(inner)
        waiting += inner if len(waiting) < _MOST_DECODED else ()
    yield from filter(None, found)


def _fold(code: str, found: dict[str, None], *, fills: bool) -> None:
    for _ in range(_MOST_FOLDS):
        before, code = code, _with_constants(code, found) if fills else code
        for pattern, value_of in _FOLDS:
            code = pattern.sub(partial(_folded, value_of=value_of, found=found), code)
        if code == before:
            break


def _with_constants(code: str, found: dict[str, None]) -> str:
    """Return code with the constants that it gives to variables where it uses these: `d='.'; d+d`.

    Of a variable with several the last one counts.
    """
    values = dict(_IN_VARIABLE.findall(code)[:_MOST_VARIABLES])
    if not values:
        return code
    names = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
    used = re.compile(rf"[$#]?\{{({names})\}}|\$({names})\b")
    alone = re.compile(rf"('[^'\n]*')|(?<![\w.'$@])[$@]?({names})\b(?!\s*=[^=])(?=[^\n])")

    def filled(of: re.Match[str]) -> str:
        if not of[1]:
            return f"'{values[of[2]]}'"
        text = used.sub(lambda use: values[use[1] or use[2]], of[0])
        if len(text) > _LONGEST_CONSTANT:
            return of[0]
        if text != of[0]:
            found[text[1:-1]] = None
        return text

    return alone.sub(filled, code)


_ValueOf: TypeAlias = Callable[[re.Match[str]], str]


def _folded(code: re.Match[str], value_of: _ValueOf, found: dict[str, None]) -> str:
    value = value_of(code)
    if value == code[0] or len(value) > _LONGEST_CONSTANT or "'" in value or "\n" in value:
        return code[0]
    found[value] = None
    return f"'{value}'"


def _of_numbers(code: re.Match[str]) -> str:
    return "".join(chr(int(number, 0)) for number in _NUMBERS.findall(code[1]))


def _joined(code: re.Match[str]) -> str:
    between, *texts = _TEXTS.findall(code[0])
    if code[0][0] == "[":  # `[...].join('')`, where the sign between them is the last
        *texts, between = _TEXTS.findall(code[0].replace(".join()", ".join(',')"))
    return between.join(texts)


def _filled(code: re.Match[str]) -> str:
    form, *given = _TEXTS.findall(code[0])
    rest = iter(given)
    return _PLACE.sub(lambda of: given[int(of[1]) % len(given)] if of[1] else next(rest, ""), form)


def _added(code: re.Match[str]) -> str:
    texts = _TEXTS.findall(code[0])
    return "".join(texts) if len(texts) > 1 else code[0]


_ANY_TEXT = re.compile(r"(?:\b[bruf]{1,2})?(['\"`])((?:(?!\1)[^'\"`\\\n]){0,128})\1")
_IN_VARIABLE = re.compile(
    r"(?<![\w.])[$@]?([A-Za-z_]\w*)\s*:?=\s*'([^'\n]{0,128})'(?=\s*(?:[;,)}\n#]|$))"
)
"""A variable that is given a constant."""
_MOST_VARIABLES = 32
_T, _TEXTS = r"'[^'\n]{0,128}'", re.compile(r"'([^'\n]{0,128})'")
_N, _NUMBERS = r"(?:0x[0-9a-fA-F]{1,4}|[1-9]\d{0,3})", re.compile(r"0x[0-9a-fA-F]+|\d+")
_LISTED = rf"{_T}(?:\s*,\s*{_T}){{0,32}}\s*"
_PLACE = re.compile(r"%[sc]|\{(\d?)\}")
_MOST_FOLDS, _MOST_DECODED, _LONGEST_CONSTANT = 6, 16, 256
_FOLDS: tuple[tuple[re.Pattern[str], _ValueOf], ...] = (
    (
        re.compile(
            r"\b(?:chr|char|fromCharCode|fromCodePoint|bytes|bytearray)\(\s*\[?"
            rf"({_N}(?:\s*,\s*{_N}){{0,64}})\]?\s*\)",
            re.IGNORECASE,
        ),
        _of_numbers,
    ),
    (
        re.compile(r"'([^'\n]{0,128})'\s*(?:\*|\bx\b|\.repeat\()\s*([1-9])\b\)?"),
        lambda of: of[1] * int(of[2]),
    ),
    (
        re.compile(r"'([^'\n]{0,128})'\[::-1\]|\breverse\b[\s(]{0,9}'([^'\n]{0,128})'"),
        lambda of: (of[1] or of[2] or "")[::-1],
    ),
    (
        re.compile(
            rf"{_T}\.join\([\[(]\s*{_LISTED}[\])]\)|\bjoin\(\s*{_LISTED}\)"
            rf"|\[\s*{_LISTED}\]\.join\((?:{_T})?\)"
        ),
        _joined,
    ),
    (re.compile(rf"{_T}(?:\s*%\s*\(?\s*{_T}|\.format\(\s*{_LISTED}\))"), _filled),
    # One text alone is passed over, so that none starts at the end of another.
    (re.compile(rf"{_T}(?:\s*(?:[+.]|\|\||\.concat\()?\s*{_T}){{0,32}}"), _added),
)
"""How code puts a text together of others, which all are in single quotes here."""
_ENCODED = re.compile(
    r"(?:b64decode|atob|decode_base64|base64_decode|fromhex|unhexlify|hex2bin|Buffer\.from)"
    r"\(\s*b?['\"]([\w+/=-]{2,4096})['\"](?:\s*,\s*['\"](?:base64|hex))?"
)
_MAY_JOIN = re.compile(r"['\"`]|\(\s*\[?\s*\d")
_SPELLED_TOP = r"(?:os(?:\.path)?\.sep\b|path\.sep\b|[frb]?(['\"])/[/.]*(?:\*\*?)?\1)"
_TOP_IN_CODE = re.compile(
    r"\b(?:open|listdir|scandir|chdir|walk|i?glob(?:Sync|iterator)?|readdir\w*|opendir\w*|Path|rmtree"
    rf"|copytree|children|entries|each_child|foreach|readFile\w*|Deno\.\w+)[(\s]\s*(?:\w+\s*,\s*)?{_SPELLED_TOP}"
    r"|\b(?:run|call|check_\w+|\w*popen|spawn\w*|exec\w*|system)\([^)]{0,256}['\"]/[/.]*['\"]"
    r"|[(=,\[]\s*(?:os(?:\.path)?|path)\.sep\s*\+|cwd\(\)\)?\.(?:root|anchor)\b",
    re.IGNORECASE,
)
"""What code has for the top folder, where it opens that: `listdir(os.sep)`, `Path('/')`."""


def decoded(text: str, *, is_hex: bool) -> str | None:
    """Return what a text says in base64, or in hexadecimal digits; None if it is none."""
    try:
        raw = bytes.fromhex(text) if is_hex else b64decode(text + "==")
    except ValueError:
        return None
    return raw.decode("utf-8", "replace")


def put_by_sed(words: Iterable[str]) -> Iterator[str]:
    """Yield the paths that scripts for `sed` put into what they print."""
    put = (of[2] for word in words for of in _SUBSTITUTES.finditer(word))
    plain = (_ESCAPED.sub(r"\1", text).strip("&") for text in put)
    yield from (one for one in plain if one.startswith(("..", "/", "~")))


def run_by_code(texts: Iterable[str]) -> Iterator[str]:
    """Yield what code in some texts hands to a shell, perhaps by a variable or as its script."""
    for text in texts:
        yield from (of[of.lastindex or 0] for of in _RUN_BY_CODE.finditer(text))
        constants = _SCRIPT_IN_CODE.finditer(text) if _MAY_RUN.search(text) else ()
        yield from (of[of.lastindex or 0] for of in constants if " " in of[0])


def changed_by(words: list[str], text: str) -> str | None:
    """Return what a filter makes of a text; None if that is not known."""
    match words:
        case ["rev"]:
            changed = text[::-1]
        case ["base64", "-d" | "-D" | "--decode"]:
            changed = decoded(text, is_hex=False)
        case ["xxd", "-rp"] | ["xxd", "-r", "-p"] | ["xxd", "-p", "-r"]:
            changed = decoded(text, is_hex=True)
        case ["tr", "-d", gone]:
            changed = text.translate(dict.fromkeys(map(ord, _signs(gone))))
        case ["tr", "-cd" | "-dc", kept]:
            changed = "".join(filter(_signs(kept).__contains__, text))
        case ["tr", old, new] if new and (old == "-" or old[:1] != "-"):
            changed = _with_signs(text, _signs(old), _signs(new))
        case ["sed", *scripts]:
            changed = _edited(text, [one for one in scripts if one[:1] != "-"])
        case _:
            start = _CUTS.fullmatch(" ".join(words))
            changed = None if start is None else text[int(start[1] or start[2]) - 1 :]
    return changed


def _signs(text: str) -> str:
    r"""Return the signs that a word for `tr` stands for: `abc` for `a-c`, `[=a=]bc` or `\141bc`."""
    text = _CODE_OF_TR.sub(lambda of: chr(int(of[1], 8)), text)
    text = _CLASS_OF_TR.sub(lambda of: _CLASSES.get(of[1] or "", of[2] or of[3] or of[0]), text)
    signs = _RANGE.sub(lambda of: "".join(map(chr, range(ord(of[1]), ord(of[2]) + 1))), text)
    return signs.replace("\\n", "\n")


def _with_signs(text: str, old: str, new: str) -> str:
    return text.translate({ord(x): new[min(n, len(new) - 1)] for n, x in enumerate(old)})


def _edited(text: str, scripts: list[str]) -> str | None:
    """Return what scripts for `sed` make of a text; None if that is not known."""
    for script in scripts:
        at = 0
        while at < len(script) and len(text) <= _LONGEST_CONSTANT:
            edit = _EDIT.match(script, at)
            if edit is None or not (edit[5] or _PLAIN_OLD.fullmatch(edit[2])):
                return None
            at = edit.end()
            if edit[5]:
                text = _with_signs(text, edit[6], edit[7])
                continue
            old, new = (_ESCAPED.sub(r"\1", one) for one in (edit[2], edit[3]))
            whole = {"^": new + text, "$": text + new, ".*": new}.get(edit[2])
            put = new.replace("&", text if whole else old)
            text = text.replace(old, put, -1 if edit[4] else 1) if whole is None else whole
    return text


def told_by(name: str, words: list[str]) -> str | None:
    """Return what `echo`, `printf` or `printenv` prints; None if that is not known."""
    if name == "echo" or not words:
        return " ".join(words)
    if name == "printenv":
        return f"${words[0]}"
    form, *rest = words[0].replace("\\n", "\n"), *words[1:]
    number = len(_PLACES.findall(form))
    rounds = -(-len(rest) // number) if 0 < number < len(rest) <= _MOST_WORDS else 1
    texts = iter(rest)
    told = _PLACES.sub(lambda of: _cut(next(texts, ""), of), form * rounds)
    return None if "%" in _PLACES.sub("", form) else told


def _cut(text: str, place: re.Match[str]) -> str:
    """Return what a place in a format takes of a text."""
    return text[:1] if place[2] == "c" else text[: int(place[1] or 0)] if place[1] else text


_PLACES = re.compile(r"%[-+ #0]*\d*(?:\.(\d{1,4}))?([sbqc])")
_MOST_WORDS = 64


def climbs_in_code(
    text: str, documents: Iterable[HereDocument], command: SimpleCommand
) -> Iterator[int]:
    """Yield where each `..` starts that is opened by code in `text` that `command` runs.

    Only where the code does nothing else with it.
    """
    words = [*dropwhile(lambda word: word.raw in BEHIND, command.given)]
    if not _RUNS_CODE.match(" ".join(word.raw for word in words)):
        return
    spans = [(word.start, word.start + len(word.raw)) for word in words]
    first = command.words[0].start
    spans += ((one.start, one.end) for one in documents if one.owner.words[0].start == first)
    for span in spans if not any(_STARTS_ELSEWHERE.search(text, *one) for one in spans) else ():
        yield from (opened.end() for opened in _CLIMB_IN_CODE.finditer(text, *span))
