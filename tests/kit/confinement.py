"""What the tests of confinement share."""

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
