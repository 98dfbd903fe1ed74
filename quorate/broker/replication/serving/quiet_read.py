"""A read that gave no records, and what it depended on: while that holds, another one gives the same."""

from collections.abc import Callable
from dataclasses import dataclass

from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.replication_errors import PartitionError
from quorate.broker.replication.requests import FetchItem, FetchOptions, FetchResult, TopicRef
from quorate.log import Log
from quorate.types import Offset


@dataclass(frozen=True, slots=True)
class _Seen:
    """A partition as it was read for a consumer that is at its high watermark."""

    item: FetchItem
    partition: PartitionReplica
    role: object
    log: Log
    high_watermark: Offset
    log_start_offset: Offset


class QuietRead:
    """The results of a consumer's fetch that waits."""

    __slots__ = ("_cut_off", "_lookup", "_seen", "results")

    def __init__(
        self,
        options: FetchOptions,
        results: list[FetchResult],
        *,
        lookup: Callable[[TopicRef, int], PartitionReplica],
        cut_off: Callable[[PartitionReplica], bool],
    ) -> None:
        """No partition has changed since `results` were read. Raises `PartitionError` if one is gone."""
        self.results = results
        self._lookup = lookup
        self._cut_off = cut_off
        self._seen: list[_Seen] = []
        for item, result in zip(options.items, results, strict=True):
            each = lookup(item.topic, item.partition_id)
            self._seen.append(
                _Seen(item, each, each.role, each.log, result.high_watermark, result.log_start_offset)
            )

    @property
    def partitions(self) -> list[PartitionReplica]:
        return [seen.partition for seen in self._seen]

    def holds(self) -> bool:
        """Return whether a read would give these results now."""
        for seen in self._seen:
            partition, log = seen.partition, seen.partition.log
            if (
                partition.role is not seen.role
                or log is not seen.log
                or log.high_watermark != seen.high_watermark
                or log.log_start_offset != seen.log_start_offset
                or partition.failure is not None
                or partition.damage
                or self._cut_off(partition)
            ):
                return False
            try:
                if self._lookup(seen.item.topic, seen.item.partition_id) is not partition:
                    return False
            except PartitionError:
                return False
        return True
