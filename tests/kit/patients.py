"""A machine for `doctor` to look at: a home, programs and variables, in which all is well."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from hub.cli.main import main
from tests.kit.ports import free_port
from tests.kit.warm import WARM

PROJECT = Path(__file__).parents[2]
CONFIG = """version: 1
listen: {port: %PORT}
roots:
  fallback: ["%HOME/work"]
audit: {file: %HOME/audit.log}
servers:
  files: {command: npx, args: ["-y", "some-server"]}
  git: {command: uvx, args: ["mcp-server-git"]}
"""
ENTRY: dict[str, Any] = {"command": "roots-hub", "args": ["attach", "--config", "%HOME/hub.yaml"]}
_TOOLS = (
    *("cat", "chmod", "cp", "echo", "env", "head", "id", "ln", "mkdir", "mv", "od", "openssl"),
    *("rm", "rmdir", "sed", "sleep", "sh", "tr", "bash", "ps"),
)
_ENV = shutil.which("env")
_FETCHED = """case "$*" in
  *astral*) echo 'mkdir -p "$HOME/.local/bin"
    printf "#!/bin/sh\\nexit 0\\n" > "$HOME/.local/bin/uvx"; chmod 755 "$HOME/.local/bin/uvx"';;
  *nvm*) echo 'mkdir -p "$HOME/.nvm"; echo "nvm() { mkdir -p $HOME/.nvm/bin
    printf \\"#!/bin/sh\\\\necho v22.1.0\\\\n\\" > $HOME/.nvm/bin/node
    cp $HOME/.nvm/bin/node $HOME/.nvm/bin/npx; chmod 755 $HOME/.nvm/bin/*
    export PATH=$HOME/.nvm/bin:\\$PATH; }" > "$HOME/.nvm/nvm.sh"';;
esac"""
"""What stands for curl: installers that do what those of uv and nvm do."""


ELSEWHERE = (f"/tmp/roots-hub-{os.geteuid()}", f"/run/user/{os.geteuid()}")  # noqa: S108 - only named
"""Places that are looked at whatever the variables say: hubs of other programs use them, too."""


class Said(NamedTuple):
    """What came of a run of `doctor`."""

    returncode: int
    stdout: str
    stderr: str


def _exit_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


class Patient:
    """A healthy machine, as far as files, programs and variables make one."""

    def __init__(self, top: Path) -> None:
        self.home, self.programs = top / "home", top / "bin"
        self.runtime = top / "run"
        self.before = "true"
        for made in (self.home / "work", self.programs, top / "tmp", self.runtime):
            made.mkdir(parents=True, mode=0o700)
        self.port = free_port()
        self.variables = {
            "HOME": str(self.home),
            "PATH": str(self.programs),
            "LANG": "C.UTF-8",
            "TMPDIR": str(top / "tmp"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PYTHONPATH": str(PROJECT),
        }
        for name in _TOOLS:
            if found := shutil.which(name):
                (self.programs / name).symlink_to(found)
        self.program("node", "echo v22.1.0")
        for name in ("npx", "uvx"):
            self.program(name, "exit 0")
        self.program("curl", _FETCHED)
        self.program("sudo", 'exec "$@"')
        self.program("roots-hub", f'exec {quote(str(WARM.command()))} "$@"')
        self.program("systemctl", f"echo PATH={self.programs}")
        self.config = self.write("hub.yaml", CONFIG, 0o600)
        self.client(".cursor/mcp.json", ENTRY)

    def program(self, name: str, does: str, folder: Path | None = None) -> None:
        path = (folder or self.programs) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)

    def first_line(self, name: str, program: str) -> None:
        """Have a script be run by another program."""
        (self.programs / name).write_text(f"#!{program}\n")

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._filled(text))
        path.chmod(mode)
        return path

    def _filled(self, text: str) -> str:
        return text.replace("%HOME", str(self.home)).replace("%PORT", str(self.port))

    def client(self, name: str, entry: dict[str, Any]) -> None:
        self.write(name, json.dumps({"mcpServers": {"roots-hub": entry}}))

    def change(self, old: str, new: str) -> None:
        text, old = self.config.read_text(), self._filled(old)
        assert old in text
        self.config.write_text(text.replace(old, self._filled(new)))

    def limit(self, command: str) -> None:
        """Run a command of the shell before `doctor`."""
        self.before = command

    def move_home(self) -> None:
        self.variables["HOME"] = str(self.home.parent / "another/home")

    @contextmanager
    def inside(self, folder: Path) -> Generator[None]:
        """Work in a folder: the address of a socket has no room for a long path."""
        here = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)

    def hub(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._shell(f'exec {quote(str(WARM.command()))} "$@"', *arguments)

    def run(self, *options: str, after: str = "true") -> Said:
        """Run `doctor` in the shell in which the command `after` was carried out."""
        if self.before == "true":
            return self._said(*options, after=after)
        doctor = f'exec {sys.executable} -m hub doctor "$@"'
        ran = self._shell(f"{self.before}\n{{ {after}\n}} >&2\n{doctor}", *options)
        return Said(ran.returncode, ran.stdout, ran.stderr)

    def _shell(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {name: self._filled(value) for name, value in self.variables.items()}
        return subprocess.run(  # noqa: S603 - the hub itself, and what it says
            ["/bin/bash", "-c", script, "bash", *arguments],
            cwd=self.home if self.home.is_dir() else "/",
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _variables(self, after: str) -> dict[str, str]:
        """Return what a program is told that a shell starts once it has carried out a command."""
        ran = self._shell(f"{{ {after}\n}} >&2\nexec {_ENV} -0")
        return dict(one.split("=", 1) for one in ran.stdout.split("\0") if one)

    def _said(self, *options: str, after: str) -> Said:
        """Run `doctor` in this process, which is much faster than a start."""
        variables, here, out, errors = dict(os.environ), Path.cwd(), StringIO(), StringIO()
        told = self._variables(after)
        os.environ.clear()
        os.environ.update(told)
        os.chdir(told["PWD"])
        try:
            with redirect_stdout(out), redirect_stderr(errors):
                code = _exit_code(["doctor", *options])
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(variables)
        return Said(code, out.getvalue(), errors.getvalue())

    def found(self, *options: str, after: str = "true") -> list[dict[str, str]]:
        """Return the warnings and problems, of this machine's own places alone."""
        ran = self.run("--json", *options, after=after)
        assert "Traceback" not in ran.stderr, ran.stderr
        listed: list[dict[str, str]] = json.loads(ran.stdout)["findings"]
        bad = [one for one in listed if one["level"] in {"warning", "problem"}]
        return [one for one in bad if not one["where"].startswith(ELSEWHERE)]
