"""The start offset of each leader epoch in the log (KIP-101, KIP-279), and its checkpoint file."""

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter

from quorate.log.checkpoints import UnreadableCheckpointError, decode_lines, encode_lines, is_number
from quorate.runtime import Disk, read_file, write_file_atomically
from quorate.types import Epoch, EpochEnd, EpochStart, Offset

LEADER_EPOCHS = "leader-epoch-checkpoint"
_epoch_of = attrgetter("epoch")
_start_of = attrgetter("start_offset")


class EpochCache:
    """The epochs of a log, each with the offset of its first record. Both increase strictly."""

    __slots__ = ("_entries", "_start_epoch", "dirty", "last_epoch", "newest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries = list(entries)
        self._start_epoch = Epoch(0)
        self.dirty = False
        """True if the checkpoint file is not up to date."""
        self.last_epoch = self._entries[-1].epoch if self._entries else Epoch(0)
        self.newest = self.last_epoch if self._entries else -1
        """The same as `last_epoch`, but -1 without an entry."""

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """The start of each epoch that has records, in order."""
        return tuple(self._entries)

    @property
    def start_epoch(self) -> Epoch:
        """The epoch of the record below the log start, and so of an empty log's last record. 0: unknown. It
        is not in the checkpoint file."""
        return self._start_epoch

    @start_epoch.setter
    def start_epoch(self, epoch: Epoch) -> None:
        self._start_epoch = epoch
        self._set_last_epoch()

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`. It must not be older than the last epoch. Its
        first record may follow later."""
        if self._entries and epoch <= self._entries[-1].epoch:
            return
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochStart(Epoch(epoch), Offset(start_offset)))
        self._note_change()

    def truncate(self, end_offset: int) -> None:
        """Forget the epochs that start at or above `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        if len(kept) != len(self._entries):
            self._entries = kept
            self._note_change()

    def trim(self, log_start_offset: int) -> None:
        """Forget the epochs that end at or below `log_start_offset`. The epoch that spans it then starts
        there."""
        index = bisect_right(self._entries, log_start_offset, key=_start_of) - 1
        if (
            index < 0
            or self._entries[index].start_offset == log_start_offset == self._entries[0].start_offset
        ):
            return
        spanning = EpochStart(self._entries[index].epoch, Offset(log_start_offset))
        self._entries[: index + 1] = [spanning]
        self._note_change()

    def epoch_at(self, offset: int) -> Epoch | None:
        """Return the epoch of the record at `offset`. None: it is below the first known epoch."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].epoch if index else None

    def end_offset_for(self, epoch: int, end_offset: Offset) -> EpochEnd | None:
        """Return the largest known epoch that is at most `epoch`, and its end offset. None: no epoch is
        known. `end_offset`: the log's. For an epoch before the first known one: that epoch, which ends
        where the first known one starts (KIP-279)."""
        index = bisect_right(self._entries, epoch, key=_epoch_of)
        if not self._entries:
            return None
        if not index:
            return EpochEnd(Epoch(epoch), self._entries[0].start_offset)
        end = self._entries[index].start_offset if index < len(self._entries) else end_offset
        return EpochEnd(self._entries[index - 1].epoch, end)

    def _note_change(self) -> None:
        self.dirty = True
        self._set_last_epoch()

    def _set_last_epoch(self) -> None:
        self.last_epoch = self._entries[-1].epoch if self._entries else self._start_epoch
        self.newest = self.last_epoch if self._entries else -1

    async def store(self, disk: Disk, folder: str) -> None:
        """Write the checkpoint file, if anything changed. It is durable when this returns."""
        if not self.dirty:
            return
        entries = self._entries[:]
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
        await write_file_atomically(disk, f"{folder}/{LEADER_EPOCHS}", encode_lines(lines))
        self.dirty = entries != self._entries


def load_epochs(disk: Disk, folder: str) -> list[EpochStart] | None:
    """Read the checkpoint file. None: it is missing or unreadable, and can be rebuilt from the batches
    (KAFKA-16541)."""
    path = f"{folder}/{LEADER_EPOCHS}"
    try:
        lines = decode_lines(path, read_file(disk, path))
    except (FileNotFoundError, UnreadableCheckpointError):
        return None
    entries: list[EpochStart] = []
    for line in lines:
        fields = line.split(" ")
        if len(fields) != 2 or not is_number(fields[0]) or not is_number(fields[1]):
            return None
        entry = EpochStart(Epoch(int(fields[0])), Offset(int(fields[1])))
        if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset <= entries[-1].start_offset):
            return None
        entries.append(entry)
    return entries
