"""The roles, one module each, with their state and their answers to every event."""
