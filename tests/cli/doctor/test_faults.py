"""Faults planted one by one on a machine that is well: `doctor` names each, and its remedy mends.

A remedy is carried out as it is printed: a command in the shell that then runs `doctor` again, an
edit in the file that it names.
"""

import base64
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.patients import ELSEWHERE, ENTRY, Patient

pytestmark = pytest.mark.live

Plant = Callable[[Patient], None]


def test_a_healthy_machine_gives_no_warning(patient: Patient) -> None:
    assert patient.found() == []
    ran = patient.run()
    told = [one for one in ran.stdout.splitlines() if one.startswith(("warning", "problem"))]
    assert [one for one in told if not any(place in one for place in ELSEWHERE)] == []
    assert ran.stdout.endswith("Nothing is wrong here.\n") is not bool(told)
    assert ran.returncode == 0


def _without(name: str) -> Plant:
    return lambda patient: (patient.programs / name).unlink()


def _program(name: str, does: str) -> Plant:
    return lambda patient: patient.program(name, does)


def _sets(name: str, value: str) -> Plant:
    return lambda patient: patient.variables.update({name: value})


def _unsets(name: str) -> Plant:
    def plant(patient: Patient) -> None:
        del patient.variables[name]

    return plant


def _changes(old: str, new: str) -> Plant:
    return lambda patient: patient.change(old, new)


def _file(name: str, text: str = "", mode: int = 0o644) -> Plant:
    def plant(patient: Patient) -> None:
        patient.write(name, text, mode)

    return plant


def _folder(name: str, mode: int) -> Plant:
    def plant(patient: Patient) -> None:
        (patient.home / name).mkdir(parents=True)
        (patient.home / name).chmod(mode)

    return plant


def _mode(name: str, mode: int) -> Plant:
    return lambda patient: (patient.home / name).chmod(mode)


def _link(name: str, target: str) -> Plant:
    def plant(patient: Patient) -> None:
        (patient.home / name).parent.mkdir(parents=True, exist_ok=True)
        (patient.home / name).symlink_to(target)

    return plant


def _client(name: str, **changed: Any) -> Plant:
    return lambda patient: patient.client(name, {**ENTRY, **changed})


def _all(*plants: Plant) -> Plant:
    def plant(patient: Patient) -> None:
        for one in plants:
            one(patient)

    return plant


def _jwt(end: int) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': end})}.x"


def _shell_only(patient: Patient) -> None:
    (patient.programs / "npx").unlink()
    patient.program("npx", "exit 0", patient.home / "shells")
    patient.variables["PATH"] += f":{patient.home}/shells"


def _not_executable(patient: Patient) -> None:
    patient.program("mine", "exit 0")
    (patient.programs / "mine").chmod(0o644)
    patient.change("command: npx", f"command: {patient.programs}/mine")


def _moved_program(patient: Patient) -> None:
    patient.change("command: npx", "command: /nowhere/npx")


def _lost_cwd(patient: Patient) -> None:
    patient.change("command: npx,", f"command: npx, cwd: {patient.home}/gone,")


def _stale_socket(patient: Patient) -> None:
    (patient.runtime / "roots-hub").mkdir(mode=0o700)
    with patient.inside(patient.runtime / "roots-hub"), socket.socket(socket.AF_UNIX) as gone:
        gone.bind("abc-def.sock")


def _no_socket(patient: Patient) -> None:
    (patient.runtime / "roots-hub").mkdir(mode=0o700)
    (patient.runtime / "roots-hub/abc-def.sock").write_text("")


def _open_runtime(patient: Patient) -> None:
    (patient.runtime / "roots-hub").mkdir()
    (patient.runtime / "roots-hub").chmod(0o755)


def _installed_and_gone(patient: Patient) -> None:
    (patient.home / ".codeium/windsurf").mkdir(parents=True)
    installed = patient.hub("install", "windsurf", "--yes", "--config", str(patient.config))
    assert installed.returncode == 0, installed.stdout + installed.stderr
    (patient.home / ".codeium/windsurf/mcp_config.json").write_text("{}")


STATE, CACHE = ".local/state/roots-hub", ".cache/roots-hub"
FILES = '{command: npx, args: ["-y", "some-server"]}'
FAULTS: dict[str, tuple[Plant, str]] = {
    # Programs
    "no npx": (_without("npx"), "npx: is not on the PATH"),
    "no uvx": (_without("uvx"), "uvx: is not on the PATH"),
    "no node": (_without("node"), "npx needs it"),
    "Node 14": (_program("node", "echo v14.21.3"), "is Node 14.21.3"),
    "a node that fails": (_program("node", "exit 1"), "does not tell its version"),
    "a node that hangs": (_program("node", "sleep 60"), "does not tell its version"),
    "a script's program is gone": (
        _all(_without("uvx"), _program("uvx", ""), lambda one: one.first_line("uvx", "/gone/sh")),
        "its first line names /gone/sh",
    ),
    "a script's lines end as on Windows": (
        _all(_without("uvx"), _program("uvx", ""), lambda one: one.first_line("uvx", "/bin/sh\r")),
        "its first line ends as on Windows",
    ),
    "the shell's PATH only": (_shell_only, "on your shell's PATH only"),
    "misspelt program": (_changes("command: npx", "command: npxx"), "no program 'npxx'"),
    "program is elsewhere": (_moved_program, "no program '/nowhere/npx'"),
    "not executable": (_not_executable, "may not be run"),
    "a command line as command": (
        _changes(FILES, '{command: "npx -y some-server"}'),
        "no program 'npx -y some-server'",
    ),
    # Config
    "no YAML": (_changes("version: 1", "version: [1"), "hub.yaml"),
    "unknown key": (_changes("audit:", "audti:"), "audti: unknown key"),
    "variable is not set": (_changes('"mcp-server-git"', '"${NOT_SET}"'), "NOT_SET is not set"),
    "others may write the config": (_mode("hub.yaml", 0o666), "other users may write it"),
    "others may read a secret": (
        _all(
            _changes(FILES, FILES[:-1] + ", env: {API_TOKEN: abcd1234efgh}}"),
            _mode("hub.yaml", 0o644),
        ),
        "has a secret in it",
    ),
    "others may read a user's token": (
        _all(
            _changes("listen: {", 'listen: {tokens: [{name: ci, token: "rh_abcdefgh12345678"}], '),
            _mode("hub.yaml", 0o644),
        ),
        "has a secret in it",
    ),
    "others may read a secret argument": (
        _all(
            _changes('"some-server"', '"some-server", "--api-key", "sk-abcdefgh12345678"'),
            _mode("hub.yaml", 0o644),
        ),
        "has a secret in it",
    ),
    "config's folder is gone": (lambda one: (one.home / "work").rmdir(), "there is no such folder"),
    "config's folder is a link to nothing": (
        _all(lambda one: (one.home / "work").rmdir(), _link("work", "elsewhere")),
        "there is no such folder, but a link to",
    ),
    "working directory is gone": (_lost_cwd, "/gone: there is no such folder"),
    "audit folder is gone": (_changes("/audit.log", "/logs/a.log"), "cannot be the audit file"),
    "audit file is a link": (_link("audit.log", "other.log"), "it is a symbolic link"),
    "audit file is a directory": (_folder("audit.log", 0o700), "it is a directory"),
    # Tokens
    "expired token": (
        _changes(FILES, f'{{url: "https://x.example", headers: {{A: "Bearer {_jwt(1)}"}}}}'),
        "servers.files.headers.A: the token has expired",
    ),
    "expired token in a variable": (
        _all(_changes(FILES, FILES[:-1] + ', env: {KEY: "${MY_KEY}"}}'), _sets("MY_KEY", _jwt(1))),
        "the token in the variable MY_KEY has expired",
    ),
    "empty token": (_sets("HUB_TOKEN", ""), "is empty"),
    "weak token": (_sets("HUB_TOKEN", "hunter2"), "is easy to guess"),
    # Directories and records
    "others may write the state": (_folder(STATE, 0o777), "other users have access"),
    "state is a file": (_file(STATE), "a directory is needed there"),
    "state is a link to nothing": (_link(STATE, "gone"), "is a link to nothing"),
    "damaged record": (
        _all(_folder(STATE, 0o700), _file(f"{STATE}/trusted.json", "{", 0o600)),
        "is damaged",
    ),
    "others may write a record": (
        _all(_folder(STATE, 0o700), _file(f"{STATE}/trusted.json", "{}", 0o666)),
        "ignores it",
    ),
    "others may write the cache": (_folder(CACHE, 0o777), "other users have access"),
    "cached lists are a link": (
        _all(_folder("x", 0o700), _folder(CACHE, 0o700), _link(f"{CACHE}/catalogs", "../../x")),
        "is a link or no directory",
    ),
    "a cached list is damaged": (
        _all(_folder(f"{CACHE}/catalogs", 0o700), _file(f"{CACHE}/catalogs/ab", "x", 0o600)),
        "a cached list that the hub ignores",
    ),
    "npm's cache is a file": (_file(".npm"), "npm can install no server"),
    "npm's cache is read-only": (_folder(".npm/_cacache", 0o500), "npm can install no server"),
    "uv's cache is a link to nothing": (_link(".cache/uv", "gone"), "uv can install no server"),
    "others may use the sockets": (_open_runtime, "other users have access"),
    "no runtime directory": (_sets("XDG_RUNTIME_DIR", "/none"), "XDG_RUNTIME_DIR names it"),
    "no HOME": (_unsets("HOME"), "HOME: is not set"),
    "HOME is not there": (lambda one: one.move_home(), "HOME names it"),
    "HOME is a file": (_sets("HOME", "%HOME/hub.yaml"), "it is no directory"),
    "TMPDIR is not there": (_sets("TMPDIR", "%HOME/none/tmp"), "TMPDIR names it"),
    # Hubs
    "stale hub": (_stale_socket, "no hub listens on this socket"),
    "a file in the place of a socket": (_no_socket, "is no socket"),
    # Surroundings
    "no UTF-8": (_sets("LC_ALL", "de_DE.ISO-8859-1"), "no UTF-8 locale"),
    "few files": (lambda one: one.limit("ulimit -Sn 256"), "256 files"),
    "proxy": (_sets("http_proxy", "http://proxy:1"), "without NO_PROXY"),
    "proxy beside exceptions with spaces": (
        _all(_sets("http_proxy", "http://proxy:1"), _sets("NO_PROXY", "a.example, b.example;c")),
        "without NO_PROXY",
    ),
    # Clients
    "client's program is gone": (
        _client(".cursor/mcp.json", command="/none/roots-hub"),
        "no program /none/roots-hub",
    ),
    "client's program is not on the PATH": (
        _client(".cursor/mcp.json", command="uvxx", args=["roots-hub", *ENTRY["args"]]),
        "not on the PATH: uvxx",
    ),
    "client's config is gone": (
        _client(".cursor/mcp.json", args=["attach", "--config", "/none/hub.yaml"]),
        "a config that is not there: /none/hub.yaml",
    ),
    "client shares no roots": (
        _all(
            _changes('fallback: ["%HOME/work"]', "fallback: []"),
            _client(".config/Claude/claude_desktop_config.json"),
        ),
        "claude-desktop is not known to share folders",
    ),
    "client's file is a link to nothing": (_link(".gemini/settings.json", "gone"), "to nothing"),
    "client's file is a folder": (_folder(".gemini/settings.json", 0o700), "is no plain file"),
    "taken out by hand": (_installed_and_gone, "is gone from it"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_its_remedy_mends_it(patient: Patient, fault: str) -> None:
    plant, what = FAULTS[fault]
    plant(patient)
    named = _named(patient.found(), what)
    assert len(named) == 1, patient.found()
    left = patient.found(after=_carried_out(named[0]["fix"]))
    assert not _named(left, what), (named[0]["fix"], left)


def _named(found: list[dict[str, str]], what: str) -> list[dict[str, str]]:
    return [one for one in found if what in f"{one['where']}: {one['what']}"]


_IN_FILE = re.compile(r"In (?P<file>/.+?)[,:] (?P<rest>.*)$")
_SET = re.compile(r"set `(?P<key>[\w.]+)` to `(?P<value>[^`]*)`")
_BELOW = re.compile(r"below (?:servers\.)?(?P<server>\w+)[,:] [Ww]rite (?P<first>`.+`)")
_AT = re.compile(r"at (?P<key>\S+?)[:.]")


def _carried_out(fix: str) -> str:
    """Return the command that a remedy is, after the edit that it tells of."""
    fix = fix.removeprefix("Get a new token, then: ").removeprefix("Get a new token, and ")
    edit = _IN_FILE.match(fix[0].upper() + fix[1:])
    token = re.match(r"write it in (/.+) at ([\w.]+)\.$", fix)
    if token:
        _put(Path(token[1]), token[2], f"Bearer {_jwt(1 << 40)}")
        return "true"
    if edit is None:
        return fix.partition(", then log in")[0]
    path, rest = Path(edit["file"]), edit["rest"]
    if found := _SET.match(rest):
        _put(path, found["key"], yaml.safe_load(found["value"]))
    elif found := _BELOW.match(rest):
        for text in re.findall(r"`([^`]+)`", found["first"]):
            for key, value in yaml.safe_load(text).items():
                _put(path, f"servers.{found['server']}.{key}", value)
    elif "audti" in rest or "Then: roots-hub check" in rest:
        path.write_text(path.read_text().replace("audti:", "audit:").replace("[1", "1"))
    else:
        pytest.fail(f"neither a command nor an edit: {fix}")
    return "true"


def _put(path: Path, key: str, value: object) -> None:
    raw = yaml.safe_load(path.read_text())
    around = raw
    *above, last = key.split(".")
    for part in above:
        around = around.setdefault(part, {})
    around[last] = value
    path.write_text(yaml.safe_dump(raw))


def test_a_port_in_use_is_named_with_its_holder(patient: Patient) -> None:
    with socket.create_server(("127.0.0.1", patient.port)):
        (found,) = patient.found()
        assert found["about"] == "port"
        assert found["level"] == "problem"
        assert patient.found(after=_carried_out(found["fix"])) == []


_HIDDEN = """import ctypes, socket, sys
ctypes.CDLL(None).prctl(4, 0)
kept = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print(flush=True)
sys.stdin.read()"""
"""A process that hides its files, as a hub does, and listens."""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_none_of_several_hubs_that_hide_their_files_is_picked(patient: Patient) -> None:
    with ExitStack() as stack:
        hubs: list[int] = []
        for port, serves in ((patient.port, "--http"), (0, "--http=:0"), (0, "--stdio")):
            started = [sys.executable, "-c", _HIDDEN, "roots-hub", str(port), serves]
            hub = stack.enter_context(
                subprocess.Popen(  # noqa: S603 - this Python
                    started, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            assert hub.stdout is not None
            assert hub.stdout.readline() == b"\n"
            hubs.append(hub.pid)
        try:
            Path(f"/proc/{hubs[0]}/fd/0").readlink()
        except PermissionError:
            told = patient.run().stdout
        else:
            pytest.skip("this user sees the files of all processes")
    (line,) = [one for one in told.splitlines() if "a hub serves there" in one]
    named = [f"process {one} (roots-hub)" in line for one in hubs]
    assert named == [True, True, False]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_another_program_is_no_hub_because_a_hub_runs_beside_it(patient: Patient) -> None:
    with ExitStack() as stack:
        for words in ([str(patient.port)], ["0", "--stdio"]):
            name = "roots-hub" if "--stdio" in words else "other"
            started = [sys.executable, "-c", _HIDDEN, name, *words]
            one = stack.enter_context(
                subprocess.Popen(  # noqa: S603 - this Python
                    started, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            assert one.stdout is not None
            assert one.stdout.readline() == b"\n"
        (found,) = patient.found()
    assert (found["about"], found["level"]) == ("port", "problem")


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("HOME/own", "Install own, and run doctor again."),
        (r"'C:\Tools\npx.cmd'", "That is a path of Windows: write the path of the program"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="has other paths")
def test_what_no_command_mends_is_said_in_words(patient: Patient, command: str, fix: str) -> None:
    own = patient.home / "own"
    own.write_text("#!/gone/python\n")
    own.chmod(0o755)
    patient.change("command: npx", f"command: {command.replace('HOME', str(patient.home))}")
    (found,) = [one for one in patient.found() if one["about"] == "programs"]
    assert fix in found["fix"]
    assert "rm " not in found["fix"]


def test_the_last_port_is_not_followed_by_another_one(patient: Patient) -> None:
    patient.change("port: %PORT", "port: 65535")
    with socket.create_server(("127.0.0.1", 65535)):
        (found,) = patient.found()
        assert found["where"] == "127.0.0.1:65535"
        assert patient.found(after=_carried_out(found["fix"])) == []


def test_an_entry_that_was_edited_by_hand_is_mended_by_an_edit(patient: Patient) -> None:
    (patient.home / ".codex").mkdir()
    config = str(patient.config)
    assert patient.hub("install", "codex", "--yes", "--config", config).returncode == 0
    file = patient.home / ".codex/config.toml"
    file.write_text(re.sub(r'command = "[^"]*"', 'command = "/none/roots-hub"', file.read_text()))
    (found,) = patient.found()
    edit = re.match(r"In (/.+), at (\S+): set command to (/.+)$", found["fix"])
    assert edit is not None, found
    file.write_text(file.read_text().replace("/none/roots-hub", edit[3]))
    assert patient.found() == []
