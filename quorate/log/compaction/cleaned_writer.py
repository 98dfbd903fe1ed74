"""The writer of the segment that replaces others."""

from typing import Final

from quorate.log.batches.batch import BatchHeader, bare_header, read_header
from quorate.log.compaction.terms import Pace
from quorate.log.segments.segment import Segment
from quorate.runtime import Buffer

_WRITE_BYTES: Final = 256 * 1024
_SYNC_BYTES: Final = 8 * 1024 * 1024
"""The most unsynced bytes. Syncs of other files wait for those of this one."""
_SPAN_MAX: Final = 2**31 - 1
"""The offsets of one batch; the last offset delta is an int32."""


class CleanedWriter:
    """Appends batches to `segment`, and merges runs of emptied ones. Mutable."""

    def __init__(self, segment: Segment, pace: Pace) -> None:
        self.segment = segment
        self.changed = False
        """True if the written batches differ from those read."""
        self._pace = pace
        self._pieces: list[Buffer] = []
        self._position = 0
        self._buffered = 0
        self._unsynced = 0
        self._run: BatchHeader | None = None
        """The first of the emptied batches that are not written yet."""
        self._run_end = 0
        self._run_timestamp = 0
        self._run_bytes = b""
        self._read = 0

    async def note_read(self, size: int) -> None:
        """Note that `size` bytes were read. It may write and sync."""
        self._read += size
        if self._read >= _WRITE_BYTES:
            await self._write()

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch that stays. Its bytes must not change any more."""
        self._end_run()
        self._add(
            batch,
            end_offset=header.end_offset,
            first_timestamp=header.first_timestamp,
            max_timestamp=header.max_timestamp,
        )

    def add_changed(self, batch: bytes) -> None:
        """Add the part of a batch that stays."""
        self.changed = True
        self.add(read_header(batch, check_crc=False, dense=False), batch)

    def add_emptied(self, header: BatchHeader, batch: memoryview) -> None:
        """Add the offsets of an emptied batch."""
        run = self._run
        if (
            run is not None
            and run.leader_epoch == header.leader_epoch
            and header.end_offset - run.base_offset <= _SPAN_MAX
        ):
            self.changed = True
            self._run_bytes = b""
            self._run_end = header.end_offset
            self._run_timestamp = max(self._run_timestamp, header.max_timestamp)
            return
        self._end_run()
        self._run, self._run_end, self._run_timestamp = header, header.end_offset, header.max_timestamp
        self._run_bytes = bytes(batch) if header.is_bare else b""

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        batch = bare_header(
            base_offset=run.base_offset,
            end_offset=self._run_end,
            epoch=run.leader_epoch,
            max_timestamp=self._run_timestamp,
        )
        self.changed = self.changed or batch != self._run_bytes
        self._add(
            batch,
            end_offset=self._run_end,
            first_timestamp=self._run_timestamp,
            max_timestamp=self._run_timestamp,
        )

    def _add(self, batch: Buffer, *, end_offset: int, first_timestamp: int, max_timestamp: int) -> None:
        self._pieces.append(batch)
        self.segment.indexes.note_batch(
            position=self._position,
            last_offset=end_offset - 1,
            first_timestamp=first_timestamp,
            max_timestamp=max_timestamp,
        )
        self._position += len(batch)
        self._buffered += len(batch)

    async def _write(self) -> None:
        read, written = self._read, self._buffered
        self._read = self._buffered = 0
        if self._pieces:
            self.segment.append([b"".join(self._pieces)], written)
            self._pieces.clear()
            self._unsynced += written
            if self._unsynced >= _SYNC_BYTES:
                await self._sync()
        await self._pace.moved(read, written)

    async def _sync(self) -> None:
        self._unsynced = 0
        await self.segment.file.sync()
        self.segment.synced = self.segment.writes

    async def finish(self) -> None:
        """Write the rest, and make the segment and its largest timestamp durable."""
        self._end_run()
        await self._write()
        self.segment.indexes.add_max()
        self.segment.indexes.save()
        await self._sync()
        await self.segment.indexes.sync_times()
