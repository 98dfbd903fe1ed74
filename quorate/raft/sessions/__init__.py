"""Client sessions, so that a repeated append is applied once (Raft thesis 6.3)."""
