"""The decision on a call."""
