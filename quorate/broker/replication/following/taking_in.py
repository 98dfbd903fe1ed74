"""The fetches of one follower: what it asks its leader for, and how it takes in the answer. It appends,
cuts its log to its leader's, or begins it anew.

Nothing happens in a role that has ended meanwhile.
"""

import enum
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import trio

from quorate.broker.replication.foundation.errors import ReplicaFailedError
from quorate.broker.replication.foundation.replication_quota import ReplicationQuota
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.roles import FollowerState
from quorate.broker.wire.codecs.fetch_codec import FetchedPartition, FetchPartition
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import read_headers, runs_of
from quorate.runtime import Buffer, Slices, get_logger
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset

log = get_logger(__name__)

Cutting: TypeAlias = Callable[[PartitionReplica, Offset], AbstractAsyncContextManager[None]]
"""Wraps a cut of the log to this offset. Meanwhile no file claims that more than that is durable."""

_CUT: Final = "the log is being cut"


def truncation_offset(
    partition: PartitionReplica, role: FollowerState, epoch: Epoch, end_offset: Offset
) -> Offset:
    """Return the offset to cut at, given that the leader's `epoch`, the largest not above ours, ends at
    `end_offset`. Raises `ReplicaFailedError` if the cut would remove committed records of an ISR member:
    the leader, or our picture of it, is wrong (KAFKA-12460)."""
    own = partition.log.end_offset_for_epoch(epoch)
    cut = max(min(end_offset, own.end_offset if own else Offset(0)), partition.log.log_start_offset)
    if cut < partition.log.high_watermark and role.in_isr:
        raise ReplicaFailedError(
            f"{partition}: leader {role.leader} (epoch {role.leader_epoch}) asks to truncate to {cut}, below "
            f"the high watermark {partition.log.high_watermark}, though this replica is in sync; its log is "
            "kept as it is and not replicated until there is another leader epoch"
        )
    return cut


async def truncate(partition: PartitionReplica, role: FollowerState, cut: Offset, cutting: Cutting) -> None:
    """Cut the log to `cut`, as the leader of `role` asked. Raises `DiskError`, `LogError`: the log is
    then of no use until it is opened again (nats 3870: no append may follow)."""
    async with partition.compaction.closed(_CUT), partition.upkeep, partition.lock:
        if partition.role is not role:
            return
        partition.mirror = None
        partition.stats.truncations += 1
        before = partition.log.high_watermark
        if cut < before:
            partition.stats.truncations_below_high_watermark += 1
            log.warning(
                "records once committed are truncated, after an unclean election or a loss of disk",
                partition=str(partition),
                high_watermark=before,
                to=cut,
            )
            partition.log.high_watermark = cut
        log.info(
            "truncating to the leader's log",
            partition=str(partition),
            end_offset=partition.log.end_offset,
            to=cut,
        )
        async with cutting(partition, cut):
            if cut <= partition.log.log_start_offset:
                # The log may start in the middle of a batch, which must go as a whole.
                await partition.log.truncate_fully_and_start_at(partition.log.log_start_offset)
            else:
                await partition.log.truncate(cut)
            _was_cut(partition)
            await partition.load_producers()


async def restart_at(
    partition: PartitionReplica, role: FollowerState, offset: Offset, cutting: Cutting
) -> None:
    """Drop everything and begin at the leader's log start, high watermark included (KAFKA-9491). Raises
    `ReplicaFailedError` if the leader's log ends below what an ISR member knows to be committed."""
    async with partition.compaction.closed(_CUT), partition.upkeep, partition.lock:
        if partition.role is not role:
            return
        partition.mirror = None
        if offset < partition.log.high_watermark and role.in_isr:
            raise ReplicaFailedError(
                f"{partition}: offset {partition.log.end_offset} is beyond the log of leader {role.leader} "
                f"(epoch {role.leader_epoch}), which starts at {offset}, though this replica is in sync and "
                f"committed up to {partition.log.high_watermark}; its log is kept as it is and not "
                "replicated until there is another leader epoch"
            )
        log.warning(
            "the log is out of the leader's range and begins anew at the leader's start",
            partition=str(partition),
            end_offset=partition.log.end_offset,
            to=offset,
        )
        await _begin_at(partition, offset, cutting)


async def begin_with(
    partition: PartitionReplica, role: FollowerState, records: Buffer, cutting: Cutting
) -> None:
    """Begin an empty log with the leader's whole batch, in whose middle it starts. Raises
    `InvalidBatchError`."""
    first = next(read_headers(records, check_crc=False, dense=False))
    if not first.base_offset < partition.log.end_offset < first.end_offset:
        return
    async with partition.compaction.closed(_CUT), partition.upkeep, partition.lock:
        if partition.role is role:
            partition.mirror = None
            await _begin_at(partition, Offset(first.base_offset), cutting)


async def _begin_at(partition: PartitionReplica, offset: Offset, cutting: Cutting) -> None:
    async with cutting(partition, Offset(0)):
        await partition.log.truncate_fully_and_start_at(offset)
        _was_cut(partition)
        await partition.load_producers()


def _was_cut(partition: PartitionReplica) -> None:
    partition.damage.keep(partition.log.log_start_offset, partition.log.end_offset)


_EXPECTED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors of a leader that lacks metadata that we have. They are not logged."""


_BATCHES_AT_ONCE: Final = 500
"""The batches that are read and appended in one piece: 1 ms."""


class Taken(enum.Enum):
    """The outcome of taking in a fetch answer."""

    NOTHING = "nothing"
    """The same question would get the same answer: ask again later."""
    DONE = "done"
    LOG_START_RAISED = "log start raised"
    """Done, and the log start has to be durable before the next fetch."""


def asked_for(partition: PartitionReplica, role: FollowerState, *, max_bytes: int) -> FetchPartition:
    """Return what the replica asks the leader of `role` for. Everything below its offset is in the log: the
    fetch acknowledges it."""
    epochs = partition.log.epochs
    return FetchPartition(
        partition=partition.partition_id,
        current_leader_epoch=role.leader_epoch,
        fetch_offset=partition.log.end_offset,
        # The log's last epoch, not the last answer's (KAFKA-15510).
        last_fetched_epoch=epochs[-1].epoch if epochs else UNKNOWN_EPOCH,
        # The next life of this broker will find it, too.
        log_start_offset=partition.log.durable_log_start_offset,
        max_bytes=max_bytes,
    )


async def take_in(
    partition: PartitionReplica,
    role: FollowerState,
    part: FetchedPartition,
    *,
    cutting: Cutting,
    quota: ReplicationQuota,
) -> Taken:
    """Take in the answer to `asked_for`, for which the log has its end still. `quota`: of throttled copies
    here. Raises `InvalidBatchError`, `ReplicaFailedError`, `DiskError`, `LogError`."""
    code = int(part.error)
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and part.log_start_offset >= 0:
        await restart_at(partition, role, part.log_start_offset, cutting)
    elif code:
        if code not in _EXPECTED:
            log.warning(
                "a leader refused a fetch",
                partition=str(partition),
                leader=role.leader,
                error=part.error.name,
            )
        return Taken.NOTHING
    elif part.diverging_epoch is not None:
        # No high watermark from an answer to a log that isn't the leader's.
        cut = truncation_offset(partition, role, *part.diverging_epoch)
        before = (partition.log.end_offset, partition.log.epochs)
        await truncate(partition, role, cut, cutting)
        if (partition.log.end_offset, partition.log.epochs) == before:
            return Taken.NOTHING
    else:
        records = part.records[0] if part.records else b""
        if records:
            if partition.follower_throttled:
                quota.record(len(records), now=trio.current_time())
            if partition.log.end_offset == partition.log.log_start_offset:
                await begin_with(partition, role, records, cutting)
        await append_replicated(partition, role, records, high_watermark=part.high_watermark)
        if part.log_start_offset > partition.log.log_start_offset and await raise_log_start(
            partition, role, part.log_start_offset
        ):
            return Taken.LOG_START_RAISED
    return Taken.DONE


async def append_replicated(
    partition: PartitionReplica, role: FollowerState, records: Buffer, *, high_watermark: Offset
) -> int:
    """Append the records that the leader of `role` sent, take over its high watermark as far as the log
    reaches, and return the bytes appended. Fewer, or 0, if the role has ended meanwhile: many small
    batches are taken in a few milliseconds at a time. Raises `InvalidBatchError`, `DiskError`; batches
    before an invalid one may be there."""
    taken = 0
    slices = Slices()
    for run in runs_of(records, most=_BATCHES_AT_ONCE):
        if partition.role is not role:
            return taken
        headers = list(read_headers(run, dense=False))
        # Few read from a follower.
        partition.log.append_as_follower(run, headers=headers, in_memory=False)
        if partition.mirror is not None:
            partition.mirror.append_as_follower(run, headers=headers)
        partition.producers.replay(headers)
        partition.stats.replicated_bytes += len(run)
        if partition.is_adding(partition.broker_id):
            partition.stats.reassignment_bytes_in += len(run)
        taken += len(run)
        await slices.pause()
    if partition.role is not role:
        return taken
    exposed = min(high_watermark, partition.log.end_offset)
    if exposed > partition.log.high_watermark:
        partition.log.high_watermark = exposed
        partition.watchers.high_watermark_moved(exposed)
    return taken


async def raise_log_start(partition: PartitionReplica, role: FollowerState, offset: Offset) -> bool:
    """Take over the log start of the leader of `role`, and return whether it was below. The caller
    makes it durable before the next fetch, which tells the leader."""
    async with partition.lock:
        return partition.role is role and partition.log.raise_log_start(min(offset, partition.high_watermark))
