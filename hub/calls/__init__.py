"""Dispatches one call: from a client's request, through the guard, to the child and back.

The steps are always the same: session, route, guard, child, response. Nothing here may send a call
that the guard has not admitted. A call is decided and sent against one `Snapshot`; if its roots or
its child change meanwhile, it is judged again. Client connections belong to `hub.server`, and child
processes to `hub.children`: a child is started through `ChildPool.obtain` alone.

Main types: `CallDispatcher` (starts a call whose route is cached), `Relay` (resolves the route of
any other call, in a task), `CallLookup` (where a call leads), `ResolvedRoute`, `InFlightCall` (a
call from its verdict to its answer), `ReplySink` (takes the answer), `ClientCaller` (the client of
a call, as its child sees it), `CallAudit` (its audit record).

Read in this order: addressing, judging, routes, dispatch, in_flight, lookup, resolve; then
questions (what the user is asked), audit_trail, permission; then caller and listings. For modern
clients (protocol 2026-07-28), whose calls may take several requests: rounds, modern_calls. On their
own: builtin_tools, subscriptions, results.
"""
