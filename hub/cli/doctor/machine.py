"""The machine: versions, limits, proxies, confinement; home, the hub's own directories, caches."""

from __future__ import annotations

import json
import os
import platform
import shlex
import stat
import sys
import time
from collections.abc import Iterator
from getpass import getuser
from importlib import metadata
from pathlib import Path
from typing import Final

from hub import __version__
from hub.app.machine import this_machine
from hub.attach.runtime_directory import runtime_paths
from hub.cli.check.problems import nearly_full
from hub.cli.doctor.scene import (
    OTHERS,
    OTHERS_WRITE,
    Scene,
    barred_by,
    is_directory,
    is_others,
    is_plain_file,
    opened_up,
    quoted,
    reason,
    status,
    take_over,
    users_home,
)
from hub.cli.terminal import Finding
from hub.config.clients.locations import CLIENTS, client_files
from hub.config.own_files import catalog_directory, own_directories
from hub.confinement.grants import missing
from hub.system.private_file import CacheFiles, UnfitEntryError
from hub.system.this_process import most_files

_MOST_ENTRIES: Final = 512
_NEW_HOME: Final = 'mkdir -p "/tmp/home-$(id -u)" && export HOME="/tmp/home-$(id -u)"'
_INSIDE: Final = ("_cacache", "_cacache/tmp", "_npx", "_logs", "archive-v0", "simple-v16")
"""What npm and uv keep in their caches, and `sudo npm` leaves to root."""


def home(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the home directory and the runtime directory."""
    known = users_home()
    other = f"export HOME={quoted(known)}" if known else _NEW_HOME
    if scene.home is None:
        yield Finding("problem", "places", "HOME", "is not set, or no absolute path", other)
    elif status(scene.home) is not None and not is_directory(scene.home):
        what = "HOME names it, but it is no directory"
        yield Finding("problem", "places", str(scene.home), what, other)
    elif not is_directory(scene.home):
        what = "HOME names it, but there is no such directory"
        yield Finding("problem", "places", str(scene.home), what, f"mkdir -p {quoted(scene.home)}")
    elif os.access(scene.home, os.X_OK) and not os.access(scene.home, os.W_OK):
        fix = f"chmod u+rwx {quoted(scene.home)}"
        yield Finding("warning", "places", str(scene.home), "your home may not be written", fix)
    runtime = scene.environment.get("XDG_RUNTIME_DIR", "")
    if runtime and not (runtime.startswith("/") and is_directory(Path(runtime))):
        what = "XDG_RUNTIME_DIR names it, but there is no such directory"
        yield Finding("warning", "places", runtime, what, "unset XDG_RUNTIME_DIR")


def barred(scene: Scene) -> Iterator[Finding]:
    """Yield the directories that the user may not look into, and that the hub must."""
    wanted = [file.path for name in CLIENTS for file in client_files(name, scene.place)]
    wanted += map(Path, own_directories(this_machine(os.environ)))
    if scene.home is not None:
        wanted += [scene.home / name for name in (".cache/x", ".local/state/x", ".npm/x")]
    for place in dict.fromkeys(map(barred_by, wanted)):
        found = None if place is None else status(place)
        if place is not None and found is not None:
            if (fix := opened_up(place, "u+rwx")) is None:
                continue  # it is another user's on purpose
            what = "you may not look into it: what is in it was not looked at"
            yield Finding("problem", "places", str(place), what, fix)


def directories(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the hub's state, cache and runtime directories."""
    machine, runtime = this_machine(os.environ), runtime_paths(os.environ)
    wanted: dict[Path, tuple[int, bool]] = {}
    if scene.home is not None:
        for name in (".local", ".local/state", ".cache"):
            wanted[scene.home / name] = (0, True)
    for place in map(Path, own_directories(machine)):
        is_runtime = str(place) in runtime
        if is_runtime and place.parent.name.startswith("roots-hub"):
            wanted[place.parent] = (OTHERS, False)
        wanted[place] = (OTHERS, False) if is_runtime else (OTHERS_WRITE, True)
    lists = catalog_directory(machine)
    if lists is not None:
        wanted |= {lists.parent: (OTHERS_WRITE, True), lists: (OTHERS_WRITE, False)}
    for place, (others, may_be_link) in wanted.items():
        found = _wrong_with(place, others, may_be_link=may_be_link)
        if found is not None:
            what, fix = found
            used = f"{what}: the hub does not use it"
            yield Finding("problem", "places", str(place), used, fix)


def records(_scene: Scene) -> Iterator[Finding]:
    """Yield the files in the state directory that are broken, or that others may use."""
    for place in own_directories(this_machine(os.environ))[:1]:
        try:
            files = sorted(Path(place).iterdir())
        except OSError:
            continue  # said by `directories`
        for file in files[:_MOST_ENTRIES]:
            yield from _record(file)


def _record(file: Path) -> Iterator[Finding]:
    about, where = "records", str(file)
    aside = f"mv {quoted(file)} {quoted(f'{file}.old')}"
    own = take_over(file) or f"rm -f {quoted(file)}"
    try:
        found = file.lstat()
        if is_others(found):
            yield Finding("problem", about, where, "belongs to another user", own)
        elif stat.S_ISREG(found.st_mode) and found.st_mode & OTHERS_WRITE:
            what = "other users may write it, so the hub ignores it"
            yield Finding("problem", about, where, what, f"chmod 600 {quoted(file)}")
        elif file.suffix == ".json":
            if not is_plain_file(file):
                what = "is no plain file: the hub takes it for empty"
                yield Finding("warning", about, where, what, aside)
            elif not isinstance(json.loads(file.read_bytes()), dict):
                raise ValueError  # noqa: TRY301 - as for a text that is no JSON
    except OSError as exc:
        fix = f"chmod 600 {quoted(file)}"
        yield Finding("problem", about, where, f"cannot be read: {reason(exc)}", fix)
    except (ValueError, RecursionError):
        what = "is damaged: the hub takes it for empty, and forgets what was in it"
        yield Finding("warning", about, where, what, f"rm {quoted(file)}")


def room(scene: Scene) -> Iterator[Finding]:
    """Yield a temporary directory that cannot be used, and disks that are nearly full."""
    temporary = Path(scene.environment.get("TMPDIR") or "/tmp")  # noqa: S108 - only looked at
    if not is_directory(temporary):
        what = "TMPDIR names it, but there is no such directory"
        yield Finding("problem", "disk", str(temporary), what, f"mkdir -p {quoted(temporary)}")
    elif not os.access(temporary, os.W_OK | os.X_OK):
        what = "temporary files cannot be written there"
        fix = "unset TMPDIR" if scene.environment.get("TMPDIR") else "sudo chmod 1777 /tmp"
        yield Finding("problem", "disk", str(temporary), what, fix)
    loaded = [one.config for one in scene.configs if one.config is not None]
    logs = (Path(one.audit.file).parent for one in loaded if one.audit is not None)
    places = dict.fromkeys(filter(None, (scene.home, temporary, *logs)))
    yield from filter(None, map(nearly_full, places))


def catalogs(_scene: Scene) -> Iterator[Finding]:
    """Yield the cached lists of servers that the hub cannot use."""
    from hub.children.known.cache import decoded_entry  # noqa: PLC0415 - loads the catalog

    place = catalog_directory(this_machine(os.environ))
    if place is None:
        return
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return
    files = CacheFiles(place)
    for entry in entries[:_MOST_ENTRIES]:
        if entry.name.startswith("."):
            continue
        try:
            decoded_entry(entry.name, files.read(entry.name) or b"")
        except UnfitEntryError as exc:
            what = f"a cached list that the hub ignores: {exc}"
            yield Finding("warning", "caches", str(entry), what, f"rm -r {quoted(entry)}")


def caches_of_runners(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the caches."""
    for name, variable, place in _caches(scene):
        for one in (place, *(place / inner for inner in _INSIDE)):
            found = _wrong_with(one)
            if found is not None:
                what, fix = found
                fix = f"unset {variable}" if fix.startswith("sudo mv ") else fix
                what = f"{what}: {name} can install no server"
                yield Finding("problem", "caches", str(one), what, fix)
                break


def _caches(scene: Scene) -> Iterator[tuple[str, str, Path]]:
    """Yield each cache with its owner's name, and the variable that it is named by."""
    known, home = scene.environment, scene.home
    for name, variables, usual in (
        ("npm", ("npm_config_cache", "NPM_CONFIG_CACHE"), ".npm"),
        ("uv", ("UV_CACHE_DIR",), ".cache/uv"),
    ):
        variable = next((one for one in variables if known.get(one)), None)
        base = known.get("XDG_CACHE_HOME")
        if variable is not None:
            yield name, variable, Path(known[variable])
        elif name == "uv" and base:
            yield name, "XDG_CACHE_HOME", Path(base, "uv")
        elif home is not None:
            yield name, variables[0], home / usual


def _wrong_with(
    place: Path, others: int = 0, *, may_be_link: bool = True
) -> tuple[str, str] | None:
    """Return what is wrong with a directory, and the command that mends it; None if nothing is.

    It need not be there. `others`: the bits of its mode that must not be set.
    """
    try:
        link = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None  # the one above is told where it is looked at
    except (OSError, ValueError) as exc:
        if barred_by(place) is not None:
            return None  # told by `barred`
        why = reason(exc) if isinstance(exc, OSError) else "no name of a file"
        return f"cannot be looked at: {why}", f"chmod u+rwx {quoted(place.parent)}"
    found = status(place)
    if found is None:
        return "is a link to nothing, but a directory is needed there", f"rm {quoted(place)}"
    is_link = stat.S_ISLNK(link.st_mode)
    if not stat.S_ISDIR(found.st_mode) or (is_link and not may_be_link):
        what = "is a link or no directory, but a directory is needed there"
        return what, f"mv {quoted(place)} {quoted(f'{place}.old')}"
    return _wrong_access(place, found, others)


def _wrong_access(place: Path, found: os.stat_result, others: int) -> tuple[str, str] | None:
    is_usable = os.access(place, os.R_OK | os.W_OK | os.X_OK)
    if is_others(found):
        if is_usable and not others:
            return None
        aside = f"sudo mv {quoted(place)} {quoted(f'{place}.old')}"
        return "belongs to another user", take_over(place, all_in_it=True) or aside
    if found.st_mode & others:
        mode = stat.S_IMODE(found.st_mode)
        return f"other users have access to it (mode {mode:o})", f"chmod 700 {quoted(place)}"
    if not is_usable or ~found.st_mode & stat.S_IRWXU:
        return "may not be read and written by you", f"chmod u+rwx {quoted(place)}"
    return None


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
    # Programs read the lower case first, if it is there.
    both = ["no_proxy", "NO_PROXY"] if "no_proxy" in scene.environment else ["NO_PROXY"]
    fix = " ".join(f"{name}={value}" for name in both)
    yield Finding("warning", "proxy", found, what, f"export {fix}")


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
