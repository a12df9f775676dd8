"""Why a call is not let through, and who is told what about it.

A call is refused by the guard, or because its token lacks a scope. The client is told the reason,
the log and the audit line have it, and the operator's log also says what would lift it. Nothing
here decides about a path: that is `hub.guard`.

Main types: `Circumstances` (what a call was refused under), `Change` (what lets it pass).

Read in this order: `told`, `permission`, `scopes`.
"""
