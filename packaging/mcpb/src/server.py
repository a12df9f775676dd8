"""Starts the hub of the bundle; its arguments are the folders that calls may reach."""

import sys

from hub.cli.main import main

if __name__ == "__main__":
    roots = [f"--root={folder}" for folder in sys.argv[1:]]
    sys.exit(main(["run", "--stdio", *roots]))
