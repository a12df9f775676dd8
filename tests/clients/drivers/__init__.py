"""One driver for each SDK. Each is run by itself, where only its client is installed.

So they import nothing of the tests or the hub, and those in Python find `commands.py` beside them.
"""
