"""How to get a program that is missing: the command for this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hub.cli.doctor.findings import is_plain_file, quoted
from hub.cli.doctor.scene import LookedAtConfig, Scene

NODE_PROGRAMS: Final = frozenset({"npx", "npm", "node", "pnpx", "pnpm"})
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


def how_to_install(
    name: str, scene: Scene, config: LookedAtConfig | None = None, key: str = "command"
) -> str:
    """Return what makes a program found: a command, or the edit of `key` in the config."""
    there = next(_elsewhere(name, scene), None)
    if there is not None:
        return f'export PATH={quoted(there)}:"$PATH"'
    if name in NODE_PROGRAMS:
        return how_to_renew_node(scene)
    if name in _UV:
        return _uv(scene)
    if name in _SCRIPTS:
        return _SCRIPTS[name]
    if config is None:
        return f"Install {name}, and run doctor again."
    return f"Install {name}; or in {config.name}, set `{key}` to its whole path."


def how_to_renew_node(scene: Scene) -> str:
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
