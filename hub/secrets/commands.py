"""Secrets that a program prints: `${cmd:COMMAND}`. No shell is involved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO, Final, cast

from hub.legible import on_one_line
from hub.secrets.values import MAX_BYTES, ReadingScope, SecretError, value_in, within

LIMIT: Final = 10.0
"""Seconds that a command may take."""
_LAST_WORDS: Final = 200
"""Characters of its last line on stderr that an error shows."""
_TAIL: Final = 4096
_LAST_LOOK: Final = 0.5
"""Seconds for the end of its stderr to arrive once it has ended."""


def command_value(
    argv: Sequence[str],
    *,
    directory: str,
    environment: Mapping[str, str],
    scope: ReadingScope,
    limit: float = LIMIT,
) -> str:
    """Return what a command prints on stdout.

    Raises: SecretError if it cannot be started, fails, takes too long or prints no fit value.
    """
    source = f"the command {argv[0]!r}"
    process = _started(argv, directory, environment)
    try:
        printed, said = within(limit, lambda: _output(process), scope)
    except TimeoutError:
        fix = "It must not ask for anything: it has no terminal."
        raise SecretError(f"{source} did not end within {limit:g} s", fix) from None
    finally:
        _end(process)
    if len(printed) > MAX_BYTES:
        raise SecretError(f"{source} prints more than 64 KiB", "Print the secret alone.")
    if process.returncode:
        raise SecretError(
            f"{source} failed: {_how(process.returncode, said)}", "Run it by hand to see why."
        )
    return value_in(printed, f"the output of {source}")


def _started(
    argv: Sequence[str], directory: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the operator configured the command
            [program_path(argv[0], directory), *argv[1:]],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        fix = "Install it, or write its whole path."
        raise SecretError(f"there is no command {argv[0]!r}", fix) from None
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "a word of it cannot be passed on"
        fix = "Correct the command."
        raise SecretError(f"the command {argv[0]!r} cannot be started ({why})", fix) from None


def program_path(program: str, directory: str) -> str:
    """Return a program as it is started: a relative path starts at `directory`."""
    if program.startswith("~/"):
        return os.path.expanduser(program)  # noqa: PTH111 - as text
    return os.path.join(directory, program) if os.sep in program else program  # noqa: PTH118 - as text


def _output(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what a process prints, up to a little more than is fit, and the end of its stderr."""
    stdout, stderr = cast("tuple[IO[bytes], IO[bytes]]", (process.stdout, process.stderr))
    said = bytearray()
    listening = Thread(target=_keep_tail, args=(stderr, said), daemon=True)
    listening.start()
    with stdout:
        printed = stdout.read(MAX_BYTES + 1)
    if len(printed) > MAX_BYTES:
        _end(process)
    process.wait()
    listening.join(_LAST_LOOK)  # what it has left running may keep its stderr open
    return printed, bytes(said)


def _keep_tail(stream: IO[bytes], said: bytearray) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), _TAIL):
            said += chunk
            del said[:-_TAIL]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and what it has started in its group."""
    if process.poll() is None:
        with suppress(OSError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # it may belong to another user
        process.wait(_LAST_LOOK)


def _how(code: int, said: bytes) -> str:
    how = f"exit code {code}"
    if code < 0:
        with suppress(ValueError):
            how = f"ended by {signal.Signals(-code).name}"
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return how
    last = on_one_line(lines[-1].strip())
    return f"{how}; its stderr ends: {last[:_LAST_WORDS]}{'…' if len(last) > _LAST_WORDS else ''}"
