"""Commands that start containers: which of their words are paths in the container."""

from __future__ import annotations

import re

_MOUNT = re.compile(
    r"(\s(?:-v|--volume))[\s=]*([\"']?)([^\s:\"';,]+)[\"']?:/[\w./-]*(?::[\w,]+)?[\"']?(?=\s|$)"
)
_WORKDIR = re.compile(r"\s(?:-w|--workdir)[\s=]+/[\w./-]*(?=\s|$)")
_TARGET = re.compile(r"(?:,|(?<=[\s=\"']))(?:target|dst|destination)=/[\w./-]*(?=[\s,\"']|$)")
_WHOLE_DISK = re.compile(
    r"(?:^|[\s\"'])(?:-v|--volume)[\s=]*[\"']?/[/.]*[\"']?:[\"']?/\w"
    r"|(?:^|[\s,=\"'])(?:src|source)=[\"']?/[/.]*(?=[,\s\"']|$)"
)
_WHOLE_DISK_AS_ARGUMENT = re.compile(r"/[/.]*:/\S*")
_DOUBLE = r"\"(?:[^\"\n\\`$]|\$(?![({])|\$\{\w+\})*\""
"""A text in double quotes, in one line, that runs no other command and has no quotes of its own."""
_VALUE = rf"(?:[\w./:=@,+-]|\$(?:PWD|HOME)|\$\{{(?:PWD|HOME)\}}|'[^'\n]*'|{_DOUBLE})+"
_ENGINE = r"[^\S\n]*(?:sudo[^\S\n]+)?(?:docker|podman|nerdctl)"
_CONTAINER = re.compile(
    # Matched from the start of the command: otherwise it is unknown what is quoted.
    rf"(?:[^'\"\\]*[;&|(\n])?{_ENGINE}"
    r"(?:[^\S\n]+compose(?:[^\S\n]+-f[^\S\n]+[\w./-]+)*|[^\S\n]+container)?"
    r"[^\S\n]+(?:run|create|exec)\s"
    # A quote does not go on in the next line: in a remark or a document it would be none.
    rf"(?:[^;&|<>()`\n'\"\\$]|\$(?!')|\\\n|'[^'\n]*'|{_DOUBLE})*"
)
_INNER = re.compile(
    # Nothing in what is dropped is read by the shell, which goes on behind it.
    rf"({_ENGINE}(?:[^\S\n]+compose)?[^\S\n]+(?:exec|run)"
    r"(?:[^\S\n]+(?:-[itdT]+|--(?:interactive|tty|detach|privileged|rm|init)"
    r"|(?:-[uwepvhm]|--(?:user|workdir|env|publish|volume|mount|name|network|hostname|platform))"
    rf"(?:=|[^\S\n]+){_VALUE}))*[^\S\n]+\w[\w./:@-]*"
    r"|\s*kubectl(?:[^\S\n]+-n[^\S\n]+[\w-]+)?[^\S\n]+exec"
    r"(?:[^\S\n]+(?:-[itq]+|(?:-[nc]|--namespace|--container)(?:=|[^\S\n]+)[\w.-]+|\w[\w./-]*))+"
    r"[^\S\n]+--)"
    r"(?:[^\S\n]+(?:[\w./:=@,%+-]+|'[^'\n]*'|\"[^\"\n\\`$]*\"))+(?=[^\S\n]*(?:$|[;|\n]|&&))"
)
_COPY = re.compile(rf"(?:{_ENGINE}|\s*kubectl)[^\S\n]+cp[^\S\n][\w./:@=+ -]+")
_IN_CONTAINER = re.compile(r"(?<=\s)\w[\w.-]*(?:/[\w.-]+)?:/[\w./@+-]*(?=\s|$)")


def without_mount_targets(command: str) -> str:
    """Return a command without paths in the container that it starts: `-v a:/b`, `-w /b`.

    `target=/b` of a mount is one of these too, and so is what runs in it, or is copied from there.
    """
    command = _INNER.sub(r"\1", command, count=1) if _INNER.match(command) else command
    copied = _COPY.match(command)
    if copied is not None:
        return _IN_CONTAINER.sub("x", copied[0]) + command[copied.end() :]
    started = _CONTAINER.match(command)
    if started is None:
        return command
    inner = _MOUNT.sub(r"\1=\2\3\2", started[0])
    inner = _WORKDIR.sub(" ", without_targets(inner))
    return inner + command[started.end() :]


def without_targets(mount: str) -> str:
    """Return a mount without its path in the container: `type=bind,source=a,target=/b`."""
    return _TARGET.sub("", mount)


def mounts_whole_disk(command: str) -> bool:
    """Return whether a command, or one argument, mounts `/`: `-v /:/x`, `type=bind,source=/`."""
    if ":/" not in command and "=/" not in command:
        return False
    as_argument = _WHOLE_DISK_AS_ARGUMENT.fullmatch(command)
    return as_argument is not None or _WHOLE_DISK.search(command) is not None
