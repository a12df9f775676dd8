"""What a client shares."""
