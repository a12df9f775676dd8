from __future__ import annotations

import ast
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from hub.cli import command_line as module
from hub.cli.check import plans
from hub.cli.command_line import parser
from hub.cli.main import main
from hub.errors import ChildError, ConfigError, HubError, RouteError, StartError
from tests.kit.trees import plant


class Logs:
    """Stands in for the log, which a process configures once."""

    def __init__(self) -> None:
        self.configured: list[tuple[str, str]] = []

    def __call__(self, form: str, level: str, *, file: object = None) -> None:
        self.configured.append((form, level))


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    for variable in ("HUB_CONFIG", "HUB_ROOTS", "HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    logs = Logs()
    monkeypatch.setattr("hub.system.log.configure_logs", logs)
    return logs


@pytest.fixture
def performing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | int], int]:
    """Let `schema` end in a way that the test chooses; gives the exit code."""

    def perform(end: BaseException | int) -> int:
        def ended(_: object) -> int:
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(plans, "_schema", ended)
        return main(["schema"])

    return perform


# Arguments


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["--log-format", "xml", "schema"],
        ["--log-level", "loud", "schema"],
        ["schema", "extra"],
        ["--config", "x"],
    ],
)
def test_bad_usage_ends_with_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str], logs: Logs
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: roots-hub ")
    assert logs.configured == []


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["check", "hub.yaml"], " (a config is named by --config hub.yaml)"),
        (["run", "--nonsense"], ""),
        (["wrap", "npx", "-y"], " (put -- before the server's command: "),
        (["schema", "extra"], ""),
        (["roots", "add", "a", "b"], ""),
        (["check", "--conect"], " (did you mean --connect?)"),
        (["run", "--htp=127.0.0.1:1"], " (did you mean --http?)"),
        (["token", "new", "anna", "--dys=3"], " (did you mean --days?)"),
    ],
)
def test_a_misplaced_argument_is_an_error_that_says_where_it_belongs(
    arguments: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    said = capsys.readouterr().err.splitlines()[-1]
    command = " ".join(arguments[: 2 if arguments[0] in {"roots", "token"} else 1])
    unknown = f"roots-hub {command}: error: unrecognized arguments: {arguments[-1]}"
    assert said.startswith(f"{unknown}{advice}" if advice else unknown)
    assert bool(advice) == ("(" in said)


@pytest.mark.parametrize("command", ["roots", "token"])
def test_a_command_with_commands_of_its_own_lists_them_where_none_is_named(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    _, _, listed = capsys.readouterr().err.partition("\ncommands:\n")
    assert ("  add  " in listed, "  new  " in listed) == (command == "roots", command == "token")


@pytest.mark.parametrize(
    "arguments",
    [["schema", "--log-file="], ["status", "--config="], ["reload", "--config="]],
)
def test_an_empty_option_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) in {2, 3}
    assert f"{arguments[1][:-1]}: is empty" in capsys.readouterr().err


def test_a_file_that_the_system_refuses_is_named(
    performing: Callable[[BaseException | int], int], capsys: pytest.CaptureFixture[str]
) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", "/shut/x\x1b")
    assert performing(refused) == 1
    told, advice = capsys.readouterr().err.splitlines()
    assert told == r"roots-hub: /shut/x\x1b: Permission denied"
    assert advice == "Name another one, or make it what this command needs."


@pytest.mark.parametrize("arguments", [["wrap"], ["wrap", "--"], ["wrap", "--root", "."]])
def test_wrap_without_a_command_says_where_it_goes(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(
        "roots-hub wrap: error: the following arguments are required: COMMAND "
        "(put -- before the server's command: roots-hub wrap -- COMMAND ARGS...)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["chek"], "(did you mean check?)"),
        (["--config", "my.yaml", "check"], "come after it: COMMAND --config my.yaml)"),
        (["token", "nwe"], "(did you mean new?)"),
        (["--log-level", "warn", "check"], "(did you mean warning?)"),
        (["check", "--log-format", "jsn"], "(did you mean json?)"),
        (["frobnicate"], "'stop')"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_that_is_meant(
    arguments: list[str], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.splitlines()[-1].endswith(end)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"roots-hub {version('roots-hub')}\n"


@pytest.mark.parametrize(
    "command", ["run", "wrap", "check", "plan", "schema", "explain", "tools", "call", "roots"]
)
def test_each_command_has_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: roots-hub {command} ")
    assert f"\n    {command} " in parser().format_help()


def test_the_log_is_configured_before_anything_is_done(
    logs: Logs, performing: Callable[[int], int]
) -> None:
    assert performing(0) == 0
    assert logs.configured == [("text", "info")]
    assert main(["--log-format", "json", "--log-level", "debug", "schema"]) == 0
    assert logs.configured[1:] == [("json", "debug")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--log-level", "debug", "schema", "--log-format", "json"],
        ["schema", "--log-level", "debug", "--log-format", "json"],
        ["--log-level", "error", "--log-format", "json", "schema", "--log-level", "debug"],
        ["roots", "--log-level", "debug", "detect", "--log-format", "json"],
    ],
)
def test_the_log_is_set_on_either_side_of_the_command(arguments: list[str], logs: Logs) -> None:
    assert main(arguments) == 0
    assert logs.configured == [("json", "debug")]


def test_what_follows_the_two_dashes_of_wrap_is_the_servers(logs: Logs) -> None:
    assert main(["wrap", "--log-level", "debug", "--", "no-such-x", "--log-level", "x"]) == 1
    assert logs.configured == [("text", "debug")]


# Exit codes


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_says_its_exit_code(performing: Callable[[int], int], code: int) -> None:
    assert performing(code) == code


CONFIG = ConfigError("hub.yaml: servers.a.args[2]", "unknown placeholder", "Correct it.")
START = StartError("127.0.0.1:80: in use", "Free it.")
ENDS: list[tuple[BaseException, int, HubError]] = [
    (CONFIG, 3, CONFIG),
    (START, 1, START),
    (RouteError("Unknown tool: x\nList them."), 1, RouteError("Unknown tool: x\nList them.")),
    (ChildError("server 'a' is gone\nSee."), 1, ChildError("server 'a' is gone\nSee.")),
    (ExceptionGroup("tasks", [ExceptionGroup("more", [CONFIG])]), 3, CONFIG),
    (BaseExceptionGroup("tasks", [KeyboardInterrupt(), START]), 1, START),
]


@pytest.mark.parametrize(("error", "code", "told"), ENDS, ids=[type(e[0]).__name__ for e in ENDS])
def test_an_error_is_two_lines_and_its_code(
    performing: Callable[[BaseException], int],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    told: HubError,
) -> None:
    assert performing(error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"roots-hub: {told}\n"
    assert err.count("\n") == 2


def test_an_interrupt_ends_as_shells_expect(
    performing: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert performing(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""


WHILE_LOADING = """
import gc, os, signal, sys

class Watcher:
    @staticmethod
    def find_spec(name, *_):
        if name == "{module}":
            {act}

{before}
sys.meta_path.insert(0, Watcher)
from hub.cli.main import main
code = main(["schema"])
{then}
sys.exit(code)
"""


def acting_while_loading(
    act: str, then: str = "", before: str = "", module: str = "hub.cli.check.plans"
) -> tuple[int, str]:
    """Let a new process act as it loads a module (its command's); return its code and stderr."""
    code = WHILE_LOADING.format(act=act, then=then, before=before, module=module)
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stderr


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
@pytest.mark.parametrize("module", ["msgspec", "hub.cli.check.plans"])
def test_an_interrupt_while_the_program_loads_ends_as_shells_expect(module: str) -> None:
    # The system ends it, and a shell says 130: an exception in an import can crash msgspec.
    before = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # also in the background
    act = "os.kill(os.getpid(), signal.SIGINT)"
    ended = acting_while_loading(act, before=before, module=module)
    assert ended == (-signal.SIGINT, "")


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot interrupt itself there")
def test_a_program_in_the_background_ignores_an_interrupt_while_it_loads() -> None:
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    assert acting_while_loading("os.kill(os.getpid(), signal.SIGINT)", before=before) == (0, "")


def test_a_full_disk_below_the_output_is_told_in_two_lines(
    performing: Callable[[BaseException], int], capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert performing(ExceptionGroup("tasks", [full])) == 1
    assert capsys.readouterr().err == (
        "roots-hub: there is no space left where the output goes\n"
        "Free some space, or send the output elsewhere: `roots-hub doctor` names full disks.\n"
    )


@pytest.mark.live
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("command", ["roots detect", "tools --config /nowhere/hub.yaml"])
def test_output_that_is_written_at_the_end_is_not_lost_without_a_word(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-m", "hub", *command.split(), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert "roots-hub: there is no space left where the output goes\n" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.live
def test_a_reader_that_has_gone_is_an_exit_code_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "hub", "roots", "detect", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, b"")


@pytest.mark.live
def test_an_interrupt_is_pythons_again_once_all_is_loaded() -> None:
    code = (
        "import signal\nfrom hub.cli.command_line import lean\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\nwith lean(): pass\n"
        "raise SystemExit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - this Python


@pytest.mark.live
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_the_terminal_has_no_character_for_is_written_as_an_escape(
    tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "hub.yaml").write_text(
        "version: 1\nservers: {š: {command: sh, env: {A: '${X:-…}'}}}\n", encoding="utf-8"
    )
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-m", "hub", "check", "--config", str(tmp_path / "hub.yaml")],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.startswith("1 server: \\u0161. The config is fine.\n")


@pytest.mark.parametrize(
    "error", [LookupError("ours"), ExceptionGroup("tasks", [LookupError("ours")])]
)
def test_our_own_mistakes_are_not_hidden(
    performing: Callable[[BaseException], int], error: Exception
) -> None:
    with pytest.raises(type(error)):
        performing(error)


# What commands end with, and all they say


def test_the_program_alone_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    out, err = capsys.readouterr()
    assert out == ""
    assert "    doctor              find what is wrong here, and say what mends it\n" in err


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    return code, err


@pytest.mark.parametrize("command", ["run", "check", "plan"])
def test_a_bad_config_is_three_and_starts_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "made"
    servers: Mapping[str, Any] = {
        "fine": {"command": "touch", "args": [str(made)], "start": "eager"},
        "files": {"command": "x", "args": ["a", "b", "${rots}"]},
    }
    Path("hub.yaml").write_text(json.dumps({"version": 1, "servers": servers}))
    code, err = failing(capsys, command, "--config", "hub.yaml")
    where, fix, *excerpt = err.splitlines()
    assert code == 3
    assert where == "roots-hub: hub.yaml: servers.files.args[2]: the variable rots is not set"
    assert fix == "Write ${roots}, or set the variable."
    assert excerpt[2:] == ['1 | … "${rots}"', "  |   ^^^^^^^^^"]
    assert not made.exists()


def test_an_empty_option_is_not_taken_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("run", "tools", "check", "doctor"):
        assert failing(capsys, command, "--config", "") == (
            3,
            "roots-hub: --config: is empty\nName a file: --config FILE.\n",
        )
    code, said = failing(capsys, "run", "--config", "hub.yaml", "--no-config")
    assert (code, said.splitlines()[0]) == (2, "roots-hub: --no-config: --config names one")
    code, said = failing(capsys, "roots", "list", "--root", "")
    assert code == 1
    assert said.startswith("roots-hub: --root : an empty path names nothing\n")


@pytest.mark.live
@pytest.mark.parametrize(
    "arguments",
    [["check"], ["check", "--connect"], ["plan"], ["tools"], ["call", "x.y"], ["doctor"]],
)
def test_what_is_in_a_config_cannot_control_the_terminal(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = {"command": "/x/\x1b[2J b", "cwd": "/no\x1b[2J"}
    raw = {"version": 1, "roots": {"fallback": ["/no\x1b[2J"]}, "servers": {"a\x1b[2J": server}}
    file = tmp_path / "hub.yaml"
    file.write_text(json.dumps(raw))
    with capture_logs(), suppress(SystemExit):
        main([*arguments, "--config", str(file)])
    said = "".join(capsys.readouterr())
    assert r"\x1b[2J" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("command", ["run", "check", "plan"])
def test_a_config_that_is_not_there_is_three(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert failing(capsys, command, "--config", "/nowhere/hub.yaml") == (
        3,
        "roots-hub: /nowhere/hub.yaml: no such file\nName a file that exists, by --config or "
        "HUB_CONFIG.\n",
    )


@pytest.mark.parametrize("command", ["check", "plan", "tools", "login", "roots list", "call a.b"])
def test_a_program_gets_the_mistakes_of_a_config_as_json(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hub.yaml").write_text("version: 1\nroot: {}\nserver: {}\n")
    assert main([*command.split(), "--json", "--config", f"{tmp_path}/hub.yaml"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert "2 mistakes." in told["error"]
    assert [one["fix"] for one in told["faults"]] == ["Write `roots`.", "Write `servers`."]


def test_an_unknown_value_is_three(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"a": {"command": "x"}}
    config = json.dumps({"version": 1, "names": "nonsense", "servers": servers})
    monkeypatch.setenv("HUB_CONFIG", config)
    code, err = failing(capsys, "check")
    assert code == 3
    assert err.startswith("roots-hub: the config: names: ")
    assert "pydantic" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--root", "/nowhere"),
        ("wrap", "--root", "/nowhere", sys.executable),
        ("roots", "list", "--root", "/nowhere"),
    ],
)
def test_an_unreadable_root_is_one(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert failing(capsys, *arguments) == (
        1,
        "roots-hub: --root /nowhere: there is no /nowhere\n"
        "Make it, or name a folder that is there.\n",
    )


def test_a_missing_command_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "wrap", "--", "no-such-command") == (
        1,
        "roots-hub: wrap: there is no command 'no-such-command'\n"
        "Install it, or write its whole path.\n",
    )


def test_a_port_in_use_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, err = failing(capsys, "run", "--http", f"127.0.0.1:{port}")
    where, fix = err.splitlines()
    assert code == 1
    assert where.startswith(f"roots-hub: 127.0.0.1:{port}: Address already in use")
    assert fix == "Free the port, or choose another one with --http."


def test_a_bind_for_others_without_a_token_is_three(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(capsys, "run", "--http", "0.0.0.0:0") == (
        3,
        "roots-hub: listen: 0.0.0.0 can be reached from other machines, and there is no token\n"
        "Set the variable HUB_TOKEN, listen.token or listen.tokens, or bind 127.0.0.1.\n",
    )


@pytest.mark.live
def test_an_audit_file_that_cannot_be_written_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"version": 1, "audit": {"file": "/nowhere/x"}, "servers": {"a": {"command": "x"}}}
    monkeypatch.setenv("HUB_CONFIG", json.dumps(config))
    assert failing(capsys, "run") == (
        1,
        "roots-hub: audit.file /nowhere/x: No such file or directory\n"
        "Name a file that the hub may write.\n",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is not asked there")
@pytest.mark.parametrize("command", ["run", "call", "check", "roots"])
def test_a_home_that_is_no_absolute_path_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("HOME", "~")
    arguments = {"call": ("files.read_file",), "roots": ("list",)}.get(command, ())
    assert failing(capsys, command, *arguments) == (
        1,
        "roots-hub: HOME: '~' is no absolute path\n"
        "Write it in full (no `~`), or unset it: the system knows yours then.\n",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is not asked there")
def test_an_empty_home_is_none_and_the_system_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd  # noqa: PLC0415 - not on Windows

    (tmp_path / "hub.yaml").write_text("version: 1\nservers: {a: {command: cat, cwd: ~/x}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "")
    assert main(["plan", "--config", "hub.yaml"]) == 0
    known = pwd.getpwuid(os.getuid()).pw_dir
    assert f"  cwd    {known}/x" in capsys.readouterr().out.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="the system has no such list of users there")
def test_a_user_without_a_home_is_told_to_name_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd  # noqa: PLC0415 - not on Windows

    def unknown(_user: int) -> NoReturn:
        raise KeyError("it has no entry")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    (tmp_path / "hub.yaml").write_text("version: 1\nservers: {a: {command: cat}}\n")
    assert failing(capsys, "check", "--config", "hub.yaml") == (
        1,
        "roots-hub: HOME is not set, and the system knows no home directory of this user\n"
        "Set HOME to a directory of this user.\n",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="a directory in use cannot be removed there")
@pytest.mark.parametrize("command", ["run", "check", "plan", "roots"])
def test_a_working_directory_that_was_removed_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    gone = plant(tmp_path, "gone/") / "gone"
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert failing(capsys, command, *(["list"] if command == "roots" else [])) == (
        1,
        "roots-hub: the directory in which it was started does not exist any more\n"
        "Start it in a directory that exists. If it was made again, `cd` into it again.\n",
    )


@pytest.mark.live
def test_doctor_runs_with_any_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "~")
    assert main(["doctor"]) == 1
    assert "HOME: is not set, or no absolute path" in capsys.readouterr().out
    monkeypatch.setenv("HOME", os.devnull)
    main(["doctor"])
    assert "cannot read it" not in capsys.readouterr().out


# The real command


@pytest.mark.live
def test_the_installed_command_ends_with_these_codes(tmp_path: Path) -> None:
    top = plant(tmp_path, "home/")
    program = Path(sys.executable).with_name("roots-hub")
    environment = {"PATH": os.environ["PATH"], "HOME": str(top / "home")}

    def ended(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(  # noqa: S603 - our own program
            [program, *arguments],
            cwd=top,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "" or done.returncode == 0
        return done.returncode, done.stderr

    assert ended("schema") == (0, "")
    assert ended("nonsense")[0] == 2
    assert ended("check") == (
        3,
        "roots-hub: no config\nName one by --config or HUB_CONFIG, or make one: roots-hub init.\n",
    )
    code, err = ended("run", "--root", "gone")
    assert (code, len(err.splitlines())) == (1, 2)


@pytest.mark.live
def test_a_client_that_hangs_up_at_once_ends_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli.main", "--log-format", "json", "run"],
        cwd=tmp_path,
        input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for line in done.stderr.splitlines():
        assert json.loads(line)["level"]


def loaded_of(names: tuple[str, ...], code: str) -> list[str]:
    """Return which of the modules a new process has loaded that has run `code`."""
    show = f"import sys; print([name for name in {names} if name in sys.modules])"
    ran = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True
    )
    loaded: list[str] = ast.literal_eval(ran.stdout)
    return loaded


@pytest.mark.live
def test_a_command_loads_what_it_needs_and_no_more() -> None:
    slow = ("cryptography", "httpx2", "jsonschema", "mcp", "mcp_types", "pathspec", "uvicorn")
    others = ("hub.cli.explain", "hub.cli.check", "hub.cli.roots", "yaml")
    code = "from hub.cli import command_line; command_line.parser('wrap'); import hub.server.stdio"
    assert loaded_of((*slow, *others), code) == []


@pytest.mark.live
def test_yaml_is_loaded_for_yaml_alone(tmp_path: Path) -> None:
    in_json = '{"servers": {"a": {"command": "x"}}, "version": 1}'
    in_yaml = "servers: {a: {command: x}}\nversion: 1\n"
    for name, config, loaded in ((".mcp.json", in_json, []), ("hub.yaml", in_yaml, ["yaml"])):
        (tmp_path / name).write_text(config)
        code = (
            "from pathlib import Path; from hub.config.fields import LoadContext; "
            "from hub.config.load import load_config; "
            f"load_config({str(tmp_path / name)!r}, LoadContext(Path()))"
        )
        assert loaded_of(("yaml",), code) == loaded


@pytest.mark.live
def test_nothing_looks_for_garbage_while_the_hub_loads() -> None:
    tell = "print(gc.isenabled(), file=sys.stderr)"
    assert acting_while_loading(tell, tell) == (0, "False\nTrue\n")


@pytest.mark.parametrize(
    "command", ["run", "wrap", "check", "plan", "schema", "explain", "tools", "call", "roots"]
)
def test_a_command_is_parsed_alone_as_it_is_among_all(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    for made in (module.parser(), module.parser(command)):
        with pytest.raises(SystemExit):
            made.parse_args([command, "--help"])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""
