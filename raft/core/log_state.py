"""What the core knows of the local log: offsets and epochs, never bytes."""

from collections.abc import Hashable

from quorate.raft.core.epochs import EpochCache
from quorate.raft.core.invariant import invariant
from quorate.raft.core.types import BatchSpan, Epoch, EpochEnd, Generation, Offset, RecoveredLog


class LogState:
    """log start <= durable end <= log end, all exclusive ends.

    The end moves when an append is asked for, the durable end when it is reported done.
    """

    __slots__ = ("durable_end_offset", "end_offset", "epochs", "generation", "start_offset")

    def __init__(self, recovered: RecoveredLog) -> None:
        invariant(
            0 <= recovered.log_start_offset <= recovered.end_offset,
            "the recovered log's start must not lie above its end",
            recovered=recovered,
        )
        self.start_offset = recovered.log_start_offset
        self.end_offset = recovered.end_offset
        self.durable_end_offset = recovered.end_offset
        self.generation = Generation(0)
        self.epochs = EpochCache(recovered.epochs)
        invariant(
            not recovered.epochs or recovered.epochs[-1].start_offset < recovered.end_offset,
            "the last epoch must start below the log end; delete leader-epoch-checkpoint to rebuild it",
            recovered=recovered,
        )
        invariant(
            recovered.end_offset == recovered.log_start_offset or bool(recovered.epochs),
            "a log with records must know their epochs; delete leader-epoch-checkpoint to rebuild it",
            recovered=recovered,
        )

    @property
    def is_durable(self) -> bool:
        return self.durable_end_offset == self.end_offset

    @property
    def last_epoch(self) -> Epoch:
        return self.epochs.last_epoch

    @property
    def durable_epoch(self) -> Epoch:
        """The epoch of the last durable record."""
        if self.durable_end_offset == self.end_offset:
            return self.epochs.last_epoch
        return self.epochs.epoch_before(self.durable_end_offset)

    def append(self, *, count: int, epoch: Epoch) -> Offset:
        """Add `count` records of `epoch`; return the offset of the first."""
        base = self.end_offset
        self.epochs.assign(epoch=epoch, start_offset=base)
        self.end_offset = Offset(base + count)
        return base

    def follows(self, batches: tuple[BatchSpan, ...], *, leader_epoch: Epoch) -> bool:
        """Whether these batches continue the log: no gap, no epoch that goes back or is ahead of the
        leader's."""
        end = self.end_offset
        epoch = self.epochs.last_epoch
        for batch in batches:
            if (
                batch.base_offset != end
                or batch.end_offset <= end
                or not epoch <= batch.epoch <= leader_epoch
            ):
                return False
            end = batch.end_offset
            epoch = batch.epoch
        return True

    def append_batches(self, batches: tuple[BatchSpan, ...]) -> None:
        for batch in batches:
            self.append(count=batch.end_offset - batch.base_offset, epoch=batch.epoch)

    def became_durable(self, end_offset: Offset) -> bool:
        """Returns whether the durable end moved."""
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

    def truncate(self, end_offset: Offset) -> None:
        """Cut, and begin a new generation. What remains is durable, because the cut is a barrier."""
        invariant(
            self.start_offset <= end_offset < self.end_offset,
            "a truncation must cut something, and nothing below the log start",
            end_offset=end_offset,
            log_start_offset=self.start_offset,
            log_end_offset=self.end_offset,
        )
        # A fetch leaves only when everything is durable, and only its answer truncates.
        invariant(
            self.is_durable,
            "a truncation must not race an append",
            durable_end_offset=self.durable_end_offset,
            log_end_offset=self.end_offset,
        )
        self.epochs.truncate(end_offset)
        self.end_offset = end_offset
        self.durable_end_offset = end_offset
        self.generation = Generation(self.generation + 1)

    def end_of(self, epoch: Epoch) -> EpochEnd:
        """The largest local epoch <= `epoch` and its end offset."""
        return self.epochs.end_offset_for(
            epoch, log_start_offset=self.start_offset, log_end_offset=self.end_offset
        )

    def divergence(self, *, offset: Offset, epoch: Epoch) -> EpochEnd | None:
        """None if a log that ends at `offset` with a record of `epoch` is a prefix of this one; else where
        to look for the last common record (kraft.md section 3, case 4)."""
        if offset <= self.end_offset and epoch == self.epochs.last_epoch:
            return None  # what every caught-up follower asks
        if offset == 0 and self.start_offset == 0:
            return None
        end = self.end_of(epoch)
        return None if end.epoch == epoch and offset <= end.end_offset else end

    def clone(self) -> "LogState":
        twin = LogState.__new__(LogState)
        twin.start_offset = self.start_offset
        twin.end_offset = self.end_offset
        twin.durable_end_offset = self.durable_end_offset
        twin.generation = self.generation
        twin.epochs = self.epochs.clone()
        return twin

    def key(self) -> Hashable:
        return self.start_offset, self.end_offset, self.durable_end_offset, self.generation, self.epochs.key()
