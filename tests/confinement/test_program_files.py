from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import pytest

from hub.confinement.program_files import DEVICES, KERNEL, SETTINGS, SYSTEM, Program, program

Made = Callable[[str, str], Path]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "home/user"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def top(home: Path) -> Path:
    """The directory that is the root of all that a test makes."""
    return home.parent.parent


def write(path: Path, text: str = "", *, runs: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if runs:
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def executable(path: Path, text: str = "") -> Path:
    return write(path, text, runs=True)


def found(
    home: Path,
    *argv: object,
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
    writable: Path | None = None,
) -> Program:
    made = program(
        [str(word) for word in argv],
        {"PATH": "", **(env or {})},
        home=str(home),
        directory=None if directory is None else str(directory),
        writable=() if writable is None else (str(writable),),
    )
    assert made is not None
    return made


def test_a_command_that_is_not_there_needs_nothing(home: Path) -> None:
    assert program(["no-such-command"], {"PATH": str(home)}, home=str(home)) is None


def test_a_command_is_found_on_the_path_of_the_child(home: Path, top: Path) -> None:
    server = executable(top / "tools/server")
    made = found(home, "server", env={"PATH": f"{top}/none:{top}/tools"})
    assert made.command == str(server)
    assert made.read == (str(server),)


def test_a_relative_command_is_found_where_the_operator_starts_it(home: Path, top: Path) -> None:
    server = executable(top / "srv/run.sh")
    made = found(home, "./run.sh", directory=top / "srv")
    assert Path(made.command) == server
    assert str(top / "srv") in made.read


def test_a_single_program_in_the_home_directory_is_granted_alone(home: Path) -> None:
    server = executable(home / "server")
    assert found(home, server).read == (str(server),)


def test_of_the_users_own_programs_only_code_is_granted(home: Path) -> None:
    server = executable(home / ".local/bin/server")
    write(home / ".local/lib/python3.11/site-packages/a.py")
    write(home / ".local/share/keyrings/secret")
    assert set(found(home, server).read) == {str(home / ".local/bin"), str(home / ".local/lib")}


def test_an_installation_is_granted_as_a_whole(home: Path, top: Path) -> None:
    node = executable(top / "nodes/v20/bin/node")
    write(top / "nodes/v20/lib/node_modules/npm/index.js")
    assert found(home, node).read == (str(top / "nodes/v20"),)


def test_a_script_of_a_virtual_environment_brings_it_and_the_python_below_it(
    home: Path, top: Path
) -> None:
    base = executable(top / "pythons/3.13/bin/python3")
    write(top / "pythons/3.13/lib/python3.13/os.py")
    venv = top / "tools/venv"
    write(venv / "pyvenv.cfg", f"home = {base.parent}\nversion = 3.13\n")
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to(base)
    server = executable(venv / "bin/mcp-server", f"#!{venv}/bin/python\n")
    (top / "links").mkdir()
    (top / "links/mcp-server").symlink_to(server)
    read = found(home, top / "links/mcp-server").read
    assert set(read) == {
        str(top / "links/mcp-server"),
        str(venv),
        str(top / "pythons/3.13"),
    }


def test_import_directories_of_an_environment_are_granted_too(home: Path, top: Path) -> None:
    venv = top / "venv"
    write(venv / "pyvenv.cfg", "version = 3.13\n")
    python = executable(venv / "bin/python")
    source = top / "source"
    source.mkdir()
    lines = f"import sys\n\n{source}\n{home}\n{top}/none\n"
    write(venv / "lib/python3.13/site-packages/editable.pth", lines)
    assert found(home, python, "-m", "server").read == (str(venv), str(source))


def test_an_npm_command_brings_the_packages_around_it(home: Path, top: Path) -> None:
    node = executable(top / "bin/node")
    script = executable(
        top / "app/node_modules/@scope/server/dist/index.js", "#!/usr/bin/env node\n"
    )
    (top / "app/node_modules/.bin").mkdir()
    (top / "app/node_modules/.bin/server").symlink_to("../@scope/server/dist/index.js")
    assert script.exists()
    made = found(home, top / "app/node_modules/.bin/server", env={"PATH": str(node.parent)})
    assert set(made.read) == {str(top / "app/node_modules"), str(node)}


@pytest.mark.parametrize("line", ["#!/usr/bin/env -S node --flag\n", "#!/usr/bin/env node\n"])
def test_the_interpreter_of_a_script_is_found(line: str, home: Path, top: Path) -> None:
    node = executable(top / "n/node")
    server = executable(top / "s/server", line)
    made = found(home, server, env={"PATH": str(node.parent)})
    assert {str(node), str(top / "s")} <= set(made.read)


def test_an_interpreter_that_is_not_there_is_not_made_up(home: Path, top: Path) -> None:
    server = executable(top / "s/server", "#!/usr/bin/env no-such-interpreter\n")
    assert found(home, server).read == (str(server),)


def test_a_shim_brings_its_version_manager_which_still_finds_itself(home: Path) -> None:
    shim = executable(home / ".pyenv/shims/python", "#!/usr/bin/env bash\n")
    made = found(home, shim, "-m", "server")
    assert str(home / ".pyenv") in made.read
    assert made.env == {"PYENV_ROOT": str(home / ".pyenv")}


@pytest.mark.parametrize("mark", ["package.json", "pyproject.toml"])
def test_a_script_behind_an_interpreter_brings_its_package(
    mark: str, home: Path, top: Path
) -> None:
    node = executable(top / "bin/node")
    write(home / "code/server" / mark)
    script = write(home / "code/server/dist/index.js")
    assert set(found(home, node, script).read) == {str(node), str(home / "code/server")}


def test_a_script_without_a_package_brings_its_directory_but_never_the_home(
    home: Path, top: Path
) -> None:
    node = executable(top / "bin/node")
    script = write(home / "scripts/server.js")
    assert set(found(home, node, script).read) == {str(node), str(home / "scripts")}
    write(home / "package.json")
    alone = write(home / "server.js")
    assert set(found(home, node, alone).read) == {str(node), str(alone)}


def test_packages_that_a_script_shares_with_its_neighbours_are_granted(
    home: Path, top: Path
) -> None:
    node = executable(top / "bin/node")
    write(home / "mono/node_modules/dep/index.js")
    write(home / "mono/packages/server/package.json")
    script = write(home / "mono/packages/server/index.js")
    assert set(found(home, node, script).read) == {
        str(node),
        str(home / "mono/node_modules"),
        str(home / "mono/packages/server"),
    }


def test_a_script_is_looked_for_where_the_operator_starts_the_server(home: Path, top: Path) -> None:
    python = executable(top / "bin/python3")
    write(top / "srv/server.py")
    assert str(top / "srv") in found(home, python, "server.py", directory=top / "srv").read


@pytest.mark.parametrize("option", [["--directory", "{}"], ["--directory={}"]])
def test_a_project_that_an_option_names_is_granted(
    option: list[str], home: Path, top: Path
) -> None:
    uv = executable(top / "bin/uv")
    write(top / "app/pyproject.toml")
    argv = [word.format(top / "app") for word in option]
    assert str(top / "app") in found(home, uv, *argv, "run", "server").read


def test_a_home_directory_is_not_granted_because_an_option_names_it(home: Path, top: Path) -> None:
    uv = executable(top / "bin/uv")
    assert found(home, uv, "--directory", home, "run", "server").read == (str(uv),)


def test_uvx_brings_uv_and_the_pythons_there_are(home: Path, top: Path) -> None:
    uvx, uv = executable(top / "a/uvx"), executable(top / "a/uv")
    python = executable(top / "b/python3")
    write(home / ".local/share/uv/python/cpython/bin/python")
    made = found(home, uvx, "server", env={"PATH": f"{top}/a:{top}/b"})
    pythons = home / ".local/share/uv/python"
    assert set(made.read) == {str(uvx), str(uv), str(python), str(pythons)}
    assert made.env == {"UV_PYTHON_INSTALL_DIR": str(pythons)}


def test_packages_installed_for_the_user_are_found_from_another_home(home: Path, top: Path) -> None:
    python = executable(top / "bin/python3.12")
    write(home / ".local/lib/python3.12/site-packages/server.py")
    made = found(home, python, "-m", "server")
    assert set(made.read) == {str(python), str(home / ".local/lib")}
    assert made.env == {"PYTHONUSERBASE": str(home / ".local")}


def test_directories_of_code_in_the_environment_are_granted(home: Path, top: Path) -> None:
    server = executable(top / "s/server")
    for name in ("a", "b"):
        (top / name).mkdir()
    env = {"PYTHONPATH": f"{top}/a:{top}/none:{home}", "NODE_PATH": f"{top}/b:relative"}
    assert set(found(home, server, env=env).read) == {str(server), str(top / "a"), str(top / "b")}


def test_system_directories_are_not_listed_again(home: Path) -> None:
    assert found(home, "/bin/sh").read == ()


def test_links_in_a_circle_end(home: Path, top: Path) -> None:
    first, second = top / "s/first", top / "s/second"
    executable(first, f"#!{second}\n")
    executable(second, f"#!{first}\n")
    assert set(found(home, first).read) == {str(top / "s")}


def test_an_argument_that_is_no_path_is_not_looked_for(home: Path, top: Path) -> None:
    python = executable(top / "bin/python3")
    assert found(home, python, "-c", "print()\n" * 1000).read == (str(python),)


def test_settings_that_cannot_be_read_tell_nothing(home: Path, top: Path) -> None:
    python = executable(top / "venv/bin/python")
    write(top / "venv/pyvenv.cfg", "home = /none\n")
    (top / "venv/lib/python3.13/site-packages/odd.pth").mkdir(parents=True)
    assert found(home, python, "-m", "server").read == (str(top / "venv"),)


# A server installed where a child may write: what it left there is no reason to grant more


def test_an_environment_in_a_root_still_finds_its_python(home: Path, top: Path) -> None:
    base = executable(top / "pythons/3.13/bin/python3")
    write(top / "pythons/3.13/lib/python3.13/os.py")
    venv = home / "project/.venv"
    write(venv / "pyvenv.cfg", f"home = {base.parent}\n")
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to(base)
    server = executable(venv / "bin/server", f"#!{venv}/bin/python\n")
    made = found(home, server, writable=home / "project")
    assert str(top / "pythons/3.13") in made.read


def test_packages_beside_a_root_are_granted_and_no_package_around_it(home: Path, top: Path) -> None:
    node = executable(top / "bin/node")
    write(home / "mono/package.json")
    write(home / "mono/node_modules/dep/index.js")
    script = write(home / "mono/packages/server/index.js")
    made = found(home, node, script, writable=home / "mono/packages/server")
    assert set(made.read) == {str(node), str(home / "mono/node_modules"), str(script)}


@pytest.mark.parametrize("way", ["link", "script", "shebang", "pth", "home"])
def test_files_that_a_child_may_have_written_only_name_programs(
    way: str, home: Path, top: Path
) -> None:
    secret = write(home / ".aws/credentials", "secret")
    project = home / "project"
    venv = project / ".venv"
    python = executable(venv / "bin/python")
    write(venv / "pyvenv.cfg", f"home = {secret.parent}\n" if way == "home" else "")
    argv: list[object] = [python]
    match way:
        case "link":
            (venv / "bin/server").symlink_to(secret)
            argv = [python, venv / "bin/server"]
        case "script":
            (project / "server.py").symlink_to(secret)
            argv = [python, project / "server.py"]
        case "shebang":
            argv = [executable(venv / "bin/server", f"#!{secret}\n")]
        case _:
            write(venv / "lib/python3.13/site-packages/x.pth", f"{secret.parent}\n")
    made = found(home, *argv, directory=project, writable=project)
    assert not [place for place in made.read if ".aws" in place]
    if way in {"script", "pth"}:  # the others name no program, wherever they are
        believed = found(home, *argv, directory=project)
        assert [place for place in believed.read if ".aws" in place]


@pytest.mark.parametrize("how", ["the base of an environment", "a link", "an interpreter"])
@pytest.mark.parametrize("name", ["bin/serve", "serve.sh"])
def test_no_other_project_is_granted_because_its_program_is_named(
    how: str, name: str, home: Path, top: Path
) -> None:
    project, other = home / "project", home / "other"
    run = executable(other / name, f"#!{executable(top / 'tools/sh')}\n")
    write(other / "lib/code.txt")
    write(other / "package.json")
    server = executable(project / "server", f"#!{run if how == 'an interpreter' else '/none'}\n")
    if how == "a link":
        server.unlink()
        server.symlink_to(run)
    elif how == "the base of an environment":
        server = executable(project / "venv/bin/server")
        write(project / "venv/pyvenv.cfg", f"home = {project}\n")
        (project / "python3").symlink_to(run)
    made = found(home, server, writable=project)
    assert str(run) in made.read
    assert {str(other), str(other / "lib"), str(other / "bin")}.isdisjoint(made.read)


PLACES = [PurePosixPath(place) for place in (*SYSTEM, *SETTINGS, *KERNEL, *DEVICES)]


@pytest.mark.parametrize(
    "private",
    [
        *("/etc/shadow", "/etc/gshadow", "/etc/ssl/private/key.pem", "/etc/ssh/ssh_host_rsa_key"),
        *("/etc/sudoers", "/etc/NetworkManager/system-connections/x", "/etc/krb5.keytab"),
        *("/proc/1/environ", "/proc/kcore", "/proc/1/cmdline", "/dev/sda", "/dev/mem", "/dev/tty"),
        *(
            "/dev/shm/x",  # noqa: S108 - not used
            "/home/user/.ssh/id_rsa",
            "/root/.bashrc",
            "/var/lib/x",
            "/run/docker.sock",
        ),
        *("/opt/app/.env", "/srv/x", "/sys/kernel/security", "/boot/vmlinuz"),
    ],
)
def test_nothing_private_is_among_them(private: str) -> None:
    assert not [place for place in PLACES if PurePosixPath(private).is_relative_to(place)]


def test_every_place_is_written_out() -> None:
    assert all(place.is_absolute() and ".." not in place.parts for place in PLACES)
    assert len(set(PLACES)) == len(PLACES)
