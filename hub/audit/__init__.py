"""One line for each call."""
