"""Programs that servers are started with: on the PATH or not, on that of GUI programs, how old.

For one that is missing: how to get it on this machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hub.cli.check.problems import missing_program
from hub.cli.check.scripts import missing_interpreter, without_returns
from hub.cli.doctor.scene import (
    LookedAtConfig,
    Scene,
    is_others,
    is_plain_file,
    quoted,
    status,
    without_secrets,
)
from hub.cli.terminal import Finding
from hub.config.clients.locations import is_installed
from hub.errors import HubError
from hub.launch.plan import LaunchPlan, LaunchTemplate, plan
from hub.legible import on_one_line
from hub.roots.effective import for_server
from hub.specs import ServerSpec

_NODE_PROGRAMS: Final = frozenset({"npx", "npm", "node", "pnpx", "pnpm"})
_UV: Final = frozenset({"uvx", "uv"})
_NVM: Final = "https://raw.githubusercontent.com/nvm-sh/nvm/v0.40.3/install.sh"
_SCRIPTS: Final = {
    "bun": "curl -fsSL https://bun.sh/install | bash",
    "bunx": "curl -fsSL https://bun.sh/install | bash",
    "deno": "curl -fsSL https://deno.land/install.sh | sh",
    "docker": "curl -fsSL https://get.docker.com | sh",
}
_USUAL: Final = (
    *(".local/bin", "bin", ".cargo/bin", ".bun/bin", ".deno/bin", ".volta/bin", "n/bin"),
    *(".asdf/shims", ".local/share/mise/shims", ".npm-global/bin", ".local/share/pnpm"),
    *("/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin", "/snap/bin"),
    *("/usr/bin", "/bin"),
)
"""Where installers put programs; relative ones are below the home directory."""
_GUI_PATHS: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
_GUI_CLIENTS: Final = ("claude-desktop", "cursor", "vscode", "windsurf", "zed", "goose")


def programs(scene: Scene) -> Iterator[Finding]:
    """Yield what is wrong with the programs of the servers; without any, of `npx` and `uvx`."""
    told: set[str] = set()
    for config, spec in scene.specs():
        launch = _launch(spec, config, scene.environment)
        if launch is not None:
            for found in _program(config, spec, launch, scene):
                if found.where not in told:
                    yield found
                told.add(found.where)
    if any(config.config is not None for config in scene.configs):
        return
    for name in ("npx", "uvx"):
        if scene.which(name) is None:
            what = "is not on the PATH; many servers are started with it"
            yield Finding("note", "programs", name, what, _how_to_install(name, scene))


def _launch(
    spec: ServerSpec, config: LookedAtConfig, environment: Mapping[str, str]
) -> LaunchPlan | None:
    if not isinstance(spec.target, LaunchTemplate) or config.roots is None:
        return None
    roots = for_server(config.roots, spec.ceiling).roots
    return plan(spec.target, roots, environment, directories=spec.directories)


def _program(
    config: LookedAtConfig, spec: ServerSpec, launch: LaunchPlan, scene: Scene
) -> Iterator[Finding]:
    name = launch.argv[0]
    path = dict(launch.env).get("PATH") or spec.inherits.get("PATH") or scene.path
    at = scene.which(name, path)
    if at is None:
        yield from _not_there(config, spec, launch, scene)
        return
    if Path(name).name == "npx" and scene.which("node", path) is None:
        what = "is not on the PATH, and npx needs it"
        yield Finding("problem", "programs", "node", what, _how_to_install("node", scene))
    else:
        yield from _interpreter(at, path, scene)


def _not_there(
    config: LookedAtConfig, spec: ServerSpec, launch: LaunchPlan, scene: Scene
) -> Iterator[Finding]:
    shown, key = launch.shown[0], f"servers.{spec.name}.command"
    there = _not_runnable(Path(launch.cwd or scene.directory, launch.argv[0]))
    if os.sep in launch.argv[0] and there is not None:
        yield Finding("problem", "programs", f"{config.name}: {key}", *there)
        return
    assert config.roots is not None  # noqa: S101 - or there would be no plan
    missing = missing_program(spec, for_server(config.roots, spec.ceiling))
    if missing is None:
        return
    is_name = os.sep not in shown and " " not in shown
    if is_name and missing.likely is None:
        what = f"is not on the PATH, and {spec.name} is started with it"
        fix = _how_to_install(shown, scene, config, key)
        yield Finding("problem", "programs", shown, what, fix)
        return
    if is_name:
        fix = config.set_fix(key, str(missing.likely))
    elif missing.is_miswritten:
        fix = f"In {config.name}, below {spec.name}: {missing.finding.fix}"
    else:  # its name may be on the PATH
        name = Path(shown).name
        here = scene.which(name)
        fix = config.set_fix(key, here) if here else _how_to_install(name, scene, config, key)
    what, fix = (without_secrets(text, shown.split()) for text in (missing.finding.what, fix))
    yield replace(missing.finding, where=f"{config.name}: {key}", what=what, fix=fix)


def _not_runnable(program: Path) -> tuple[str, str] | None:
    """Return why a file that is there cannot be run, and what to do."""
    found = status(program)
    if found is None or not stat.S_ISREG(found.st_mode) or os.access(program, os.X_OK):
        return None
    sudo = "sudo " if is_others(found) else ""
    return f"{program} is there, but may not be run", f"{sudo}chmod a+rx {quoted(program)}"


def _interpreter(program: str, path: str, scene: Scene) -> Iterator[Finding]:
    """Yield that a script's own program is not there, as after an update that removed it."""
    gone = missing_interpreter(Path(program), path) if is_plain_file(Path(program)) else None
    if gone is None:
        return
    name = Path(program).name
    if gone.endswith("\r"):
        what = "does not start: its first line ends as on Windows, which changes its last word"
        yield Finding("problem", "programs", program, what, without_returns(Path(program)))
        return
    if os.sep not in gone:
        what = f"is not on the PATH, and {name} needs it"
        yield Finding("problem", "programs", gone, what, _how_to_install(gone, scene))
        return
    what = f"does not start: its first line names {on_one_line(gone)}, which is not there"
    fix = _how_to_install(name, scene)
    fix = fix if fix.startswith("Install ") else f"rm {quoted(program)} && {fix}"
    yield Finding("problem", "programs", program, what, fix)


def node_version(scene: Scene) -> Iterator[Finding]:
    """Yield whether Node is too old for the servers that `npx` starts today."""
    used = any(
        isinstance(spec.target, LaunchTemplate)
        and Path(spec.target.command.fill(lambda _: "", ())).name in _NODE_PROGRAMS
        for _, spec in scene.specs()
    )
    node = scene.which("node")
    if node is None or (not used and any(config.config for config in scene.configs)):
        return
    said = scene.answer(node, ["--version"])
    found = re.match(r"v(\d+)\.[\w.-]{1,20}$", said or "")
    fix = _how_to_renew_node(scene)
    if found is None:
        what = "does not tell its version: `node --version` fails, or takes over a second"
        yield Finding("problem" if used else "warning", "node", node, what, fix)
        return
    version = found[0][1:]
    if int(found[1]) < _LEAST_NODE:
        what = f"is Node {version}: MCP servers in JavaScript need {_LEAST_NODE} or newer"
        yield Finding("problem" if used else "warning", "node", node, what, fix)
    elif int(found[1]) < _USUAL_NODE:
        what = f"is Node {version}: newer MCP servers need {_USUAL_NODE}"
        yield Finding("note", "node", node, what, fix)
    else:
        yield Finding("ok", "node", node, f"is Node {version}")


def gui_path(scene: Scene) -> Iterator[Finding]:
    """Yield the programs that only the shell's PATH has, not that of programs with a window."""
    known = _path_of_gui(scene)
    if known is None:
        return
    # One finding for all servers that the same edit mends.
    found: dict[tuple[str, str], list[str]] = {}
    for config, spec in scene.specs():
        try:
            program = _lost(scene, config, spec, known)
        except HubError:
            continue
        if program is not None:
            fix = _gui_fix(config, spec, str(Path(program).parent))
            found.setdefault((program, fix), []).append(f"servers.{spec.name}")
    for (program, fix), servers in found.items():
        level = "warning" if _has_gui_client(scene) else "note"
        what = f"{program} is on your shell's PATH only: clients that the desktop starts do not "
        what += "find it"
        each = servers[0] if len(servers) == 1 else f"each of {', '.join(servers)}"
        yield Finding(level, "GUI path", ", ".join(servers), what, fix.replace(_EACH, each))


def _lost(scene: Scene, config: LookedAtConfig, spec: ServerSpec, known: str) -> str | None:
    """Return a program of a server that is not on a PATH, but on the shell's; None if none is.

    Raises: HubError.
    """
    launch = _launch(spec, config, {**scene.environment, "PATH": known})
    if launch is None or scene.which(launch.argv[0]) is None:
        return None
    path = dict(launch.env).get("PATH", known)
    wanted = [launch.argv[0]]
    wanted += ["node"] if Path(wanted[0]).name in _NODE_PROGRAMS else []
    lost = (at for name in wanted if not scene.which(name, path) and (at := scene.which(name)))
    return next(lost, None)


def _has_gui_client(scene: Scene) -> bool:
    try:
        return any(is_installed(name, scene.place) for name in _GUI_CLIENTS)
    except OSError:
        return False


_EACH: Final = "{servers}"
"""What stands for the servers in a remedy."""


def _gui_fix(config: LookedAtConfig, spec: ServerSpec, directory: str) -> str:
    value = f'"PATH": "{directory}:${{PATH}}"'
    if config.path is None or config.path.suffix in {".json", ".jsonc"}:
        return f'In {config.name}, give {_EACH} the key `"env": {{{value}}}`.'
    if isinstance(spec.target, LaunchTemplate) and spec.target.env:
        return f"In {config.name}, below `env` of {_EACH}, write `{value}`."
    return f"In {config.name}, below {_EACH}, write `env: {{{value}}}`."


def _path_of_gui(scene: Scene) -> str | None:
    """Return the PATH of programs that the desktop starts; None if it is not known."""
    if scene.platform == "darwin":
        return scene.answer("/bin/launchctl", ["getenv", "PATH"]) or _GUI_PATHS["darwin"]
    systemctl = scene.which("systemctl")
    said = scene.answer(systemctl, ["--user", "show-environment"]) if systemctl else None
    for line in (said or "").splitlines():
        if line.startswith("PATH="):
            return line.removeprefix("PATH=")
    usual = _GUI_PATHS.get(scene.platform)
    if usual is None or scene.home is None:
        return usual
    # The profile of most systems adds these two, and graphical sessions read it.
    return f"{usual}:{scene.home}/.local/bin:{scene.home}/bin:/snap/bin"


def _how_to_install(
    name: str, scene: Scene, config: LookedAtConfig | None = None, key: str = "command"
) -> str:
    """Return what makes a program found: a command, or the edit of `key` in the config."""
    there = next(_elsewhere(name, scene), None)
    if there is not None:
        return f'export PATH={quoted(there)}:"$PATH"'
    if name in _NODE_PROGRAMS:
        return _how_to_renew_node(scene)
    if name in _UV:
        return _uv(scene)
    if name in _SCRIPTS:
        return _SCRIPTS[name]
    if config is None:
        return f"Install {name}, and run doctor again."
    return f"Install {name}; or in {config.name}, set `{key}` to its whole path."


def _how_to_renew_node(scene: Scene) -> str:
    """Return the command that gets a Node of today, by what this machine has for that."""
    nvm = Path(scene.environment.get("NVM_DIR") or (scene.home or Path("/")) / ".nvm", "nvm.sh")
    get = "nvm install --lts && nvm alias default 'lts/*'"
    if is_plain_file(nvm):
        return f". {quoted(nvm)} && {get}"
    for program, command in (
        ("fnm", "fnm install --lts && fnm default lts-latest"),
        ("volta", "volta install node@lts"),
        ("mise", "mise use --global node@lts"),
        ("brew", "brew install node"),
    ):
        if scene.which(program):
            return command
    return f'curl -fsSL {_NVM} | bash && . "${{NVM_DIR:-$HOME/.nvm}}/nvm.sh" && {get}'


def _uv(scene: Scene) -> str:
    if scene.which("brew"):
        return "brew install uv"
    get = "pipx install uv" if scene.which("pipx") else ""
    get = get or "curl -LsSf https://astral.sh/uv/install.sh | sh"
    is_known = scene.home is not None and f"{scene.home}/.local/bin" in scene.path.split(":")
    return get if is_known else f'{get} && export PATH="$HOME/.local/bin:$PATH"'


def _elsewhere(name: str, scene: Scene) -> Iterator[Path]:
    """Yield the directories beside the PATH that have a program."""
    home = scene.home or Path("/")
    places = [home / one for one in _USUAL]
    try:
        versions = sorted((home / ".nvm/versions/node").iterdir(), reverse=True)
    except OSError:
        versions = []
    for place in (*places, *(one / "bin" for one in versions)):
        if scene.which(name, str(place)):
            yield place


_LEAST_NODE, _USUAL_NODE = 18, 20
"""The MCP SDK for TypeScript needs Node 18 in its version 1, and 20 in its version 2."""
