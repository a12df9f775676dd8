"""What each principal uses of the hub, and how much it may use.

Limits count for a principal however many sessions and connections it has: in everything it does,
and in one profile. Nothing here knows HTTP or the config: callers ask before they serve something,
and word the refusal. The clock is passed in.

Main types: `UsageLimits` (what a principal may use), `PrincipalUsage` (what one uses now),
`JointUsage` (what it uses in a profile, where two limits hold), `UsageByPrincipal` (the usage and
the limits of every principal), `OverLimit` (which limit was reached, and until when), `FairParts`
(how much each may have of what all share, without any config).

Read in this order: `counters`, `principals`, `fair_parts`.
"""
