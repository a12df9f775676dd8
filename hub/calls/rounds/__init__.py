"""Calls of modern clients (protocol 2026-07-28) that take several requests.

A modern client has no session, and can be asked only by the result of its request: an
`input_required` result. Its retry brings the answers and the hub's `requestState` back. This
package has the parts of such a call. `hub.calls.modern_calls` and `hub.calls.parking` put them
together; nothing here may import those.

Main types: `RootsRequirement` (why a call needs its client's roots first), `ModernRoutes` (cached
routes, by principal, tool and roots), `StateSealer` (encrypted state, valid once), `ParkedCall`
(a call that waits while its client is away), `ChildRounds` (a call at a modern child, which asks
by its result too).

Read in this order: roots_needed, sealed_state, modern_routes, child_rounds, parked_call.
"""
