"""What is wrong with a config, and with what it names."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from hub.app import place_of, this_machine
from hub.cli.check.problems import audit_problem, program_problem
from hub.cli.doctor.findings import Finding
from hub.cli.options import load_context
from hub.cli.setup.showing import shown
from hub.config.importing.secrets import looks_secret
from hub.config.load import load_config
from hub.config.models import HubConfig, RemoteServer, StdioServer
from hub.config.operator_roots import operator_roots
from hub.config.source.documents import read
from hub.config.to_specs import server_specs, usable_servers
from hub.confinement.confined_launch import this_kernel
from hub.errors import ConfigError, HubError
from hub.roots.effective import for_rootless

_UNSET: Final = re.compile(r"the (?:variable|input) (\w+) (?:is not set|has no value)")
_OTHERS_WRITE: Final = 0o022
_OTHERS_READ: Final = 0o044
_ASK: Final = "GET {} HTTP/1.1\r\nHost: {}:{}\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
"""What a browser asks a hub; the answer says what it is."""
_ENOUGH: Final = 1 << 16
_PATIENCE: Final = 2.0
_INSTALL: Final[Mapping[str, str]] = {
    "npx": "Install Node.js 22 or newer: https://nodejs.org/en/download",
    "node": "Install Node.js 22 or newer: https://nodejs.org/en/download",
    "uvx": "curl -LsSf https://astral.sh/uv/install.sh | sh",
    "uv": "curl -LsSf https://astral.sh/uv/install.sh | sh",
    "docker": "Install Docker: https://docs.docker.com/get-docker/",
}
"""How to get the programs that most servers are started with."""


def config_findings(path: Path, now: float) -> tuple[HubConfig | None, list[Finding]]:
    """Return the config in a file, if it loads, and what is wrong with it."""
    found = list(_of_file(path))
    check = f"roots-hub check --config {shlex.quote(str(path))}"
    try:
        config = load_config(str(path), load_context()).config
    except ConfigError as error:
        found += [Finding("config", one.where, f"{one.fix} Then: {check}") for one in error.faults]
        return None, found
    try:
        found += _of_config(config, path, now)
    except HubError as error:
        what, _, fix = str(error).partition("\n")
        found.append(Finding("config", what, f"{fix} Then: {check}"))
    return config, found


def _of_file(path: Path) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    quoted = shlex.quote(str(path))
    if mode & _OTHERS_WRITE:
        what = f"{shown(path)}: other users may write it, and it names commands that you run"
        yield Finding("config", what, f"chmod go-w {quoted}")
    if mode & _OTHERS_READ and _has_secrets(path):
        what = f"{shown(path)}: has secrets in it, and other users may read it"
        yield Finding("config", what, f"chmod 600 {quoted}")


def _has_secrets(path: Path) -> bool:
    try:
        raw = read(str(path), Path.cwd()).raw
    except ConfigError:
        return False
    servers = cast("object", raw.get("servers"))
    entries = list(cast("dict[str, Any]", servers).values()) if isinstance(servers, dict) else []
    for entry in (cast("dict[str, Any]", one) for one in entries if isinstance(one, dict)):
        for key in ("env", "headers"):
            values = entry.get(key)
            if isinstance(values, dict):
                pairs = cast("dict[str, Any]", values).items()
                if any(looks_secret(str(value), name) for name, value in pairs):
                    return True
    return False


def _of_config(config: HubConfig, path: Path, now: float) -> Iterator[Finding]:
    place = place_of(this_machine(os.environ), config, path)
    usable = usable_servers(config, place)
    for left in usable.left_out:
        for fault in left.faults:
            unset = _UNSET.search(fault.where)
            fix = fault.fix if unset is None else f"export {unset[1]}=... before the hub starts"
            yield Finding("servers", f"{left.name} is left out: {fault.where}", fix)
    effective = for_rootless(operator_roots(config.roots, [], place))
    for spec in server_specs(config, place).values():
        problem = program_problem(spec, effective)
        if problem is not None:
            what, _, fix = problem.partition(". ")
            yield Finding("servers", what, _how_to_get(config.servers[spec.name]) or fix)
    yield from _folders(config)
    yield from _audit(config)
    yield from _confinement(config)
    yield from _expired(config, now)
    yield from _port(config)


def _how_to_get(server: StdioServer | RemoteServer) -> str | None:
    return _INSTALL.get(server.command) if isinstance(server, StdioServer) else None


def _folders(config: HubConfig) -> Iterator[Finding]:
    named = [("fallback", one.path) for one in config.roots.fallback]
    named += [("ceiling", one) for one in config.roots.ceiling]
    for key, folder in named:
        if not Path(folder).exists():
            what = f"roots.{key}: there is no folder {folder}"
            yield Finding("config", what, f"mkdir -p {shlex.quote(folder)}")


def _audit(config: HubConfig) -> Iterator[Finding]:
    problem = audit_problem(config)
    if problem is None or config.audit is None:
        return
    folder = Path(config.audit.file).parent
    if not folder.exists():
        what = f"audit.file: there is no folder {folder}"
        yield Finding("config", what, f"mkdir -p {shlex.quote(str(folder))}")
        return
    what, _, fix = problem.partition(". ")
    yield Finding("config", what, fix)


def _confinement(config: HubConfig) -> Iterator[Finding]:
    kernel = this_kernel()
    if kernel.abi:
        return
    for name, server in config.servers.items():
        mode = server.confine.mode if isinstance(server, StdioServer) else "off"
        if mode != "off":
            what = f"servers.{name}.confine: {mode}: this kernel cannot confine: {kernel.why_not}"
            fix = f"roots-hub check --confine shows why; or write `confine: off` for {name}."
            yield Finding("servers", what, fix, "problem" if mode == "require" else "warning")


def _expired(config: HubConfig, now: float) -> Iterator[Finding]:
    """Yield the JSON web tokens in variables and headers whose time is over."""
    for name, server in config.servers.items():
        for key, value in _values(server):
            ended = next((end for end in _ends(value) if end < now), None)
            if ended is not None:
                what = f"servers.{name}: the token in {key} has expired"
                yield Finding("servers", what, f"Get a new token, and set it where {key} has it.")


def _values(server: StdioServer | RemoteServer) -> Iterator[tuple[str, str]]:
    if isinstance(server, RemoteServer):
        for name, value in server.headers.items():
            yield f"headers.{name}", value.get_secret_value()
        return
    for name, value in server.template("").env:
        yield f"env.{name}", value.fill(os.environ.get, [])


def _ends(text: str) -> Iterator[float]:
    for word in text.split():
        parts = word.split(".")
        if len(parts) != 3 or not word.startswith("eyJ"):  # noqa: PLR2004 - the parts of a token
            continue
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (ValueError, binascii.Error):
            continue
        end = cast("dict[str, Any]", claims).get("exp") if isinstance(claims, dict) else None
        if isinstance(end, int | float):
            yield end


def _port(config: HubConfig) -> Iterator[Finding]:
    """Yield that another program has the port of `listen`, if the config names one."""
    if not {"port", "host"} & config.listen.model_fields_set or not config.listen.port:
        return
    host, port = config.listen.host, config.listen.port
    answer = _answer_at(host, port, config.listen.path)
    if answer is not None and b"roots-hub" not in answer:
        what = f"listen.port: another program has port {port} of {host}"
        fix = f"roots-hub run --http {host}:{port + 1}, or end that program."
        yield Finding("config", what, fix)


def _answer_at(host: str, port: int, path: str) -> bytes | None:
    """Return what is answered at a port, as far as it is needed; None if nobody listens there."""
    try:
        connection = socket.create_connection((host, port), timeout=_PATIENCE)
    except OSError:
        return None
    answer = b""
    with connection, suppress(OSError):
        connection.sendall(_ASK.format(path, host, port).encode())
        while b"roots-hub" not in answer and len(answer) < _ENOUGH:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    return answer


def configured_programs(configs: Iterable[HubConfig]) -> set[str]:
    """Return the names of the programs that launched servers are started with."""
    servers = (server for config in configs for server in config.servers.values())
    return {Path(one.command).name for one in servers if isinstance(one, StdioServer)}
