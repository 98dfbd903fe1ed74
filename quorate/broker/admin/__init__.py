"""One client for the administration of a cluster: for commands, simulated operators and scripts.

`open_admin` connects. The modules have the requests, each a function of the client (or of `Controllers`, for
what only the quorum's own protocol has): `await topics.create_topic(admin, "orders", partitions=6)`. They
print nothing, run over any network, and return typed values.
"""
