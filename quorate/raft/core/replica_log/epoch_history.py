"""The leader epochs of the log and their offsets (KIP-101, KIP-279)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from quorate.invariant import invariant
from quorate.raft.core.cloning import Cloneable
from quorate.types import Epoch, EpochEnd, EpochStart, Offset


class EpochHistory(Cloneable):
    """The start offset of each epoch in the log, both strictly increasing.

    It knows where epochs start; where the last one ends is the log's to say, so the log end offset is passed
    in.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        for entry in entries:
            invariant(
                not self._epochs
                or (entry.epoch > self._epochs[-1] and entry.start_offset > self._starts[-1]),
                "epochs and start offsets must increase; move leader-epoch-checkpoint away to rebuild it",
                entry=entry,
            )
            self._epochs.append(entry.epoch)
            self._starts.append(entry.start_offset)

    @property
    def last_epoch(self) -> Epoch | None:
        """The epoch of the last record; None for an empty log."""
        return self._epochs[-1] if self._epochs else None

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(
            EpochStart(epoch, start) for epoch, start in zip(self._epochs, self._starts, strict=True)
        )

    def assign(self, *, epoch: Epoch, start_offset: Offset) -> None:
        """The record at `start_offset`, the next in the log, is of `epoch`. No change if the epoch is the
        last one."""
        last = self.last_epoch
        if epoch == last:
            return
        invariant(last is None or epoch > last, "an epoch may not go back in the log", epoch=epoch, last=last)
        invariant(
            not self._starts or start_offset > self._starts[-1],
            "an epoch must start after the one before it",
            epoch=epoch,
            start_offset=start_offset,
        )
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def truncate(self, end_offset: Offset) -> None:
        """Forget the epochs that start at or above `end_offset` (exclusive end of what is kept)."""
        keep = bisect_left(self._starts, end_offset)
        del self._epochs[keep:]
        del self._starts[keep:]

    def trim(self, start_offset: Offset, *, end_offset: Offset) -> None:
        """Forget what lies below `start_offset`, the new log start: the epoch of the record there, if the log
        has one, now starts there."""
        if start_offset >= end_offset:
            self._epochs.clear()
            self._starts.clear()
            return
        below = max(bisect_right(self._starts, start_offset) - 1, 0)
        del self._epochs[:below]
        del self._starts[:below]
        if self._starts and self._starts[0] < start_offset:
            self._starts[0] = start_offset

    def last_up_to(self, epoch: Epoch, *, log_end_offset: Offset) -> EpochEnd | None:
        """The largest known epoch <= `epoch`, and where its records end (exclusive). None if every known
        epoch is larger."""
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return None
        end = self._starts[index] if index < len(self._starts) else log_end_offset
        return EpochEnd(self._epochs[index - 1], end)

    def epoch_before(self, end_offset: Offset) -> Epoch | None:
        """The epoch of the record just below `end_offset`; None if that is not in the log."""
        index = bisect_left(self._starts, end_offset)
        return self._epochs[index - 1] if index else None
