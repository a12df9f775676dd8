"""What HTTP clients may take of the hub."""
