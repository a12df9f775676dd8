"""What each principal uses of the hub, and how much it may use.

Limits count for a principal however many sessions and connections it has: in all that it does, and
in one profile. Nothing here knows HTTP or the config: others ask before they serve something, and
say what a refusal looks like. Time is that of a clock that is passed in.

Main types: `UsageLimits` (what a principal may use), `PrincipalUsage` (what one uses now),
`JointUsage` (what it uses in a profile, where two limits hold), `UsageByPrincipal` (all of them,
and whose limits are which), `OverLimit` (why it is too much).

Read in this order: `counters`, `principals`.
"""
