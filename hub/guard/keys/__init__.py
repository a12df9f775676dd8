"""What an argument's key and schema say of it."""
