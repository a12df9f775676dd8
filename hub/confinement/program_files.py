"""Find the files that a program needs to run: installation, interpreter, packages, script."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from hub.launch.known_servers import program_index, short_name

SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/snap"),
)
"""Directories of the system's programs and libraries."""
_ETC: Final = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "static"),
    *("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols"),
    *("networks", "localtime", "timezone", "locale.alias", "locale.conf", "passwd", "group"),
    *("os-release", "lsb-release", "debian_version", "mime.types", "magic", "terminfo", "fonts"),
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "crypto-policies"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust"),
    *("gitconfig", "npmrc", "uv", "chromium.d"),
)
SETTINGS: Final = (
    *(f"/etc/{name}" for name in _ETC),
    *("/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf"),
)
"""Files that programs read to start, to resolve host names and to verify certificates."""
KERNEL: Final = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime"),
    *("/proc/loadavg", "/proc/version", "/proc/filesystems", "/proc/sys/vm/overcommit_memory"),
    *("/proc/sys/kernel/osrelease", "/proc/sys/kernel/ngroups_max", "/sys/devices/system/cpu"),
    *("/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/dev/random", "/dev/urandom"),
)
"""Kernel files. `/proc/self` is the launched process: its subprocesses cannot read their own."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")


_CODE: Final = ("NODE_PATH", "PYTHONHOME", "PYTHONPATH")
"""Environment variables that name directories of code."""
_PLACE_OPTIONS: Final = {"--directory", "--project", "--prefix", "-C"}
_MARKS: Final = ("package.json", "pyproject.toml", "setup.py", "requirements.txt", "deno.json")
_MANAGERS: Final = {
    ".pyenv": "PYENV_ROOT",
    ".nvm": "NVM_DIR",
    ".volta": "VOLTA_HOME",
    ".asdf": "ASDF_DATA_DIR",
    ".local/share/mise": "MISE_DATA_DIR",
    ".local/share/fnm": "FNM_DIR",
    ".bun": "BUN_INSTALL",
    ".deno": "DENO_INSTALL_ROOT",
}
"""Version managers: the directory in the home, and the variable that names it."""
_BROAD: Final = frozenset(
    Path(top)
    for top in ("/", "/etc", "/home", "/root", "/opt", "/srv", "/mnt", "/media", "/var", "/run")
) | {Path("/tmp"), Path("/var/tmp"), Path("/dev"), Path("/proc"), Path("/sys")}  # noqa: S108 - never granted
_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:\s+(?:-S\s+)?(\S+))?")
_SHEBANG_BYTES: Final = 256
_DEPTH: Final = 6
_PYTHON: Final = re.compile(r"python[\d.]*")
_UV: Final = {"uv", "uvx"}


class Program(Struct, frozen=True):
    """A command and the files it needs to read. `command` is the file that is executed."""

    command: str
    read: tuple[str, ...]
    env: Mapping[str, str]
    """Variables with directories in the real home: a tool would search in its private HOME."""


def program(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    home: str,
    directory: str | None = None,
    writable: Sequence[str] = (),
) -> Program | None:
    """Return the files that the command of `argv` needs; None if the command does not exist.

    `home` is the user's real home directory, `directory` the operator's working directory for the
    server. For a script, the package around it is found, but never a home directory or other broad
    directory: a script directly in such a directory is granted alone.

    A child may have changed files in `writable` directories to get more grants at its next start.
    So files there can lead to programs, but to no other files or directories.
    """
    command = _command(argv[0], env.get("PATH"), directory)
    if command is None:
        return None
    search = _Search(Path(home), env.get("PATH"), tuple(map(Path, writable)))
    search.program(command)
    places = list(_places(argv, directory))
    code = chain.from_iterable(env.get(key, "").split(":") for key in _CODE)
    for place in (*places, *map(Path, code)):
        search.directory(place)
    index = program_index(argv)
    if index:
        for base in (Path("/"), *places):
            search.script(base / argv[index])
    name = short_name(argv[0])
    if name in _UV:
        search.uv(command)
    if name in _UV or _PYTHON.fullmatch(name):
        search.user_packages()
    return Program(str(command), tuple(map(str, search.outermost())), search.env)


def _command(name: str, path: str | None, directory: str | None) -> Path | None:
    found = shutil.which(name, path=path)
    if found is not None:
        return Path(found).absolute()
    here = Path(directory or "/", name)
    return here if _is_file(here) else None


def _places(argv: Sequence[str], directory: str | None) -> Iterator[Path]:
    if directory is not None:
        yield Path(directory)
    for option, value in pairwise((*argv, "")):
        name, _, joined = option.partition("=")
        if name in _PLACE_OPTIONS:
            yield Path(joined or value)


class _Search:
    """Collects paths to grant, in order, each once. Methods add to `found` and `env`."""

    def __init__(self, home: Path, path: str | None, writable: Sequence[Path]) -> None:
        self.found: dict[Path, None] = {}
        self.env: dict[str, str] = {}
        self._home = home
        self._path = path
        self._writable = writable

    def outermost(self) -> Iterator[Path]:
        """Yield each found path that is not inside another granted directory.

        Targets of links are found paths of their own.
        """
        granted = self.found.keys() | {Path(place) for place in SYSTEM}
        for place in self.found:
            if ".." not in place.parts and not granted.intersection(place.parents):
                yield place

    def program(self, file: Path, depth: int = _DEPTH, *, is_trusted: bool = True) -> None:
        """Add an executable: its links, installation, packages and interpreter.

        If a writable place has named it, it may be a program of any other project.
        """
        if depth == 0 or file in self.found or not (_is_file(file) and os.access(file, os.X_OK)):
            return
        self.found[file] = None
        for step in _steps(file):
            self.found[step] = None
            self._managed(step)
            self._packages(step)
            if step.parent.name in {"bin", "shims"}:
                self._prefix(step.parent.parent, depth, is_trusted=is_trusted)
            is_trusted = is_trusted and not self._is_writable(step)
        interpreter = _interpreter(file, self._path)
        if interpreter is not None:
            self.program(interpreter, depth - 1, is_trusted=is_trusted)
            if is_trusted or self._is_writable(file):
                self.script(file)

    def script(self, file: Path) -> None:
        """Add a script of an interpreter, and the package around it."""
        if not file.is_absolute() or not _is_file(file):
            return
        real = file.resolve()
        if self._is_writable(file) and not self._is_writable(real):
            return
        self.found[file] = self.found[real] = None
        self._packages(real)
        if real.parent.name == "bin" or "node_modules" in real.parts:
            return
        around = [place for place in real.parents if not self._is_broad(place)]
        for place in around:
            if _is_there(place / "node_modules"):
                self.found[place / "node_modules"] = None
        if self._is_writable(real):
            return
        marked = (place for place in around if any(_is_there(place / mark) for mark in _MARKS))
        self.directory(next(marked, real.parent))

    def directory(self, place: Path) -> None:
        """Add a directory of code, unless it is broad (such as home or `/etc`)."""
        if place.is_absolute() and _is_there(place) and not self._is_broad(place):
            self.found[place] = None

    def uv(self, command: Path) -> None:
        """Add what uv looks for: `uv` beside `uvx`, its own Pythons and those on the PATH."""
        for step in _steps(command):
            self.program(step.with_name("uv"), is_trusted=not self._is_writable(command))
        pythons = self._home / ".local/share/uv/python"
        if _is_there(pythons):
            self.found[pythons] = None
            self.env["UV_PYTHON_INSTALL_DIR"] = str(pythons)
        for name in ("python3", "python"):
            found = shutil.which(name, path=self._path)
            if found is not None:
                self.program(Path(found))

    def user_packages(self) -> None:
        """Add the packages of `pip install --user`."""
        base = self._home / ".local"
        if any((base / "lib").glob("python3*")):
            self.found[base / "lib"] = None
            self.env["PYTHONUSERBASE"] = str(base)

    def _managed(self, file: Path) -> None:
        for folder, variable in _MANAGERS.items():
            place = self._home / folder
            if file.is_relative_to(place):
                self.found[place] = None
                self.env[variable] = str(place)

    def _packages(self, file: Path) -> None:
        """Add the outermost `node_modules` around a file: it has the file's dependencies."""
        if "node_modules" in file.parts:
            at = file.parts.index("node_modules")
            self.found[Path(*file.parts[: at + 1])] = None

    def _prefix(self, prefix: Path, depth: int, *, is_trusted: bool) -> None:
        """Add the installation that a `bin` directory belongs to."""
        settings = prefix / "pyvenv.cfg"
        if _is_file(settings):
            self.found[prefix] = None
            base = re.search(r"^home\s*=\s*(.+)$", _text(settings), re.MULTILINE)
            if base is not None:
                is_trusted = is_trusted and not self._is_writable(prefix)
                self._base(Path(base[1].strip()), depth, is_trusted=is_trusted)
        elif is_trusted or _is_installation(prefix):
            self._installation(prefix)
        if self._is_writable(prefix):
            return
        for file in prefix.glob("lib/python3*/site-packages/*.pth"):
            for line in _text(file).splitlines():
                self.directory(Path(line.strip() or "."))

    def _installation(self, prefix: Path) -> None:
        if _is_there(prefix / "lib") and str(prefix) not in {"/", "/usr"}:
            shared = self._is_broad(prefix) or prefix == self._home / ".local"
            for place in (prefix / "bin", prefix / "lib") if shared else (prefix,):
                self.found[place] = None

    def _base(self, folder: Path, depth: int, *, is_trusted: bool) -> None:
        for name in ("python3", "python"):
            self.program(folder / name, depth - 1, is_trusted=is_trusted)

    def _is_writable(self, place: Path) -> bool:
        return any(place.is_relative_to(around) for around in self._writable)

    def _is_broad(self, place: Path) -> bool:
        return place in _BROAD or self._home.is_relative_to(place)


def _is_installation(prefix: Path) -> bool:
    """Return whether a directory has an interpreter's own packages."""
    library = prefix / "lib"
    return _is_there(library / "node_modules") or any(library.glob("python3*"))


def _steps(file: Path) -> Iterator[Path]:
    """Yield a file and each step of its links, up to the real file."""
    for _ in range(_DEPTH):
        yield file
        if not file.is_symlink():
            break
        file = Path(file.parent, file.readlink())
    yield file.resolve()


# Those of `Path` may raise where the system refuses to tell.
_is_there: Final = os.path.exists
_is_file: Final = os.path.isfile


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _interpreter(file: Path, path: str | None) -> Path | None:
    try:
        with file.open("rb") as opened:
            found = _SHEBANG.match(opened.read(_SHEBANG_BYTES))
    except OSError:
        return None
    if found is None:
        return None
    named, argument = found[1].decode("utf-8", "replace"), found[2]
    if Path(named).name == "env" and argument is not None:
        looked_up = shutil.which(argument.decode("utf-8", "replace"), path=path)
        return Path(looked_up) if looked_up is not None else None
    return Path(named)
