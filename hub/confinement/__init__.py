"""What the kernel lets a child touch."""
