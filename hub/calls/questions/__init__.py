"""What the hub itself asks the user of a call: consent to a path, a login at the call's server.

A legacy client is asked within the call, a modern one by the call's result; its answer comes with
the retry.

Main type: `LoginFirst`. For consent there is a function, `decide_or_ask`.

Read in this order: `consent`, `login_first`.
"""
