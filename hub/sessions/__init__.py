"""Client sessions: who the client is, its roots, its children, and its notifications.

A session belongs to one client and is never used for another. A connection has one session; a
modern client also has one for each request. The hub creates the session keys itself, because MCP
does not have one in every era and on every transport.

A session does not judge calls (`guard` does) and does not start processes itself: it leases slots
from `children`. It sends a client nothing but `roots/list`, requests of its children and
notifications. Other sessions' state is out of reach, except for what all share in `Services`.

Main types: `Session`, `Client` (what the client declared), `ClientRoots` (runs the state machine of
`roots/state.py`), `ClientNotifier`, `SessionChildren`, `Services`, `Operator`.

Reading order: `client`, `services`, `operator`, `client_roots`, `session_children`, `tool_guards`,
`logins`, `session`.
"""
