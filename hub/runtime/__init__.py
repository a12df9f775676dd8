"""What waits: sessions, children, the relay between them, and every resource they own."""
