"""A fetch of one partition: the range of records that it may read, and the position of the follower that sent
it."""

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import FetchItem
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.roles import FetchClock, FollowerState
from quorate.error_code import ErrorCode
from quorate.types import Epoch, Offset
from quorate.value import value


@value(frozen=True, slots=True)
class Readable:
    """The range of a fetch: from its offset up to `end_offset`, or `diverging` and no records."""

    end_offset: Offset
    diverging: tuple[Epoch, Offset] | None = None


def readable(
    partition: PartitionReplica, item: FetchItem, *, replica_id: int, any_replica: bool = False
) -> Readable:
    """Return the range that a fetch may read. Changes nothing. Raises `PartitionError`.

    `any_replica`: a follower may answer too, up to the high watermark that it knows: nothing below is ever
    taken back. Beyond, as far as its log goes, a consumer waits. Beyond that the offset is out of range, and
    the client asks the leader, as with Kafka.
    """
    role, log = partition.role, partition.log
    if any_replica and isinstance(role, FollowerState) and role.in_isr:
        # A follower outside the ISR sends consumers back to the leader (KIP-392).
        partition.check_epoch(item.current_leader_epoch)
    elif (
        replica_id not in partition.check_leading(item.current_leader_epoch).remotes
        and replica_id >= 0
        and not any_replica
    ):
        # It may be ahead of us, and be a replica in metadata that is still to come (KAFKA-13837).
        raise PartitionError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {replica_id} is no replica of {partition} known here"
        )
    diverging = _divergence(partition, item)
    if diverging is not None:
        return Readable(item.fetch_offset, diverging)
    if not log.log_start_offset <= item.fetch_offset <= log.end_offset:
        raise PartitionError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition}: offset {item.fetch_offset} is outside of [{log.log_start_offset}, "
            f"{log.end_offset})",
        )
    return Readable(log.end_offset if replica_id >= 0 else log.high_watermark)


def _divergence(partition: PartitionReplica, item: FetchItem) -> tuple[Epoch, Offset] | None:
    """Return where a follower's log departs from this one: the largest common epoch, and its end."""
    if item.last_fetched_epoch < 0:
        return None
    if item.fetch_offset < partition.log.log_start_offset:
        return None  # out of range, whatever the epochs (KAFKA-12996)
    found = partition.log.end_offset_for_epoch(item.last_fetched_epoch)
    if found is None:
        raise PartitionError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition}: no epoch up to {item.last_fetched_epoch} is known"
        )
    if found.epoch < item.last_fetched_epoch or found.end_offset < item.fetch_offset:
        return (found.epoch, found.end_offset)
    return None


def take_in_fetch(
    partition: PartitionReplica,
    item: FetchItem,
    *,
    replica_id: int,
    replica_epoch: int,
    clock: FetchClock | None = None,
) -> None:
    """Take in a follower's position in its log: before its records are read, so that the answer has the
    newest high watermark. `clock`: its session, if it fetches in one. Raises `PartitionError`. A position in
    a diverging log means nothing (KAFKA-13141)."""
    leave_session(partition, replica_id)
    if readable(partition, item, replica_id=replica_id).diverging is not None:
        return
    leader = partition.check_leading()
    remote = leader.remotes[replica_id]
    if 0 <= replica_epoch < remote.broker_epoch:
        return  # a request of an earlier incarnation
    remote.fetched(
        item.fetch_offset,
        log_start_offset=item.log_start_offset,
        leader_end_offset=partition.log.end_offset,
        broker_epoch=replica_epoch,
        now=trio.current_time(),
        clock=clock,
    )
    partition.settle_deletions()
    if replica_id not in leader.isr.maximal:
        partition.propose(
            leader.propose_expand(
                remote, high_watermark=partition.high_watermark, eligible=partition.eligible
            )
        )
    if item.fetch_offset > partition.high_watermark:
        # The follower's log end may have been the least in the ISR: produces wait for it.
        partition.advance_high_watermark()


def leave_session(partition: PartitionReplica, replica_id: int, clock: FetchClock | None = None) -> None:
    """Let a follower's session, the one with `clock` or any, no longer stand for its fetches of this
    partition."""
    remote = None if partition.leading is None else partition.leading.remotes.get(replica_id)
    if remote is not None:
        remote.leave_session(clock, leader_end_offset=partition.log.end_offset)


def may_join_isr(partition: PartitionReplica, replica_id: int) -> bool:
    """Return whether a follower is not in the ISR that this broker leads, so that each of its fetches may let
    it join."""
    leader = partition.leading
    return leader is not None and replica_id not in leader.isr.committed
