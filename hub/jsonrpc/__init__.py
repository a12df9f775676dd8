"""Messages and conversations."""
