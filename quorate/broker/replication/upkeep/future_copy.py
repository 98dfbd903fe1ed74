"""Copies a log to a future replica's, a piece at a time, as fast as the broker's rate for it allows.

The next step follows from the two logs, by the rules of a follower: their last common epoch says how much
of the copy is the original's (KIP-101, KIP-279).
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import trio

from quorate.broker.replication.foundation.replication_quota import ReplicationQuota
from quorate.log import Log, OffsetOutOfRangeError
from quorate.log.batches.batch import read_headers, runs_of
from quorate.runtime import Slices
from quorate.types import EpochEnd, EpochStart, Offset


class LogView(Protocol):
    """What the rules ask of a log."""

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def epochs(self) -> tuple[EpochStart, ...]: ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None: ...


@dataclass(frozen=True, slots=True)
class Restart:
    """Empty the copy, and begin at this offset."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the copy to this end offset."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Append what the original has from this offset on."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class Equal:
    """The copy has everything."""


CopyStep: TypeAlias = Restart | Cut | ReadFrom | Equal


def next_step(original: LogView, copy: LogView) -> CopyStep:
    """Return what brings the copy closer to the original, as both are now."""
    if copy.end_offset < original.log_start_offset:
        return Restart(original.log_start_offset)
    end = _common_end(original, copy)
    if end < copy.end_offset:
        return Cut(end) if end > copy.log_start_offset else Restart(original.log_start_offset)
    return ReadFrom(copy.end_offset) if copy.end_offset < original.end_offset else Equal()


def _common_end(original: LogView, copy: LogView) -> Offset:
    end = min(copy.end_offset, original.end_offset)
    if not copy.epochs or copy.log_start_offset == copy.end_offset:
        return end
    found = original.end_offset_for_epoch(copy.epochs[-1].epoch)
    if found is None:
        return Offset(min(end, original.log_start_offset))
    own = copy.end_offset_for_epoch(found.epoch)
    return min(end, found.end_offset, Offset(0) if own is None else own.end_offset)


_PIECE_BYTES = 256 * 1024
"""The bytes that are read at once. They are held in memory, and pass the throttle together."""
_BATCHES_AT_ONCE = 500
"""The batches that are checked and appended in one piece: 1 ms."""


class FutureCopy:
    """Brings `future` closer to the log that `step` is called with. `pieces` bounds how many copies of a
    broker read and write at one time, in turn."""

    def __init__(self, future: Log, *, quota: ReplicationQuota, pieces: trio.CapacityLimiter) -> None:
        self.future = future
        self._quota = quota
        self._pieces = pieces

    async def step(self, original: Log) -> bool:
        """Take one step, and return True if there was nothing left to do; nothing has run since then. Raises
        `InvalidBatchError` for damage in the original, `DiskError`, `LogError`."""
        future = self.future
        match next_step(original, future):
            case Equal():
                self._take_epoch(original)
                self._take_marks(original)
                return True
            case Cut(end_offset):
                future.high_watermark = min(future.high_watermark, end_offset)
                await future.truncate(end_offset)
            case Restart(offset):
                await future.truncate_fully_and_start_at(offset)
            case _:
                await self._wait_for_quota()
                async with self._pieces:
                    await self._copy(original)
                if self._take_marks(original):
                    await future.remove_below_log_start()
        return False

    def _take_epoch(self, original: Log) -> None:
        """An epoch may begin at the log's end, before any record of it."""
        if original.epochs and original.epochs[-1].start_offset == original.end_offset:
            self.future.start_epoch(original.epochs[-1].epoch)

    def _take_marks(self, original: Log) -> bool:
        """Take over log start and high watermark. Return whether the log start moved."""
        future = self.future
        raised = future.end_offset >= original.log_start_offset and future.raise_log_start(
            original.log_start_offset
        )
        future.high_watermark = max(future.log_start_offset, min(original.high_watermark, future.end_offset))
        return raised

    async def _wait_for_quota(self) -> None:
        # The rate may change meanwhile, and others copy too.
        while pause := self._quota.pause_s(now=trio.current_time()):  # noqa: ASYNC110
            await trio.sleep(pause)

    async def _copy(self, original: Log) -> None:
        future = self.future
        try:
            records = await original.read(future.end_offset, _PIECE_BYTES)
        except OffsetOutOfRangeError:
            return  # cut meanwhile, at one end or the other
        if not records:
            return
        self._quota.record(len(records), now=trio.current_time())
        slices = Slices()
        for run in runs_of(records, most=_BATCHES_AT_ONCE):
            headers = list(read_headers(run, dense=False))
            if future.log_start_offset == future.end_offset > headers[0].base_offset:
                # The original starts in the middle of this batch.
                await future.truncate_fully_and_start_at(Offset(headers[0].base_offset))
            future.append_as_follower(run, headers=headers, in_memory=False)
            await slices.pause()
