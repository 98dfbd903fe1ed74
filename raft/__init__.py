"""The trio driver round the Raft core, and the public quorum."""
