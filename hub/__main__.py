"""Run `roots-hub` as `python -m hub`, for clients that can only launch interpreters."""

import sys

from hub.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
