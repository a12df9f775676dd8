from __future__ import annotations

import pytest

from hub.confinement.grants import (
    Confined,
    FileGrant,
    NotAsked,
    Unconfined,
    confinement_status,
    file_grants,
    missing,
)
from hub.guard.own_files import OwnFiles, OwnPlace
from hub.guard.policy import Access, AccessRule, Policy
from hub.launch.plan import LaunchPlan, LaunchTemplate
from hub.launch.templates import parse_template
from hub.roots.roots import Root, RootSet
from hub.specs import ConfineSetting
from hub.system.machine import Kernel

NEEDS = {"reads": ("/usr", "/opt/server"), "writes": ("/private/home", "/dev/null")}


def root(path: str, *, inode: int = 7, is_file: bool = False) -> Root:
    parts = tuple(path.strip("/").split("/")) if path != "/" else ()
    return Root(f"file://{path}", path, "", is_file, parts, 1, inode)


def plan(*roots: Root) -> LaunchPlan:
    return LaunchPlan(("server",), (), None, RootSet(roots), ("server",))


def rule(path: str, access: Access) -> AccessRule:
    return AccessRule(tuple(path.strip("/").split("/")), access)


def template(command: str) -> LaunchTemplate:
    return LaunchTemplate("files", parse_template(command))


def test_a_root_is_writable_and_only_as_what_it_was_when_it_was_shared() -> None:
    found = file_grants(ConfineSetting("auto"), plan(root("/team")), Policy(), **NEEDS)
    assert found.read == (FileGrant("/usr"), FileGrant("/opt/server"))
    assert found.write == (
        FileGrant("/private/home"),
        FileGrant("/dev/null"),
        FileGrant("/team", (1, 7)),
    )
    assert found.unheld == ()


def test_without_roots_nothing_but_the_programs_own_needs_is_granted() -> None:
    found = file_grants(ConfineSetting("auto"), plan(), Policy(), **NEEDS)
    assert [grant.path for grant in (*found.read, *found.write)] == [
        *NEEDS["reads"],
        *NEEDS["writes"],
    ]


def test_what_the_operator_adds_is_granted_as_written() -> None:
    setting = ConfineSetting("require", read=("/srv/models",), write=("/srv/out",))
    found = file_grants(setting, plan(), Policy())
    assert found == type(found)((FileGrant("/srv/models"),), (FileGrant("/srv/out"),))


def test_a_root_that_is_read_only_is_granted_for_reading() -> None:
    policy = Policy(access=(rule("/team/vendor", "read"),))
    found = file_grants(ConfineSetting("auto"), plan(root("/team/vendor"), root("/docs")), policy)
    assert found.read == (FileGrant("/team/vendor", (1, 7)),)
    assert found.write == (FileGrant("/docs", (1, 7)),)


def test_a_writable_place_in_a_read_only_root_is_granted_by_itself() -> None:
    policy = Policy(access=(rule("/team", "read"), rule("/team/out/new", "write")))
    found = file_grants(ConfineSetting("auto"), plan(root("/team")), policy)
    assert found.read == (FileGrant("/team", (1, 7)),)
    assert found.write == (FileGrant("/team/out/new"),)


def test_a_read_only_place_in_a_writable_root_is_said_not_to_be_held() -> None:
    policy = Policy(access=(rule("/team/vendor", "read"), rule("/elsewhere", "read")))
    found = file_grants(ConfineSetting("auto"), plan(root("/team")), policy)
    assert found.write == (FileGrant("/team", (1, 7)),)
    (note,) = found.unheld
    assert note.startswith("only the guard keeps /team/vendor read-only")


def test_rules_inside_a_root_that_is_a_file_mean_nothing() -> None:
    policy = Policy(access=(rule("/team/a.txt/b", "read"),))
    found = file_grants(ConfineSetting("auto"), plan(root("/team/a.txt", is_file=True)), policy)
    assert found.unheld == ()


def test_rules_that_repeat_the_access_of_the_root_add_nothing() -> None:
    policy = Policy(
        access=(
            rule("/a", "read"),
            rule("/a/b", "read"),
            rule("/c", "write"),
            rule("/c/d", "write"),
        )
    )
    found = file_grants(ConfineSetting("auto"), plan(root("/a"), root("/c")), policy)
    assert found.read == (FileGrant("/a", (1, 7)),)
    assert found.write == (FileGrant("/c", (1, 7)),)
    assert found.unheld == ()


def test_nothing_is_granted_twice_and_writing_includes_reading() -> None:
    setting = ConfineSetting("auto", read=("/usr", "/dev/null"))
    found = file_grants(setting, plan(root("/team"), root("/team")), Policy(), **NEEDS)
    assert found.read == (FileGrant("/usr"), FileGrant("/opt/server"))
    assert len(found.write) == 3


def test_the_status_depends_on_the_setting_and_the_kernel() -> None:
    able, unable = Kernel(7, ""), Kernel(0, "no Landlock: do this")
    server = template("server")
    assert confinement_status(ConfineSetting("off"), server, able) == NotAsked()
    assert confinement_status(ConfineSetting("auto"), server, able) == Confined(7)
    assert confinement_status(ConfineSetting("require"), server, unable) == Unconfined(
        "no Landlock: do this"
    )


def test_a_required_abi_refuses_older_kernels() -> None:
    asked = ConfineSetting("require", abi=6)
    assert confinement_status(asked, template("server"), Kernel(6, "")) == Confined(6)
    found = confinement_status(asked, template("server"), Kernel(4, ""))
    assert isinstance(found, Unconfined)
    assert "Landlock ABI 6 and this kernel has 4: " in found.reason
    assert [text in found.reason for text in missing(4)] == [True, True]
    assert "signals" not in str(
        confinement_status(ConfineSetting("require"), template("x"), Kernel(4, ""))
    )


def test_system_calls_that_cannot_be_filtered_are_as_no_confinement_where_it_must_be() -> None:
    kernel = Kernel(7, "", "no seccomp: do this")
    found = confinement_status(ConfineSetting("require"), template("server"), kernel)
    assert found == Unconfined("its system calls cannot be filtered: no seccomp: do this")
    found = confinement_status(ConfineSetting("auto"), template("server"), kernel)
    assert found == Confined(7, "no seccomp: do this")


@pytest.mark.parametrize("command", ["docker", "/usr/bin/podman", "ssh"])
def test_a_server_that_runs_elsewhere_is_not_called_confined(command: str) -> None:
    found = confinement_status(ConfineSetting("auto"), template(command), Kernel(7, ""))
    assert isinstance(found, Unconfined)
    assert "elsewhere" in found.reason
    assert confinement_status(ConfineSetting("off"), template(command), Kernel(7, "")) == NotAsked()


def test_a_command_that_is_a_variable_is_no_evidence() -> None:
    found = confinement_status(ConfineSetting("auto"), template("${SERVER}"), Kernel(4, ""))
    assert found == Confined(4)


def test_how_it_is_shown() -> None:
    shown = (Confined(4), Confined(4, "why"), Unconfined("why"), NotAsked())
    assert [str(one) for one in shown] == [
        "landlock (ABI 4), seccomp",
        "landlock (ABI 4), NO seccomp",
        "unconfined",
        "off",
    ]


def test_an_older_kernel_does_less() -> None:
    assert len(missing(1)) == 4
    assert [text.split()[0] for text in missing(2)] == ["truncating", "ioctl", "signals"]
    assert missing(6) == missing(9) == ()
    assert Kernel().abi == 0


def test_the_hubs_files_in_writable_grants_and_keys_in_any_grant_are_reported() -> None:
    config = OwnPlace("/team/hub.yaml", ("team", "hub.yaml"))
    keys = OwnPlace("/team/state/roots-hub", ("team", "state", "roots-hub"), holds_keys=True)
    policy = Policy(own=OwnFiles(secret=(keys,), kept=(config,)))
    found = file_grants(ConfineSetting("auto"), plan(root("/team")), policy)
    assert found.unheld == (
        "only the guard protects the hub's /team/hub.yaml: /team is writable",
        "only the guard protects the hub's /team/state/roots-hub: /team is writable",
    )
    assert found.keys == ("/team/state/roots-hub",)
    for read in ("/team/state", "/team/state/roots-hub/key", "/"):
        opened = file_grants(ConfineSetting("auto", read=(read,)), plan(), policy)
        assert (opened.keys, opened.unheld) == (("/team/state/roots-hub",), ()), read
    other = file_grants(ConfineSetting("auto"), plan(root("/team/other")), policy)
    assert (other.keys, other.unheld) == ((), ())
