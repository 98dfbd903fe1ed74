"""Records as rows: as they are in the log, and with their fields."""
