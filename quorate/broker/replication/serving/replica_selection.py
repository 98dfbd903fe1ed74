"""The replica that a consumer is sent to: the closest one, where racks are given (KIP-392)."""

from collections.abc import Callable
from typing import Final

from quorate.broker.metadata import MetadataImage
from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.requests import FetchItem, FetchOptions

NOBODY: Final = -1
"""No other replica: read here."""


def preferred_replica(
    partition: PartitionReplica, item: FetchItem, options: FetchOptions, image: Callable[[], MetadataImage]
) -> int:
    """Return the broker that a consumer had better read from, or `NOBODY`: of the replicas in its rack the
    one with the longest log, and of equal ones the one that was last caught up.

    As Kafka's RackAwareReplicaSelector: the leader stays if it is in the rack, and where nobody else is. A
    follower must be alive, in the ISR, and have the offset that is asked for.
    """
    leader = partition.leading
    if leader is None or not options.rack_id:
        return NOBODY
    brokers = image().brokers
    own = brokers.get(partition.broker_id)
    if own is None or own.rack == options.rack_id:
        return NOBODY
    best, best_by = NOBODY, (-1, -1.0, -1)
    for remote in leader.remotes.values():
        if (
            remote.broker_id not in leader.isr.committed
            or not remote.log_start_offset <= item.fetch_offset <= remote.log_end_offset
        ):
            continue
        broker = brokers.get(remote.broker_id)
        if (
            broker is None
            or broker.fenced
            or broker.rack != options.rack_id
            or broker.endpoint(options.listener) is None
        ):
            continue
        by = (int(remote.log_end_offset), remote.last_caught_up_at, remote.broker_id)
        if by > best_by:
            best, best_by = remote.broker_id, by
    return best
