"""The core's view of the local log: offsets and epochs, never bytes."""

from quorate.invariant import invariant
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.core_config import BatchSpan, Generation
from quorate.raft.core.replica_log.epoch_history import EpochHistory
from quorate.raft.core.replica_log.voter_history import VoterHistory
from quorate.types import Epoch, EpochEnd, Offset, RecoveredLog, SnapshotId, VotersAt, VoterSet


class ReplicaLog(Cloneable):
    """log start <= durable end <= log end, all exclusive ends, and log start <= snapshot end <= log end.

    The end moves when an append is asked for, the durable end when it is reported done.
    """

    __slots__ = (
        "durable_end_offset",
        "end_offset",
        "epochs",
        "generation",
        "snapshot",
        "start_epoch",
        "start_offset",
        "voters",
    )

    def __init__(self, recovered: RecoveredLog, *, static_voters: VoterSet) -> None:
        invariant(
            0 <= recovered.log_start_offset <= recovered.end_offset,
            "the recovered log's start must not lie above its end",
            recovered=recovered,
        )
        self.start_offset = recovered.log_start_offset
        self.start_epoch = recovered.start_epoch
        """The epoch of the record below the log start."""
        self.end_offset = recovered.end_offset
        self.durable_end_offset = recovered.end_offset
        self.generation = Generation(0)
        self.snapshot = recovered.snapshot
        """The latest snapshot of this node's log, without the bootstrap snapshot."""
        self.voters = VoterHistory(static_voters, recovered.voters)
        self.epochs = EpochHistory(recovered.epochs)
        invariant(
            self.start_offset == 0
            or (self.snapshot is not None and self.start_offset <= self.snapshot.end_offset),
            "a log that starts above 0 needs a snapshot of what is gone; rebuild this node as a new replica",
            recovered=recovered,
        )
        self.epochs.trim(self.start_offset, end_offset=self.end_offset)
        entries = self.epochs.entries
        invariant(
            not entries or entries[-1].start_offset < recovered.end_offset,
            "the last epoch must start below the log end; move leader-epoch-checkpoint away to rebuild it",
            recovered=recovered,
        )
        invariant(
            recovered.end_offset == recovered.log_start_offset or bool(entries),
            "a log with records must know their epochs; move leader-epoch-checkpoint away to rebuild it",
            recovered=recovered,
        )

    @property
    def is_durable(self) -> bool:
        return self.durable_end_offset == self.end_offset

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, which may be in a snapshot only; 0 if there never was one."""
        epoch = self.epochs.last_epoch
        return epoch if epoch is not None else self.start_epoch

    @property
    def durable_epoch(self) -> Epoch:
        """The epoch of the last durable record."""
        if self.durable_end_offset == self.end_offset:
            return self.last_epoch
        return self.epoch_before(self.durable_end_offset)

    def epoch_before(self, end_offset: Offset) -> Epoch:
        """The epoch of the record just below `end_offset`, which is not below the log start."""
        epoch = self.epochs.epoch_before(end_offset)
        return epoch if epoch is not None else self.start_epoch

    def holds(self, snapshot: SnapshotId) -> bool:
        """True if the log, from its start on, contains the point where `snapshot` ends."""
        end = snapshot.end_offset
        return self.start_offset <= end <= self.end_offset and self.epoch_before(end) == snapshot.epoch

    # --- appends ---

    def append(self, *, count: int, epoch: Epoch) -> Offset:
        """Add `count` records of `epoch`; return the offset of the first."""
        base = self.end_offset
        self.epochs.assign(epoch=epoch, start_offset=base)
        self.end_offset = Offset(base + count)
        return base

    def follows(self, batches: tuple[BatchSpan, ...], *, leader_epoch: Epoch) -> bool:
        """True if these batches continue the log: no gap, and no epoch that goes back or is above the
        leader's."""
        end = self.end_offset
        epoch = self.last_epoch
        for batch in batches:
            if (
                batch.base_offset != end
                or batch.end_offset <= end
                or not epoch <= batch.epoch <= leader_epoch
                or (batch.voters is not None and not end <= batch.voters.offset < batch.end_offset)
            ):
                return False
            end = batch.end_offset
            epoch = batch.epoch
        return True

    def append_batches(self, batches: tuple[BatchSpan, ...]) -> bool:
        """Append fetched batches. Returns whether one of them has a voter set."""
        had_voters = False
        for batch in batches:
            self.append(count=batch.end_offset - batch.base_offset, epoch=batch.epoch)
            if batch.voters is not None:
                self.voters.append(batch.voters)
                had_voters = True
        return had_voters

    def note_durable(self, end_offset: Offset) -> bool:
        """Note that the log is durable below `end_offset`. Returns whether the durable end moved."""
        invariant(
            end_offset <= self.end_offset,
            "more became durable than was appended",
            end_offset=end_offset,
            log_end_offset=self.end_offset,
        )
        if end_offset <= self.durable_end_offset:
            return False
        self.durable_end_offset = end_offset
        return True

    # --- cuts, at either end ---

    def truncate(self, end_offset: Offset) -> None:
        """Cut, and begin a new generation. What remains is durable, because the cut is a barrier."""
        invariant(
            self.start_offset <= end_offset < self.end_offset,
            "a truncation must cut something, and nothing below the log start",
            end_offset=end_offset,
            log_start_offset=self.start_offset,
            log_end_offset=self.end_offset,
        )
        self._must_be_durable()
        self.epochs.truncate(end_offset)
        self.voters.truncate(end_offset)
        self.end_offset = end_offset
        self.durable_end_offset = end_offset
        self.generation = Generation(self.generation + 1)

    def reset(self, snapshot: SnapshotId, voters: VoterSet | None) -> None:
        """Empty, to begin where `snapshot`, which holds `voters`, ends; in a new generation."""
        self._must_be_durable()
        last = Offset(snapshot.end_offset - 1)
        self.voters.reset(None if voters is None else VotersAt(last, voters))
        self.start_offset = self.end_offset = self.durable_end_offset = snapshot.end_offset
        self.start_epoch = snapshot.epoch
        self.epochs.trim(self.start_offset, end_offset=self.end_offset)
        self.snapshot = snapshot
        self.generation = Generation(self.generation + 1)

    def move_start(self, start: EpochEnd) -> None:
        """Move the log start to `start.end_offset`, at most the end of the latest snapshot."""
        invariant(
            self.snapshot is not None and start.end_offset <= self.snapshot.end_offset,
            "the log start moves only over what a snapshot holds",
            start=start,
            snapshot=self.snapshot,
        )
        self._must_match(start)
        self.epochs.trim(start.end_offset, end_offset=self.end_offset)
        self.voters.trim(start.end_offset)
        self.start_offset = start.end_offset
        self.start_epoch = start.epoch

    def note_snapshot(self, snapshot: SnapshotId) -> None:
        invariant(
            snapshot.end_offset <= self.durable_end_offset,
            "a snapshot holds only what the log has stored",
            snapshot=snapshot,
            durable_end_offset=self.durable_end_offset,
        )
        self._must_match(EpochEnd(snapshot.epoch, snapshot.end_offset))
        self.snapshot = snapshot

    def _must_be_durable(self) -> None:
        # A fetch leaves only when everything is durable, and only what it leads to cuts the log.
        invariant(
            self.is_durable,
            "a truncation must not race an append",
            durable_end_offset=self.durable_end_offset,
            log_end_offset=self.end_offset,
        )

    def _must_match(self, point: EpochEnd) -> None:
        epoch = self.epoch_before(point.end_offset)
        invariant(
            point.epoch == epoch, "a snapshot's epoch is that of its last record", given=point, in_log=epoch
        )

    # --- comparisons ---

    def end_of(self, epoch: Epoch) -> EpochEnd:
        """The largest local epoch <= `epoch` and its end offset. If every local one is larger, epoch 0 with
        the log start: nothing is shared above it."""
        end = self.epochs.last_up_to(epoch, log_end_offset=self.end_offset)
        if end is not None:
            return end
        return EpochEnd(self.start_epoch if self.start_epoch <= epoch else Epoch(0), self.start_offset)

    def snapshot_for(self, *, offset: Offset, epoch: Epoch) -> SnapshotId | None:
        """The snapshot that a log ending at `offset` with a record of `epoch` must load, because it is empty
        or differs below the log start. None: it needs none (docs/reference/kraft-rules.md#fetch)."""
        if self.snapshot is None:
            return None
        start = self.start_offset
        is_below = (
            offset < start or epoch < self.start_epoch or (offset == start and epoch != self.start_epoch)
        )
        return self.snapshot if is_below or offset == 0 else None

    def divergence(self, *, offset: Offset, epoch: Epoch) -> EpochEnd | None:
        """The diverging epoch of a log that ends at `offset` with a record of `epoch` and needs no snapshot.
        None: it is a prefix of this log (docs/reference/kraft-rules.md#fetch)."""
        if offset <= self.end_offset and epoch == self.last_epoch:
            return None  # as for every follower that has caught up
        if offset == 0 and self.start_offset == 0:
            return None
        end = self.end_of(epoch)
        return None if end.epoch == epoch and offset <= end.end_offset else end
