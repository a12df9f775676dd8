"""The `roots-hub` command, one file per group of subcommands."""
