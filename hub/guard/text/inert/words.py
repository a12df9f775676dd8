"""Words that programs take for texts, patterns or scripts, and do not open."""

from __future__ import annotations

import re
from itertools import dropwhile

from hub.guard.text.inert.lines import SOURCE, opens_no_line, runs_nothing
from hub.guard.text.inert.signs import RUNS_PRINTED
from hub.guard.text.shell import CommandWord, SimpleCommand, cut_out
from hub.guard.text.sure_commands import CommandLine, Replacement, is_literal, renames_programs

_VARIES = re.compile(r"=\(|\bIFS\b|\$\{?_\b")
_BEFORE_PROGRAM = re.compile(r"\w+=|(?:sudo|time|env)\Z")
_INSTALLED = r"=/(?:usr|opt)(?:/[\w-][\w.-]*)*"
_DIRECTORIES = (
    "(?:s?bin|lib|libexec|include|data|dataroot|sysconf|localstate|sharedstate|runstate|man|info|doc"
    "|locale|html)dir"
)
_TEXTS = tuple(
    (re.compile(program), re.compile(rf"(?:{option})(=.+)?", re.DOTALL), place)
    for program, option, place in (
        (r"git (?:commit|tag|merge|stash push|notes add)\b", "-[a-z]*m|--message", 1),
        (r"gh (?:pr|issue|release)\b", "-[tbn]|--(?:title|body|notes|subject)", 1),
        (r"git (?:log|diff|show)\b", r"-[SG]|--(?:grep|author)", 1),
        (r"git (?:log|diff|show)\b", r"(?:-[SG]|--(?:grep|author)=).+", 0),
        (r"aws\b", "--(?:names?|path|prefix|secret-id|log-group-names?(?:-prefix)?)", 1),
        (r"curl\b", "-[HAed]|--(?:header|user-agent|referer|data(?:-ascii|-raw)?|json)", 1),
        (r"jq\b", "--arg(?:json)?", 2),
        (r"kubectl create\b", "--from-literal", 1),
        (r"helm\b", "--set(?:-string)?", 1),
        (
            r"(?:docker|podman|nerdctl)(?: buildx| compose)? (?:build|run|create|exec)\b",
            "-e|--(?:env|label|build-arg)",
            1,
        ),
        (
            r"(?:[\w./-]*/)?configure\b|meson setup\b",
            rf"--(?:exec-)?prefix{_INSTALLED}|--{_DIRECTORIES}=/\w[\w/-]*",
            0,
        ),
        (r"cmake\b", rf"-DCMAKE_INSTALL_PREFIX{_INSTALLED}", 0),
        (r"(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-\d+)? ", r"-D[A-Za-z_]\w*(=.+)", 1),
        (r"(?:npx )?(?:jest|mocha|playwright|vitest)\b", "-[tg]|--(?:grep|testNamePattern)", 1),
        (r"(?:npx )?vite(?:press)?(?: build| dev| preview| serve)? ", "--base", 1),
        # As long as the program in quotes cannot open what the variable holds.
        (r"[gm]?awk -v \S+ '(?![^']*(?:getline|system|ARG|[|>@]))[^']*'", "-v", 1),
    )
)
"""Programs, their options that take a text, and which word behind these is the text."""
HAS_TEXTS = re.compile(
    r"sed |echo |printf |psql |aws |git |gh |curl|jq|kubectl|helm|docker|podman|nerdctl|configure"
    r"|meson|cmake|grep|rg|ag|cc|\+\+|clang|vite|jest|mocha|playw|awk|python|node "
)
"""Each command with texts has one of these."""
_FINDS = re.compile(r"(?:(?:[ef]|z)?grep|rg|ag|git grep)\b")
_FLAG = re.compile(
    r"-[rRnivwxclLoPEFhHsqzaUI]+|--(?:[\w-]+=.*|colou?r|line-number|ignore-case|recursive|hidden"
    r"|files-with-matches|word-regexp|fixed-strings|no-heading|count)",
    re.DOTALL,
)
"""An option that leaves the next word alone."""
_HAS_PATTERN = re.compile(r"-[A-Za-z]*[ef]|--(?:re[gexp]*|fil?e?)(?:=|\Z)|--files\Z")
"""An option that gives the pattern, wherever it stands: then the first word is a file."""
_OF_FILE = re.compile(r"(?:-+[\w-]+=)?['\"]?(?:@|fileb?:)", re.IGNORECASE)
_NOTHING = ("''",)
_QUOTED_SIGN = re.compile(r"[;&|<>()\"'\\`*?\[{]")


def texts_of_programs(line: CommandLine) -> list[Replacement]:
    """Return the words that programs take for texts, as in `-m 'see ../x'`, and what stays of them.

    A child that starts a program without a shell may take a quoted text apart at its spaces. What
    that program may open stays.
    """
    commands = line.commands
    if not commands:
        return []
    texts = [(text, n) for n, one in enumerate(commands) for text in _texts_of(one.given)]
    printed = _printed_in(commands) if commands == line.sure else []  # not `(echo x) > f`
    texts += printed or [(text, 0) for text in _edits_by(commands[-1].given)]
    texts.sort(key=lambda text: text[0].start)
    opens, is_sed = line.opens_words, commands[0].given[0].raw == "sed"
    # The texts may have any signs: a message that says `f()` renames nothing.
    rest = cut_out(line.text, [(one.start, one.start + len(one.raw)) for one, _ in texts])
    if _VARIES.search(rest) or RUNS_PRINTED.search(rest) or renames_programs(rest):
        return []
    found = list[Replacement]()
    for text, n in texts:
        # Without a shell `sed` ends at the quote that its script then starts with.
        parts = text.raw.split() if opens and (n or not is_sed) else []
        if len(parts) == 1 and n:
            continue
        # A lone slash is punctuation, as it is in the whole text.
        kept = (part for part in parts[len(parts) == 1 :] if part.strip("/"))
        quoted = [f"'{part}'" for part in kept if not _QUOTED_SIGN.search(part)]
        found.append(Replacement.of(text, " ".join(quoted or _NOTHING)))
    return found


def _texts_of(words: list[CommandWord]) -> list[CommandWord]:
    """Return the words of a simple command that its program takes for texts, in order."""
    words = list(dropwhile(lambda word: _BEFORE_PROGRAM.match(word.raw), words))
    head = " ".join(word.raw for word in words[:4])
    found = list[CommandWord]()
    for option, place in ((one[1], one[2]) for one in _TEXTS if one[0].match(head)):
        for n, word in enumerate(words):
            if given := option.fullmatch(word.raw):
                found += words[n:][:1] if given[1] else words[n + place :][:1]
    if finds := _FINDS.match(head):
        found += _pattern_in(words[len(finds[0].split()) :])
    texts = (word for word in found if is_literal(word) and not _OF_FILE.match(word.raw))
    return sorted(dict.fromkeys(texts), key=lambda word: word.start)


_SUBSTITUTION = re.compile(
    r"'s([/|#,!@:])(?:(?!\1)[^'\\\n]|\\[^'])*\1(?:(?!\1)[^'\\\n]|\\[^'])*\1[gIip\d]*'"
    r"|\"s([/|#,@:])(?:(?!\2)[^\"\\\n$`!])*\2(?:(?!\2)[^\"\\\n$`!])*\2[gIip\d]*\""
)
"""A script for `sed` that reads, writes and runs nothing."""
_XARGS = re.compile(r"xargs|-[r0]+")
_PRINTS = frozenset({"echo", "printf"})
_SIGN_OF_PATH = re.compile(r"[/~\\]|\.\.")
_OPTION_OF_SED = re.compile(r"-[nErszi]+(?:\.[\w.]+)?|''|\"\"")
"""With the empty word that is behind `-i` on some systems."""


def _printed_in(commands: list[SimpleCommand]) -> list[tuple[CommandWord, int]]:
    """Return the texts that commands print or put into files, with the numbers of the commands.

    An empty list if something may run or open what is printed.
    """
    found, others, files = list[tuple[CommandWord, int]](), list[SimpleCommand](), list[str]()
    is_literal_all = all(is_literal(word) for one in commands for word in one.words)
    for n, one in enumerate(commands):
        program = one.given[0].raw
        texts = _scripts_in(one.given[1:]) if program == "sed" else _queries_in(one.given)
        is_printed = program in _PRINTS and is_literal_all
        if is_printed and [word.raw[:2] for word in one.given[1:2]] != ["-v"]:
            texts = one.given[1:]
        computes = any("$(" in word.raw and not is_literal(word) for word in one.words)
        if computes or one.after == "|" or program == "wc":
            return []
        if texts:
            rest = (word.raw for word in one.words[1:] if word not in texts)
            files += (raw for raw in rest if not _OPTION_OF_SED.fullmatch(raw))
        else:
            others.append(one)
        found += ((text, n) for text in texts if _SIGN_OF_PATH.search(text.raw))
    is_code = all(map(SOURCE.fullmatch, files)) and all(map(opens_no_line, others))
    return found if is_code or all(map(runs_nothing, others)) else []


_ONLY_PRINTS = re.compile(r"'(?![^']*(?:getline|system|ARG|ENVIRON|[|<>@]|\s/))[^']*'")
"""A program for `awk` that opens and runs nothing, without a path between its spaces."""
_OPENS_IN_SERVER = re.compile(
    r"\\|copy|load|create|do\b|alter|pg_|lo_|dblink|fdw|\s/", re.IGNORECASE
)
"""What makes `psql`, or its server, open files or run programs, or is a path between spaces."""
_QUERY = re.compile(r"-[AXqtx]*c")


def _queries_in(words: list[CommandWord]) -> list[CommandWord]:
    """Return the program of `awk`, or the statements of `psql -c`, that open and run nothing."""
    if words[0].raw == "awk":
        return [one for one in words[1:2] if _ONLY_PRINTS.fullmatch(one.raw)]
    if words[0].raw != "psql" or any(_OPENS_IN_SERVER.search(one.raw) for one in words):
        return []
    return [words[n + 1] for n, one in enumerate(words[:-1]) if _QUERY.fullmatch(one.raw)]


def _scripts_in(words: list[CommandWord]) -> list[CommandWord]:
    """Return the scripts of `sed`, if all only put one text for another."""
    rest = list(dropwhile(lambda word: _OPTION_OF_SED.fullmatch(word.raw), words))
    scripts = [rest[n + 1] for n, word in enumerate(rest[:-1]) if word.raw == "-e"] or rest[:1]
    return scripts if all(_SUBSTITUTION.fullmatch(one.raw) for one in scripts) else []


def _edits_by(words: list[CommandWord]) -> list[CommandWord]:
    """Return the scripts of `xargs sed -i`, if they put texts for others and are no paths."""
    rest = list(dropwhile(lambda word: _XARGS.fullmatch(word.raw), words))
    scripts = _scripts_in(rest[1:]) if words[0].raw == "xargs" and rest[:1] else []
    return [one for one in scripts if rest[0].raw == "sed" and one.raw[2] != "/"]


def _pattern_in(words: list[CommandWord]) -> list[CommandWord]:
    rest = list(dropwhile(lambda word: _FLAG.fullmatch(word.raw), words))
    given = list[CommandWord]()
    while rest and rest[0].raw == "-e":
        given += rest[1:2]
        rest = list(dropwhile(lambda word: _FLAG.fullmatch(word.raw), rest[2:]))
    if given:
        return given
    is_first = not any(_HAS_PATTERN.match(word.text) for word in words)
    return rest[:1] if rest and rest[0].raw[0] != "-" and is_first else []
