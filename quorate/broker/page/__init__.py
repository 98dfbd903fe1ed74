"""The page about the cluster, at `/` of each node's metrics endpoint: the present, and the past by offset."""
