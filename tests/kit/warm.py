"""Starts hubs as processes of their own, but not anew: forked from one that has imported the hub.

Most live tests are about what a hub does once it runs, and its start would take most of their time.
A warm hub runs the real entry point, on real pipes, and so does a shared hub that it starts. It
differs from the installed command in what the kernel tells of it (command line, environment,
parent, memory), and in what Python decides at its start. Tests of those start `ROOTS_HUB`.
"""

from __future__ import annotations

import array
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGHUP, SIGKILL, SIGTERM, Signals
from threading import Lock
from typing import IO, Any, cast

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

ROOTS_HUB = str(Path(__file__).parent.parent.parent / ".venv/bin/roots-hub")
WARM_HUB = "a hub that is forked"
"""Stands in a command line in the place of `ROOTS_HUB`."""
IS_POSSIBLE = hasattr(os, "pidfd_open")
"""Elsewhere than on Linux warm hubs are started as others are."""
DECIDED_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
SERVER = str(Path(__file__).with_name("warm_server.py"))
COMMAND = str(Path(__file__).with_name("warm_command.py"))
CHUNK = 65536
LONGEST_COMMAND = 4096
"""Bytes: what is forked can show that it runs another one."""


def command_of(argv: Sequence[str]) -> list[str]:
    """Return the command line that a process with these words has."""
    return [ROOTS_HUB if word == WARM_HUB else word for word in argv]


def is_warm(argv: Sequence[str], env: Mapping[str, str] | None) -> bool:
    """Return whether a hub can be forked; not if its environment says how its Python starts."""
    is_ordinary = env is None or _decided(env) == _decided(os.environ)
    return argv[0] == WARM_HUB and IS_POSSIBLE and is_ordinary


def _decided(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(DECIDED_AT_START)}


class WarmServer:
    """The process that hubs are forked from; it is started for the first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def order(self, order: Mapping[str, Any], files: Sequence[int]) -> None:
        """Have a hub forked."""
        text = json.dumps(order).encode()
        with self._lock:
            control = self._control or self._started()
            socket.send_fds(control, [len(text).to_bytes(4, "little")], files)
            control.sendall(text)

    def command(self) -> str:
        """Return a program that runs warm hubs, for programs that start `roots-hub` themselves."""
        if not IS_POSSIBLE:
            return ROOTS_HUB
        with self._lock:
            if self._control is None:
                self._started()
        assert self._folder is not None
        return str(self._folder / "roots-hub")

    def _started(self) -> socket.socket:
        self._control, theirs = socket.socketpair()
        folder = None if len(tempfile.gettempdir()) < 80 else "/tmp"  # noqa: S108 - a new one in it
        self._folder = Path(tempfile.mkdtemp(dir=folder))  # a socket's address has no long path
        with theirs, socket.socket(socket.AF_UNIX) as door:
            place = str(self._folder / "door")
            door.bind(place)
            door.listen()
            run = [sys.executable, "-I", "-S", "-B", COMMAND, place, ROOTS_HUB]
            program = self._folder / "roots-hub"
            program.write_text(f'#!/bin/sh\nexec {shlex.join(run)} "$@"\n')
            program.chmod(0o700)
            files = [theirs.fileno(), door.fileno()]
            command = [sys.executable, "-P", SERVER, *map(str, files), "-" * LONGEST_COMMAND]
            self._process = subprocess.Popen(  # noqa: S603 - ours
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=files,
                process_group=0,  # Ctrl-C is for the tests, which end it
            )
        return self._control

    def end(self) -> None:
        if self._control and self._process and self._folder:
            self._control.close()
            self._process.wait()
            shutil.rmtree(self._folder)
            self._control = self._process = self._folder = None


WARM = WarmServer()


class WarmHub:
    """A process, with what tests use of `subprocess.Popen`.

    `files` are its first three; behind them may be a terminal that shall be that of its session.
    """

    def __init__(
        self,
        argv: Sequence[str],
        files: Sequence[int],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        new_session: bool = False,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        self.args = command_of(argv)
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._lock = Lock()
        self._news, theirs = socket.socketpair()
        order: dict[str, Any] = {"argv": self.args, "environment": environment}
        order["cwd"] = str(cwd or Path.cwd())
        order["new_session"] = new_session or len(files) > 3
        order["ignores_hangups"] = signal.getsignal(SIGHUP) is signal.SIG_IGN
        with theirs:
            WARM.order(order, [*files[:3], theirs.fileno(), *files[3:]])
        self.pid = self._number()

    def _number(self) -> int:
        got = self._news.recv(4, socket.MSG_WAITALL)
        assert len(got) == 4, "the process that hubs are forked from has ended"
        return array.array("i", got)[0]

    def poll(self) -> int | None:
        """Return the exit code, if it has ended."""
        with self._lock:
            if self.returncode is None and select.select([self._news], [], [], 0)[0]:
                self.returncode = self._number()
                self._news.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code."""
        news = self._news
        with suppress(ValueError):  # somebody else has heard it
            if self.returncode is None and not select.select([news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended meanwhile, and its parent knows already
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        self.send_signal(SIGKILL)

    def communicate(self) -> None:
        """Wait for its end, and close its pipes."""
        self.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                with suppress(BrokenPipeError):
                    file.close()

    def __enter__(self) -> WarmHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.communicate()


AnyProcess = subprocess.Popen[Any] | WarmHub


class _Ends:
    """The files of a process: what was asked for, and our ends of pipes."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self.ours: list[int | None] = []
        self._made: list[int] = []

    def add(self, wanted: int | IO[Any] | None, number: int) -> None:
        if wanted == subprocess.PIPE:
            read, write = os.pipe()
            ours, theirs = (write, read) if number == 0 else (read, write)
            self.ours.append(ours)
        else:
            self.ours.append(None)
            theirs = _file_of(wanted, number)
        self.theirs.append(theirs)
        if wanted in (subprocess.PIPE, subprocess.DEVNULL):
            self._made.append(theirs)

    def handed_over(self) -> None:
        for one in self._made:
            os.close(one)


def _file_of(wanted: int | IO[Any] | None, number: int) -> int:
    if wanted is None:
        return number
    if wanted == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR)
    return wanted if isinstance(wanted, int) else wanted.fileno()


def popen(argv: Sequence[str], **options: Any) -> AnyProcess:
    """Start a process as `subprocess.Popen` does; it is forked if its first word is `WARM_HUB`."""
    if not is_warm(argv, options.get("env")):
        return subprocess.Popen(command_of(argv), **options)  # noqa: S603 - a test's own
    ends = _Ends()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        ends.add(options.pop(name, None), number)
    text, buffering = options.pop("text", False), options.pop("bufsize", -1)
    new_session = options.pop("start_new_session", False)
    files = [*ends.theirs, *options.pop("terminals", ())]
    try:
        process = WarmHub(argv, files, new_session=new_session, **options)
    finally:
        ends.handed_over()
    for name, end in zip(("stdin", "stdout", "stderr"), ends.ours, strict=True):
        if end is not None:
            mode = ("w" if name == "stdin" else "r") + ("" if text else "b")
            opened = os.fdopen(end, mode, -1 if text else buffering)
            setattr(process, name, opened)
    return process


def ran(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without input, and return what it wrote."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": errors}
        with popen(argv, cwd=cwd, env=env, **files) as process:
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command_of(argv), code, out.read(), errors.read())


class _Reading(ByteReceiveStream):
    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._is_closed = False
        os.set_blocking(pipe, False)

    async def receive(self, max_bytes: int = CHUNK) -> bytes:
        while not self._is_closed:
            await anyio.wait_readable(self._pipe)
            with suppress(BlockingIOError):
                if got := os.read(self._pipe, max_bytes):
                    return got
                raise anyio.EndOfStream
        raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._pipe)
            os.close(self._pipe)


class _Writing(ByteSendStream):
    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._is_closed = False
        os.set_blocking(pipe, False)

    async def send(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            if self._is_closed:
                raise anyio.ClosedResourceError
            try:
                rest = rest[os.write(self._pipe, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._pipe)
            except BrokenPipeError as exc:
                raise anyio.BrokenResourceError from exc
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            anyio.notify_closing(self._pipe)
            os.close(self._pipe)


class WarmProcess(Process):
    """A warm hub as `anyio.open_process` gives processes."""

    def __init__(self, hub: WarmHub, stdin: _Writing | None, stdout: _Reading | None) -> None:
        self._hub = hub
        self._stdin = stdin
        self._stdout = stdout

    async def aclose(self) -> None:
        for stream in (self._stdin, self._stdout):
            if stream is not None:
                await stream.aclose()
        await self.wait()

    async def wait(self) -> int:
        return await anyio.to_thread.run_sync(self._hub.wait, abandon_on_cancel=True)

    def terminate(self) -> None:
        self._hub.terminate()

    def kill(self) -> None:
        self._hub.kill()

    def send_signal(self, signal: Signals) -> None:
        self._hub.send_signal(signal)

    @property
    def pid(self) -> int:
        return self._hub.pid

    @property
    def returncode(self) -> int | None:
        return self._hub.poll()

    @property
    def stdin(self) -> ByteSendStream | None:
        return self._stdin

    @property
    def stdout(self) -> ByteReceiveStream | None:
        return self._stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return None


_open_process = anyio.open_process


async def open_process(command: Any, **options: Any) -> Process:
    """Start a process as `anyio.open_process` does; it is forked if it is `WARM_HUB`."""
    if isinstance(command, str | bytes):
        return await _open_process(command, **options)
    argv = cast("list[str]", list(command))
    if not is_warm(argv, options.get("env")):
        return await _open_process(command_of(argv), **options)
    ends = _Ends()
    for number, (name, usual) in enumerate(
        (("stdin", subprocess.PIPE), ("stdout", subprocess.PIPE), ("stderr", None))
    ):
        ends.add(options.get(name, usual), number)
    try:
        hub = WarmHub(
            argv,
            ends.theirs,
            cwd=options.get("cwd"),
            env=options.get("env"),
            new_session=options.get("start_new_session", False),
        )
    finally:
        ends.handed_over()
    stdin, stdout, stderr = ends.ours
    assert stderr is None, "no test wants that yet"
    return WarmProcess(
        hub,
        None if stdin is None else _Writing(stdin),
        None if stdout is None else _Reading(stdout),
    )
