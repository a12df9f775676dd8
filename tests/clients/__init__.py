"""The clients that people use, before a hub: `python -m tests.clients`, or `make clients`.

Every feature of `features.py` is tried with every client of `known.py`, over each of its transports
and before a server of each era; docs/clients.md has the table that comes of it. A client runs in a
program of its own (`drivers/`), in an environment that has that client and nothing of the hub, and
is told what to do over its stdin (`driven.py`). The Inspector's command line is run once for each
request (`inspector.py`).

Read `features.py`, then `known.py`, `trials.py`, `table.py`.
"""
