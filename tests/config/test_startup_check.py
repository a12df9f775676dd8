from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hub.confinement.confined_launch import settle_confinement
from hub.errors import ConfigError
from hub.launch.plan import LaunchTemplate
from hub.launch.templates import parse_template
from hub.specs import ConfineMode, ConfineSetting, RemoteTarget, ServerSpec
from hub.system.machine import Kernel
from hub.values import ServerName

ABLE, UNABLE = Kernel(7, ""), Kernel(0, "there is no Landlock here")


def server(mode: ConfineMode, command: str = "server") -> ServerSpec:
    target = LaunchTemplate("files", parse_template(command))
    return ServerSpec(ServerName("files"), target, confine=ConfineSetting(mode))


def test_with_require_a_server_that_cannot_be_confined_is_an_error_at_load() -> None:
    with pytest.raises(ConfigError, match="no Landlock here") as caught:
        settle_confinement([server("require")], UNABLE)
    assert caught.value.faults[0].said.startswith("servers.files.confine: is require")
    assert "check --confine" in caught.value.faults[0].fix


def test_one_that_runs_elsewhere_cannot_be_confined_whatever_the_kernel() -> None:
    with pytest.raises(ConfigError, match="elsewhere"):
        settle_confinement([server("require", "docker")], ABLE)


def test_one_that_would_be_confined_is_warned_of() -> None:
    with capture_logs() as logs:
        settle_confinement([server("auto")], UNABLE)
    (said,) = logs
    assert (said["event"], said["log_level"]) == ("NOT confined", "warning")
    assert (said["server"], said["reason"]) == ("files", UNABLE.why_not)


def test_without_seccomp_auto_warns_and_require_refuses() -> None:
    kernel = Kernel(7, "", "no seccomp here")
    with capture_logs() as logs:
        settle_confinement([server("auto")], kernel)
    assert [(one["event"], one["reason"]) for one in logs] == [
        ("confined WITHOUT seccomp", "no seccomp here")
    ]
    with pytest.raises(ConfigError, match="no seccomp here"):
        settle_confinement([server("require")], kernel)


@pytest.mark.parametrize(("mode", "level"), [("require", "warning"), ("auto", "info")])
def test_rights_that_an_older_kernel_does_not_enforce_are_logged(
    mode: ConfineMode, level: str
) -> None:
    with capture_logs() as logs:
        settle_confinement([server(mode)], Kernel(4, ""))
    assert {one["log_level"] for one in logs} == {level}
    assert {one["event"] for one in logs} == {"not enforced by this kernel"}
    assert [one["what"].split()[0] for one in logs] == ["ioctl", "signals"]


def test_there_is_nothing_to_say_of_the_others() -> None:
    remote = ServerSpec(ServerName("web"), RemoteTarget("https://example.com/mcp"))
    with capture_logs() as logs:
        settle_confinement([server("off"), remote], UNABLE)
        settle_confinement([server("auto"), server("require")], ABLE)
    assert logs == []
