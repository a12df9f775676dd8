"""How a child is launched."""
