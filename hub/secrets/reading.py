"""From references to secrets to their values, which may block: files, commands, the keyring.

`SecretReader` does that for a child at its launch, in a thread.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import IO, Final, Protocol, TypeVar, assert_never, cast

import structlog
from anyio import CapacityLimiter, to_thread

from hub.errors import ChildError, HubError
from hub.launch.templates import (
    CommandSecret,
    FileSecret,
    KeyringSecret,
    SecretReference,
    SecretText,
)
from hub.legible import on_one_line
from hub.system.tasks import in_daemon_thread

T = TypeVar("T")

MAX_BYTES: Final = 64 * 1024
"""The largest value of a secret."""
_LOOK: Final = 0.05
"""Seconds between two looks whether a reading is still needed."""


class SecretError(HubError):
    """A secret cannot be read: `what` says why, without any value, `fix` what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. {fix}")
        self.what = what
        self.fix = fix


def value_in(content: bytes, source: str) -> str:
    """Return the value in what was read from `source`: without the newline at its end.

    Raises: SecretError if it is empty, too large or no text.
    """
    if len(content) > MAX_BYTES:
        raise SecretError(f"{source} has more than 64 KiB", "Name the secret alone.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretError(
            f"{source} is not UTF-8 text", "Encode it, for example as base64."
        ) from None
    if "\0" in text:
        raise SecretError(f"{source} has a NUL character", "Encode it, for example as base64.")
    value = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not value:
        raise SecretError(f"{source} is empty", "Put the secret there.")
    return value


def within(seconds: float, work: Callable[[], T], given_up: Event) -> T:
    """Return what `work` returns, or raise what it raises.

    It runs in a thread of its own, which keeps no process alive. `given_up` is set once nobody
    waits for it any more.

    Raises: TimeoutError if it takes longer than `seconds`, or is given up.
    """
    outcomes: SimpleQueue[Callable[[], T]] = SimpleQueue()
    in_daemon_thread(work, "secret", outcomes.put)
    until = time.monotonic() + seconds
    while not given_up.is_set() and time.monotonic() < until:
        try:
            outcome = outcomes.get(timeout=_LOOK)
        except Empty:
            continue
        return outcome()
    raise TimeoutError


AT_ONCE = 8
"""Number of children whose secrets are read at the same time."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A FIFO must not block."""
_OTHERS: Final = 0o077
log = structlog.stdlib.get_logger(__name__)


def file_value(path: str) -> str:
    """Return the content of a regular file, or of one that a link leads to. Raises: SecretError."""
    try:
        number = os.open(path, _FLAGS)
    except FileNotFoundError:
        fix = "Write the secret into it, or correct the path."
        raise SecretError(f"there is no file {path}", fix) from None
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc) from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise SecretError(f"{path} is not a file", "Name a file with the secret alone.")
        with open(number, "rb", closefd=False) as file:
            return value_in(file.read(MAX_BYTES + 1), path)
    except OSError as exc:
        raise _unreadable(path, exc) from None
    finally:
        os.close(number)


def _unreadable(path: str, exc: OSError | ValueError) -> SecretError:
    why = exc.strerror if isinstance(exc, OSError) else "it is no path"
    return SecretError(f"{path} cannot be read ({why})", "Let the hub's user read it.")


def open_to_others(path: str) -> str | None:
    """Return a sentence if other users may read or write a file, with a remedy; else None."""
    if sys.platform == "win32":
        return None
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - as text
    except (OSError, ValueError):
        return None
    if not mode & _OTHERS:
        return None
    return f"{path} is open to other users (mode {mode:04o}): `chmod 600` keeps it to its owner"


def text_value(
    text: SecretText, environment: Mapping[str, str], given_up: Event | None = None
) -> str:
    """Return a text with its secrets. Commands in it get `environment`. Raises: SecretError."""
    until = given_up or Event()
    return "".join(
        part if isinstance(part, str) else _value(part, environment, until) for part in text.parts
    )


def _value(reference: SecretReference, environment: Mapping[str, str], given_up: Event) -> str:
    match reference:
        case FileSecret(path):
            return file_value(path)
        case CommandSecret(_, directory):
            return command_value(
                reference.argv, directory=directory, environment=environment, given_up=given_up
            )
        case KeyringSecret(service, user):
            return keyring_value(service, user, given_up)
        case _:
            assert_never(reference)


class SecretReader:
    """Reads secrets for children; nothing is kept but which files it has warned of."""

    def __init__(self) -> None:
        self._warned: set[str] = set()
        self._limiter = CapacityLimiter(AT_ONCE)

    async def values(
        self, at: str, wanted: Mapping[str, SecretText], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the values of `wanted`, texts by key; `at` is their place in the config.

        Raises: ChildError with the first that cannot be read.
        """
        given_up = Event()

        def read() -> dict[str, str]:
            found: dict[str, str] = {}
            for key, text in wanted.items():
                try:
                    found[key] = text_value(text, environment, given_up)
                except SecretError as exc:
                    fix = exc.fix.removesuffix(".")
                    raise ChildError(f"{at}.{key}: {exc.what}. {fix}") from None
            return found

        try:
            made = await to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            given_up.set()
        self._warn(wanted.values())
        return made

    def _warn(self, texts: Iterable[SecretText]) -> None:
        paths = {
            one.path for text in texts for one in text.references if isinstance(one, FileSecret)
        }
        for path in sorted(paths - self._warned):
            self._warned.add(path)
            if (sentence := open_to_others(path)) is not None:
                log.warning("others can read a secret", what=sentence)


COMMAND_LIMIT: Final = 10.0
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
    given_up: Event,
    limit: float = COMMAND_LIMIT,
) -> str:
    """Return what a command prints on stdout.

    Raises: SecretError if it cannot be started, fails, takes too long or prints no fit value.
    """
    source = f"the command {argv[0]!r}"
    process = _started(argv, directory, environment)
    try:
        printed, said = within(limit, lambda: _output(process), given_up)
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


KEYRING_LIMIT: Final = 30.0
"""Seconds that the keyring may take: its user may have to unlock it."""


class _Keyring(Protocol):
    def get_password(self, service_name: str, username: str) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str) -> None: ...


def is_installed() -> bool:
    """Return whether the package `keyring` is installed. It is not loaded."""
    try:
        return find_spec("keyring") is not None
    except ValueError:  # it is hidden
        return False


def not_installed() -> SecretError:
    """Return the error for a hub without the package `keyring`."""
    what = "the package `keyring` is not installed"
    return SecretError(what, "Install it: pip install 'roots-hub[keyring]'")


def keyring_value(service: str, user: str, given_up: Event, *, limit: float = KEYRING_LIMIT) -> str:
    """Return a password from the user's keyring. Raises: SecretError."""
    entry = f"{service}/{user}"
    found = find_in_keyring(service, user, given_up, limit=limit)
    if found is None:
        raise SecretError(f"the keyring has no {entry}", f"Run `keyring set {service} {user}`.")
    return value_in(found.encode(errors="replace"), f"{entry} in the keyring")


def find_in_keyring(
    service: str, user: str, given_up: Event, *, limit: float = KEYRING_LIMIT
) -> str | None:
    """Return a password from the user's keyring; None if it has none of that name.

    Raises: SecretError.
    """
    return _asked("read", lambda keyring: keyring.get_password(service, user), given_up, limit)


def put_into_keyring(service: str, user: str, value: str, given_up: Event) -> None:
    """Put a password into the user's keyring. Raises: SecretError."""
    _asked(
        "written",
        lambda keyring: keyring.set_password(service, user, value),
        given_up,
        KEYRING_LIMIT,
    )


def _asked(how: str, work: Callable[[_Keyring], T], given_up: Event, limit: float) -> T:
    try:
        return within(limit, lambda: work(_loaded()), given_up)
    except TimeoutError:
        what = f"the keyring did not answer within {limit:g} s"
        raise SecretError(what, "Unlock it.") from None
    except SecretError:
        raise
    except Exception as exc:  # noqa: BLE001 - backends raise what they like; its text is not ours
        what = f"the keyring cannot be {how} ({type(exc).__name__})"
        raise SecretError(what, "Run `keyring diagnose`.") from None


def _loaded() -> _Keyring:
    try:
        return cast("_Keyring", import_module("keyring"))
    except ModuleNotFoundError as exc:
        if exc.name == "keyring":
            raise not_installed() from None
        raise
