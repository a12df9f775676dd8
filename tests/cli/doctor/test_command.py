"""`roots-hub doctor` as a command: exit codes, `--connect`, no secrets, no crash."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from msgspec.structs import replace

from hub.attach.frames import ANSWER, frame
from hub.cli.doctor.configs import modes
from hub.cli.doctor.scene import LookedAtConfig, surroundings_now
from tests.kit.patients import ENTRY, Patient
from tests.live.programs import RECORDER

pytestmark = pytest.mark.live


def test_the_exit_code_tells_problems_from_warnings(patient: Patient) -> None:
    patient.variables |= {"HUB_TOKEN": "hunter2"}
    assert patient.run().returncode == 0
    (patient.programs / "npx").unlink()
    assert patient.run().returncode == 1


def test_a_users_token_that_is_easy_to_guess_is_named_and_a_hash_is_not(patient: Patient) -> None:
    hashed = '{name: ci, sha256: "' + "0" * 64 + '"}'
    patient.change("listen: {", f"listen: {{tokens: [{hashed}, {{name: anna, token: hunter2}}], ")
    (found,) = [one for one in patient.found() if "is easy to guess" in one["what"]]
    assert found["where"] == "listen.tokens[1].token"
    assert found["fix"].startswith("roots-hub token new anna prints another one")
    assert "hunter2" not in patient.run().stdout
    (patient.programs / "roots-hub").unlink()
    (found,) = [one for one in patient.found() if "is easy to guess" in one["what"]]
    fix = found["fix"].replace("'", "")  # around a path with spaces
    assert fix.startswith("/")
    assert "/roots-hub token new anna prints another one" in fix


def test_a_token_of_the_environment_that_is_easy_to_guess_is_named_once(patient: Patient) -> None:
    patient.variables |= {"HUB_TOKEN": "hunter2"}
    patient.change("listen: {", 'listen: {token: "${HUB_TOKEN}", ')
    (found,) = [one for one in patient.found() if "is easy to guess" in one["what"]]
    assert found["where"] == "HUB_TOKEN"


def test_folders_that_the_hub_leaves_out_are_named(patient: Patient) -> None:
    patient.change('fallback: ["%HOME/work"]', 'fallback: ["%HOME/work", "/etc"]')
    (found,) = [one for one in patient.found() if one["about"] == "folders"]
    assert (found["level"], found["where"]) == ("problem", "roots.fallback")
    assert found["what"] == "/etc: Path is not safe for sharing: it is left out"
    assert found["fix"].startswith(f"In {patient.config}, at roots.fallback: Name a folder that")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system without room")
def test_a_full_disk_below_the_audit_file_is_named(patient: Patient) -> None:
    patient.change("%HOME/audit.log", "/proc/audit.log")
    (found,) = [one for one in patient.found() if one["about"] == "disk"]
    assert (found["where"], found["what"]) == ("/proc", "only 0 MB are free on its disk")


def test_a_folder_with_a_misspelt_name_is_not_to_be_made(patient: Patient) -> None:
    (patient.home / "work").rename(patient.home / "works")
    (found,) = [one for one in patient.found() if one["about"] == "folders"]
    assert found["what"] == f"{patient.home}/work: there is no such folder"
    assert found["fix"] == f"In {patient.config}, at roots.fallback: Did you mean works?"


def test_a_path_is_added_to_the_variables_that_a_server_has(patient: Patient) -> None:
    (patient.programs / "npx").unlink()
    patient.program("npx", "exit 0", patient.home / "shells")
    patient.variables["PATH"] += f":{patient.home}/shells"
    patient.change("command: npx,", "command: npx, env: {LEVEL: info},")
    (fix,) = [one["fix"] for one in patient.found() if one["about"] == "GUI path"]
    added = f'"PATH": "{patient.home}/shells:${{PATH}}"'
    assert fix.endswith(f"below `env` of servers.files, write `{added}`.")
    servers = [(one, {"command": "npx"}) for one in ("a", "b")]
    patient.config.write_text(json.dumps({"version": 1, "servers": dict(servers)}))
    (found,) = [one for one in patient.found() if one["about"] == "GUI path"]
    assert found["where"] == "servers.a, servers.b"
    assert "below each of servers.a, servers.b, write `env: {" in found["fix"]


def test_secrets_that_cannot_be_read_are_named(patient: Patient) -> None:
    patient.change("{command: uvx", '{env: {T: "${file:/none/t}"}, command: uvx')
    (found,) = [one for one in patient.found() if one["about"] == "secrets"]
    assert (found["level"], found["where"]) == ("problem", "servers.git.env.T")
    assert found["what"] == "there is no file /none/t"
    assert found["fix"].startswith(f"In {patient.config}, at servers.git.env.T: Write the secret")


def test_what_check_warns_of_secrets_is_named_too(patient: Patient) -> None:
    (patient.home / "t").write_text("secret")
    (patient.home / "t").chmod(0o640)
    variables = f"""{{T: "${{file:{patient.home}/t}}", U: "${{cmd:passs show u}}"}}"""
    patient.change("{command: uvx", f"{{env: {variables}, command: uvx")
    found = [one for one in patient.found() if one["about"] == "secrets"]
    assert [(one["level"], one["where"]) for one in found] == [
        ("warning", "servers.git.env.T"),
        ("warning", "servers.git.env.U"),
    ]
    assert found[0]["what"].startswith(
        f"{patient.home}/t is open to other users (mode 0640): `chmod"
    )
    assert found[1]["what"] == "there is no program 'passs'"
    assert found[1]["fix"].endswith("at servers.git.env.U: Install it, or write its path.")


@pytest.mark.parametrize("name", ["a. b", "a: b. c"])
def test_a_name_with_a_stop_in_it_is_told_whole(patient: Patient, name: str) -> None:
    file, program = f"/none/{name}", f"/none/{name}/x"
    server = f"""{{env: {{T: "${{file:{file}}}"}}, command: "{program}"}}"""
    patient.change('{command: uvx, args: ["mcp-server-git"]}', server)
    told = {one["about"]: one["what"] for one in patient.found() if one["level"] == "problem"}
    assert told["secrets"] == f"there is no file {file}"
    assert told["programs"].startswith(f"there is no program '{program}'")


def test_tokens_that_have_ended_or_end_soon_are_named(patient: Patient) -> None:
    today = datetime.now(UTC).date()
    ends = {"old": today - timedelta(9), "soon": today + timedelta(3), "new": today + timedelta(30)}
    tokens = (
        f'{{name: {name}, sha256: "{at:064}", expires: {end}}}'
        for at, (name, end) in enumerate(ends.items())
    )
    patient.change("listen: {", f"listen: {{tokens: [{', '.join(tokens)}], ")
    old, soon = (one for one in patient.found() if one["where"].startswith("listen.tokens"))
    assert (old["level"], old["where"]) == ("warning", "listen.tokens[0].expires")
    assert old["what"].startswith("the token of old has ended (")
    assert (soon["level"], soon["where"]) == ("warning", "listen.tokens[1].expires")
    assert soon["what"].startswith("the token of soon ends within 7 days (")
    assert soon["fix"].startswith("roots-hub token new soon --days 90 prints another one")


def test_a_server_that_does_not_start_is_named_with_the_end_of_its_stderr(
    patient: Patient,
) -> None:
    patient.program("npx", "echo npm ERR! 404 some-server >&2; exit 1")
    patient.program("uvx", "exit 1")
    told = {one["where"]: one for one in patient.found("--connect", "--config", "hub.yaml")}
    assert "npm ERR! 404" in told["files"]["what"]
    config = shlex.quote(str(patient.config))
    assert told["files"]["fix"].startswith(f"roots-hub plan --config {config} ")
    assert told["git"]["level"] == "problem"
    plan = patient.hub("plan", "--config", str(patient.config))
    assert "some-server" in plan.stdout


def test_a_name_that_is_no_tool_of_a_server_is_named_with_the_likeliest(patient: Patient) -> None:
    patient.program(
        "uvx", f"export RECORD={shlex.quote(str(patient.home))}\nexec {shlex.join(RECORDER)}"
    )
    patient.change('["mcp-server-git"]', '["mcp-server-git"], tools: {deny: [pidd]}')
    found = patient.found("--connect", "--config", "hub.yaml")
    (told,) = (one for one in found if one["about"] == "tools")
    assert (told["level"], told["where"]) == ("problem", "servers.git.tools.deny")
    assert told["what"] == "'pidd' is no tool of git"
    assert told["fix"] == f"In {patient.config}, at servers.git.tools.deny: Did you mean pid?"


def test_a_server_behind_a_url_has_no_command_to_run_by_hand(patient: Patient) -> None:
    patient.change('command: uvx, args: ["mcp-server-git"]', "url: http://127.0.0.1:9/mcp")
    told = {one["where"]: one for one in patient.found("--connect", "--config", "hub.yaml")}
    assert "its url and headers" in told["git"]["fix"]


def test_no_server_is_started_unasked(patient: Patient) -> None:
    patient.program("uvx", f"echo started > {patient.home}/started")
    patient.run()
    assert not (patient.home / "started").exists()
    # A config that is only there, and that nobody named, may be anybody's.
    ran = patient.run("--connect")
    assert ran.returncode == 2
    assert "--config" in ran.stderr
    assert not (patient.home / "started").exists()


def test_no_secret_is_shown(patient: Patient) -> None:
    patient.change(
        '"mcp-server-git"]', '"mcp-server-git"], env: {API_TOKEN: abcd1234efgh, KEY: "${PLAIN}"}'
    )
    patient.config.chmod(0o644)
    patient.program("uvx", 'echo "cannot use $API_TOKEN, $KEY" >&2; exit 1')
    patient.variables |= {"PLAIN": "plainvalue", "HUB_TOKEN": "hunter2"}
    patient.variables |= {"http_proxy": "http://user:geheim@proxy:1"}
    connected = patient.run("--connect", "--config", "hub.yaml").stdout
    assert "cannot use (hidden), (hidden)" in connected
    for said in (connected, patient.run().stdout, patient.run("--json").stdout):
        assert not [one for one in ("hunter2", "abcd1234", "geheim", "plainvalue") if one in said]


def test_no_secret_in_a_command_line_is_shown(patient: Patient) -> None:
    patient.change(
        'command: npx, args: ["-y", "some-server"]', 'command: "npx x --api-key sk-abcdefgh1234"'
    )
    patient.change('"mcp-server-git"', '"--token", "hf_abcdefgh1234"')
    patient.program("uvx", "echo no user has $2 >&2; exit 1")
    ran = patient.run("--connect", "--config", "hub.yaml")
    assert "no user has (hidden)" in ran.stdout
    assert "--api-key" in ran.stdout
    assert "abcdefgh" not in ran.stdout


def test_nothing_is_changed(patient: Patient) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        files = [one for one in patient.home.rglob("*") if one.is_file()]
        return {str(one): (one.stat().st_mode, one.read_bytes()) for one in files}

    patient.program("npx", "exit 1")
    (patient.programs / "uvx").unlink()
    patient.config.chmod(0o666)
    before = state()
    patient.run()
    assert state() == before
    assert not list(patient.runtime.iterdir())


@pytest.mark.parametrize(
    ("home", "config"), [("", "\x00"), ("relative", "[" * 5000), ("/dev/null", "a: &a [*a]")]
)
def test_it_works_where_everything_is_broken(patient: Patient, home: str, config: str) -> None:
    patient.variables = {
        **{"PYTHONPATH": patient.variables["PYTHONPATH"], "PATH": "/none"},
        **{"TMPDIR": "/none", "XDG_RUNTIME_DIR": "no", "HOME": home},
    }
    patient.write("hub.yaml", config)
    ran = patient.hub("doctor")
    assert ran.returncode == 1, ran.stderr
    assert "Traceback" not in ran.stderr + ran.stdout
    assert "HOME" in ran.stdout


def test_garbage_in_the_place_of_files_stops_nothing(patient: Patient) -> None:
    os.mkfifo(patient.home / ".claude.json")
    (patient.home / ".gemini").mkdir()
    (patient.home / ".gemini/settings.json").write_bytes(b"\xff\xfe\x00\x81" * 99)
    (patient.home / ".codex").symlink_to(".codex")
    patient.write(".config/goose/config.yaml", "extensions: [1, {a")
    patient.write(".config/zed/settings.json", "[" * 100_000)
    patient.write(".codeium/windsurf/mcp_config.json", '{"mcpServers": {"roots-hub": 7}}')
    patient.write(".local/state/roots-hub/installed.json", '{"/x": [1]}', 0o600)
    for folder in (".local", ".local/state", ".local/state/roots-hub"):
        (patient.home / folder).chmod(0o700)
    found = patient.found()
    files = {one["where"].removeprefix(f"{patient.home}/") for one in found}
    wanted = {".claude.json", ".gemini/settings.json", ".codex/config.toml"}
    assert files >= {*wanted, ".config/goose/config.yaml", ".config/zed/settings.json"}
    assert {one["about"] for one in found} == {"clients"}


def test_another_users_config_is_copied_over_no_file(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others(path: Path) -> os.stat_result | None:
        found = path.stat() if path.exists() else None
        return None if found is None else os.stat_result((*found[:4], 12345, *found[5:]))

    config, elsewhere = patient.config, patient.home.parent / "hub.yaml"
    config.rename(elsewhere)
    patient.write("hub.yaml", "mine")
    (patient.home / "hub-2.yaml").symlink_to(config)
    scene = replace(surroundings_now(), home=patient.home, hub="true")
    monkeypatch.setenv("HOME", str(patient.home))
    seen = replace(scene, configs=[LookedAtConfig(str(elsewhere), elsewhere)])
    with monkeypatch.context() as changed:
        changed.setattr("hub.cli.doctor.configs.status", others)
        (found, *_) = modes(seen)
    assert found.what.startswith("belongs to another user")
    shell, away = ["/bin/sh", "-c", found.fix], patient.programs
    subprocess.run(shell, check=True, cwd=away, env=patient.variables)  # noqa: S603 - what doctor says
    assert (patient.home / "hub-3.yaml").read_text() == elsewhere.read_text()
    assert config.read_text() == "mine"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_pipe_in_place_of_the_config_is_not_waited_for(patient: Patient) -> None:
    patient.config.unlink()
    os.mkfifo(patient.config)
    patient.config.chmod(0o666)
    (found,) = [one for one in patient.found("--config", "hub.yaml") if one["about"] == "config"]
    assert found["where"] == str(patient.config)
    assert "no plain file" in found["what"]
    assert found["fix"] == "Name a file: --config FILE."


def test_a_directory_that_was_removed_is_no_crash(patient: Patient) -> None:
    gone = patient.home / "gone"
    gone.mkdir()
    patient.before = f"cd {gone} && rmdir {gone}"
    ran = patient.run()
    assert "Traceback" not in ran.stderr
    assert ran.returncode == 0, ran.stdout


def test_it_works_without_a_config(patient: Patient) -> None:
    patient.config.unlink()
    patient.client(".cursor/mcp.json", {**ENTRY, "args": ["run"]})
    assert patient.found() == []


def test_a_hub_that_serves_has_its_port_and_answers(patient: Patient) -> None:
    running = subprocess.Popen(  # noqa: S603 - the hub itself
        [sys.executable, "-m", "hub", "run", "--http", "--config", str(patient.config)],
        env=patient.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert "roots-hub serves" in running.stdout.readline()
        until = time.monotonic() + 60
        while f"process {running.pid}," not in patient.hub("status").stdout:
            # It answers some time after it serves; others may be there before.
            assert time.monotonic() < until, patient.hub("status")
        ran = patient.hub("doctor", "--json")
        listed = json.loads(ran.stdout)["findings"]
        assert [one["level"] for one in listed if one["about"] == "port"] == ["ok"]
        assert patient.found() == []
        running.send_signal(signal.SIGSTOP)
        (hangs,) = patient.found()
        assert hangs["fix"] == f"kill -9 {running.pid}"
    finally:
        running.send_signal(signal.SIGCONT)
        running.terminate()
        running.communicate(timeout=60)


def test_a_hub_of_another_version_is_to_be_stopped(patient: Patient) -> None:
    directory = patient.runtime / "roots-hub"
    directory.mkdir(mode=0o700)
    status: dict[str, object] = {
        "serves": str(patient.config),
        "version": "0.0.1",
        "pid": os.getpid(),
        "config": {},
    }
    old = socket.socket(socket.AF_UNIX)
    with patient.inside(directory):
        old.bind("abc-def.sock")
    old.listen()
    old.settimeout(30)
    answers = Thread(target=_answer, args=(old, status))
    answers.start()
    with old:
        (found,) = patient.found()
        answers.join()
    assert found["what"].startswith("is of version 0.0.1, while ")
    assert found["fix"] == f"roots-hub stop --config {shlex.quote(str(patient.config))}"


def test_a_socket_to_which_no_connection_can_be_made_is_to_be_removed(patient: Patient) -> None:
    directory = patient.runtime / "roots-hub"
    directory.mkdir(mode=0o700)
    with patient.inside(directory), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind("abc-def.sock")
        (found,) = patient.found()
    assert found["what"].startswith("the hub does not answer: no connection to the hub")
    assert found["fix"] == f"rm -f {shlex.quote(f'{directory}/abc-def.sock')}"


def _answer(listening: socket.socket, status: dict[str, object]) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(frame(ANSWER, json.dumps(status).encode()))
