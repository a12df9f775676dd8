"""What well-known programs make of the words of a command: files, patterns, texts or commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from hub.guard.text.expansion import forms_from_top
from hub.guard.text.shell import CommandWord, SimpleCommand, cut_out, parsed
from hub.guard.text.sure_commands import (
    COMMAND_IN_SQL,
    OF_SQL,
    SOURCE,
    has_only_texts,
    is_literal,
    lists_nothing,
    only_reads_lines,
    opens_no_line,
    renames_programs,
    runs_nothing,
    sure_script,
    with_plain_scripts,
    without_lines,
    without_plain_remarks,
)

PREFIXES = frozenset(
    {"sudo", "env", "exec", "time", "nohup", "nice", "command", "xargs", "then", "do"}
)
"""Behind these the name of a program follows."""
_SEARCHES = frozenset({"find", "grep", "egrep", "fgrep", "zgrep", "rg", "ag", "sed"})
_RUNS_OR_PRINTS = re.compile(r"-(?:exec|ok|f?printf)")
"""Options of `find`: what stands behind them is no pattern."""
_PATTERN_OPTION = re.compile(r"--(?:(?:ex|in)clude|i?glob|ignore|\w*pattern)\b", re.IGNORECASE)
RUNNERS = re.compile(
    r"(?:.*/)?(?:watch|tmux|screen|script|parallel|entr|nodemon|concurrently|hyperfine|flock|xterm"
    r"|expect|unbuffer)"
)
"""Programs that give their words to a shell."""
RUN_BY_OPTION = re.compile(
    r"(?:--[\w-]*(?:exec|run|command|cmd|program|action)=(?:exec=)?"
    r"|\w*(?:COMMAND|PAGER|EDITOR|ProxyCommand)=|alias\.\w+=!)(.+)",
    re.DOTALL,
)
"""A word that gives a command to a shell (group 1): `--exec='ls /'`."""
_CREATES = re.compile(
    r"(?:.*/)?(?:touch|mkdir|cp|mv|ln|install|tee|truncate|mkfifo|mknod|rsync|dd|c?split|sponge"
    r"|unzip|(?:bsd)?tar|cpio|7za?|zip|clone|init|v(?:irtual)?env|ditto|mktemp)"
)
"""Programs, and commands of programs, whose operands may be new files or folders."""
_OUTPUT_OPTION = re.compile(
    r"-[oOP]|--(?:out|dest|target-dir)[\w-]*|--[\w-]*(?:dir|directory|file|folder)|-out"
)
_CREATED = re.compile(r"(?:(--?[A-Za-z][\w-]*=|-[A-Za-z])|of=)?([/${].*)", re.DOTALL)
_STARTS_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose"})
_VOLUME = re.compile(r"(?:-[ditPqT]*v|--volume)=?")
_WILD = re.compile(r"[*?\[]")
_COMPARES = frozenset({"==", "!="})
_SEPARATORS = re.compile(r"[;&|\n]")


class WordContext(NamedTuple):
    """What stands before a word of a command.

    `computes`: the text of a word may come to a shell once more. `mark`: the last sign of the shell
    before. `searches`: the program takes patterns. `creates`: its operands may be new files.
    `option`: the word just before. `mounts`: the program makes the folders that it mounts.
    """

    computes: bool
    mark: str = ""
    searches: bool = False
    creates: bool = False
    option: str = ""
    mounts: bool = False

    def takes_pattern(self, word: str) -> bool:
        """Return whether `word` goes to a program as a pattern, and to no other shell."""
        if self.computes:
            return False
        return self.searches or self._is_behind_pattern_option(word)

    def creates_file(self, word: str) -> bool:
        """Return whether `word` may name a file or folder that the command creates."""
        if self._is_behind_pattern_option(word):
            return False
        option = (_CREATED.match(word) or [word, None])[1] or self.option
        is_output = not self.searches and _OUTPUT_OPTION.fullmatch(option.rstrip("=")) is not None
        # A folder of this machine has its place in the container behind it, if that is not removed.
        has_place = ":" in word or option[-1:] == "="
        is_mounted = self.mounts and has_place and _VOLUME.fullmatch(option) is not None
        return self.creates or is_output or is_mounted

    def compares(self, *, is_last: bool) -> bool:
        """Return whether a word is for comparing: `x == *.y`, `a*)`; `is_last`: before a `)`."""
        if self.option in _COMPARES:
            return True
        is_first = self.option == "in" or (self.option == "" and self.mark in {";;", ";", "\n"})
        return is_first and is_last

    def _is_behind_pattern_option(self, word: str) -> bool:
        return _PATTERN_OPTION.match(word if "=" in word else self.option) is not None

    def then(self, word: str, *, program: bool) -> WordContext:
        """Return what stands before the next word."""
        creates = self.creates or _CREATES.fullmatch(word) is not None
        if program:
            searches, option, mounts = word in _SEARCHES, "", word in _STARTS_CONTAINERS
        else:
            searches, option = self.searches and _RUNS_OR_PRINTS.match(word) is None, word
            mounts = self.mounts
        return WordContext(self.computes, self.mark, searches, creates, option, mounts)

    def behind(self, mark: str, *, goes_on: bool) -> WordContext:
        """Return what stands before the next word if a sign of the shell comes first."""
        creates = goes_on and self.creates and _SEPARATORS.match(mark) is None
        return WordContext(self.computes, mark, creates=creates)


def created_paths(word: str, env: Mapping[str, str]) -> list[str]:
    """Return the absolute paths of what a word creates: `/x`, `$y/x`, `of=/x`, `-o/x`."""
    created = _CREATED.fullmatch(word)
    text = word if created is None else created[2]
    forms = (text, *(form for form in forms_from_top(text, env) if not _WILD.search(form)))
    paths = (form.lstrip("/") for form in forms if form[:1] == "/")
    return [f"/{form}" for path in paths for form in dict.fromkeys((path, path.partition(":")[0]))]


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
_HAS_TEXTS = re.compile(
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
OPENS_NOTHING = frozenset(
    {"cd", "git", "gh", "kubectl", "helm", "npm", "pnpm", "yarn", "docker", "export"}
    | {"docker-compose", "podman", "nerdctl", "sudo", "set", "echo", "true", "make", "for", "if"}
    | {"printf"}
)
"""Programs that open none of the words behind the sign where a shell would end their command."""
_OF_FILE = re.compile(r"(?:-+[\w-]+=)?['\"]?(?:@|fileb?:)", re.IGNORECASE)
_RUNS_PRINTED = re.compile(
    r"\b(?:xargs(?! (?:-[r0]+ )*sed -i )|parallel|read)\b|\|\s*(?:[akz]|ba|da)?sh\b"
)
_NOTHING = ("''",)
_QUOTED_SIGN = re.compile(r"[;&|<>()\"'\\`*?\[{]")


def without_texts(command: str) -> str:
    """Return a command without the words that its programs take for texts, as in `-m 'see ../x'`.

    A child that starts a program without a shell may take a quoted text apart at its spaces. What
    that program may open stays.
    """
    if not _HAS_TEXTS.search(command):
        return command
    command = with_plain_scripts(command)
    script = sure_script(command)
    commands = [one for one in script if one.given]
    if not commands:
        return command
    first = commands[0].given[0].raw
    texts = [(text, n) for n, one in enumerate(commands) for text in _texts_of(one.given)]
    printed = _printed_in(commands) if commands == script else []  # not `(echo x) > f`
    texts += printed or [(text, 0) for text in _edits_by(commands[-1].given)]
    texts.sort(key=lambda text: text[0].start)
    opens = first not in OPENS_NOTHING
    # The texts may have any signs: a message that says `f()` renames nothing.
    rest = cut_out(command, [(one.start, one.start + len(one.raw)) for one, _ in texts])
    if _VARIES.search(rest) or _RUNS_PRINTED.search(rest) or renames_programs(rest):
        return command
    for text, n in reversed(texts):
        # Without a shell `sed` ends at the quote that its script then starts with.
        parts = text.raw.split() if opens and (n or first != "sed") else []
        if len(parts) == 1 and n:
            continue
        # A lone slash is punctuation, as it is in the whole text.
        rest = (part for part in parts[len(parts) == 1 :] if part.strip("/"))
        kept = [f"'{part}'" for part in rest if not _QUOTED_SIGN.search(part)]
        end = text.start + len(text.raw)
        command = f"{command[: text.start]}{' '.join(kept or _NOTHING)}{command[end:]}"
    return command


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


_CALCULATED = re.compile(r"\$\(\((?:[^()'\"`]|\([^()'\"`]*\))*\)\)")
"""A sum, with commands and brackets that have no others in them."""
_DIVIDED = re.compile(r"(\$\((?!\()[^()]*\))|(?<=[\w)}])\s*(?:[/%]|\*\*?)\s*(?=[\w($])")
"""A slash or a star between operands of a sum; what its commands have (group 1) is kept."""
_CALCULATES = re.compile(
    rf"(?:\w+=(?:{_CALCULATED.pattern}|\$\([^()]*\)|[^\s;&()]*)(?:[;\n]| &&)|"
    r"(?:cd|echo|export|for|if|printf|set|true)\s)"
    r"(?!.*(?:['\\]|<<|\$\{\w+:?=))",
    re.DOTALL,
)
"""A command that only a shell runs, or that opens nothing, and that quotes no `$((`."""
_TAKES_FOLDER = re.compile(r"-\w*T|--", re.ASCII)
"""Options such as `sort -T /`, which writes there, and `--compress-program=sh`, which runs it."""
_CAN_BE_TAMED = re.compile(
    r"\s*+(?:\w+=|[gm]?awk\s|(?:for|while|if|echo|expr|let|printf|read|seq|sleep|test|cut|head|sort"
    r"|tail|tr|uniq|wc|git(?! commit| add)|cat|tee|cd|mkdir|python3?|node"
    r"|psql|sqlite3)\b)"
)
"""The start of each command that `tamed` changes."""
_OPENS_NO_LINE = re.compile(
    r"\s*+(?:cd |(?:git|gh|kubectl) "
    r"(?![^\n]*\n(?:.*\s)?-(?:[A-Za-z]*[FTfkt]|[a-z-]*(?:file|input))))",
    re.DOTALL,
)
"""Without a shell `git` takes the words in the lines, too: not `-F../x`."""
_LONE_SLASH = re.compile(r"(?<=[ \t])(['\"]?)/\1(?=[ \t\n]|$)")
_DIVISION = re.compile(r"""(["'][^"'\n]*(?:["']|$))|(?<=[\w)\]] )//?(?= [\w({])""", re.MULTILINE)
"""A slash between two operands; what is in quotes is passed over."""
_PRINTED = re.compile(r"\$(?:\w+|\{\w+\})", re.ASCII)


def tamed(command: str, *, posix: bool = True) -> str:
    """Return a command without lone slashes and variables, if nothing in it can list a folder.

    Such as `expr 4 / 2`, `echo $((4 / 2))`, `cut -d / -f 1 | tr / _`, `echo $HOME`. Without
    remarks if no program could take them for files.
    """
    if posix and "#" in command and command.split(None, 1)[0] in OPENS_NOTHING:
        command = without_plain_remarks(command)
    if "<<" in command and _OPENS_NO_LINE.match(command):
        command = without_lines(command)
    if "$((" in command and _CALCULATES.match(command):
        command = _CALCULATED.sub(
            lambda of: _DIVIDED.sub(lambda part: part[1] or "-", of[0]), command
        )
    if not _CAN_BE_TAMED.match(command):
        return command
    script = parsed(command)
    run = [one for one in script.commands if not one.depth and one.lines_of is None]
    is_git = run[:1] != [] and run[0].words[0].raw == "git"  # without a shell it gets all words
    if all(map(lists_nothing, run)) and (is_git or not _TAKES_FOLDER.search(command)):
        return _PRINTED.sub("x", _LONE_SLASH.sub("0", command))
    only_reads = (only_reads_lines(one, is_alone=len(run) == 1) for one in run)
    is_text = script.is_closed and has_only_texts(command, script) and all(only_reads)
    is_sql = OF_SQL.search(command) is not None
    for one in reversed(script.documents if is_text else []):
        lines = command[one.start : one.end]
        if not (is_sql and COMMAND_IN_SQL.search(lines)):
            divided = _DIVISION.sub(lambda of: of[1] or "0", lines)
            command = f"{command[: one.start]}{divided}{command[one.end :]}"
    return command
