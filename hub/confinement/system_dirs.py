"""The places of a system that programs need to run, and that tell nothing of its users."""

from __future__ import annotations

from typing import Final

SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/snap"),
)
"""Programs and libraries that came with the system."""
_ETC: Final = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "static"),
    *("resolv.conf", "hosts", "host.conf", "nsswitch.conf", "gai.conf", "services", "protocols"),
    *("networks", "localtime", "timezone", "locale.alias", "locale.conf", "passwd", "group"),
    *("os-release", "lsb-release", "debian_version", "mime.types", "magic", "terminfo", "fonts"),
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "crypto-policies"),
    *("pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust"),
    *("gitconfig", "npmrc", "uv"),
)
SETTINGS: Final = (
    *(f"/etc/{name}" for name in _ETC),
    *("/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf"),
)
"""Named files that programs start with, resolve names with and verify certificates with."""
KERNEL: Final = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime"),
    *("/proc/loadavg", "/proc/version", "/proc/filesystems", "/proc/sys/vm/overcommit_memory"),
    *("/proc/sys/kernel/osrelease", "/proc/sys/kernel/ngroups_max", "/sys/devices/system/cpu"),
    *("/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/dev/random", "/dev/urandom"),
)
"""`/proc/self` is the launched process: those that it starts cannot read their own."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full")
