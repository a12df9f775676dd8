"""The machine around the hub: versions, locale, open files, clock, proxies, confinement."""

from __future__ import annotations

import platform
import shlex
import sys
import time
from collections.abc import Iterator
from getpass import getuser
from importlib import metadata
from typing import Final

from hub import __version__
from hub.cli.doctor.scene import Scene
from hub.cli.output import Finding
from hub.confinement.grants import missing
from hub.system.this_process import most_files

_LEAST_FILES: Final = 1024
_BUILT: Final = 1_735_689_600
"""The start of 2025 in seconds since 1970: no clock that is right shows less."""
_PROXIES: Final = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
_HERE: Final = "localhost,127.0.0.1,::1"


def versions(scene: Scene) -> Iterator[Finding]:
    """Yield the versions of the hub, of Python and of the MCP SDK."""
    what = f"Python {platform.python_version()}, mcp {metadata.version('mcp')}, {sys.platform}"
    yield Finding("ok", "versions", f"roots-hub {__version__}", what)
    if scene.hub != "roots-hub":
        what = f"is not on the PATH; the commands below start it as {scene.hub}"
        yield Finding("note", "versions", "roots-hub", what)


def locale(scene: Scene) -> Iterator[Finding]:
    """Yield whether servers would print text in an encoding that is not UTF-8."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = scene.environment.get(name, "")
        if value:
            # Python takes C and POSIX for UTF-8, and Node looks at no locale.
            if "." in value and "utf" not in value.lower():
                what = f"{name} is no UTF-8 locale: names with accents may break in servers"
                yield Finding("warning", "locale", name, what, f"export {name}=C.UTF-8")
            return


def open_files(scene: Scene) -> Iterator[Finding]:
    """Yield whether this process may open too few files for many clients and servers."""
    most = most_files()
    least = 256 if scene.platform == "darwin" else _LEAST_FILES
    if most is not None and most < least:
        what = f"{most} files may be open at once: too few for many clients and servers"
        yield Finding("warning", "limits", "open files", what, _more_files())


def _more_files() -> str:
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit  # noqa: PLC0415 - not everywhere

    hard = getrlimit(RLIMIT_NOFILE)[1]
    if hard == RLIM_INFINITY or hard >= _LEAST_FILES:
        return f"ulimit -n {4096 if hard == RLIM_INFINITY else min(hard, 4096)}"
    try:
        line = f"{getuser()} - nofile 4096"
    except KeyError:  # a user of a container, say, of whom the system knows no name
        line = "* - nofile 4096"
    return f"echo {line!r} | sudo tee -a /etc/security/limits.conf, then log in again"


def clock(_scene: Scene) -> Iterator[Finding]:
    """Yield whether the clock is far behind: certificates and tokens then seem invalid."""
    if time.time() < _BUILT:
        what = "is before 2025: TLS certificates and tokens seem invalid"
        yield Finding("warning", "clock", "the clock", what, "sudo timedatectl set-ntp true")


def proxies(scene: Scene) -> Iterator[Finding]:
    """Yield the proxies that are set here, and that loopback addresses go through."""
    found = next((name for name in _PROXIES if scene.environment.get(name)), None)
    direct = scene.environment.get("no_proxy") or scene.environment.get("NO_PROXY") or ""
    names = {name.strip() for name in direct.split(",")}
    if found is None or {"localhost", "127.0.0.1", "127.0.0.0/8", "*"} & names:
        return
    what = "is set without NO_PROXY: clients may ask the proxy for a hub on this machine"
    value = shlex.quote(",".join(filter(None, (direct, _HERE))))
    fix = " ".join(f"{name}={value}" for name in _no_proxy(scene))
    yield Finding("warning", "proxy", found, what, f"export {fix}")


def _no_proxy(scene: Scene) -> list[str]:
    """Return the variables to set: programs read the lower case first, if it is there."""
    return ["no_proxy", "NO_PROXY"] if "no_proxy" in scene.environment else ["NO_PROXY"]


def confinement(scene: Scene) -> Iterator[Finding]:
    """Yield what this kernel can confine; a problem only if the config asks for it."""
    kernel = scene.kernel
    if kernel.abi and not kernel.no_seccomp:
        lacks = missing(kernel.abi)
        more = f"; this kernel lacks: {'; '.join(lacks)}" if lacks else ""
        what = f"ABI {kernel.abi} and seccomp: servers can be confined{more}"
        yield Finding("ok", "confinement", "Landlock", what)
    else:
        why = kernel.why_not if not kernel.abi else kernel.no_seccomp
        what = f"servers cannot be confined here: {why}"
        yield Finding("note", "confinement", "kernel", what)
    for config, spec in scene.specs():
        mode = spec.confine.mode
        is_short = mode == "require" and kernel.abi < spec.confine.abi
        if mode == "off" or (kernel.abi and not kernel.no_seccomp and not is_short):
            continue
        why = kernel.why_not if not kernel.abi else kernel.no_seccomp
        if is_short and kernel.abi:
            why = f"it asks for ABI {spec.confine.abi}, and this kernel has {kernel.abi}"
        level = "problem" if mode == "require" else "warning"
        fix = config.set_fix(f"servers.{spec.name}.confine", "off")
        fix += " Then it runs unconfined."
        where = f"servers.{spec.name}.confine"
        yield Finding(level, "confinement", where, f"{mode}: cannot be held: {why}", fix)
