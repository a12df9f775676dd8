"""One client."""
