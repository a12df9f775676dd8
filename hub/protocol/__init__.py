"""What the specification fixes."""
