"""Launch templates and plans: from a server's config and a client's roots to argv, env and cwd.

Pure: no await, no clock, no disk, no process. What depends on the disk is passed in as a function
(`argv_directories`). A root is always one argv element or part of one: no shell is involved.

Main types: `Template` (a text with placeholders), `LaunchTemplate` (a stdio server as configured),
`LaunchPlan` (argv, environment, working directory and roots of one child process). Equal plans mean
the same child: clients with the same roots can share it.

Read in this order: `templates` (placeholders), `plan` (fills them), `known_servers`,
`environments` (which variables a child inherits).
"""
