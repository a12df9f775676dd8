"""The embedded file server: an MCP server over stdio that reads and writes files.

The hub launches it as a child, like any other server: `roots-hub run` without a config uses it. It
must not rely on the hub: it checks itself that each path is inside the shared directories. The
check is made before a file is opened and does not hold if another process changes the tree then.
It imports nothing of sessions, children or calls, and the hub imports nothing of it.

Main types: `SharedFiles` (operations on files below some directories, without MCP),
`SharedFilesError` (an operation failed; its text is for the model), `FileTools` (the MCP tools;
their docstrings are the descriptions that models read).

Read `files` first, then `server`.
"""
