"""Taking, sending, fetching, loading and deleting snapshots (KIP-630)."""
