from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from hub.confinement.program_files import DEVICES, KERNEL, SETTINGS, SYSTEM

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
