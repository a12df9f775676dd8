"""Dispatches one call: from a client's request, through the guard, to the child and back.

The steps are always the same: session, route, guard, child, response. Nothing here may send a call
that the guard has not admitted. A call is decided and sent against one snapshot (`JudgingContext`);
if its roots or its child change meanwhile, it is judged again. Client connections belong to
`hub.server`, and child processes to `hub.children`: nothing here opens or starts any.

Main types: `Relay` (the general path, in a task), `CallDispatcher` and `InFlightCall` (the fast
path, without a task, for a tool whose route is cached), `ResolvedRoute` (a cached route),
`ClientCaller` (the client of one call, as its child sees it), `CallAudit` (its audit record).

Read in this order: addressing, consent, audit_trail, dispatch; then caller and listings; then
routes and in_flight for the fast path. For modern clients (protocol 2026-07-28), whose calls may
take several requests: rounds, parking, askable_call, modern_calls. On their own: builtin_tools,
subscriptions, era_bridge (requests of a child for a client of the other era), results.
"""
