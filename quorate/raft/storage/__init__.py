"""A node's folder: its identity, vote, log and snapshots, opened together."""
