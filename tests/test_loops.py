from __future__ import annotations

import asyncio  # noqa: TID251 - what is tested is one of its loops
import os

import pytest

from tests.kit.loops import FAST, PLAIN, fast_loop


@pytest.mark.skipif(FAST is PLAIN, reason="uvloop is not for Windows")
def test_a_loop_that_something_is_left_open_in_says_so_and_ends() -> None:
    readable, writable = os.pipe()
    loop = fast_loop()
    with os.fdopen(readable, "rb") as left, os.fdopen(writable, "wb"):
        loop.run_until_complete(loop.connect_read_pipe(asyncio.Protocol, left))
        with pytest.raises(ResourceWarning, match="unclosed resource"):
            loop.close()
    assert loop.is_closed()
