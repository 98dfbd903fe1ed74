"""The quorum's core as a model to explore: nodes with their disks, and the messages between them.

`interpreter` carries out one node's effects, `actions` and `in_flight` say what comes of an event, `world`
says what may happen next, and `symmetry` says which states stand for others.
"""
