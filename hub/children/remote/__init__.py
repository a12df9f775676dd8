"""Children behind a URL."""
