"""Calls of modern clients (protocol 2026-07-28) that take several requests.

A modern client has no session, and can be asked only by the result of its request: an
`input_required` result. Its retry brings the answers and the hub's `requestState` back. This
package has the parts of such a call. `hub.calls.modern_calls` puts them together; nothing here may
import that.

Main types: `RootsRequirement` (why a call needs its client's roots first), `ModernRoutes` (cached
routes, by principal, name and roots), `StateSealer` (encrypted state, valid once), `AskableCall`
and its `Dialogue` (a call that goes on while its client is away).

Read in this order: roots_needed, sealed_state, modern_routes, askable_call.
"""
