"""The requests of clients, which are no members of the quorum, to the leader."""
