"""What the checks look at: this process's surroundings, the clients' hubs, configs and files."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from hub.app.machine import place_of, this_machine
from hub.cli.terminal import Finding
from hub.config.clients.entries import hub_command
from hub.config.clients.locations import UserPlace
from hub.config.clients.secrets import SecretVariables, hidden
from hub.config.fields import LoadContext
from hub.config.load import load_config
from hub.config.models import HubConfig
from hub.config.operator_roots import operator_roots
from hub.config.source.documents import ParsedConfig, is_inline, read
from hub.config.to_specs import usable_servers
from hub.confinement.confined_launch import this_kernel
from hub.errors import ConfigError, Fault
from hub.roots.effective import EffectiveRoots, for_rootless
from hub.specs import LeftOut, ServerSpec
from hub.system.machine import Kernel

OTHERS_WRITE: Final = 0o022
OTHERS_READ: Final = 0o044
OTHERS: Final = 0o077
_GROUP: Final = 0o070


def quoted(path: Path | str) -> str:
    """Return a path as a word of a command."""
    return shlex.quote(str(path))


def reason(error: OSError) -> str:
    """Return why a file cannot be used, in the system's words."""
    return error.strerror or "it cannot be used"


def status(path: Path) -> os.stat_result | None:
    """Return what the system says of a file; None if there is none, or it cannot be asked."""
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def is_directory(path: Path) -> bool:
    """Return whether there is a directory; False if it cannot be asked."""
    return os.path.isdir(path)  # noqa: PTH112 - that of `Path` may raise


def is_plain_file(path: Path) -> bool:
    """Return whether there is a file that can be read to its end, unlike a pipe."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def barred_by(path: Path) -> Path | None:
    """Return the outermost directory above a path that this user may not look into."""
    above = (one for one in reversed(path.parents) if is_directory(one))
    return next((one for one in above if not os.access(one, os.X_OK)), None)


def is_others(found: os.stat_result) -> bool:
    """Return whether a file belongs to another user."""
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def take_over(path: Path, *, all_in_it: bool = False) -> str | None:
    """Return the command that makes a file the user's; None outside of the home directory.

    What is elsewhere may well be another user's on purpose.
    """
    home = Path(os.environ.get("HOME") or "/")
    if len(home.parts) == 1 or not path.is_relative_to(home) or path == home:
        return None
    option = "-R " if all_in_it else ""
    return f'sudo chown {option}"$(id -u):$(id -g)" {quoted(path)}'


def opened_up(path: Path, mode: str) -> str | None:
    """Return the command that lets the user use a file; None if it is another's, as above."""
    found = status(path)
    if found is not None and is_others(found):
        return take_over(path)
    return f"chmod {mode} {quoted(path)}"


def open_to(found: os.stat_result, bits: int) -> int:
    """Return which of the mode's `bits` are set for others; a group with only its user is none."""
    mode = stat.S_IMODE(found.st_mode) & bits
    return mode & ~_GROUP if mode & _GROUP and _is_private_group(found) else mode


def _is_private_group(found: os.stat_result) -> bool:
    """Return whether the file's group is the one that many systems make for each user."""
    try:
        from grp import getgrgid  # noqa: PLC0415 - not on Windows
        from pwd import getpwuid  # noqa: PLC0415 - as above

        group, user = getgrgid(found.st_gid), getpwuid(found.st_uid)
    except (ImportError, KeyError, OSError):
        return False
    is_own = group.gr_gid == user.pw_gid and group.gr_name == user.pw_name
    return is_own and not {*group.gr_mem} - {user.pw_name}


def without_secrets(text: str, arguments: Sequence[str]) -> str:
    """Return a text without what looks like a secret in a server's arguments."""
    found = hidden("server", {"args": [*arguments]}, SecretVariables({}))[1]
    for value in sorted((one.value or "" for one in found), key=len, reverse=True):
        text = text.replace(value, "(hidden)") if value else text
    return text


NO_FILE: Final = "is a directory, or no plain file"
_PATIENCE: Final = 1.0
"""Seconds that another program may take to answer."""


class LookedAtConfig(Struct, frozen=True):
    """A config: its file, or None if it is the text itself. `faults` are why it does not load.

    `raw` is what is written in it; empty if it cannot be parsed.
    """

    source: str
    path: Path | None
    config: HubConfig | None = None
    specs: Sequence[ServerSpec] = ()
    left_out: Sequence[LeftOut] = ()
    roots: EffectiveRoots | None = None
    faults: Sequence[Fault] = ()
    raw: ParsedConfig = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The file's path, for people."""
        return "the config" if self.path is None else str(self.path)

    @property
    def option(self) -> str:
        """The option that names it in a command."""
        return "" if self.path is None else f" --config {quoted(self.path)}"

    def set_fix(self, key: str, value: str) -> str:
        """Return the edit that gives a key a value."""
        return f"In {self.name}, set `{key}` to `{value}`."

    def edit_fix(self, found: Finding) -> str:
        """Return the remedy of a finding as an edit of this file."""
        return f"In {self.name}, at {found.where}: {found.fix}"


class HubEntry(Struct, frozen=True):
    """An entry of the hub in a client's config: its command line, and the config it names."""

    client: str
    path: Path
    scope: str
    section: tuple[str, ...]
    name: str
    argv: tuple[str, ...]
    config: Path | None

    @property
    def key(self) -> str:
        """Where the entry is in its file."""
        return ".".join((*self.section, self.name))


class Scene(Struct, frozen=True):
    """What the checks look at. `platform` is as in `sys.platform`; `hub` starts the hub."""

    environment: Mapping[str, str]
    home: Path | None
    platform: str
    directory: Path
    kernel: Kernel
    hub: str = "roots-hub"
    configs: Sequence[LookedAtConfig] = ()
    entries: Sequence[HubEntry] = ()
    found: Sequence[Finding] = field(default_factory=tuple[Finding, ...])

    @property
    def path(self) -> str:
        """The PATH; the system's usual one if the environment has none."""
        return self.environment.get("PATH") or os.defpath

    @property
    def place(self) -> UserPlace:
        """Where this user's clients keep their configs."""
        home = self.home or Path("/")
        return UserPlace(home, self.environment, self.platform, self.directory)

    def which(self, program: str, path: str | None = None) -> str | None:
        """Return the path of a program; None if it is not on the PATH."""
        try:
            return shutil.which(program, path=self.path if path is None else path)
        except (OSError, ValueError):
            return None

    def specs(self) -> Iterator[tuple[LookedAtConfig, ServerSpec]]:
        """Yield all servers, each with its config."""
        yield from ((config, spec) for config in self.configs for spec in config.specs)

    def answer(self, program: str, arguments: Sequence[str]) -> str | None:
        """Return what a program prints; None if it fails, or takes longer than a second."""
        try:
            ran = subprocess.run(  # noqa: S603 - a program that the checks name
                [program, *arguments],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return ran.stdout.strip() if ran.returncode == 0 else None


def surroundings_now() -> Scene:
    """Return the scene without configs and clients.

    From here on this process has a home directory and a working directory, whatever it was started
    with: nothing that reads them fails then.
    """
    environment = dict(os.environ)
    given = environment.get("HOME", "")
    home = Path(given) if given.startswith("/") else None
    if os.name == "nt":
        home = Path(environment.get("USERPROFILE") or "C:\\")
    elif home is None:
        os.environ["HOME"] = users_home() or "/"
    try:
        directory = Path.cwd()
    except OSError:
        os.chdir(home if home is not None and is_directory(home) else "/")
        directory = Path.cwd()
    scene = Scene(environment, home, sys.platform, directory, this_kernel())
    if scene.which("roots-hub") is None:
        scene = replace(scene, hub=shlex.join(hub_command()))
    return scene


def users_home() -> str | None:
    """Return the home directory of this process's user as the system knows it."""
    try:
        from pwd import getpwuid  # noqa: PLC0415 - not on Windows

        return getpwuid(os.geteuid()).pw_dir or None
    except (ImportError, KeyError):
        return None


def looked_at(source: str, scene: Scene) -> LookedAtConfig:
    """Return a config with its servers, or with the mistakes for which it does not load."""
    path = None if is_inline(source) else Path(os.path.abspath(scene.directory / source))  # noqa: PTH100 - links stay
    made = LookedAtConfig(source, path)
    if path is not None and status(path) is not None and not is_plain_file(path):
        return replace(made, faults=(Fault(str(path), NO_FILE, "Name a file: --config FILE."),))
    context = LoadContext(scene.directory, str(scene.place.home), scene.environment)
    try:
        loaded = load_config(source if path is None else str(path), context)
        config, made = loaded.config, replace(made, raw=loaded.raw)
        place = place_of(this_machine(os.environ), config, path)
        usable = usable_servers(config, place)
    except ConfigError as error:
        with suppress(ConfigError, OSError, ValueError, RuntimeError):
            made = replace(made, raw=made.raw or read(source, scene.directory).raw)
        return replace(made, faults=error.faults)
    except (OSError, ValueError, RuntimeError):  # nothing that is in a file stops the doctor
        fix = "Write it anew: it is nested without end."
        return replace(made, faults=(Fault(made.name, "cannot be read", fix),))
    roots = for_rootless(operator_roots(config.roots, [], place))
    specs = tuple(usable.specs.values())
    return replace(made, config=config, specs=specs, left_out=usable.left_out, roots=roots)
