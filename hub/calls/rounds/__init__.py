"""Calls that take several requests."""
