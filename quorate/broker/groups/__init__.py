"""Classic consumer groups."""
