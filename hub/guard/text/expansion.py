"""What a shell makes of a text: its variables, braces and wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from hub.guard.budget import MAX_WAYS, TooManyWaysError
from hub.guard.text.emptiness import with_homes
from hub.guard.text.printed import with_printed

VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{(\w+)\})", re.ASCII)
_DEFAULT = re.compile(r"\$\{(\w+)(:?[-=+?])((?:[^$}]|\$\{[^{}]*\}|\$(?!\{))*)\}", re.ASCII)
"""A variable with another text in its place, which may have variables of its own."""
COMPUTED = re.compile(r"\$\{(?:[!#]|\w+[^\w{}])[^{}]*\}", re.ASCII)
"""A variable that a shell alters: `${#x}`, `${x%y}`."""
SEPARATOR_VARIABLE = re.compile(r"\$(?:IFS\b|\{IFS\})", re.ASCII)
_POSITION = re.compile(r"\$(?:[0-9@*#?!-]|\{[0-9@*#?!-]\})")
_BRACES = re.compile(r"\{((?:[^{},]|\{[^{},]*\})*,(?:[^{}]|\{[^{},]*\})*)\}")
_COMMA = re.compile(r",(?![^{},]*\})")
SEQUENCE = re.compile(r"\{(?:[^{},/.]|\.(?!\.))*\.\.[^{},/]*+\}")
_JOINED = rf"(?:{_BRACES.pattern}|{SEQUENCE.pattern})"
_JOINED_BRACES = re.compile(
    rf"(?<![\s,;|:=@&!<>()\[\]{{\"'`])(?<!^){_JOINED}|{_JOINED}(?![\s,;|:=@&!<>()\[\]}}\"'`]|$)"
)
"""Alternatives in braces, with more of a name before or behind them."""
_WILD_DOTS = re.compile(r"(?:^|(?<=/))\.[^/]*[*?\[][^/]*(?=/|$)")
_CLASS = re.compile(
    r"\[[!^]?\]?(?:[^\[\]]|\[(?![:.=]))*"
    r"(?:\[[:.=][^\]]*+(\](?:[^\[\]]|\[[:.=][^\]]*+\])*\])?)?"
)
"""A start of brackets; group 1 if there is a class in them: `[a[:digit:]]`."""
_BRACKETS = re.compile(r"\[!?\]?[^\]]*+(\])?")
_EXTENDED = re.compile(r"[@?*+!]\([^()/]*\)")
_VARIES = re.compile(r"[${*?\[]")
_TOP = re.compile(r"(?:[^/]*[=@])?\.*/[/.]*")
_TOP_IN_BRACES = re.compile(r"[^'\"\s{]*\{(?:[^'\"\s{}]*,)?[.]*/[/.]*[,}][^'\"\s]*")
NUMBER = "[0-9-]*"
"""What stands for a number that a shell calculates."""
_MAY_PRINT = re.compile(r"\$[({P]|`|\||\{\}|\bfind\b")
_PROGRAMS = (
    r"(?:(?:/(?:usr|opt|snap)|(?:\$HOME|\$\{HOME\}|~)/(?:\.\w[\w-]*|go))(?:/\w[\w.@+-]*)*"
    r"|\$\(go env GOPATH\))/s?bin"
)
"""A folder that programs are installed in."""
_PROGRAMS_ON_PATH = re.compile(rf"(?<=[=:'\"]){_PROGRAMS}:")
_OWN_SEARCH_PATH = re.compile(
    # Behind other words or in quotes a shell may split it, or hand it on.
    r"((?:\w+ -\w*c ['\"])?(?:[\w./ -]*(?:&&|;))?\s*(?:export |env )?['\"]?PATH=['\"]?"
    rf"(?:(?:(?=\$){_PROGRAMS}|(?:\$PWD|\$\{{PWD\}}|\$\(npm root\))?[^\s:;&|<>()`'\"$]*+):)*)"
    rf"\$(?:PATH|\{{PATH\}})(?::{_PROGRAMS})*(?=[:'\"\s;&|)]|$)(?!.*\bPATH\b)",
    re.ASCII | re.DOTALL,
)
_BEFORE_VARIABLE = (
    r"((?:\A|[;&|(\n])[ \t]*(?:(?:sudo +)?env(?: -i| -)* +|export +)?(?:[A-Za-z_]\w*=[\w.:]* +)*)"
)
_SAME_VALUE = re.compile(
    rf"{_BEFORE_VARIABLE}(?:([A-Z][A-Z_\d]*)=(\"?)\$(?:\2\b|\{{\2\}})\3(?=[\s;&|)]|\Z) *)+"
)
"""Variables that are given the values that they have: `env -i PATH="$PATH" HOME="$HOME" make`."""
_INSTALLED = re.compile(
    rf"{_BEFORE_VARIABLE}((?:[A-Z][A-Z\d]*_(?:HOME|ROOT)|GOROOT|GOPATH)"
    r"=(\"?)(?:/(?:usr|opt|Library)(?:/\w[\w.@+-]*)*|(?:\$HOME|\$\{HOME\})/(?:go|Android/Sdk|\.(?:cargo|rustup|gradle|m2|dotnet|nvm|pyenv)))\3"
    r"(?=[\s;&|)]|\Z)) *",
    re.ASCII,
)
"""Where a program is installed, as in `JAVA_HOME=/usr/lib/jvm/x ./gradlew build`."""
_MOST_INSTALLED = 6
_READS_VARIABLES = re.compile(
    r"xargs|parallel|printenv|\b(?:read|eval|declare|set(?! -[eux])|compgen|system)\b|\$[({!'\"$]|`"
    r"|\\[$0-7x]|'[^'\n]{0,512}\$|sh +-\w*c\b|\| *\w*sh\b|environ|getenv|process\W{1,4}env|ENV"
)
"""Signs that variables are read under names that do not stand there: `sh -c 'ls $JAVA'_HOME`."""
_MESSAGE = re.compile(r"\becho(?: -[neE]+)* \"(?:[^\"`\n$]|\$(?!\()|\$\([^\"`\n$()]*\))*\"")
_OF_MESSAGE = re.compile(r"\$PWD[,:;.?!)]?(?=[ \"])")
"""A folder and the sign behind it in a message: `echo "In $PWD: all is well"`."""
_CD_BACK = re.compile(r"\A\s*cd -(?=\s*(?:[;&|\n]|\Z))")
_RUNS_ABOVE = re.compile(
    # With `-name` and the like it seldom finds the folder that it starts in.
    r"(\bfind (?:-[HLP] )*(\"?)(?:\$PWD|/)[^\s\"';|&]*)\2(?= )"
    r"(?=[^;|&\n]{0,512} -(?:exec|ok)dir )"
    r"(?![^;|&\n]{0,512} -(?:type [fl]|i?(?:name|path|regex)|mindepth)\b)"
)
"""`find` that runs a program in the folder above the one that it searches."""
_ABOVE_IN_CODE = re.compile(r"(?:(?<=[\s(+,=.]['\"`])|(?<=\(\)\})|%s)/\.\.(?=[/'\"`])")
"""What code adds to the path of a folder: `os.getcwd() + "/.."`, `f"{os.getcwd()}/.."`."""
_BREAKS_LINE = re.compile(r"(\$\{[^{}]*\})|%[nt](?=\.\./|[/~]\w)")
"""What ends a word in a format, as in `date +%t../x`; variables (group 1) are passed over."""
_MATCHES = re.compile(r"(?<=\s)=~(?=\s)")
_FILE_OF_SED = re.compile(r"(?<=['\";{}\s\d$/|#,@!:%_~gpImM])[rRwW](?=\.\./)")
"""What a script of `sed` has before a file that it reads or writes."""
_UPSTREAM = re.compile(r"(?<=[\w\s]@)\{(?:u|upstream|push|\d{1,3})\}", re.ASCII)


def with_plain_signs(command: str, env: Mapping[str, str]) -> str:
    """Return a command with simpler signs for what leads nowhere else.

    `$PWD` for `$(pwd)`, `./..` for `$(x)/..`, `.` for the `$PATH` of `PATH=$PATH:bin`, `=` for the
    operator `=~`, `x@u` for git's `x@{u}`, `./..` for the `/..` that code puts behind a path, and
    `cd ~` for a `cd` to what may be nothing.
    """
    if _MAY_PRINT.search(command):
        command = _RUNS_ABOVE.sub(r"\1/..\2", with_printed(command.replace("${PWD}", "$PWD")))
        command = _MESSAGE.sub(lambda of: _OF_MESSAGE.sub(".", of[0]), command)
    if "cd" in command:
        command = with_homes(_CD_BACK.sub('cd "$OLDPWD"', command), env)
    if "%n" in command or "%t" in command:
        command = _BREAKS_LINE.sub(lambda of: of[1] or " ", command)
    command = _without_own_values(command) if "=" in command else command
    if "PATH=" in command and (path := _OWN_SEARCH_PATH.match(command)):
        command = f"{_PROGRAMS_ON_PATH.sub('', path[1])}.{command[path.end() :]}"
    if "/.." in command:
        command = _ABOVE_IN_CODE.sub("./..", command)
    if "sed" in command:
        command = _FILE_OF_SED.sub(r"\g<0> ", command)
    return _UPSTREAM.sub("u", _MATCHES.sub("=", command))


def _without_own_values(command: str) -> str:
    """Return a command without variables that it sets to what they are, or where programs are."""
    if "<<" in command:  # the lines give nothing
        return command
    if "$" in command:
        command = _SAME_VALUE.sub(r"\1", command)
    if not _READS_VARIABLES.search(command):
        for _, assigned, _ in _INSTALLED.findall(command)[:_MOST_INSTALLED]:
            name = assigned.partition("=")[0]
            # Only `$JAVA_HOME/bin` in a `PATH` leads nowhere else.
            rest = command.replace(assigned, "", 1)
            rest = re.sub(rf"(PATH=\"?)\${name}/bin:", r"\1", rest)
            command = command if name in rest else rest
    return command


def with_variables(text: str, env: Mapping[str, str], *, as_shell: bool) -> Iterable[str]:
    """Yield a text with its variables expanded, set ones and, `as_shell`, unset ones."""
    yield from defaulted(text, env)
    yield VARIABLE.sub(lambda match: env.get(match[1] or match[2], match[0]), text)
    if as_shell:
        plain = SEPARATOR_VARIABLE.sub(" ", text)
        if plain != text:
            yield plain
        plain = VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), plain)
        plain = COMPUTED.sub("", plain)
        yield _POSITION.sub("", plain)


def defaulted(text: str, env: Mapping[str, str]) -> Iterable[str]:
    """Yield a text with `${X:-y}` and the like expanded, `X` set or unset; and each `y` alone."""
    if "${" in text and _DEFAULT.search(text):
        yield from (match[3] for match in _DEFAULT.finditer(text))
        # Else a name would go on in what is put beside it: `$x${y:-z}`.
        text = VARIABLE.sub(lambda match: f"${{{match[1] or match[2]}}}", text)
        yield _DEFAULT.sub(lambda match: env.get(match[1]) or match[3], text)
        yield _DEFAULT.sub(lambda match: _default_of(match, env), text)
        yield _DEFAULT.sub(lambda match: match[3], text)


def _default_of(variable: re.Match[str], env: Mapping[str, str]) -> str:
    value = env.get(variable[1], "")
    if "+" in variable[2]:
        return variable[3] if value else ""
    return value or variable[3]


def alternatives(text: str) -> list[str]:
    """Return a text with each of the alternatives in its braces, as a shell expands them.

    Raises:
        TooManyWaysError: there are too many.
    """
    found = [text]
    for form in found:  # grows in the loop
        found += alternatives_in(form)
        if len(found) > MAX_WAYS:
            raise TooManyWaysError
    return list(dict.fromkeys(found))


def joins_braces(text: str) -> bool:
    """Return whether alternatives in braces are part of a longer name, as in `{a,b}/x`."""
    return _JOINED_BRACES.search(text) is not None


def alternatives_in(text: str) -> list[str]:
    """Return a text with each of the alternatives in its first braces; none without braces."""
    match = _BRACES.search(text)
    if match is None:
        return []
    ways = _COMMA.split(match[1])
    return [text[: match.start()] + way + text[match.end() :] for way in ways]


def with_climbs(text: str) -> str:
    """Return a text with `..` for its wildcards that match that: `.?`, `.[.]`."""
    return _WILD_DOTS.sub(lambda of: ".." if fnmatchcase("..", plainly(of[0])) else of[0], text)


def plainly(wildcard: str) -> str:
    """Return a shell's wildcard in the simpler syntax of `fnmatch`; it matches at least as much."""
    wildcard = SEQUENCE.sub("*", _EXTENDED.sub("*", wildcard))
    wildcard = _CLASS.sub(lambda of: "?" if of[1] else of[0], wildcard)
    # `fnmatch` looks from each `[` to the end for its `]`: a lone one is put in brackets.
    return _BRACKETS.sub(
        lambda of: of[0] if of[1] else of[0].replace("[", "[[]"), wildcard.replace("[^", "[!")
    )


def with_sequences(text: str) -> str:
    """Return a text with wildcards for the sequences in it: `{1..3}` is some number."""
    return SEQUENCE.sub(lambda of: NUMBER if any(map(str.isdigit, of[0])) else "?", text)


def forms_from_top(word: str, env: Mapping[str, str]) -> Iterable[str]:
    """Yield what a shell may make of a word if that starts in the top folder.

    `/` for `$x/` or `{/,a}`, `/*` for `$x/*`. Of very many alternatives in braces only those count
    that are the folder as they stand.
    """
    if "/" not in word or not _VARIES.search(word):
        return
    try:
        ways = alternatives(word)
    except TooManyWaysError:
        if _TOP_IN_BRACES.fullmatch(word):
            yield "/"
        return
    forms = (form for one in ways for form in (one, *with_variables(one, env, as_shell=True)))
    for form in dict.fromkeys(forms):
        if _TOP.fullmatch(with_climbs(form)):
            yield "/"
        elif form[:1] == "/" and form != word:
            yield form
