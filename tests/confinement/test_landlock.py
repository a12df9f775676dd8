"""What Landlock stops on this machine, and what it does not: as `docs/confinement.md` says."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.confinement import landlock, launcher
from tests.kit.confinement import SYSTEM_READ, RefusingLibc, needs_landlock

PYTHON = [sys.executable, "-I", "-S", "-B"]
SIGNALS_SCOPED = 6


def run(
    code: str,
    *arguments: object,
    write: tuple[object, ...] = (),
    read: tuple[object, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run Python code confined: it may read what Python needs and `read`, and write in `write`."""
    rules: list[tuple[str, str, tuple[int, int] | None]] = [
        ("r", str(place), None) for place in (*SYSTEM_READ, *read)
    ]
    rules += [("w", str(place), None) for place in write]
    held = launcher.pieces(launcher.encode(landlock.encode(rules)))
    before = [*PYTHON, launcher.__file__, *held, sys.executable]
    return subprocess.run(  # noqa: S603 - our own program
        [*before, *PYTHON, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside/a.txt").write_text("a")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "inside"


# Rights, by the version of the kernel's interface


@pytest.mark.parametrize(
    ("abi", "bits"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (6, 16), (7, 16)]
)
def test_each_version_adds_its_rights(abi: int, bits: int) -> None:
    assert landlock.handled(abi) == (1 << bits) - 1


@pytest.mark.parametrize("abi", range(1, 8))
def test_no_grant_has_a_right_that_the_kernel_does_not_know(abi: int) -> None:
    for write in (True, False):
        for directory in (True, False):
            granted = landlock.rights(abi, write=write, directory=directory)
            assert granted & ~landlock.handled(abi) == 0
            assert granted & landlock.READ_FILE


def test_reading_is_not_writing_and_a_file_is_no_directory() -> None:
    reading = landlock.rights(7, write=False, directory=True)
    assert reading == landlock.EXECUTE | landlock.READ_FILE | landlock.READ_DIR
    file = landlock.rights(7, write=True, directory=False)
    assert file & landlock.WRITE_FILE
    assert not file & (landlock.READ_DIR | landlock.REFER)


@pytest.mark.parametrize("abi", range(1, 8))
def test_no_grant_allows_making_a_device(abi: int) -> None:
    granted = landlock.rights(abi, write=True, directory=True)
    assert not granted & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK)


def test_signals_and_abstract_sockets_are_scoped_once_the_kernel_can() -> None:
    assert [landlock.scoped(abi) for abi in range(1, 8)] == [0, 0, 0, 0, 0, 3, 3]


def test_grants_survive_any_name() -> None:
    odd = os.fsdecode(b"/a\n\xff b")
    encoded = landlock.encode([("r", odd, None), ("w", "/b", (1, 2))])
    assert encoded == b"r\0-\0/a\n\xff b\0w\x001:2\0/b\0"


# A machine without


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has Landlock")
@pytest.mark.parametrize(
    ("error", "says"),
    [(38, "5.13 or newer"), (95, "lsm="), (1, "seccomp"), (22, "cannot be queried: Invalid")],
)
def test_a_machine_without_landlock_says_why_and_what_to_do(
    error: int, says: str, libc: Callable[[object], None]
) -> None:
    libc(RefusingLibc(error))
    assert landlock.abi() == 0
    assert says in landlock.why_not()
    with pytest.raises(landlock.LandlockError, match=says):
        landlock.confine(b"")


def test_another_system_is_not_asked(platform: Callable[[str], None]) -> None:
    platform("darwin")
    assert landlock.abi() == 0
    assert "only Linux" in landlock.why_not()


# What a kernel is told


class _Kernel:
    """A C library whose kernel has Landlock, and records the system calls."""

    def __init__(self, version: int = 7, *, failing: int | None = None) -> None:
        self.version = version
        self.failing = failing
        self.ruleset: tuple[int, int, int] | None = None
        self.rules: list[tuple[int, int]] = []
        self.restricted = False
        self.privileges_given_up = False

    def syscall(self, number: int, *arguments: Any) -> int:
        if number == 444 and arguments[0] is None:
            return self.version
        ctypes.set_errno(22)
        if number == self.failing:
            return -1
        match number:
            case 444:
                made = arguments[0]._obj
                self.ruleset = (made.files, made.network, made.scoped)
                return os.open(os.devnull, os.O_RDONLY)
            case 445:
                rule = arguments[2]._obj
                self.rules.append((os.fstat(rule.parent).st_ino, rule.rights))
            case _:
                self.restricted = self.privileges_given_up
        return 0

    def prctl(self, *arguments: int) -> int:
        self.privileges_given_up = arguments == (38, 1, 0, 0, 0)
        return 0

    def capget(self, *_: object) -> int:
        return 0

    capset = capget


@pytest.fixture
def kernel(libc: Callable[[object], None]) -> _Kernel:
    if sys.platform != "linux":
        pytest.skip("only Linux has Landlock")
    made = _Kernel()
    libc(made)
    return made


@pytest.mark.parametrize(("version", "spoken"), [(1, 1), (4, 4), (6, 6), (7, 7), (12, 7)])
def test_a_ruleset_handles_what_both_sides_know(version: int, spoken: int, kernel: _Kernel) -> None:
    kernel.version = version
    landlock.confine(b"")
    assert kernel.ruleset == (landlock.handled(spoken), 0, landlock.scoped(spoken))
    assert kernel.restricted
    assert kernel.rules == []


def test_a_rule_has_the_rights_that_fit_its_place(inside: Path, kernel: _Kernel) -> None:
    file = inside / "a.txt"
    there = inside.stat()
    landlock.confine(
        landlock.encode(
            [
                ("w", str(inside), (there.st_dev, there.st_ino)),
                ("r", str(file), None),
                ("r", str(inside / "none"), None),
                ("w", str(file), (there.st_dev, there.st_ino)),
            ]
        )
    )
    assert kernel.rules == [
        (there.st_ino, landlock.rights(7, write=True, directory=True)),
        (file.stat().st_ino, landlock.rights(7, write=False, directory=False)),
    ]


@pytest.mark.parametrize(
    ("failing", "says"), [(444, "no ruleset"), (445, "cannot be granted"), (446, "not restricted")]
)
def test_a_kernel_that_refuses_is_an_error_and_nothing_is_run(
    failing: int, says: str, inside: Path, kernel: _Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.failing = failing
    held = launcher.encode(landlock.encode([("r", str(inside), None)]))
    assert launcher.main([held, "/bin/true", "true"]) == launcher.FAILED
    said = capsys.readouterr().err
    assert says in said
    assert "Invalid argument" in said


def test_a_command_that_is_not_there_is_told_by_a_confined_launcher(
    kernel: _Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    held = launcher.encode(b"")
    assert launcher.main([held, "/bin/no-such-x", "x"]) == launcher.FAILED + 1
    assert capsys.readouterr().err == (
        "roots-hub cannot run /bin/no-such-x confined: No such file or directory\n"
    )
    assert kernel.restricted


# What it stops here


@needs_landlock
def test_the_command_takes_the_launchers_place() -> None:
    grants = landlock.encode([("r", place, None) for place in SYSTEM_READ])
    held = launcher.encode(grants)
    shell = ["/bin/sh", "sh", "-c", 'printf "%s|" $$ "$0" "$@"', "x", "--flag", ""]
    command = [*PYTHON, launcher.__file__, held, *shell]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:  # noqa: S603 - ours
        out, _ = started.communicate(timeout=60)
    assert (out, started.returncode) == (f"{started.pid}|x|--flag||", 0)


@needs_landlock
def test_this_machine_has_a_version() -> None:
    assert landlock.abi() >= 1
    assert landlock.why_not() == ""


READ = "import sys; print(open(sys.argv[1]).read())"


@needs_landlock
def test_more_grants_than_one_argument_may_have_are_held(inside: Path) -> None:
    """Linux takes 128 KiB in one argument."""
    many = [inside / f"{number}{'x' * 400}" for number in range(500)]
    assert run(READ, inside / "a.txt", read=(*many, inside)).stdout == "a\n"
    assert run(READ, inside.parent / "secret.txt", read=(*many, inside)).returncode == 1


@needs_landlock
def test_granted_paths_are_accessible_and_others_are_not(tmp_path: Path, inside: Path) -> None:
    assert run(READ, inside / "a.txt", write=(inside,)).stdout == "a\n"
    shut = run(READ, tmp_path / "secret.txt", write=(inside,))
    assert (shut.stdout, "PermissionError" in shut.stderr) == ("", True)


AS_IF_OLDER = """
import importlib.util, sys
file, version, grants, inside, outside = sys.argv[1:]
found = importlib.util.spec_from_file_location("landlock", file)
landlock = importlib.util.module_from_spec(found)
found.loader.exec_module(landlock)
landlock.MAX_ABI = int(version)
landlock.confine(open(grants, "rb").read())
print(open(inside).read())
open(outside)
"""


@needs_landlock
@pytest.mark.parametrize("version", range(1, 8))
def test_rules_for_older_kernels_are_accepted_and_enforced(
    version: int, tmp_path: Path, inside: Path
) -> None:
    rules: list[tuple[str, str, None]] = [("r", place, None) for place in SYSTEM_READ]
    file_grants = tmp_path / "grants"
    file_grants.write_bytes(
        landlock.encode([*rules, ("w", str(inside), None), ("w", "/dev/null", None)])
    )
    places = (str(file_grants), str(inside / "a.txt"), str(tmp_path / "secret.txt"))
    command = [*PYTHON, "-c", AS_IF_OLDER, landlock.__file__, str(version), *places]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert found.stdout == "a\n", found.stderr
    assert "PermissionError" in found.stderr


@needs_landlock
def test_a_read_grant_is_not_for_writing() -> None:
    code = "import sys; open(sys.argv[1], 'w')"
    found = run(code, f"{SYSTEM_READ[0]}/x")
    assert "PermissionError" in found.stderr


@needs_landlock
@pytest.mark.parametrize(
    ("since", "code"),
    [
        (1, "os.symlink(outside, inside + '/link'); open(inside + '/link').read()"),
        (1, "os.link(outside, inside + '/hard'); open(inside + '/hard').read()"),
        (1, "os.rename(outside, inside + '/moved'); open(inside + '/moved').read()"),
        (1, "os.unlink(outside)"),
        (1, "os.listdir(os.path.dirname(outside))"),
        (1, "open(f'/proc/{other}/environ', 'rb').read()"),
        (1, "open(f'/proc/{other}/root/{outside}').read()"),
        (3, "os.truncate(outside, 0)"),
        (6, "os.kill(int(other), 0)"),
    ],
)
def test_confinement_cannot_be_bypassed(
    since: int, code: str, tmp_path: Path, inside: Path
) -> None:
    if landlock.abi() < since:
        pytest.skip(f"only Landlock ABI {since} stops this: a newer kernel has it")
    program = f"import os, sys; outside, inside, other = sys.argv[1:]; {code}; print('LEAK')"
    secret, bare = tmp_path / "secret.txt", tmp_path / "bare"
    (bare / "inside").mkdir(parents=True)
    (bare / "secret.txt").write_text("secret")
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        try:
            at = (str(bare / "secret.txt"), str(bare / "inside"), str(other.pid))
            command = [*PYTHON, "-c", program, *at]
            harm = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
            found = run(program, secret, inside, other.pid, write=(inside,))
        finally:
            other.kill()
    assert harm.stdout == "LEAK\n", harm.stderr
    assert "LEAK" not in found.stdout
    assert "Error" in found.stderr
    assert secret.read_text() == "secret"


@needs_landlock
def test_a_child_of_a_confined_program_is_confined_too(tmp_path: Path, inside: Path) -> None:
    program = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-I', '-S', '-c', "
        '"import sys; print(open(sys.argv[1]).read())", sys.argv[1]]).returncode)'
    )
    assert run(program, inside / "a.txt", write=(inside,)).stdout == "a\n"
    shut = run(program, tmp_path / "secret.txt", write=(inside,))
    assert (shut.stdout, shut.returncode) == ("", 1)


@needs_landlock
def test_normal_work_goes_on(inside: Path) -> None:
    program = (
        "import os, sys; os.chdir(sys.argv[1]); os.mkdir('d'); open('d/b', 'w').write('b'); "
        "os.symlink('d/b', 'link'); os.truncate('d/b', 0); os.mkfifo('f'); "
        "os.kill(os.getpid(), 0); "
        "open('/dev/null', 'w').write('x'); os.unlink('link'); print('done')"
    )
    found = run(program, inside, write=(inside, "/dev/null"))
    assert (found.stdout, found.stderr) == ("done\n", "")


@needs_landlock
def test_moving_into_another_directory_works_since_version_2(inside: Path) -> None:
    program = "import os, sys; os.chdir(sys.argv[1]); os.mkdir('d'); os.rename('a.txt', 'd/a.txt')"
    found = run(program, inside, write=(inside,))
    assert (found.returncode == 0) == (landlock.abi() >= 2)


@needs_landlock
def test_a_place_that_became_another_one_grants_nothing(inside: Path) -> None:
    there = inside.stat()
    for inode, expected in ((there.st_ino, "a\n"), (there.st_ino + 1, "")):
        rules = [("r", place, None) for place in SYSTEM_READ]
        granted = landlock.encode(
            [*rules, ("w", str(inside), (there.st_dev, inode)), ("r", "/none", None)]
        )
        held = launcher.encode(granted)
        command = [*PYTHON, launcher.__file__, held, sys.executable]
        code = [*PYTHON, "-c", READ, str(inside / "a.txt")]
        found = subprocess.run([*command, *code], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        assert found.stdout == expected


@needs_landlock
def test_a_confined_program_is_asked_to_end_when_the_hub_is_gone() -> None:
    code = "import ctypes; sign = ctypes.c_int(); get = 2; "
    code += "ctypes.CDLL(None).prctl(get, ctypes.byref(sign)); print(sign.value)"
    assert run(code).stdout == f"{int(signal.SIGTERM)}\n"


@needs_landlock
def test_a_command_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    granted = landlock.encode([("r", place, None) for place in SYSTEM_READ])
    held = launcher.encode(granted)
    command = [*PYTHON, launcher.__file__, held, str(tmp_path / "none"), "none"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert found.returncode == launcher.FAILED + 1
    assert "none confined: No such file" in found.stderr


ASYNCHRONOUS = """
import fcntl, os, sys
reading, writing = os.pipe()
fcntl.fcntl(reading, fcntl.F_SETOWN, int(sys.argv[1]))
fcntl.fcntl(reading, fcntl.F_SETFL, fcntl.fcntl(reading, fcntl.F_GETFL) | os.O_ASYNC)
os.write(writing, b"x")
print("written")
"""
"""Has the kernel send SIGIO, which ends most programs, to another process."""


@needs_landlock
@pytest.mark.parametrize("is_confined", [True, False])
def test_no_other_process_is_ended_by_a_signal_of_the_kernels(
    is_confined: bool,
) -> None:
    if landlock.abi() < SIGNALS_SCOPED:
        pytest.skip(f"only Landlock ABI {SIGNALS_SCOPED} stops this: a newer kernel has it")
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        bare = [*PYTHON, "-c", ASYNCHRONOUS, str(other.pid)]
        if is_confined:
            found = run(ASYNCHRONOUS, other.pid)
        else:
            found = subprocess.run(  # noqa: S603 - ours
                [sys.executable, *bare[1:]], capture_output=True, text=True, check=False
            )
        assert found.stdout == "written\n", found.stderr
        other.terminate()
        ended = other.wait()
    assert ended == -(signal.SIGTERM if is_confined else signal.SIGIO)


# What it does not stop: the documentation says so


@needs_landlock
def test_names_sizes_and_times_are_seen(tmp_path: Path, inside: Path) -> None:
    program = "import os, sys; print(os.stat(sys.argv[1]).st_size)"
    found = run(program, tmp_path / "secret.txt", write=(inside,))
    assert found.stdout == "6\n"


@needs_landlock
def test_a_hard_link_made_before_is_open(tmp_path: Path, inside: Path) -> None:
    (inside / "hard").hardlink_to(tmp_path / "secret.txt")
    assert run(READ, inside / "hard", write=(inside,)).stdout == "secret\n"


@needs_landlock
def test_modes_and_times_can_be_changed(tmp_path: Path, inside: Path) -> None:
    program = (
        "import os, sys; os.chmod(sys.argv[1], 0o600); os.utime(sys.argv[1], (0, 0)); print(1)"
    )
    found = run(program, tmp_path / "secret.txt", write=(inside,))
    assert found.stdout == "1\n"


@needs_landlock
@pytest.mark.parametrize("name", ["link", "deep/link/../secret.txt", "deep/up/link", "chain"])
def test_a_link_that_a_child_may_have_made_grants_nothing(
    tmp_path: Path, inside: Path, name: str
) -> None:
    (inside / "deep").mkdir()
    outer = tmp_path / "outer"
    outer.symlink_to(tmp_path)
    (inside / "link").symlink_to(tmp_path)
    (inside / "deep/link").symlink_to(inside)
    (inside / "deep/up").symlink_to("..")
    (inside / "chain").symlink_to(outer)
    secret = tmp_path / "secret.txt"
    for write in ((inside,), (inside, inside / name)):
        found = run(READ, secret, read=(inside / name,), write=write)
        assert found.returncode == 1, name
    assert run(READ, secret, read=(outer,), write=(inside,)).returncode == 0


@needs_landlock
def test_a_link_in_the_place_of_an_exception_in_a_root_grants_nothing(
    tmp_path: Path, inside: Path
) -> None:
    (inside / "build").symlink_to(tmp_path)
    found = inside.stat()
    rules: list[tuple[str, str, tuple[int, int] | None]] = [
        *(("r", str(place), None) for place in SYSTEM_READ),
        ("r", str(inside), (found.st_dev, found.st_ino)),
        ("w", str(inside / "build"), None),
    ]
    held = launcher.encode(landlock.encode(rules))
    command = [*PYTHON, launcher.__file__, held, sys.executable, *PYTHON, "-c", READ]
    for name, code in (("a.txt", 0), ("build/secret.txt", 1)):
        ran = subprocess.run([*command, str(inside / name)], capture_output=True, check=False)  # noqa: S603 - as in `run`
        assert ran.returncode == code, ran.stderr


@needs_landlock
def test_extended_attributes_can_be_changed(tmp_path: Path, inside: Path) -> None:
    secret = tmp_path / "secret.txt"
    try:
        os.setxattr(secret, "user.kept", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes of users")
    program = (
        "import os, sys; os.setxattr(sys.argv[1], 'user.kept', b'2');"
        " print(os.getxattr(sys.argv[1], 'user.kept'))"
    )
    found = run(program, secret, write=(inside,))
    assert found.stdout == "b'2'\n"
    assert secret.read_text() == "secret"


@needs_landlock
def test_shared_memory_of_the_users_other_processes_is_open() -> None:
    program = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
print(ctypes.string_at(libc.shmat(int(sys.argv[1]), None, 0), 6).decode())
"""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    segment = libc.shmget(0, 4096, 0o1600)
    try:
        ctypes.memmove(libc.shmat(segment, None, 0), b"secret", 6)
        assert run(program, segment).stdout == "secret\n"
    finally:
        libc.shmctl(segment, 0, None)


@needs_landlock
def test_a_file_that_may_only_be_read_can_be_locked_and_leased(inside: Path) -> None:
    program = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased")
"""
    found = run(program, inside / "a.txt", read=(inside,))
    assert found.stdout == "leased\n", found.stderr


def _connects(family: str, address: str) -> str:
    return f"import socket; s = socket.socket(socket.{family}); s.connect({address}); print('LEAK')"


@needs_landlock
def test_the_network_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = _connects("AF_INET", repr(server.getsockname()))
        assert run(code).stdout == "LEAK\n"


@needs_landlock
@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_unix_socket_with_a_path_is_open_and_an_abstract_one_is_not(
    kind: str, tmp_path: Path
) -> None:
    at = str(tmp_path / "s") if kind == "path" else "\0roots-hub-test"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(at)
        server.listen()
        found = run(_connects("AF_UNIX", repr(at)))
    scoped = landlock.abi() >= SIGNALS_SCOPED
    assert (found.stdout == "LEAK\n") == (kind == "path" or not scoped)
