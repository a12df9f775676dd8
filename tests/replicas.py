"""Two hubs behind a real nginx, with the config of docs/scale.md.

`python -m tests.replicas` starts them on loopback and prints how many calls of each kind succeed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
from msgspec import Struct

from tests.conftest import PROJECT
from tests.kit.ports import free_port
from tests.kit.warm import ROOTS_HUB
from tests.live.file_readers import LegacyReader, ModernReader
from tests.live.programs import SOON, Program, program

LEGACY_SESSIONS, LEGACY_CALLS, MODERN_CALLS = 10, 10, 20
NO_NGINX = (
    "replicas: there is no nginx on PATH or in /usr/sbin\n"
    "Install it (Debian: apt-get install nginx-light), or set NGINX to its path."
)
_GLOBAL = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr warn; {user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
{config}
}}
"""


class Row(Struct, frozen=True):
    """How many calls of a kind were made, and how many succeeded."""

    what: str
    made: int
    succeeded: int

    def __str__(self) -> str:
        return f"{self.what:<58} {self.succeeded} of {self.made}"


def nginx_program() -> str | None:
    """Return the path of nginx; None if there is none."""
    name = os.environ.get("NGINX", "nginx")
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


def documented_config() -> str:
    """Return the nginx config of docs/scale.md."""
    text = (PROJECT / "docs/scale.md").read_text(encoding="utf-8")
    found = re.search(r"^```nginx\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


class Replicas:
    """Two hubs and their nginx, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, *self.ports = (free_port() for _ in range(3))
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.secrets = {"HUB_TOKEN": secrets.token_hex(16), "HUB_KEY": secrets.token_hex(32)}
        self.authorization = f"Bearer {self.secrets['HUB_TOKEN']}"
        self.root, self.outside = folder / "project", folder / "outside.txt"
        self.root.mkdir()
        (self.root / "inside.txt").write_text("inside")
        self.outside.write_text("outside")

    def _hub_config(self, replica: str, other: str) -> Path:
        listen = {
            "token": "${HUB_TOKEN}",
            "trusted_proxies": ["127.0.0.1"],
            "keys": ["${HUB_KEY}"],
            "replica": replica,
            "adopt": [other],
        }
        files = {
            "command": sys.executable,
            "args": ["-P", "-m", "hub.file_server.server", "${roots}", str(self.folder)],
            "env": {"PYTHONPATH": str(PROJECT)},
            "roots": {"args": "none"},
        }
        config = {
            "version": 1,
            "listen": listen,
            "guard": {"on_refused": "ask"},
            "servers": {"files": files},
        }
        file = self.folder / f"{replica}.yaml"
        file.write_text(json.dumps(config))
        return file

    @contextmanager
    def hub(self, replica: str, other: str) -> Generator[Program]:
        """Run one replica."""
        address = f"127.0.0.1:{self.ports['ab'.index(replica)]}"
        config = str(self._hub_config(replica, other))
        argv = [ROOTS_HUB, "run", "--http", address, "--config", config]
        env = {**self.secrets, "XDG_STATE_HOME": str(self.folder / f"state-{replica}")}
        with program(argv, cwd=self.folder, env=env) as running:
            running.first_line("roots-hub serves ")
            yield running

    @contextmanager
    def nginx(self, command: str) -> Generator[None]:
        """Run nginx with the documented config, on this machine's ports."""
        config = documented_config().replace("listen 80;", f"listen 127.0.0.1:{self.port};")
        for place, port in zip(("10.0.0.1:8765", "10.0.0.2:8765"), self.ports, strict=True):
            config = config.replace(place, f"127.0.0.1:{port}")
        user = "user root;" if os.geteuid() == 0 else ""
        file = self.folder / "nginx.conf"
        file.write_text(_GLOBAL.format(folder=self.folder, config=config, user=user))
        with (self.folder / "nginx.log").open("w") as log:
            running = subprocess.Popen([command, "-p", self.folder, "-c", file], stderr=log)  # noqa: S603 - found above
        try:
            self._until_served(running)
            yield
        finally:
            running.terminate()
            running.wait(SOON)

    def _until_served(self, nginx: subprocess.Popen[bytes]) -> None:
        ends = time.monotonic() + SOON
        while time.monotonic() < ends and nginx.poll() is None:
            try:
                httpx2.get(self.url.replace("/mcp", "/health")).raise_for_status()
            except httpx2.HTTPError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self.folder / "nginx.log").read_text())

    def legacy_client(self) -> LegacyReader:
        """Open a session through nginx."""
        return LegacyReader(self.url, self.root, authorization=self.authorization)

    def modern_row(self) -> Row:
        """Make calls that need consent; each of them may ask once."""
        succeeded = 0
        for _ in range(MODERN_CALLS):
            client = ModernReader(self.url, self.root, authorization=self.authorization)
            succeeded += (client.read(self.outside), client.asked_for_consent) == ("outside", 1)
            client.http.close()
        return Row("modern calls with consent, each request in turn", MODERN_CALLS, succeeded)

    def legacy_row(self, what: str, clients: list[LegacyReader]) -> Row:
        """Make calls in open sessions."""
        inside = self.root / "inside.txt"
        said = [client.read(inside) for _ in range(LEGACY_CALLS) for client in clients]
        return Row(what, len(said), said.count("inside"))


def rows(folder: Path, nginx: str) -> Iterator[Row]:
    """Yield what comes of each kind of calls."""
    replicas = Replicas(folder)
    with ExitStack() as stack:
        first = stack.enter_context(replicas.hub("a", "b"))
        stack.enter_context(replicas.hub("b", "a"))
        stack.enter_context(replicas.nginx(nginx))
        clients = [replicas.legacy_client() for _ in range(LEGACY_SESSIONS)]
        stack.callback(lambda: [client.http.close() for client in clients])
        assert {client.key.partition(".")[0] for client in clients} == {"a", "b"}
        yield replicas.legacy_row("legacy calls, sessions in turn", clients)
        yield replicas.modern_row()
        first.end()
        yield replicas.legacy_row("legacy calls, the same sessions, one replica gone", clients)
        statuses = {status for client in clients for status in client.statuses}
        assert statuses == {200, 202}, statuses


def main() -> int:
    """Print the table; return 1 if a call failed."""
    nginx = nginx_program()
    if nginx is None:
        sys.stderr.write(f"{NO_NGINX}\n")
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder).resolve(), nginx):
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            failed += row.made - row.succeeded
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
