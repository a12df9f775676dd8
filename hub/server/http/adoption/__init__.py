"""HTTP sessions that outlive the process that opened them, and what that needs on disk.

A session id carries, signed, what another process needs to go on with the session: it adopts the
session at the first request with the id. An id that was ended is remembered until it would expire.
Nothing else of a session is carried on: roots are asked for anew, subscriptions, log level, consent
and unread events are gone. No request is read here.

Main types: `SessionIds` (makes, opens and ends ids), `SurvivingState` (what one hub's processes
share). The sessions themselves are in the package `legacy`.

Read in this order: `session_ids`, `surviving_state`.
"""
