from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from hub.cli import run as module
from hub.cli.served import Served as ServedTexts
from hub.errors import ConfigError, StartError
from hub.launch.plan import LaunchTemplate
from hub.roots.roots import RootSet
from hub.server import stdio
from hub.server.connection import ConnectionFactory
from hub.server.http import app as http_app
from hub.server.http import serve as serving
from hub.server.http.access import AccessCheck, Refusal, RequestHeaders
from hub.server.http.adoption import SessionIds
from hub.server.http.auth.admission import Admission
from hub.server.http.bounds.forwarded import Proxies
from hub.sessions.services import Services
from hub.system.shutdown import Shutdown
from hub.usage.principals import UsageByPrincipal
from tests.kit.fakes import RecordingOutlet
from tests.kit.loops import all_tasks_blocked
from tests.kit.trees import plant

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Served:
    """A fake for both transports: records what was to be served, and how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.services: list[Services] = []
        self.ways: list[str] = []
        self.keeper: AccessCheck
        self.path = ""
        self.poll_after = -1.0
        self.proxies = Proxies()
        self.ids: SessionIds | None = None
        self.drain = -1.0
        self.usage: UsageByPrincipal | None = None
        self.port = 0
        self.meanwhile: Callable[[], None] | None = None
        fakes = [(stdio, "serve_stdio", self._stdio), (serving, "serve_http", self._http)]
        for where, name, fake in [*fakes, (http_app, "HttpServer", self._app)]:
            monkeypatch.setattr(where, name, fake)

    async def _note_services(self, open_connection: ConnectionFactory) -> None:
        async with anyio.create_task_group() as tasks:
            connection = open_connection(RecordingOutlet(), tasks, "test")
            self.services.append(connection.session.services)
            tasks.cancel_scope.cancel()

    async def _stdio(self, open_connection: ConnectionFactory) -> None:
        self.ways.append("stdio")
        await self._note_services(open_connection)
        if self.meanwhile is not None:
            await all_tasks_blocked()
            self.meanwhile()
            await anyio.sleep_forever()

    def _app(  # noqa: PLR0913 - as HttpServer has it
        self,
        open_connection: ConnectionFactory,
        keeper: AccessCheck,
        *,
        path: str,
        poll_after: float,
        proxies: Proxies,
        ids: SessionIds,
        usage: UsageByPrincipal | None,
    ) -> ConnectionFactory:
        self.keeper, self.path, self.ids, self.usage = keeper, path, ids, usage
        self.poll_after, self.proxies = poll_after, proxies
        return open_connection

    async def _http(
        self,
        app: ConnectionFactory,
        listener: socket.socket,
        *,
        drain: float,
        ready: Callable[[], None],
        shutdown: Shutdown,
    ) -> None:
        with listener:
            self.ways.append("http")
            await self._note_services(app)
            self.port, self.drain = listener.getsockname()[1], drain
            ready()

    @property
    def only(self) -> Services:
        (services,) = self.services
        return services


@pytest.fixture(autouse=True)
def signals_of_the_process() -> Generator[None]:
    """Let this process go on with its own signals: after a run they are ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HUB_CONFIG", "HUB_ROOTS", "HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    top = plant(tmp_path, "here/", "a/", "b/")
    monkeypatch.chdir(top / "here")
    return top


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(monkeypatch)


def run(*arguments: str) -> int:
    parser = ArgumentParser()
    module.register(parser.add_subparsers(required=True))
    options = parser.parse_args(arguments)
    code: int = options.perform(options)
    return code


def config_at(top: Path, **keys: Any) -> str:
    raw = {"version": 1, "servers": {"mine": {"command": "x"}}, **keys}
    file = top / "hub.yaml"
    file.write_text(json.dumps(raw))
    return str(file)


def paths(roots: RootSet | None) -> Sequence[str]:
    return () if roots is None else roots.paths


def argv(services: Services) -> list[str]:
    """Return how the only server is launched, as written."""
    (spec,) = services.servers.values()
    assert isinstance(spec.target, LaunchTemplate)
    parts = [spec.target.command, *spec.target.args]
    return ["ROOTS" if part.mentions_roots else part.fill(os.environ.get, ()) for part in parts]


# run, over stdio


@pytest.mark.live
def test_without_a_config_this_directory_is_served(top: Path, served: Served) -> None:
    assert run("run") == 0
    assert served.ways == ["stdio"]
    assert served.only.is_for_one
    operator = served.only.operator.roots()
    assert paths(operator.fallback) == (f"{top}/here",)
    assert paths(operator.ceiling) == (f"{top}/here",)
    assert list(served.only.servers) == ["files"]
    program = argv(served.only)
    assert program[0] == sys.executable
    assert "hub.file_server.server" in program
    assert program[-1] == "ROOTS"


@pytest.mark.live
def test_without_a_config_the_given_roots_are_served(top: Path, served: Served) -> None:
    assert run("run", "--stdio", "--root", "../a", "--root", f"{top}/b") == 0
    operator = served.only.operator.roots()
    assert paths(operator.fallback) == paths(operator.ceiling) == (f"{top}/a", f"{top}/b")
    assert operator.fallback_source == "--root"


@pytest.mark.live
def test_without_a_config_the_roots_of_the_environment_are_served(
    top: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_ROOTS", f"{top}/a")
    assert run("run") == 0
    operator = served.only.operator.roots()
    assert paths(operator.fallback) == paths(operator.ceiling) == (f"{top}/a",)
    assert operator.fallback_source == "HUB_ROOTS"


@pytest.mark.live
def test_a_config_is_served_and_the_given_roots_bound_no_client(top: Path, served: Served) -> None:
    assert run("run", "--config", config_at(top), "--root", "../a") == 0
    assert list(served.only.servers) == ["mine"]
    operator = served.only.operator.roots()
    assert paths(operator.fallback) == (f"{top}/a",)
    assert operator.ceiling is None


@pytest.mark.live
def test_what_a_config_warns_of_is_logged(top: Path, served: Served) -> None:
    file = top / "client.json"
    file.write_text(json.dumps({"mcpServers": {"mine": {"command": "x", "nonsense": 1}}}))
    with capture_logs() as logged:
        assert run("run", "--config", str(file)) == 0
    assert [line["log_level"] for line in logged] == ["warning", "info"]
    assert str(file) in logged[0]["event"]


ROOTS: list[tuple[dict[str, Any], str]] = [
    ({}, "what each client shares; for clients that share none: not restricted"),
    ({"when_missing": "deny"}, "what each client shares; for clients that share none: nothing"),
    (
        {"fallback": ["a"], "ceiling": ["."]},
        "what each client shares, inside TOP; for clients that share none: TOP/a (config)",
    ),
    (
        {"ceiling": ["a"]},
        "what each client shares, inside TOP/a; for clients that share none: TOP/a",
    ),
]


@pytest.mark.live
@pytest.mark.parametrize(("roots", "folder"), ROOTS)
def test_the_folders_that_a_config_serves_are_told(
    roots: dict[str, Any], folder: str, top: Path, served: Served
) -> None:
    with capture_logs() as logged:
        assert run("run", "--config", config_at(top, roots=roots)) == 0
    (told,) = [line for line in logged if line["event"] == "serving"]
    assert (told["config"], told["servers"]) == (f"{top}/hub.yaml", "mine")
    assert told["folder"] == folder.replace("TOP", str(top))


@pytest.mark.live
def test_the_rights_that_a_config_gives_are_told(top: Path, served: Served) -> None:
    access = [{"path": "a", "access": "read"}, {"path": "a/b", "access": "write"}]
    servers = {"mine": {"command": "x", "guard": "off"}, "other": {"command": "x"}}
    config = config_at(top, roots={"access": access}, guard="report", servers=servers)
    with capture_logs() as logged:
        assert run("run", "--config", config) == 0
    (told,) = [line for line in logged if line["event"] == "serving"]
    assert told["rights"] == (
        f"read and write; only read below {top}/a; write again below {top}/a/b; "
        "paths outside are only REPORTED by other; NOT guarded: mine"
    )


@pytest.mark.live
def test_inline_json_is_told_as_such(
    top: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_CONFIG", '{"mcpServers": {"mine": {"command": "x"}}}')
    with capture_logs() as logged:
        assert run("run") == 0
    assert [line["config"] for line in logged if line["event"] == "serving"] == ["inline JSON"]


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_it_should(served: Served, number: signal.Signals) -> None:
    served.meanwhile = lambda: os.kill(os.getpid(), number)
    assert run("run") == 0


def test_a_root_that_is_not_there_ends_the_start(served: Served) -> None:
    for arguments in (["run"], ["run", "--stdio"], ["wrap", sys.executable]):
        started = pytest.RaisesExc(StartError, match="--root gone: there is no /")
        with pytest.RaisesGroup(started, flatten_subgroups=True):
            run(arguments[0], "--root", "gone", *arguments[1:])
    assert served.ways == []


def test_a_root_of_the_environment_that_is_not_there_is_named_as_such(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_ROOTS", "gone")
    started = pytest.RaisesExc(StartError, match="HUB_ROOTS gone: there is no /")
    with pytest.RaisesGroup(started, flatten_subgroups=True):
        run("run")
    assert served.ways == []


# run, over HTTP


@pytest.mark.live
def test_the_url_is_printed_and_what_is_served(
    top: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", "--http", "127.0.0.1:0") == 0
    assert served.ways == ["http"]
    url = f"http://127.0.0.1:{served.port}/mcp"
    first, *what, last, shown = capsys.readouterr().out.split("\n", 6)
    assert first == f"roots-hub serves {url}"
    assert what == [
        "  config   none",
        "  servers  the embedded file server",
        f"  folder   {top}/here (nothing outside it, whatever a client shares)",
        "  rights   read and write",
    ]
    assert last == "For a client's config:"
    assert json.loads(shown) == {"mcpServers": {"roots-hub": {"type": "http", "url": url}}}


@pytest.mark.live
def test_the_config_says_where_to_listen(
    top: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    listen = {
        "host": "localhost",
        "port": 0,
        "path": "/hub",
        "token": "s3cret",
        "poll_after": 45,
        "trusted_proxies": ["10.0.0.0/8"],
    }
    assert run("run", "--config", config_at(top, listen=listen), "--http") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"roots-hub serves http://localhost:{served.port}/hub\n")
    assert "Bearer ${HUB_TOKEN}" in shown
    assert "s3cret" not in shown
    assert (served.path, served.keeper.knows("token")) == ("/hub", True)
    assert served.poll_after == 45
    assert served.proxies.includes("10.1.2.3")
    assert run("run", "--config", config_at(top, listen=listen), "--http", ":0") == 0
    assert capsys.readouterr().out.startswith("roots-hub serves http://localhost:")


@pytest.mark.live
@pytest.mark.parametrize(
    ("address", "shown"),
    [("localhost:0", "localhost"), ("[::1]:0", "[::1]"), ("::1:0", "[::1]")],
)
def test_an_address_is_shown_as_clients_write_it(
    served: Served, capsys: pytest.CaptureFixture[str], address: str, shown: str
) -> None:
    if "::1" in address:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("there is no IPv6 here")
    assert run("run", "--http", address) == 0
    assert f"http://{shown}:{served.port}/mcp\n" in capsys.readouterr().out


@pytest.mark.live
def test_everywhere_is_shown_as_here_and_needs_a_token(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="there is no token"):
        run("run", "--http", "0.0.0.0:0")
    assert served.ways == []
    monkeypatch.setenv("HUB_TOKEN", "s3cret")
    assert run("run", "--http", "0.0.0.0:0") == 0
    assert f"http://127.0.0.1:{served.port}/mcp" in capsys.readouterr().out
    allowed = RequestHeaders([(b"host", b"x"), (b"authorization", b"Bearer s3cret")])
    assert served.keeper.admission(allowed) == Admission("token")
    assert isinstance(served.keeper.admission(RequestHeaders([(b"host", b"x")])), Refusal)


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:"])
def test_an_invalid_address_is_an_error(served: Served, address: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run("run", "--http", address)
    assert ended.value.code == 2
    assert served.ways == []


def test_a_port_in_use_is_named(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError) as caught:
            run("run", "--http", f"127.0.0.1:{port}")
    assert caught.value.what == f"127.0.0.1:{port}: Address already in use"
    assert caught.value.fix == "Free the port, or choose another one with --http."
    assert served.ways == []


def test_a_port_in_use_under_make_is_freed_or_named_as_make_takes_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_STARTED_BY", "make run")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StartError) as caught:
            run("run", "--http", f"127.0.0.1:{port}")
    next_to = port + 1 if port < 65535 else port - 1
    assert caught.value.fix == (
        f"Free the port, or choose another address: make run LISTEN=127.0.0.1:{next_to}"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "fe80::1%none"])
def test_an_address_of_another_machine_is_named(
    served: Served, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "t")
    with pytest.raises(StartError) as caught:
        run("run", "--http", f"{host}:8765")
    assert caught.value.what.startswith(f"{host}:8765: ")
    assert caught.value.fix == "Choose an address of this machine with --http, or in listen.host."
    assert served.ways == []


def test_a_host_that_is_not_there_is_named(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "s3cret")
    with pytest.raises(StartError, match=r"no host:0: .*(not known|not provided)"):
        run("run", "--http", "no host:0")


# wrap


@pytest.mark.live
def test_one_server_is_wrapped_under_its_own_names(
    top: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMED_BY_THE_ENVIRONMENT", "value")
    arguments = ["--", sys.executable, "-m", "server", "--root", "x", "$HOME"]
    assert run("wrap", "--root", "../a", *arguments) == 0
    assert served.ways == ["stdio"]
    assert argv(served.only) == [sys.executable, "-m", "server", "--root", "x", "$HOME"]
    assert served.only.names.bare
    assert paths(served.only.operator.roots().fallback) == (f"{top}/a",)
    assert served.only.operator.roots().ceiling is None


@pytest.mark.live
def test_a_wrapped_command_may_name_the_roots(served: Served) -> None:
    assert run("wrap", sys.executable, "${roots}") == 0
    assert argv(served.only) == [sys.executable, "ROOTS"]


def test_a_wrapped_command_must_be_there(served: Served) -> None:
    with pytest.raises(StartError) as caught:
        run("wrap", "--", "no-such-command", "--flag")
    assert caught.value.what == "wrap: there is no command 'no-such-command'"
    assert caught.value.fix == "Install it, or write its whole path."
    assert served.ways == []


def test_a_wrapped_placeholder_must_be_known(served: Served) -> None:
    with pytest.raises(ConfigError):
        run("wrap", "--", sys.executable, "${rots}")
    assert served.ways == []


@pytest.mark.live
def test_no_config_is_wrapped(top: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_CONFIG", config_at(top))
    assert run("wrap", shutil.which("sh") or sys.executable) == 0
    assert "mine" not in served.only.servers


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--stdio", "--http"),
        ("run", "x"),
        ("run", "--root"),
        ("wrap",),
        ("wrap", "--config", "hub.yaml", "x"),
        ("run", "--http", "127.0.0.1:0", "x"),
        ("run", "--http", "[::1"),
    ],
)
def test_bad_usage_ends_with_two(arguments: tuple[str, ...], served: Served) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert served.ways == []


@pytest.mark.live
def test_children_of_a_served_config_inherit_no_token(
    top: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "s3cret")
    monkeypatch.setenv("SEALS", "s3cret-" * 8)
    listen = {"port": 0, "token": "${HUB_TOKEN}", "keys": ["${SEALS}"]}
    assert run("run", "--config", config_at(top, listen=listen), "--http") == 0
    (spec,) = served.services[0].servers.values()
    assert spec.inherits
    assert not {"s3cret", "s3cret-" * 8} & set(spec.inherits.values())


def test_what_is_served_cannot_control_the_terminal() -> None:
    lines = ServedTexts("a\x1b[2J.yaml", "files", "/a\nb", "read and write").lines()
    assert lines[0] == r"  config   a\x1b[2J.yaml"
    assert lines[2] == r"  folder   /a\nb"
