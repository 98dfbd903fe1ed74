"""Compaction of one log, as Kafka's LogCleaner does it (KIP-58, KIP-354, KIP-534).

`compact` keeps of each key the last record below the end of its bounds, and removes the others. Offsets never
change, and batches stay contiguous: a batch that lost records keeps its base and last offset, and batches of
one leader epoch that lost all of them become one bare header over their offsets. A tombstone gets a delete
horizon from the first compaction that meets it, and goes with the first one after that time. Control batches
and transactions are left as they are.

`survey` tells how much of a log is dirty, and `compactable_end` how far a compaction may reach: with these
the owner decides when to compact. It also keeps the `dirty_start` of each log.
"""
