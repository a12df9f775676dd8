"""What the tests of confinement share."""

import ctypes
import sys

import pytest

from hub.confinement import landlock

needs_landlock = pytest.mark.skipif(
    landlock.abi() == 0, reason=f"nothing can be confined here: {landlock.why_not()}"
)
"""For what needs the kernel; everything else is tested on any machine."""

SYSTEM_READ = (
    sys.prefix,
    sys.base_prefix,
    *("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/dev/urandom"),
)
"""What a Python needs to start."""


class RefusingLibc:
    """A C library whose kernel answers with an error."""

    def __init__(self, error: int) -> None:
        self._error = error

    def syscall(self, *_: object) -> int:
        ctypes.set_errno(self._error)
        return -1

    prctl = syscall
