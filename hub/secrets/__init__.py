"""Reads secrets that a config refers to: files, outputs of commands, entries of the user's keyring.

The values are read when they are needed, at each launch of a child, and kept nowhere. No error and
no log line has a value. A command is run without a shell, and ended after a time limit.

This package does not decide where a secret may be used: that is `hub.config`.

Main types, in `reading`: `SecretReader` (reads for children, beside the event loop, and warns of
files that others can read), `SecretError` (why a value cannot be had).
"""
