"""The fetches of one follower: what it asks its leader for, and what it does with the answer."""

import enum
from typing import Final

import trio

from quorate.broker.replication.replica import Cutting, FollowerState, PartitionReplica, ReplicationQuota
from quorate.broker.wire.codecs import FetchedPartition, FetchPartition
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger
from quorate.types import UNKNOWN_EPOCH

log = get_logger(__name__)

_EXPECTED: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors of a leader that lacks metadata that we have. They are not logged."""


class Taken(enum.Enum):
    """What came of an answer."""

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
        # What the next life of this broker will find, too.
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
        await partition.restart_at(role, part.log_start_offset, cutting)
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
        cut = partition.truncation_offset(role, *part.diverging_epoch)
        before = (partition.log.end_offset, partition.log.epochs)
        await partition.truncate(role, cut, cutting)
        if (partition.log.end_offset, partition.log.epochs) == before:
            return Taken.NOTHING
    else:
        records = part.records[0] if part.records else b""
        if records:
            if partition.follower_throttled:
                quota.record(len(records), now=trio.current_time())
            await partition.begin_with(role, records, cutting)
        await partition.append_replicated(role, records, high_watermark=part.high_watermark)
        if part.log_start_offset > partition.log.log_start_offset and await partition.raise_log_start(
            role, part.log_start_offset
        ):
            return Taken.LOG_START_RAISED
    return Taken.DONE
