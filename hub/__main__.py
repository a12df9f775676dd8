"""`python -m hub` is `roots-hub`, for clients that launch nothing but interpreters."""

import sys

from hub.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
