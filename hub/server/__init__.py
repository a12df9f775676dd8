"""What clients meet."""
