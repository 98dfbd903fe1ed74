"""The batches with their producers' last sequences: compaction keeps their headers (KAFKA-5490)."""

from quorate.broker.replication.replica import PartitionReplica
from quorate.log.batches import BatchHeader


class PartitionSequences:
    """Of one partition, as its producers are now."""

    __slots__ = ("_partition",)

    def __init__(self, partition: PartitionReplica) -> None:
        self._partition = partition

    def __call__(self, header: BatchHeader) -> bool:
        """Return whether a batch of the log is the last of a producer that is still known."""
        producer = self._partition.producers.producers.get(header.producer_id)
        return (
            producer is not None
            and producer.epoch == header.producer_epoch
            and producer.last.last_offset == header.end_offset - 1
        )
