"""Classic consumer groups.

Each part uses those below it:

  `coordinator`
    The requests of members to the groups of this broker. It hosts the groups: their timers and writes.
  `offset_expiry`, `group_administration`, `tombstones`
    Offsets that have expired or whose partition was deleted. The requests of operators. Deletions in the log.
  `shards`, `loading`, `shard`
    The partitions of `__consumer_offsets` that this broker leads, each loaded into a shard: groups, and their
    committed offsets.
  `group`, `rebalance`, `group_store`, `members`
    One group: requests, the state and its generations, the writes of its record, the members.
  `group_state`, `group_messages`, `group_records`, `consumer_protocol`, `offsets_topic`
    The states and timers of a group, its messages, the records in Kafka's format, the subscriptions of
    consumers, and the log.
"""
