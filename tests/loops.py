"""The event loops that the hub runs on."""

import sys

BOTH = [
    *([] if sys.platform == "win32" else [("asyncio", {"use_uvloop": True})]),
    ("asyncio", {"use_uvloop": False}),
]
"""The one that users get, then the one for where that cannot be had."""
