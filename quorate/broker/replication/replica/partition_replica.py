"""One replica of one partition: its log, its role, and the high watermark.

A change of its state is a plain call, so it happens in one step of the event loop, and the requests that
wait are completed after it. A cut of the log holds `lock` until the disk has finished it, and role changes
wait for that. A flush holds `upkeep`, for which only a cut waits.

The fetches of followers and consumers are in `serving.partition_fetch`, DeleteRecords in
`serving.delete_records`, and the appends and cuts of a follower in `following.taking_in`.
"""

import enum
import uuid
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import trio

from quorate.broker.controller.rpc import AlterPartitionResult
from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import Failure, Failures
from quorate.broker.replication.foundation.purgatory import Watchers
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.producing.batch_check import CheckedBatches, ProduceRules
from quorate.broker.replication.producing.producer_snapshot import load
from quorate.broker.replication.producing.producer_state import ProducerState
from quorate.broker.replication.replica.replica_parts import CompactionGate, KnownDamage, Mirror
from quorate.broker.replication.replica.roles import FollowerState, IsrProposal, LeaderState
from quorate.error_code import ErrorCode
from quorate.invariant import invariant, ordered
from quorate.log import DamagedLogError, Log, LogFailedError
from quorate.present import present
from quorate.runtime import Disk, DiskError, get_logger
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset
from quorate.value import value

log = get_logger(__name__)


class RoleChange(enum.Enum):
    """The outcome of a committed state for a replica's role."""

    NONE = "none"
    """The state is older than the known one, or the same."""
    ISR = "isr"
    """The same leader in the same epoch has another ISR or other replicas."""
    LEADER = "leader"
    FOLLOWER = "follower"
    STOPPED = "stopped"


@value(frozen=True, slots=True)
class AppendedBatches:
    """The place of appended batches in the log."""

    base_offset: Offset
    end_offset: Offset
    """The exclusive end. acks=all waits until the high watermark is there."""
    duplicate: bool = False
    append_time_ms: int = -1
    """The broker's time in the records; a duplicate has its first append's. -1: the records have their
    own."""


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
    """The state of a replica, and what changes it: committed states, appends as leader, and its disk."""

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
        """Compaction takes neither lock, as a pass may take hours. A change of what a pass reads closes this
        first, before it takes `upkeep`."""
        self.role: LeaderState | FollowerState | None = None
        self.state: PartitionState | None = None
        """The last committed state that was taken in."""
        self.failure: str | None = None
        """The reason why the log can't be used any more."""
        self.damage = KnownDamage()
        """The records that can't be read as they were written. The rest is served."""
        self.producers = ProducerState()
        self.mirror: Mirror | None = None
        """The future replica in another directory, while it has everything. Dropped before a cut."""
        self.stats = context.stats
        self._context = context
        self.eligible: Final = context.metadata.eligible(topic_id, partition_id)
        """The rule for joining the ISR."""

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
        state = ProducerState()
        await load(self._context.disk, self.log.folder, self.log, state)
        self.producers = state

    # Roles

    def apply(self, state: PartitionState) -> RoleChange:
        """Apply a committed state. Never called while `lock` is held."""
        known = self.state
        if known is not None and state.partition_epoch < known.partition_epoch:
            return RoleChange.NONE
        self.state = state
        if known is None or state.leader_epoch != known.leader_epoch:
            return self._begin_epoch(state, trio.current_time())
        if isinstance(self.role, FollowerState):
            updated = self._update_follower(self.role, state)
        else:
            updated = self.role is not None and self._update_leader(self.role, state)
        return RoleChange.ISR if updated else RoleChange.NONE

    def _update_follower(self, role: FollowerState, state: PartitionState) -> bool:
        if not role.update(self.broker_id, state):
            return False
        if not role.in_isr:
            self.watchers.changed()  # consumers that wait here go back to the leader
        return True

    def _update_leader(self, role: LeaderState, state: PartitionState) -> bool:
        before = role.isr.committed
        if not role.update(state, now=trio.current_time()):
            return False
        self._isr_committed(before, state.isr)
        self.watchers.isr_changed()
        self.propose(role.propose_recovered())
        return True

    def _begin_epoch(self, state: PartitionState, now: float) -> RoleChange:
        was_leading = self.leading is not None
        change = RoleChange.STOPPED
        if state.leader == self.broker_id:
            # Before any append, so that followers learn where older epochs end (KAFKA-7415).
            self.log.start_epoch(state.leader_epoch)
            if self.mirror is not None:
                self.mirror.start_epoch(state.leader_epoch)
            self.role = LeaderState(
                self.broker_id,
                state,
                epoch_start_offset=self.log.end_offset,
                now=now,
                lag_s=self._context.lag_s,
            )
            change = RoleChange.LEADER
        elif state.leader != NO_LEADER:
            self.role = FollowerState(self.broker_id, state)
            change = RoleChange.FOLLOWER
        else:
            self.role = None
        if was_leading and change is not RoleChange.LEADER:
            self.watchers.leadership_lost(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            # A leader that goes on leading has cut nothing: produces and deletions may go on waiting.
            self.watchers.changed()
        if isinstance(self.role, LeaderState):
            self.advance_high_watermark()
            self.propose(self.role.propose_recovered())
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
                durable_log_start_offset=log.durable_log_start_offset, eligible=self.eligible
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
        self.check_epoch(current_leader_epoch)
        if not isinstance(self.role, LeaderState):
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is not led by broker {self.broker_id}"
            )
        return self.role

    def check_epoch(self, current_leader_epoch: Epoch) -> None:
        """Raise `PartitionError` unless the log works and the leader epoch is the client's, if it has one."""
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
        kept = next(filter(None, map(self.producers.check, headers)), None)
        if kept is not None:
            self.stats.duplicate_batches += 1
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

    def advance_high_watermark(self) -> bool:
        """Recompute the high watermark as leader, and wake its waiters. It never goes back. Called after
        each change of the ISR, and of the log end offset of this replica or of a follower."""
        leader = self.leading
        if leader is None:
            return False
        found = leader.high_watermark(
            log_end_offset=self.log.end_offset,
            min_isr=self.min_isr,
            now=trio.current_time(),
            eligible=self.eligible,
        )
        if found is None or found <= self.log.high_watermark:
            return False
        invariant(found <= self.log.end_offset, "the high watermark passes the log's end", found=found)
        self.log.high_watermark = found
        self.watchers.high_watermark_moved(found)
        return True

    def low_watermark(self) -> Offset | None:
        """Return the low watermark, `LeaderState.low_watermark`. None unless this broker leads."""
        leader = self.leading
        if leader is None:
            return None
        return leader.low_watermark(
            durable_log_start_offset=self.log.durable_log_start_offset, eligible=self.eligible
        )

    def settle_deletions(self) -> None:
        """Complete the deletions that every replica has, after a change of one of them."""
        if self.watchers.await_deletion and (least := self.low_watermark()) is not None:
            self.watchers.low_watermark_moved(least)

    # The ISR

    def scan_isr(self) -> None:
        """Shrink the ISR by members that are behind for too long; run every half lag time."""
        leader = self.leading
        if leader is None or self.failure is not None:
            return
        if self.log.high_watermark == self.log.end_offset and leader.is_reached(self.log.end_offset):
            return
        # A follower that stopped being "about to join" no longer holds the high watermark back.
        self.advance_high_watermark()
        self.propose(leader.propose_shrink(log_end_offset=self.log.end_offset, now=trio.current_time()))

    def propose(self, proposal: IsrProposal | None) -> None:
        """Ask the controller for the ISR that this leader proposes, if it proposes one."""
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

    def granted(self, proposal: IsrProposal, result: AlterPartitionResult) -> None:
        """Apply the controller's committed answer. Metadata brings the same sooner or later, but the high
        watermark need not wait for it (KAFKA-13091)."""
        leader = self.leading
        if leader is None or leader.isr.pending is not proposal:
            return
        before = leader.isr.committed
        leader.isr.commit(
            result.isr,
            elr=result.eligible_leader_replicas,
            partition_epoch=result.partition_epoch,
            recovery=result.leader_recovery_state,
        )
        self._isr_committed(before, result.isr)

    def _isr_committed(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        self.stats.isr_shrinks += not set(before) <= set(after)
        self.stats.isr_expands += not set(after) <= set(before)
        # A member that left no longer holds the high watermark back.
        self.advance_high_watermark()
        self.settle_deletions()

    def refused(self, proposal: IsrProposal) -> None:
        """Handle a change that the controller has not committed and would refuse again."""
        if self.is_pending(proposal) and self.leading is not None:
            self.stats.failed_isr_updates += 1
            self.propose(self.leading.take_back())
