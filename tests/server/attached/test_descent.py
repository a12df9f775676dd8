from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.server.attached.admission import is_descendant

GRANDCHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], start_new_session=True)
print(child.pid, flush=True)
input()
child.terminate()
child.wait()
"""


@pytest.mark.live
def test_what_descends_is_told_from_what_does_not() -> None:
    assert is_descendant(os.getpid())
    assert not is_descendant(os.getppid())
    assert not is_descendant(1)
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", GRANDCHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert is_descendant(child.pid)
        assert is_descendant(grandchild)
        assert not is_descendant(grandchild, ancestor=2**22 + 1)
        assert is_descendant(grandchild, ancestor=child.pid)
        child.communicate(b"\n")
    # A process that is gone may have been anything.
    assert is_descendant(child.pid)


@pytest.mark.skipif(not Path("/bin/ps").exists(), reason="there is no ps")
def test_where_there_is_no_proc_ps_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.children.process.watchdog.HAS_PROC", False)
    assert not is_descendant(os.getppid())
    with subprocess.Popen(["/bin/sleep", "30"]) as child:
        assert is_descendant(child.pid)
        child.terminate()
    assert is_descendant(child.pid)
