"""Processes of children, and their ends."""
