"""The Raft protocol alone: no I/O, no clock, no trio, no randomness of its own."""
