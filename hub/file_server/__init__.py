"""The embedded file server."""
