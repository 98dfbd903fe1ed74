"""Secured broker clusters, whose users may do what a naive list of ACLs says."""
