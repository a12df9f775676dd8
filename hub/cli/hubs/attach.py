"""`roots-hub attach` and `roots-hub wrap --shared`: be served by the user's hub, if that can be."""

# ruff: noqa: PLC0415, PTH100, PTH109, PTH113, PTH118, PTH120 - this file must load fast, and loads only what is needed
from __future__ import annotations

import os
import sys

from hub import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NO_CONFIG = "no config file is named by --config or HUB_CONFIG"


class AttachOptions:
    """What the command line asks for: a config, or a command in its place."""

    def __init__(self, command: list[str] | None = None) -> None:
        self.config: str | None = None
        self.roots: list[str] = []
        self.command = command
        self.is_alone = False


def attached(given: Sequence[str]) -> int | str | None:
    """Have the user's hub serve this client; return the exit code when that is over.

    A text says why no shared hub serves it. None: the command line has something else in it, which
    the whole parser knows.
    """
    wanted = wanted_by(given)
    return None if wanted is None else attached_to(wanted)


def wanted_by(given: Sequence[str]) -> AttachOptions | None:
    """Return what the command line asks for; None if the whole parser must read it."""
    rest = list(given[1:])
    wanted = AttachOptions()
    is_shared = given[0] == "attach"
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in {"--config", "--root"} and (equals or rest):
            value = value if equals else rest.pop(0)
            if name == "--config":
                wanted.config = value
            else:
                wanted.roots.append(value)
        elif name == "--alone" and not equals:
            wanted.is_alone = True
        elif name == "--shared" and given[0] == "wrap" and not equals:
            is_shared = True
        elif name == "--" and given[0] == "wrap" and rest:
            wanted.command = rest
            break
        else:
            return None
    is_complete = given[0] == "attach" or (wanted.command is not None and wanted.config is None)
    return wanted if is_shared and is_complete else None


def attached_to(wanted: AttachOptions) -> int | str:
    """Have the user's hub serve this client; return the exit code, or why there is none."""
    if wanted.is_alone:
        return "--alone"
    if sys.platform == "win32":
        return "there are no Unix sockets here"
    from hub.attach.lifeline import NotAttachedError, RefusedError, why_not_these_streams
    from hub.attach.runtime_directory import UnsafeDirectoryError

    try:
        why = why_not_these_streams()
        return why or _attach(wanted)
    except (NotAttachedError, UnsafeDirectoryError, OSError) as exc:
        return str(exc)
    except RefusedError as exc:
        sys.stderr.write(f"roots-hub: {exc}\n")
        return exc.code
    except KeyboardInterrupt:
        return 130


def _attach(wanted: AttachOptions) -> int | str:
    """Attach, or return why not. Raises: NotAttachedError, RefusedError, OSError."""
    from hub.attach.lifeline import attach
    from hub.attach.runtime_directory import HubPlace, RuntimeDirectory, hub_name
    from hub.attach.start import reached

    if not (os.environ.get("HOME") or "/").startswith("/"):
        return "HOME is no absolute path"
    directory = os.getcwd()
    served = _served(wanted, directory)
    if isinstance(served, str):
        return served
    source, serves = served
    runtime = RuntimeDirectory.opened(os.environ)
    place = HubPlace(runtime, hub_name(source, __version__))
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shared_hub.py")
    arguments = ["-P", program, "--directory", runtime.path, "--name", place.name, *serves]
    return attach(
        place,
        __version__,
        lambda: reached(place, arguments, hub_environment),
        directory=directory,
        environment=dict(os.environ),
        roots=wanted.roots,
    )


def _served(wanted: AttachOptions, directory: str) -> tuple[str, list[str]] | str:
    """Return what tells the hub from others, and its options; or why no hub can be shared."""
    from hub.attach.runtime_directory import of_command, of_config

    if wanted.command is not None:
        return of_command(wanted.command), ["--command", *wanted.command]
    config = os.environ.get("HUB_CONFIG") if wanted.config is None else wanted.config
    if not config or config.lstrip().startswith("{"):
        return NO_CONFIG
    config, source = of_config(config, directory)
    return (source, ["--config", config]) if os.path.isfile(config) else f"there is no {config}"


def hub_environment() -> dict[str, str]:
    """Return the variables that a new hub gets: those that do not tell one session from another."""
    from hub.launch.environments import stable
    from hub.paths.resolve import Flavour

    flavour = Flavour.MACOS if sys.platform == "darwin" else Flavour.POSIX
    return stable(os.environ, flavour)
