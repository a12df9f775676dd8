"""Where a path leads."""
