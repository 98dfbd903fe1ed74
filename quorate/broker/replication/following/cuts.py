"""A follower cuts its log to its leader's, or begins it anew.

Nothing happens in a role that has ended meanwhile.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

from quorate.broker.replication.replica import FollowerState, PartitionReplica
from quorate.broker.replication.replication_errors import ReplicaFailedError
from quorate.log.batches import read_headers
from quorate.runtime import Buffer, get_logger
from quorate.types import Epoch, Offset

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
