"""Snapshot files: their names and their content, reading and writing (KIP-630)."""
