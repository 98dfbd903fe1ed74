"""Work on logs beside the requests: checkpoints, flushes, retention, compaction (KIP-58), the scrub, and
moves between directories (KIP-113)."""
