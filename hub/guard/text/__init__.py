"""The ways in which a text can be read."""
