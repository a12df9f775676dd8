"""Plain values and plain functions: what the hub decides, without waiting for anything."""
