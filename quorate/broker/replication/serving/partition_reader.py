"""The answer for one partition of a Fetch, read as its leader."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import trio

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import NotOpenedError, PartitionError
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.foundation.purgatory import Watchers
from quorate.broker.replication.foundation.replication_quota import ReplicationQuotas
from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, FetchResult, TopicRef
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.replica.partition_replica import DamageRead, LogFailed, PartitionReplica
from quorate.broker.replication.serving.partition_fetch import readable
from quorate.error_code import ErrorCode
from quorate.log import Codec, DamagedLogError, Log, LogError, OffsetOutOfRangeError
from quorate.log.batches.batch import peek
from quorate.runtime import DiskError, Slices
from quorate.types import Offset

NO_BROKER: Final = -1
"""No other replica: read here."""


def preferred_replica(
    partition: PartitionReplica, item: FetchItem, options: FetchOptions, image: MetadataImage
) -> int:
    """Return the broker that a consumer had better read from, or `NO_BROKER`: of the replicas in its rack the
    one with the longest log, and of equal ones the one that was last caught up.

    As Kafka's RackAwareReplicaSelector: the leader stays if it is in the rack, or if no other replica is. A
    follower must be alive, in the ISR, and have the offset that is asked for.
    """
    leader = partition.leading
    if leader is None or not options.rack_id:
        return NO_BROKER
    brokers = image.brokers
    own = brokers.get(partition.broker_id)
    if own is None or own.rack == options.rack_id:
        return NO_BROKER
    best, best_by = NO_BROKER, (-1, -1.0, -1)
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
    """The results of a consumer's fetch that waits, and what they depended on: while that holds, another read
    gives the same."""

    __slots__ = ("_allowed_by", "_cut_off", "_lookup", "_permission", "_seen", "results")

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
        self._permission = options.permission
        self._allowed_by = None if options.permission is None else options.permission.version
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
        if self._permission is not None and self._permission.version != self._allowed_by:
            return False
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


Lookup: TypeAlias = Callable[[TopicRef, int], PartitionReplica]
"""Raises `PartitionError` for a partition that is not hosted here."""
ReadableEnd: TypeAlias = tuple[object, Offset]
"""The role of a replica and the end of its readable records: when either changes, another read may give
more."""

_WITH_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class PartitionRead:
    """The outcome of one read."""

    result: FetchResult
    partition: PartitionReplica | None = None
    """The replica whose next change may give more; None: none will."""
    readable_end: ReadableEnd | None = None
    """The end of its readable records when they were read."""
    opening: Watchers | None = None
    """The watchers of the log's opening: the replica leads in the leader epoch that was asked for."""

    def leaves_some(self, item: FetchItem) -> bool:
        """Return whether another read may give more though nothing changes: it gave records, or none because
        of a limit, a throttle or an error."""
        return self.readable_end is None or self.readable_end[1] > item.fetch_offset


class PartitionReader:
    """Checks and reads. Changes nothing but counts."""

    def __init__(
        self,
        lookup: Lookup,
        failures: Failures,
        metadata: CurrentMetadata,
        *,
        cut_off: Callable[[PartitionReplica], bool],
        quotas: ReplicationQuotas,
        stats: ReplicationStats,
        selects: bool,
    ) -> None:
        """`selects`: whether consumers are sent to the closest replica, and served by followers (KIP-392)."""
        self._metadata = metadata
        self._selects = selects
        self.lookup = lookup
        self._stats = stats
        self._failures = failures
        self._cut_off = cut_off
        self._quota = quotas.leader

    def readable_end(self, partition: PartitionReplica, options: FetchOptions) -> ReadableEnd:
        """Return the role and the end of what may be read now."""
        end = partition.log.end_offset if options.from_follower else partition.high_watermark
        return (partition.role, end)

    async def read(self, item: FetchItem, options: FetchOptions, *, left: int, first: bool) -> PartitionRead:
        """Read up to `left` bytes; one batch if it is the `first` with records (KIP-74)."""
        partition = role = opened = None
        if options.permission is not None and not options.permission.allows(item.topic):
            return PartitionRead(_refused(item, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None))
        try:
            partition = self.lookup(item.topic, item.partition_id)
            any_replica = self._selects and options.any_replica
            found = readable(partition, item, replica_id=options.replica_id, any_replica=any_replica)
            role = partition.role
            readable_end: ReadableEnd | None = self.readable_end(partition, options)
            records = b""
            preferred = (
                preferred_replica(partition, item, options, self._metadata.image)
                if any_replica
                else NO_BROKER
            )
            if not options.zstd and partition.rules.codec is Codec.ZSTD:
                raise _needs_zstd(partition)
            throttled = options.from_follower and partition.leader_throttled
            if throttled and self._holds_back(partition, options.replica_id):
                # Not watched: more records would change nothing. The long poll ends, and the follower asks
                # again.
                readable_end = None
            elif found.diverging is None and preferred == NO_BROKER and (left > 0 or first):
                opened = partition.log
                records = await opened.read(
                    item.fetch_offset,
                    min(item.max_bytes, left),
                    end_offset=_whole_end(partition, item.fetch_offset, found.end_offset),
                    min_one_batch=first,
                )
                if not options.zstd and records:
                    records = records[: await _size_before_zstd(records)]
                    if not records:
                        raise _needs_zstd(partition)
                if partition.role is not role:
                    # The log may have been cut meanwhile, so the records that were read must not be given.
                    readable(partition, item, replica_id=options.replica_id, any_replica=any_replica)
                    records = b""
                if throttled and records:
                    self._quota.record(len(records), now=trio.current_time())
                if records and partition.is_adding(options.replica_id):
                    self._stats.reassignment_bytes_out += len(records)
        except NotOpenedError as error:
            asked = item.current_leader_epoch == error.leader_epoch
            refused = _refused(item, error.code, partition)
            return PartitionRead(refused, opening=error.opening if asked else None)
        except PartitionError as error:
            return PartitionRead(_refused(item, error.code, partition))
        except OffsetOutOfRangeError:
            return PartitionRead(_refused(item, ErrorCode.OFFSET_OUT_OF_RANGE, partition))
        except (DiskError, DamagedLogError, LogError) as error:
            moved = opened is not None and partition is not None and partition.log is not opened
            if partition is None or partition.role is not role or moved:
                return PartitionRead(_refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition))
            if isinstance(error, DamagedLogError):
                # The rest of the log can be read.
                self._failures.report(DamageRead(partition, error))
                return PartitionRead(_refused(item, ErrorCode.CORRUPT_MESSAGE, partition))
            self._failures.report(LogFailed(partition, error))
            return PartitionRead(_refused(item, ErrorCode.KAFKA_STORAGE_ERROR, partition))
        if not records and not options.from_follower and self._cut_off(partition):
            # There is nothing more to come from here, perhaps from another.
            return PartitionRead(_refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition))
        answer = FetchResult(
            topic=item.topic,
            partition_id=item.partition_id,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            diverging_epoch=found.diverging,
            records=(records,) if records else (),
            preferred_read_replica=preferred,
        )
        return PartitionRead(answer, None if readable_end is None else partition, readable_end)

    def quiet(self, options: FetchOptions, results: list[FetchResult]) -> QuietRead | None:
        """Return what a consumer that waits for all of `options` has read, to be used again. None if it
        depends on more than `QuietRead` looks at."""
        if (
            options.from_follower
            or not options.zstd
            or (self._selects and options.any_replica)
            or any(each.records or each.urgent for each in results)
        ):
            return None
        try:
            return QuietRead(options, results, lookup=self.lookup, cut_off=self._cut_off)
        except PartitionError:
            return None

    def _holds_back(self, partition: PartitionReplica, replica_id: int) -> bool:
        """Return whether a follower outside the ISR gets nothing for now (KIP-73)."""
        leading = partition.leading
        return (
            leading is not None
            and replica_id not in leading.isr.committed
            and self._quota.exceeded(now=trio.current_time())
        )


def is_urgent(item: FetchItem, options: FetchOptions, result: FetchResult) -> bool:
    """Return whether the answer must not wait for more records: an error, a diverging log, or a log start
    that has moved past the follower's. A client may wait for that (DeleteRecords), and Kafka's followers
    learn of it at the end of their long poll."""
    return result.urgent or (options.from_follower and 0 <= item.log_start_offset < result.log_start_offset)


def _whole_end(partition: PartitionReplica, offset: Offset, end_offset: Offset) -> Offset:
    """Return up to where the records from `offset` on are as they were written, as far as is known. Raises
    `PartitionError` if not even the first is."""
    damaged = partition.damage.ahead(offset)
    if damaged is None or damaged.start_offset >= end_offset:
        return end_offset
    if damaged.start_offset <= offset:
        raise PartitionError(
            ErrorCode.CORRUPT_MESSAGE,
            f"{partition}: the records [{damaged.start_offset}, {damaged.end_offset}) are damaged",
        )
    return damaged.start_offset


def _needs_zstd(partition: PartitionReplica) -> PartitionError:
    return PartitionError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"{partition} has batches in zstd, which needs version 10 of Fetch (KIP-110)",
    )


async def _size_before_zstd(records: bytes) -> int:
    """Return the bytes of these batches before the first in zstd. Clients that don't know it are few and old,
    so only the batches that would be sent to one are walked, from header to header."""
    slices = Slices()
    position = 0
    while position < len(records):
        size, codec = peek(records, position)
        if codec == Codec.ZSTD:
            break
        position += size
        await slices.pause()
    return position


def _refused(item: FetchItem, code: ErrorCode, partition: PartitionReplica | None) -> FetchResult:
    result = FetchResult(topic=item.topic, partition_id=item.partition_id, error=code)
    if partition is None:
        return result
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        # So that a follower needn't ask where to begin again.
        return replace(
            result, high_watermark=partition.high_watermark, log_start_offset=partition.log.log_start_offset
        )
    if code in _WITH_LEADER and partition.state is not None:
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.state.leader == partition.broker_id:
            return result  # cut off, or its disk has failed
        return replace(result, leader=(partition.state.leader, partition.state.leader_epoch))
    return result
