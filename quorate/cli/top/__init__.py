"""`quorate top`: samples of a cluster, and what moved between two of them."""
