"""One replica of one partition: its log, its role, and the high watermark.

Everything that changes state is a plain call and so happens at once; whoever waits is told after the change.
What needs the disk to finish a cut holds `lock`, and role changes wait for it; a flush holds `upkeep`, for
which nobody waits but a cut.
"""

import enum
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import trio

from quorate.broker.metadata import NO_LEADER, LeaderRecoveryState, PartitionState
from quorate.broker.replication.foundation import (
    CurrentMetadata,
    Failure,
    Failures,
    FetchItem,
    PartitionError,
    ReplicationStats,
    Watchers,
)
from quorate.broker.replication.producing import (
    NO_PRODUCER,
    CheckedBatches,
    KeptBatch,
    ProducerState,
    ProduceRules,
    load,
)
from quorate.broker.replication.replica.replica_parts import CompactionGate, KnownDamage, Mirror
from quorate.broker.replication.replica.roles import (
    FetchClock,
    FollowerState,
    IsrProposal,
    LagRule,
    LeaderState,
)
from quorate.error_code import ErrorCode
from quorate.invariant import invariant, ordered
from quorate.log import DamagedLogError, Log, LogFailedError
from quorate.log.batches import BatchHeader
from quorate.present import present
from quorate.runtime import Disk, DiskError, get_logger
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset
from quorate.value import value

log = get_logger(__name__)


class RoleChange(enum.Enum):
    NONE = "none"
    """The state is older than the known one, or the same."""
    ISR = "isr"
    """The same leader in the same epoch has another ISR or other replicas."""
    LEADER = "leader"
    FOLLOWER = "follower"
    STOPPED = "stopped"


@value(frozen=True, slots=True)
class AppendedBatches:
    base_offset: Offset
    end_offset: Offset
    """The exclusive end. acks=all waits until the high watermark is there."""
    duplicate: bool = False
    append_time_ms: int = -1
    """The broker's time in the records; a duplicate has its first append's. -1: the records have their
    own."""


TO_HIGH_WATERMARK: Final = -1
"""The offset of a DeleteRecords that deletes everything that is committed."""


@value(frozen=True, slots=True)
class Readable:
    """The range of a fetch: from its offset up to `end_offset`, or `diverging` and no records."""

    end_offset: Offset
    diverging: tuple[Epoch, Offset] | None = None


class IsrProposals(Protocol):
    """The proposals on their way to the controller (`IsrUpdater`)."""

    def submit(self, partition: "PartitionReplica", proposal: IsrProposal) -> None:
        """Ask the controller until it answers, in place of an earlier proposal. Never waits."""


@dataclass(frozen=True, slots=True)
class LogFailed(Failure):
    """A use of an open log has failed."""

    partition: "PartitionReplica"
    error: Exception


@dataclass(frozen=True, slots=True)
class DamageRead(Failure):
    """A read met records that are not as they were written."""

    partition: "PartitionReplica"
    error: DamagedLogError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaContext:
    """The parts that all replicas of a broker share."""

    broker_id: int
    disk: Disk
    lag_s: float
    """`replica.lag.time.max.ms` in seconds."""
    metadata: CurrentMetadata
    proposals: IsrProposals
    failures: Failures
    stats: ReplicationStats


class PartitionReplica:
    """`log.high_watermark` is the high watermark."""

    def __init__(
        self,
        context: ReplicaContext,
        *,
        topic: str,
        topic_id: uuid.UUID,
        partition_id: int,
        log: Log,
        min_isr: int,
        rules: ProduceRules,
    ) -> None:
        self.broker_id = context.broker_id
        self.topic = topic
        self.topic_id = topic_id
        self.partition_id = partition_id
        self.log = log
        self.min_isr = min_isr
        self.rules = rules
        """The rules for produced batches."""
        self.leader_throttled = self.follower_throttled = False
        """Whether the topic lists this replica among those whose replication is throttled (KIP-73)."""
        self.watchers = Watchers()
        self.lock = trio.Lock()
        """Held while the log is cut or closed."""
        self.upkeep = trio.Lock()
        """Held by writers beside the batches (flushes, producer snapshots, retention), and while their files
        are deleted. Taken before `lock`."""
        self.compaction = CompactionGate()
        """Compaction takes neither lock, as a pass may take hours. Whoever changes what a pass reads closes
        this before it takes `upkeep`."""
        self.role: LeaderState | FollowerState | None = None
        self.state: PartitionState | None = None
        """The last committed state that was taken in."""
        self.failure: str | None = None
        """The reason why the log can't be used any more."""
        self.damage = KnownDamage()
        """Which of its records can't be read as they were written. The rest is served."""
        self.producers = ProducerState()
        self.mirror: Mirror | None = None
        """The future replica in another directory, while it has everything. Dropped before a cut."""
        self.stats = context.stats
        self._context = context
        self._eligible = context.metadata.eligible(topic_id, partition_id)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition_id}"

    @property
    def high_watermark(self) -> Offset:
        return self.log.high_watermark

    @property
    def leader_epoch(self) -> Epoch:
        return UNKNOWN_EPOCH if self.state is None else self.state.leader_epoch

    def is_adding(self, broker_id: int) -> bool:
        """Return whether a reassignment is adding the broker's replica (KIP-455)."""
        return self.state is not None and broker_id in self.state.adding_replicas

    @property
    def leading(self) -> LeaderState | None:
        return self.role if isinstance(self.role, LeaderState) else None

    @property
    def following(self) -> FollowerState | None:
        return self.role if isinstance(self.role, FollowerState) else None

    async def load_producers(self) -> None:
        """Load the producers from the snapshot and the log. Nothing may be appended meanwhile. Raises
        `DiskError`."""
        state = ProducerState(on_duplicate=self._count_duplicate)
        await load(self._context.disk, self.log.folder, self.log, state)
        self.producers = state

    def _count_duplicate(self) -> None:
        self.stats.duplicate_batches += 1

    # Roles

    def apply(self, state: PartitionState) -> RoleChange:
        """Apply a committed state. Never called while `lock` is held."""
        now = trio.current_time()
        known = self.state
        if known is not None and state.partition_epoch < known.partition_epoch:
            return RoleChange.NONE
        self.state = state
        if known is not None and state.leader_epoch == known.leader_epoch:
            if self.role is None:
                return RoleChange.NONE
            if isinstance(self.role, FollowerState):
                if not self.role.update(self.broker_id, state):
                    return RoleChange.NONE
                if not self.role.in_isr:
                    self.watchers.changed()  # consumers that wait here go back to the leader
                return RoleChange.ISR
            before = self.role.isr.committed
            if not self.role.update(state, now=now):
                return RoleChange.NONE
            self._count_isr_change(before, state.isr)
            # A member that left no longer holds the high watermark back.
            self.advance_high_watermark()
            self.settle_deletions()
            self.watchers.isr_changed()
            self._propose_recovered()
            return RoleChange.ISR
        return self._begin_epoch(state, now)

    def _begin_epoch(self, state: PartitionState, now: float) -> RoleChange:
        was_leading = self.leading is not None
        change = RoleChange.STOPPED
        if state.leader == self.broker_id:
            # Before any append, so that followers learn where older epochs end (KAFKA-7415).
            self.log.start_epoch(state.leader_epoch)
            if self.mirror is not None:
                self.mirror.start_epoch(state.leader_epoch)
            self.role = LeaderState(self.broker_id, state, epoch_start_offset=self.log.end_offset, now=now)
            change = RoleChange.LEADER
        elif state.leader != NO_LEADER:
            self.role = FollowerState(self.broker_id, state)
            change = RoleChange.FOLLOWER
        else:
            self.role = None
        if was_leading and change is not RoleChange.LEADER:
            self.watchers.leadership_lost(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            # Who goes on leading has cut nothing: what waits for its offsets may go on waiting.
            self.watchers.changed()
        if change is RoleChange.LEADER:
            self.advance_high_watermark()
            self._propose_recovered()
        return change

    def stop(self, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """Stop serving: the replica is deleted, failed, or shutting down."""
        self.role = None
        self.watchers.leadership_lost(error)

    def fail(self, reason: str) -> None:
        """Refuse everything until the broker starts again, because the disk failed."""
        if self.failure is None:
            self.failure = reason
            self.compaction.stop("the log has failed")
            self.stop(ErrorCode.KAFKA_STORAGE_ERROR)

    def validate(self) -> None:
        """Raise InvariantError unless low watermark <= durable log start <= log start <= high watermark <=
        log end, leader epochs rise in the log up to that of the role, and the leader's state is in order. To
        be called between two steps. Nothing is checked while the log is cut, or once it has failed."""
        log = self.log
        if self.failure is not None or self.lock.locked():
            return
        ordered(
            durable_log_start=log.durable_log_start_offset,
            log_start=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end=log.end_offset,
        )
        for before, after in pairwise(log.epochs):
            invariant(before.epoch < after.epoch, "leader epochs are not in order", epochs=log.epochs)
            ordered(epoch_start=before.start_offset, next_epoch_start=after.start_offset)
        role = self.role
        if role is None:
            return
        invariant(
            role.leader_epoch == self.leader_epoch,
            "the role is of another leader epoch",
            role=role.leader_epoch,
        )
        if log.epochs:
            ordered(log_epoch=log.epochs[-1].epoch, leader_epoch=role.leader_epoch)
            ordered(epoch_start=log.epochs[-1].start_offset, log_end=log.end_offset)
        if isinstance(role, LeaderState):
            role.validate(log_end_offset=log.end_offset)
            low = role.low_watermark(
                durable_log_start_offset=log.durable_log_start_offset, eligible=self._eligible
            )
            ordered(low_watermark=low, durable_log_start=log.durable_log_start_offset)
        if self.mirror is not None:
            invariant(
                self.mirror.log.end_offset == log.end_offset,
                "the mirror's end is not the log's",
                mirror=self.mirror.log.end_offset,
                log=log.end_offset,
            )

    # Leading

    def check_leading(self, current_leader_epoch: Epoch = UNKNOWN_EPOCH) -> LeaderState:
        """Return the leadership. Raises `PartitionError` unless this broker leads in the client's epoch."""
        self._check_epoch(current_leader_epoch)
        if not isinstance(self.role, LeaderState):
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is not led by broker {self.broker_id}"
            )
        return self.role

    def check_serving(self, current_leader_epoch: Epoch = UNKNOWN_EPOCH) -> None:
        """Raise `PartitionError` unless consumers may read here in their epoch: from the leader, or from a
        follower in the ISR (KIP-392). Another follower sends them back to the leader."""
        if isinstance(self.role, FollowerState) and self.role.in_isr:
            self._check_epoch(current_leader_epoch)
        else:
            self.check_leading(current_leader_epoch)

    def _check_epoch(self, current_leader_epoch: Epoch) -> None:
        if self.failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure)
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.leader_epoch:
                raise PartitionError(
                    ErrorCode.FENCED_LEADER_EPOCH, f"{self}: the leader epoch is {self.leader_epoch}"
                )
            if current_leader_epoch > self.leader_epoch:
                raise PartitionError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH,
                    f"{self}: only epoch {self.leader_epoch} is known here yet",
                )

    def check_appendable(self, acks: int) -> LeaderState:
        """Return the leadership. Raises `PartitionError` unless this broker may append as leader."""
        leader = self.check_leading()
        if acks == -1 and leader.under_min_isr(self.min_isr):
            raise PartitionError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self}: the in-sync replicas are {list(leader.isr.committed)}, fewer than "
                f"min.insync.replicas={leader.effective_min_isr(self.min_isr)}",
            )
        return leader

    def append(self, checked: CheckedBatches, *, acks: int) -> AppendedBatches:
        """Append batches as leader. Raises `PartitionError`; then nothing was appended."""
        leader = self.check_appendable(acks)
        headers = checked.headers
        kept = self._check_producers(headers)
        if kept is not None:
            return AppendedBatches(
                Offset(kept.base_offset),
                Offset(kept.last_offset + 1),
                duplicate=True,
                append_time_ms=kept.append_time_ms,
            )
        leader.about_to_append(self.log.end_offset)
        try:
            info = self.log.append_as_leader(checked.records, leader.leader_epoch, headers=headers)
        except (DiskError, LogFailedError) as error:
            self._context.failures.report(LogFailed(self, error))
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure or str(error)) from error
        if self.mirror is not None:
            self.mirror.append_as_leader(checked.records, leader.leader_epoch, headers=headers)
            if self.failure is not None:
                raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure)
        offset: int = info.base_offset
        for header in headers:
            self.producers.record(header, offset)
            offset += header.last_offset_delta + 1
        # Otherwise a batch that is sent again would be answered with offsets of other records.
        invariant(offset == info.end_offset, "the batches have other offsets than the append", end=offset)
        self.stats.appended_bytes += info.size_bytes
        # If the leader is the only ISR member, its own append commits.
        self.advance_high_watermark()
        self.watchers.appended()
        return AppendedBatches(info.base_offset, info.end_offset)

    def _check_producers(self, headers: Sequence[BatchHeader]) -> KeptBatch | None:
        for header in headers:
            kept = self.producers.check(header) if header.producer_id != NO_PRODUCER else None
            if kept is not None:
                return kept
        return None

    def advance_high_watermark(self) -> bool:
        """Recompute the high watermark as leader, and wake its waiters. It never goes back. Called after
        each change of the ISR, and of the log end offset of this replica or of a follower."""
        leader = self.leading
        if leader is None:
            return False
        found = leader.high_watermark(
            log_end_offset=self.log.end_offset, min_isr=self.min_isr, rule=self._lag_rule()
        )
        if found is None or found <= self.log.high_watermark:
            return False
        invariant(found <= self.log.end_offset, "the high watermark passes the log's end", found=found)
        self.log.high_watermark = found
        self.watchers.high_watermark_moved(found)
        return True

    def _lag_rule(self) -> LagRule:
        return LagRule(now=trio.current_time(), lag_s=self._context.lag_s, eligible=self._eligible)

    # DeleteRecords (KIP-107)

    def delete_records(self, offset: Offset) -> Offset:
        """Raise the log start to `offset`, or to the high watermark (-1), as leader, and return it. It is
        durable later: see `low_watermark`. Below the log start nothing happens. Raises `PartitionError`."""
        self.check_leading()
        wanted = self.high_watermark if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self.high_watermark:
            raise PartitionError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: records can be deleted up to the high watermark {self.high_watermark} (-1), and "
                f"not up to {offset}",
            )
        try:
            raised = self.log.raise_log_start(wanted)
        except (DiskError, LogFailedError) as error:
            self._context.failures.report(LogFailed(self, error))
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, self.failure or str(error)) from error
        if raised:
            # Consumers below are told now, and followers where the log starts.
            self.watchers.changed()
        return wanted

    def low_watermark(self) -> Offset | None:
        """Return the low watermark, `LeaderState.low_watermark`. None unless this broker leads."""
        leader = self.leading
        if leader is None:
            return None
        return leader.low_watermark(
            durable_log_start_offset=self.log.durable_log_start_offset, eligible=self._eligible
        )

    def settle_deletions(self) -> None:
        """Complete the deletions that every replica has, after a change of one of them."""
        if self.watchers.await_deletion and (least := self.low_watermark()) is not None:
            self.watchers.low_watermark_moved(least)

    def readable(self, item: FetchItem, *, replica_id: int, any_replica: bool = False) -> Readable:
        """Return the range that a fetch may read. Changes nothing. Raises `PartitionError`.

        `any_replica`: a follower may answer too, up to the high watermark that it knows: nothing below is
        ever taken back. Beyond, as far as its log goes, a consumer waits; beyond that it is out of range, and
        the client asks the leader, as with Kafka.
        """
        if any_replica:
            self.check_serving(item.current_leader_epoch)
        elif replica_id not in self.check_leading(item.current_leader_epoch).remotes and replica_id >= 0:
            # It may be ahead of us, and be a replica in metadata that is still to come (KAFKA-13837).
            raise PartitionError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {replica_id} is no replica of {self} known here"
            )
        diverging = self._divergence(item)
        if diverging is not None:
            return Readable(item.fetch_offset, diverging)
        if not self.log.log_start_offset <= item.fetch_offset <= self.log.end_offset:
            raise PartitionError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self}: offset {item.fetch_offset} is outside of [{self.log.log_start_offset}, "
                f"{self.log.end_offset})",
            )
        return Readable(self.log.end_offset if replica_id >= 0 else self.log.high_watermark)

    def follower_fetched(
        self, item: FetchItem, *, replica_id: int, replica_epoch: int, clock: FetchClock | None = None
    ) -> None:
        """Take in what a follower's fetch says of its log: before its records are read, so that the answer
        has the newest high watermark. `clock`: its session, if it fetches in one. Raises `PartitionError`; a
        position in a diverging log means nothing (KAFKA-13141)."""
        self.leave_session(replica_id)
        if self.readable(item, replica_id=replica_id).diverging is not None:
            return
        leader = self.check_leading()
        remote = leader.remotes[replica_id]
        if 0 <= replica_epoch < remote.broker_epoch:
            return  # a request of an earlier incarnation
        now = trio.current_time()
        remote.fetched(
            item.fetch_offset,
            log_start_offset=item.log_start_offset,
            leader_end_offset=self.log.end_offset,
            broker_epoch=replica_epoch,
            now=now,
            clock=clock,
        )
        self.settle_deletions()
        if replica_id not in leader.isr.maximal:
            self._submit(
                leader.propose_expand(remote, high_watermark=self.high_watermark, rule=self._lag_rule())
            )
        if item.fetch_offset > self.high_watermark:
            # The follower's log end may have been the least in the ISR: produces wait for it.
            self.advance_high_watermark()

    def leave_session(self, replica_id: int, clock: FetchClock | None = None) -> None:
        """A follower's session, that with `clock` or whichever it is in, stands for its fetches of this
        partition no longer."""
        remote = None if self.leading is None else self.leading.remotes.get(replica_id)
        if remote is not None:
            remote.leave_session(clock, leader_end_offset=self.log.end_offset)

    def expects(self, replica_id: int) -> bool:
        """Return whether a follower is not in the ISR that this broker leads, so that each of its fetches may
        be the one that lets it join."""
        leader = self.leading
        return leader is not None and replica_id not in leader.isr.committed

    def _divergence(self, item: FetchItem) -> tuple[Epoch, Offset] | None:
        if item.last_fetched_epoch < 0:
            return None
        if item.fetch_offset < self.log.log_start_offset:
            return None  # out of range, whatever the epochs (KAFKA-12996)
        found = self.log.end_offset_for_epoch(item.last_fetched_epoch)
        if found is None:
            raise PartitionError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self}: no epoch up to {item.last_fetched_epoch} is known"
            )
        if found.epoch < item.last_fetched_epoch or found.end_offset < item.fetch_offset:
            return (found.epoch, found.end_offset)
        return None

    # The ISR

    def scan_isr(self) -> None:
        """Shrink the ISR by members that are behind for too long; run every half lag time."""
        leader = self.leading
        if leader is None or self.failure is not None:
            return
        if self.log.high_watermark == self.log.end_offset and leader.is_reached(self.log.end_offset):
            return
        rule = self._lag_rule()
        # A follower that stopped being "about to join" no longer holds the high watermark back.
        self.advance_high_watermark()
        self._submit(leader.propose_shrink(log_end_offset=self.log.end_offset, rule=rule))

    def _propose_recovered(self) -> None:
        if self.leading is not None:
            self._submit(self.leading.propose_recovered())

    def _submit(self, proposal: IsrProposal | None) -> None:
        if proposal is None:
            return
        leader = present(self.leading, "the leader that proposes an ISR")
        log.info(
            "asking for another ISR",
            partition=str(self),
            isr=list(proposal.isr),
            committed=list(leader.isr.committed),
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        self._context.proposals.submit(self, proposal)

    def is_pending(self, proposal: IsrProposal) -> bool:
        """Return whether the answer to this proposal still matters."""
        return self.leading is not None and self.leading.isr.pending is proposal

    def granted(
        self,
        proposal: IsrProposal,
        *,
        isr: tuple[int, ...],
        elr: tuple[int, ...],
        partition_epoch: int,
        recovery: LeaderRecoveryState,
    ) -> None:
        """Apply the controller's committed answer. Metadata brings the same sooner or later, but the high
        watermark need not wait for it (KAFKA-13091)."""
        leader = self.leading
        if leader is None or leader.isr.pending is not proposal:
            return
        self._count_isr_change(leader.isr.committed, isr)
        leader.isr.commit(isr, elr=elr, partition_epoch=partition_epoch, recovery=recovery)
        # A member that left no longer holds the high watermark back.
        self.advance_high_watermark()
        self.settle_deletions()

    def _count_isr_change(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        if any(each not in after for each in before):
            self.stats.isr_shrinks += 1
        if any(each not in before for each in after):
            self.stats.isr_expands += 1

    def refused(self, proposal: IsrProposal) -> None:
        """Handle a change that the controller has not committed and would refuse again."""
        if self.is_pending(proposal) and self.leading is not None:
            self.stats.failed_isr_updates += 1
            self._submit(self.leading.take_back())
