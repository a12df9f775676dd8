"""The lines for nginx, Caddy and systemd in docs/, read by those programs where they are there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.kit.pages import blocks

pytestmark = pytest.mark.live
CERTIFICATES = "/etc/letsencrypt/live/hub.example.com/"
MAKE_CERTIFICATE = (
    "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hub.example.com "
    "-keyout privkey.pem -out fullchain.pem"
)


def shown(language: str) -> list[str]:
    pages = (PROJECT / "docs/http.md", PROJECT / "docs/serve-http.md")
    return [one.text for page in pages for one in blocks(page) if one.language == language]


def checked(directory: Path, program: str, *arguments: str) -> None:
    """Run a program in `directory`, with nothing of the user's; skip the test where it is not."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    path = str(directory)
    environment = {"PATH": os.environ["PATH"], "HOME": path, "XDG_RUNTIME_DIR": path}
    done = subprocess.run(  # noqa: S603 - programs of this machine
        [found, *arguments], cwd=path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nginx_takes_its_lines(tmp_path: Path) -> None:
    checked(tmp_path, "openssl", *MAKE_CERTIFICATE.split())
    (text,) = shown("nginx")
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; error_log {tmp_path}/errors; events {{}}\n"
        f"http {{ access_log off; {text.replace(CERTIFICATES, f'{tmp_path}/')} }}\n"
    )
    checked(tmp_path, "nginx", "-t", "-p", str(tmp_path), "-c", f"{tmp_path}/nginx.conf")


def test_caddy_takes_its_lines(tmp_path: Path) -> None:
    (text,) = shown("caddyfile")
    (tmp_path / "Caddyfile").write_text(text)
    checked(tmp_path, "caddy", "validate", "--adapter", "caddyfile", "--config", "Caddyfile")


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    service, passed_socket = shown("ini")
    program = tmp_path / "roots-hub"
    program.touch(mode=0o755)
    units = [tmp_path / "roots-hub.service", tmp_path / "roots-hub.socket"]
    units[0].write_text(service.replace("%h/.local/bin/roots-hub", str(program)))
    units[1].write_text(passed_socket)
    checked(tmp_path, "systemd-analyze", "verify", "--user", *map(str, units))
