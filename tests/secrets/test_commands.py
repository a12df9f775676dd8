from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from threading import Event

import pytest

from hub.secrets.reading import MAX_BYTES, SecretError, command_value, program_path, within

pytestmark = pytest.mark.live


def printed(code: str, *words: str, limit: float = 20, env: dict[str, str] | None = None) -> str:
    return command_value(
        (sys.executable, "-c", code, *words),
        directory="/",
        environment=dict(os.environ) if env is None else env,
        given_up=Event(),
        limit=limit,
    )


def test_a_commands_value_is_what_it_prints() -> None:
    assert printed("print('t0ken')") == "t0ken"
    code = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['A'], sys.stdin.read())"
    shown = printed(code, "a b", "$HOME; x", env={**os.environ, "A": "b"})
    assert shown == "['a b', '$HOME; x'] / b "


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; print('s3cret'); sys.exit('one\\ntwo \\x1b[1m')", r"exit code 1; its stderr"),
        ("import os; print('s3cret', flush=True); os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("print('s3cret' * 20_000)", "prints more than 64 KiB"),
        ("while True: print('s3cret')", "prints more than 64 KiB"),
        ("pass", "is empty"),
        ("print('s3cret\\0')", "NUL"),
    ],
)
def test_a_command_that_fails_is_told_without_what_it_printed(code: str, why: str) -> None:
    with pytest.raises(SecretError, match=why) as raised:
        printed(code)
    assert "s3cret" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_the_last_line_of_stderr_is_shown() -> None:
    with pytest.raises(SecretError, match="exit code 3; its stderr ends: two") as raised:
        printed("import sys; sys.stderr.write('one\\ntwo\\n\\n'); sys.exit(3)")
    assert "one" not in raised.value.what
    with pytest.raises(SecretError, match=f"ends: {'x' * 200}…"):
        printed(f"import sys; sys.exit('x' * {MAX_BYTES})")


def test_a_command_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = (
        "import subprocess, sys; "
        f"subprocess.run(['sh', '-c', 'exec 3>{fifo}; echo on >&3; while :; do sleep 1000; done'])"
    )
    lines: list[str] = []
    # Opened by the grandchild for writing; its end shows that the grandchild has ended.
    reading = threading.Thread(target=lambda: lines.extend(fifo.read_text().splitlines()))
    reading.start()
    with pytest.raises(SecretError, match="did not end within 2 s"):
        printed(code, limit=2)
    reading.join(20)
    assert lines == ["on"]


def test_a_command_that_nobody_waits_for_any_more_is_ended() -> None:
    given_up = Event()
    given_up.set()
    with pytest.raises(SecretError):
        command_value(
            ("sleep", "1000"),
            directory="/",
            environment=os.environ,
            given_up=given_up,
            limit=1000,
        )


def test_what_a_command_leaves_running_does_not_keep_its_value() -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '3'], stdout=-3); print('t0ken')"
    assert printed(code) == "t0ken"


def test_a_command_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    # A folder of the PATH that this user may not look into would be told otherwise.
    variables = {"PATH": os.defpath}

    def started(*argv: str) -> str:
        return command_value(argv, directory=str(tmp_path), environment=variables, given_up=Event())

    with pytest.raises(SecretError, match="there is no command 'no-such-command'"):
        started("no-such-command", "s3cret")
    (tmp_path / "script").write_text("#!/bin/sh\necho t0ken\n")
    with pytest.raises(SecretError, match="cannot be started"):
        started("./script")
    (tmp_path / "script").chmod(0o700)
    assert started("./script") == "t0ken"


def test_a_relative_program_starts_at_the_config() -> None:
    assert program_path("pass", "/etc/hub") == "pass"
    assert program_path("./x", "/etc/hub") == "/etc/hub/./x"
    assert program_path("/bin/x", "/etc/hub") == "/bin/x"
    assert program_path("~/x", "/etc/hub") == str(Path.home() / "x")


def test_an_error_of_the_work_is_raised_where_it_is_waited_for() -> None:
    def fails() -> str:
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        within(20, fails, Event())
