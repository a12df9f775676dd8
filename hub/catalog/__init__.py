"""Merged listings and public names."""
