"""The private directory with the sockets of the user's hubs, and what belongs to one hub in it."""

# ruff: noqa: PTH116, PTH118, PTH119, PTH208, SIM105 - this file must load fast
from __future__ import annotations

import errno
import os
import stat
import sys
from _blake2 import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "roots-hub"
PRIVATE = 0o700
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_FILE_MODE = 0o600
_DARWIN_TEMPORARY = 65537
"""The name of the user's temporary directory in macOS's `confstr`."""
_SECRET_BYTES = 32


class UnsafeDirectoryError(Exception):
    """Nothing private can be kept where the hubs' sockets belong; the text says why."""


def runtime_paths(environment: Mapping[str, str]) -> list[str]:
    """Return where the directory may be, the first choice first.

    SDKs start servers without XDG_RUNTIME_DIR, other programs with it. Both must find the same hub,
    so its usual value is tried as well. TMPDIR is ignored for the same reason.
    """
    if not hasattr(os, "geteuid"):
        return []
    user = os.geteuid()
    given = environment.get("XDG_RUNTIME_DIR", "")
    runtime = [given] if given.startswith("/") else []
    runtime += [] if sys.platform == "darwin" else [f"/run/user/{user}"]
    found = [f"{base.rstrip('/')}/{NAME}" for base in dict.fromkeys(runtime)]
    return [*found, f"{_temporary()}/{NAME}-{user}/{NAME}"]


def _temporary() -> str:
    if sys.platform == "darwin":
        try:
            return (os.confstr(_DARWIN_TEMPORARY) or "/tmp").rstrip("/")  # noqa: S108 - what is made in it is checked
        except (OSError, ValueError):
            pass
    return "/tmp"  # noqa: S108 - as above


class RuntimeDirectory:
    """The open directory: whatever is renamed meanwhile, its files are those of this directory."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def opened(cls, environment: Mapping[str, str]) -> RuntimeDirectory:
        """Open the directory; make it if it is missing. Raises: UnsafeDirectoryError."""
        for path in runtime_paths(environment):
            above, name = os.path.split(path)
            if not os.path.basename(above).startswith(NAME) and not _is_private_base(above):
                continue
            try:
                return cls(path, _made(above, name))
            except OSError as exc:
                raise UnsafeDirectoryError(f"{path}: {exc.strerror}") from exc
        raise UnsafeDirectoryError("there are no private directories on this system")

    @classmethod
    def at(cls, path: str) -> RuntimeDirectory:
        """Open the existing directory at `path`. Raises: UnsafeDirectoryError as for `opened`."""
        try:
            return cls(path, _checked(path, None))
        except OSError as exc:
            raise UnsafeDirectoryError(f"{path}: {exc.strerror}") from exc

    @classmethod
    def existing(cls, environment: Mapping[str, str]) -> list[RuntimeDirectory]:
        """Open all that are there and safe: hubs may have been started with other variables."""
        found: list[RuntimeDirectory] = []
        for path in runtime_paths(environment):
            try:
                found.append(cls.at(path))
            except UnsafeDirectoryError:
                pass
        return found

    def names(self) -> list[str]:
        """Return the names of the hubs that have a socket here, whether they run or not."""
        ending = ".sock"
        found = os.listdir(self.descriptor)
        return sorted(name[: -len(ending)] for name in found if name.endswith(ending))

    def close(self) -> None:
        os.close(self.descriptor)


def _is_private_base(path: str) -> bool:
    """Return whether a runtime directory exists that only this user may write."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE
    return stat.S_ISDIR(found.st_mode) and is_ours


def _made(above: str, name: str) -> int:
    """Return the open directory `name`, made with mode 0700; so is `above`, if it is the hub's."""
    if not os.path.basename(above).startswith(NAME):
        return _made_at(f"{above}/{name}", None)
    outer = _made_at(above, None)
    try:
        return _made_at(name, outer)
    finally:
        os.close(outer)


def _made_at(path: str, within: int | None) -> int:
    try:
        os.mkdir(path, PRIVATE, dir_fd=within)
    except FileExistsError:
        pass
    return _checked(path, within)


def _checked(path: str, within: int | None) -> int:
    """Return the open directory if it is no link, and this user's alone. Raises: OSError."""
    try:
        opened = os.open(
            path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within
        )
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise OSError(exc.errno, "it is a link or no directory") from exc
        raise
    found = os.fstat(opened)
    if found.st_uid != os.geteuid():
        why = "it belongs to another user"
    elif found.st_mode & _OTHERS:
        why = f"others may use it (mode {stat.S_IMODE(found.st_mode):04o}, not 0700)"
    else:
        return opened
    os.close(opened)
    raise OSError(errno.EPERM, why)


class HubPlace:
    """The files of one hub in a runtime directory: `NAME.sock`, `.key`, `.lock` and `.start`."""

    def __init__(self, directory: RuntimeDirectory, name: str) -> None:
        self.directory = directory
        self.name = name

    @property
    def address(self) -> str:
        """The path of the socket. On Linux it is short and leads into the open directory.

        An address has room for 108 bytes only.
        """
        file = f"{self.name}.sock"
        if sys.platform == "linux":
            return f"/proc/self/fd/{self.directory.descriptor}/{file}"
        return f"{self.directory.path}/{file}"

    def open_lock(self, kind: str) -> int:
        """Return the open lock file of a `kind`: `lock` (held while a hub lives) or `start`."""
        return self._open(kind, os.O_RDWR | os.O_CREAT)

    def secret(self) -> str:
        """Return the running hub's secret, empty without one. Raises: OSError if others see it."""
        try:
            file = self._open("key", os.O_RDONLY)
        except FileNotFoundError:
            return ""
        with os.fdopen(file, "rb") as opened:
            return opened.read(4 * _SECRET_BYTES).decode("ascii", "replace")

    def make_secret(self) -> str:
        """Replace the secret by a new one, and return it."""
        made = os.urandom(_SECRET_BYTES).hex()
        self.remove("key")
        with os.fdopen(self._open("key", os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(made.encode())
        return made

    def protect_socket(self) -> None:
        """Give the new socket mode 0600; until then only the directory protects it."""
        os.chmod(f"{self.name}.sock", _FILE_MODE, dir_fd=self.directory.descriptor)

    def remove(self, kind: str) -> None:
        """Remove the hub's file of a `kind`, if there is one."""
        try:
            os.unlink(f"{self.name}.{kind}", dir_fd=self.directory.descriptor)
        except FileNotFoundError:
            pass

    def _open(self, kind: str, flags: int) -> int:
        """Open a file of mode 0600. Raises: OSError, also if it is not this user's alone."""
        opened = os.open(
            f"{self.name}.{kind}",
            flags | os.O_NOFOLLOW | os.O_CLOEXEC,
            _FILE_MODE,
            dir_fd=self.directory.descriptor,
        )
        found = os.fstat(opened)
        if found.st_uid == os.geteuid() and not found.st_mode & _OTHERS:
            return opened
        os.close(opened)
        raise OSError(errno.EPERM, "others may use it")


def hub_name(source: str, version: str) -> str:
    """Return the name of the hub for one `source` of a config, of one version of the program.

    Names of the same source begin alike (`have_same_source`).
    """
    return f"{_hash(f'{os.geteuid()} {source}', 6)}-{_hash(version, 3)}"


def have_same_source(name: str, other: str) -> bool:
    """Return whether two names are of hubs for the same source, of whichever versions."""
    return name.partition("-")[0] == other.partition("-")[0]


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=size).hexdigest()


def of_config(path: str, directory: str) -> tuple[str, str]:
    """Return the absolute path of a config file, and what names it as a source.

    A link as the last part is not followed: relative paths in a config start where it lies.
    """
    above, name = os.path.split(os.path.join(directory, path))
    full = os.path.join(os.path.realpath(above), name)
    return full, f"config {full}"


def of_command(argv: list[str]) -> str:
    """Return what names a wrapped command line as a source."""
    return "\0".join(["command", *argv])
