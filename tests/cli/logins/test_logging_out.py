from __future__ import annotations

import sys
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import cast
from urllib.parse import parse_qs

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from msgspec.structs import replace

from hub.cli.logins import command
from hub.errors import StartError
from hub.logins.login import Login
from hub.logins.login_files import LoginFiles
from tests.logins.test_login_files import LOGIN, URL


class RevokingIssuer(ThreadingHTTPServer):
    """Revokes tokens on loopback, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.status = 200
        self.revoked: list[str] = []
        self.login = replace(
            LOGIN, revocation_endpoint=f"http://127.0.0.1:{self.server_address[1]}/revoke"
        )


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        issuer = cast("RevokingIssuer", self.server)
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        issuer.revoked += form["token"]
        self.send_response(issuer.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Write nothing."""


@pytest.fixture
def issuer() -> Generator[RevokingIssuer]:
    with RevokingIssuer() as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def files(tmp_path: Path) -> LoginFiles:
    return LoginFiles(tmp_path)


def log_out(files: LoginFiles, login: Login | None = None) -> int:
    if login is not None:
        files.write(URL, login)
    code = command.log_out("far", URL, files)
    assert files.read(URL) is None
    return code


def test_the_issuer_is_told_and_the_login_forgotten(
    files: LoginFiles, issuer: RevokingIssuer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log_out(files, issuer.login) == 0
    assert issuer.revoked == [LOGIN.refresh_token]
    said = capsys.readouterr().err
    assert said == f"The login at far is forgotten here, and also at {LOGIN.issuer}.\n"
    assert log_out(files) == 0
    assert capsys.readouterr().err == "Nobody was logged in at far.\n"
    assert len(issuer.revoked) == 1


def test_a_login_is_forgotten_though_the_issuer_refuses(
    files: LoginFiles, issuer: RevokingIssuer, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer.status = 503
    assert log_out(files, issuer.login) == 0
    said = capsys.readouterr().err
    assert "could not be told (it answered with 503): there it counts until it ends" in said
    assert "s3cret" not in said


def test_what_is_told_of_an_issuer_is_legible(
    files: LoginFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    log_out(files, replace(LOGIN, revocation_endpoint="http://e\x1b[2J.example"))
    assert r"e\x1b[2J.example does not begin with https://" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no file modes")
def test_a_login_that_cannot_be_opened_or_read_is_forgotten(
    files: LoginFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write(URL, LOGIN)
    (kept,) = [path for path in (tmp_path / "logins").iterdir() if path.is_file()]
    kept.write_bytes(b"not sealed")
    assert log_out(files) == 0
    assert "the login here cannot be opened" in capsys.readouterr().err
    kept.write_bytes(b"not sealed")
    kept.chmod(0o644)
    assert log_out(files) == 0
    assert "the login here cannot be read" in capsys.readouterr().err


def test_a_login_that_cannot_be_forgotten_is_an_error(files: LoginFiles, tmp_path: Path) -> None:
    files.write(URL, LOGIN)
    (kept,) = [path for path in (tmp_path / "logins").iterdir() if path.is_file()]
    kept.unlink()
    kept.mkdir()
    with pytest.raises(StartError, match="logins"):
        command.log_out("far", URL, files)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock on Windows")
def test_a_logout_waits_for_a_hub_that_renews_the_login(
    files: LoginFiles, issuer: RevokingIssuer
) -> None:
    """Else the hub would keep the new login after the logout; its token would not be revoked."""

    async def renewing(begun: anyio.Event, go_on: anyio.Event) -> None:
        async with files.alone(URL):
            begun.set()
            await go_on.wait()
            files.write(URL, replace(issuer.login, refresh_token="renewed"))  # noqa: S106 - opens nothing

    files.write(URL, issuer.login)
    with start_blocking_portal() as portal:
        begun, go_on = portal.call(anyio.Event), portal.call(anyio.Event)
        renewal = portal.start_task_soon(renewing, begun, go_on)
        portal.call(begun.wait)
        logout = Thread(target=command.log_out, args=("far", URL, files))
        logout.start()
        assert issuer.revoked == []
        portal.call(go_on.set)
        renewal.result()
        logout.join()
    assert issuer.revoked == ["renewed"]
    assert files.read(URL) is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock on Windows")
def test_a_process_that_holds_a_login_for_ever_does_not_keep_it(
    files: LoginFiles,
    issuer: RevokingIssuer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files.write(URL, issuer.login)

    async def holding(begun: anyio.Event, end: anyio.Event) -> None:
        async with files.alone(URL):
            begun.set()
            await end.wait()

    with start_blocking_portal() as portal:
        begun, end = portal.call(anyio.Event), portal.call(anyio.Event)
        portal.start_task_soon(holding, begun, end)
        portal.call(begun.wait)
        assert command.log_out("far", URL, files, patience=0.05) == 0
        assert files.read(URL) is None
        portal.call(end.set)
    assert "no time" in capsys.readouterr().err
