"""A node's observations of itself and its quorum: health, staleness, wrong configurations."""
