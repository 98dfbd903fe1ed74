"""The invariants that a run checks at every step."""
