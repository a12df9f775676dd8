"""`roots-hub explain`: show whether the guard admits a call, and why; or judge a batch of calls.

No server is started, but with `--connect`, which asks the server itself for the tool's schema. The
guard that judges is the hub's own, `hub.guard`.

Main types: `CallInQuestion` (what is asked, with the config and folders that may be changed),
`ExplainedCall` (all that the call is judged by), `Explanation` (what came of it).

Read in this order: `command` (one call, a batch, and what is printed), `case` (what a call is
judged by, and what would let it pass).
"""
