"""Commands that start containers: which of their words are paths in the container."""

from __future__ import annotations

import re

from msgspec.structs import replace

from hub.guard.budget import Meter, TooManyWaysError
from hub.guard.text.commands import spellings_of
from hub.guard.text.expansion import SEPARATOR_VARIABLE, VARIABLE, alternatives, joins_braces
from hub.guard.text.readings import Reader, readings
from hub.guard.text.shell import parsed, without_documents, words_at_each_sign
from hub.guard.text.sure_commands import (
    CommandLine,
    Replacement,
    has_only_texts,
    renames_programs,
    replaced,
)

_MOUNT = re.compile(
    r"( (?:-[ditPqT]*v|--volume))[ =]?((?:\"[^\":]*\"|'[^':]*'|[^\s:\"'])+|[\"'][^\":']+)"
    r":(?:/|\$PWD|\$\{PWD\})[\w./-]*(?::[\w,]+)?([\"']?)(?= |$)"
)
"""A folder of this machine (group 2) and its place in a container."""
_WORKDIR = re.compile(
    r" (?:-[wv]|--(?:workdir|entrypoint|tmpfs|volume))[ =]([\"']?)/[\w./-]*\1(?= |$)"
)
"""A place in a container."""
_TARGET = re.compile(r"(?:,|(?<=[\s=\"']))(?:target|dst|destination)=/[\w./-]*(?=[\s,\"']|$)")
_WHOLE_DISK = re.compile(
    r"(?:^|[\s\"'])(?:-v|--volume)[\s=]*[\"']?/[/.]*[\"']?:[\"']?/\w"
    r"|(?:^|[\s,=\"'])(?:src|source)=[\"']?/[/.]*(?=[,\s\"']|$)"
)
_WHOLE_DISK_AS_ARGUMENT = re.compile(r"/[/.]*:/\S*")
_CAN_START = re.compile(r"docker|podman|nerdctl|kubectl")
_HAS_SIGN = re.compile(r"[:=\\]")
"""Each mount has one of these, unless the environment has it."""
_CAN_MOUNT = re.compile(r"[vB$]|mount|bind|src|source", re.I)
_OPTION = re.compile(r"-[ditPqT]*[vB]|--volume|--mount|--bind")
"""An option whose value, the next word, is what a container mounts."""
_BEFORE_VALUE = re.compile(rf"(?:{_OPTION.pattern})[\s=]*+|[A-Za-z_]\w*=")
"""What stands before that value in one word: such an option, or a variable."""
_VOLUME = re.compile(r"\s*/[/.]*:[/$`].*", re.DOTALL)
_VOLUME_ELSEWHERE = re.compile(r"\s*/[/.]*:")
"""A volume whose place in the container is in a variable that is not known here."""
_PLAIN_VOLUME = re.compile(r"/[/.]*:/\w[\w./-]+(?::\w+)?")
"""Not `/:/d`, which is more likely a command of `sed`."""
_SOURCE = re.compile(r"(?:^|[,\"'])\s*(?:src|source)\s*=\s*[\"']?/[/.*?]*(?=[,\s\"']|$)", re.I)
_COMPUTED = re.compile(r"\$\([^()`]*\)|`[^`]*`")
_VARYING = re.compile(r"[$`]|\{\}")
_ODD = re.compile(r"[^\w./:=, -]", re.ASCII)
_EMPTY = re.compile(r"\d?|(?:\$(?:\w+|[@*#?!-]|\{[^{}]*\}))+")
"""A stream's number, which goes to the shell (`-v 2>x /:/y`), or variables that may be empty."""
_DEPTH = 3
"""So deep are shells in shells: `sh -c "sh -c 'docker run ...'"`."""
_READ = 50
_CHARACTERS, _LONG = 64, 256
"""The effort of reading a word, and how many characters of a command take one unit of it."""
_ENGINE = (
    r"(?:(?:do|then|sudo|time) )*(?:docker(?:-compose)?|podman|nerdctl)"
    r"(?: compose| container| -f [\w./-]+)*"
)
_STARTED = re.compile(rf"{_ENGINE} (?:run|create|exec|cp) |(?:(?:do|then|sudo) )*kubectl ")
_VALUE = r"(?:\$\([^()]*\)|\$(?!\([^()]*\))|[^\s'\"\\$]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+"
_INNER = re.compile(
    rf"({_ENGINE} (?:exec|run)(?: (?:-[itdTqP]+"
    r"|--(?:interactive|tty|detach|privileged|rm|init|read-only)|(?:-[uwepvhml]|--(?:user|workdir"
    r"|entrypoint|env|publish|volume|mount|name|network|hostname|platform|tmpfs|memory|cpus|gpus"
    rf"|label|restart|pull|shm-size|add-host))(?:=| ){_VALUE}))* \w[\w./:@-]*"
    r"|kubectl(?: (?:-n|--namespace|--context)[ =][\w-]+)* exec"
    r"(?: (?:-[itq]+|(?:-[nc]|--namespace|--container)[ =][\w.-]+|\w[\w./-]*))+ --)"
    r"(?: (?:[\w./:=@,%+-]+|'[^']*'|\"[^\"\\`$]*\"))+(?= |$)"
)
"""What runs in a container, behind the words that start it (group 1)."""
_COPY = re.compile(rf"(?:{_ENGINE}|kubectl) cp ")
_IN_CONTAINER = re.compile(r"(?<= )\w[\w.-]*(?:/[\w.-]+)?:/[\w./@+-]*(?= |$)")


def without_mount_targets(command: str) -> str:
    """Return a command without paths in the container that it starts: `-v a:/b`, `-w /b`.

    `target=/b` of a mount is one of these too, and so is what runs in it, or is copied from there.
    """
    if _CAN_START.search(command) is None:
        return command
    command = _without_lines_inside(command) if "<<" in command else command
    line, parts = CommandLine.of(command), list[Replacement]()
    # Without a shell the first program gets all words.
    opens = bool(line.commands) and line.opens_words
    for one in line.commands:
        text = " ".join(f"{word.operator}{word.raw}" for word in one.words)
        start, last = one.words[0].start, one.words[-1]
        if _STARTED.match(text) and not renames_programs(command[:start]):
            text = text if opens else _without_inner(text)
            text = without_targets(_MOUNT.sub(r"\1=\2\3", text))
            parts.append(Replacement(start, last.start + len(last.raw), text))
    return replaced(command, parts)


def _without_lines_inside(command: str) -> str:
    """Return a command without the lines that go to a container: `docker exec -i c sh <<'E'`."""
    script = parsed(command, remarks=True)
    run = [one for one in script.commands if one.lines_of is None]
    is_alone = len(run) == len(script.documents) == 1 and has_only_texts(command, script)
    if not is_alone or any(word.operator[:2] != "<<" for word in run[0].words if word.operator):
        return command
    starts = _INNER.fullmatch(" ".join(word.raw for word in run[0].given)) is not None
    return without_documents(command, script) if starts else command


def _without_inner(text: str) -> str:
    if _COPY.match(text):
        return _IN_CONTAINER.sub("x", text)
    return _WORKDIR.sub(" ", _INNER.sub(r"\1", text))


def without_targets(mount: str) -> str:
    """Return a mount without its path in the container: `type=bind,source=a,target=/b`."""
    return _TARGET.sub("", mount)


def mounts_whole_disk(command: str, reader: Reader, effort: Meter, depth: int = _DEPTH) -> bool:
    """Return whether a command, or one argument, mounts `/`: `-v /:/x`, `type=bind,source=/`.

    It does so if it does in one of the ways in which a shell may read it.

    Raises:
        PathError: what is mounted can be read in too many ways, or the budget is spent.
    """
    if _WHOLE_DISK_AS_ARGUMENT.fullmatch(command) or _WHOLE_DISK.search(command):
        return True
    has_sign = _HAS_SIGN.search(command) or any("/:" in value for value in reader.env.values())
    if " " in command and not (has_sign and _CAN_MOUNT.search(command)):
        return False
    spellings = (one for text in _forms_of(command) for one in spellings_of(text, reader))
    return any(_has_mount(one, reader, effort, depth) for one in dict.fromkeys(spellings))


def _forms_of(command: str) -> list[str]:
    """Return a command, and one in which what the shell computes is empty."""
    forms = [command.replace("\\\n", "")]
    while len(forms) <= _DEPTH and _COMPUTED.search(forms[-1]):
        forms.append(_COMPUTED.sub("", forms[-1]))
    if "IFS" in command:
        forms.append(SEPARATOR_VARIABLE.sub(" ", forms[-1]))
    return forms


def _has_mount(command: str, reader: Reader, effort: Meter, depth: int) -> bool:
    """Return whether a word mounts the whole disk, alone or behind the one before it."""
    effort.spend(len(command) // _CHARACTERS)
    words, before = words_at_each_sign(command), ""
    is_named = any(map(_PLAIN_VOLUME.fullmatch, words))  # perhaps in a variable: `for x in /:/y`
    is_alone = len(words) == 1
    words += ["$"] if "xargs" in words else []  # what it adds is not known
    for word in words:
        is_inner = depth > 0 and any(map(str.isspace, word))
        if is_inner and mounts_whole_disk(word, reader, effort, depth - 1):
            return True
        known = VARIABLE.sub(lambda of: reader.env.get(of[1] or of[2], of[0]), word)
        varies = is_named and _VARYING.search(known) is not None
        can_be = "$" in word or ("/" in word and (":" in word or "=" in word))
        pairs = (f"{before} {word}",) if _CAN_MOUNT.search(before) and len(before) < _LONG else ()
        for text in (word, *pairs) if can_be else ():
            forms = _read(text, reader) if _ODD.search(text) else [text]
            effort.spend(_READ * (len(forms) - 1))
            starts = ((one, _BEFORE_VALUE.match(one)) for one in forms)
            values = [one[of.end() :] if of else one for one, of in starts if of or is_alone]
            if values and (varies or any(_is_whole(value, word) for value in values)):
                return True
        before = before if _EMPTY.fullmatch(word) else word
    return False


def _read(word: str, reader: Reader) -> list[str]:
    try:
        forms = alternatives(word)
    except TooManyWaysError:
        if joins_braces(word):
            raise
        forms = [word]
    whole = replace(reader, whole=True)
    forms += [" ".join(forms[1:])] if len(forms) > 1 else []  # `{-v,/:/x}`
    return [text for form in forms for text in (form, *readings(form, whole))]


def _is_whole(value: str, word: str) -> bool:
    """Return whether `value`, a reading of `word`, is a mount of the whole disk."""
    if _VOLUME.fullmatch(value) or _SOURCE.search(value):
        return True
    return _VARYING.search(word) is not None and _VOLUME_ELSEWHERE.fullmatch(value) is not None
