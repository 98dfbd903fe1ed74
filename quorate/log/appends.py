"""Batches onto the end of a log."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from quorate.invariant import invariant
from quorate.log.batches.batch import STAMP_BYTES, BatchHeader, bare_header, read_headers, stamp
from quorate.log.log_errors import EpochRegressionError, OffsetGapError
from quorate.log.open_log import OpenLog
from quorate.log.segments.segment import Segment
from quorate.runtime import WORK, Buffer, DescriptorsExhaustedError, DiskError
from quorate.types import Offset
from quorate.value import value

_TIMESTAMPS = struct.Struct(">qq")
_TIMESTAMPS_START = 27
_OFFSETS_AT_ONCE = 2**31 - 1


@value(frozen=True, slots=True)
class AppendInfo:
    """The outcome of an append: offsets [base_offset, end_offset) and their size in bytes. They are not
    durable yet."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


@dataclass(slots=True)
class _Span:
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    first_timestamp: int
    max_timestamp: int


class Appends(OpenLog):
    """Plain calls, first in, first out: one vectored write each. Nothing is durable before a sync."""

    def append_as_leader(
        self, records: Buffer, epoch: int, *, headers: Sequence[BatchHeader] | None = None
    ) -> AppendInfo:
        """Append a client's batches, giving them offsets and `epoch`. The record bytes are not copied into
        the file write, and the CRC stays as it is.

        `headers`: of all batches in `records`, if the caller has already read and checked them.
        Raises `InvalidBatchError` (nothing was appended), `DiskError`, `LogFailedError`.
        """
        self._check_writable()
        if headers is None:
            headers = list(read_headers(records, contiguous=False, max_bytes=self._config.max_batch_bytes))
        if epoch < self._epochs.last_epoch:
            raise EpochRegressionError(f"epoch {epoch} is older than {self._epochs.last_epoch}", position=0)
        view = memoryview(records)
        pieces: list[Buffer] = []
        spans: list[_Span] = []
        base = int(self.end_offset)
        for header in headers:
            start, size = header.position, header.size
            pieces += (stamp(base, header.length, epoch), view[start + STAMP_BYTES : start + size])
            end = base + header.last_offset_delta + 1
            spans.append(_Span(base, end, epoch, size, header.first_timestamp, header.max_timestamp))
            base = end
        return self._append(pieces, spans)

    def append_as_follower(
        self, records: Buffer, *, headers: Sequence[BatchHeader] | None = None, in_memory: bool = True
    ) -> AppendInfo:
        """Append the leader's batches as they are. They must start at the log's end, be contiguous, and not
        go back in epochs. `in_memory`: whether they will be read again soon. Other parameters, and errors, as
        for `append_as_leader`."""
        self._check_writable()
        if headers is None:
            headers = list(read_headers(records))
        if len(headers) > 1 and headers[-1].end_offset - headers[0].base_offset > _OFFSETS_AT_ONCE:
            # Bare headers may span more than one segment can.
            before, size = self.end_offset, 0
            for header in headers:
                size += self.append_as_follower(records, headers=[header], in_memory=in_memory).size_bytes
            return AppendInfo(before, self.end_offset, size)
        view = memoryview(records)
        pieces: list[Buffer] = []
        spans: list[_Span] = []
        expected, epoch = int(self.end_offset), int(self._epochs.last_epoch)
        for header in headers:
            size, end = header.size, header.end_offset
            base, piece = header.base_offset, view[header.position : header.position + size]
            if header.is_bare and base < expected < end:
                # The leader has compacted: its one header stands for batches that are here and the next ones.
                base, epoch_of = expected, header.leader_epoch
                piece = memoryview(
                    bare_header(
                        base_offset=base, end_offset=end, epoch=epoch_of, max_timestamp=header.max_timestamp
                    )
                )
            if base != expected:
                raise OffsetGapError(f"base offset {base}, expected {expected}", position=header.position)
            if header.leader_epoch < epoch:
                raise EpochRegressionError(
                    f"epoch {header.leader_epoch} is older than {epoch}", position=header.position
                )
            expected, epoch = end, header.leader_epoch
            pieces.append(piece)
            spans.append(_Span(base, end, epoch, size, header.first_timestamp, header.max_timestamp))
        return self._append(pieces, spans, in_memory=in_memory)

    def append_own(self, batch: bytes, *, base_offset: int, end_offset: int, epoch: int) -> AppendInfo:
        """Append one batch that this process built and stamped, without parsing it."""
        self._check_writable()
        if base_offset != self.end_offset:
            raise OffsetGapError(f"base offset {base_offset}, expected {self.end_offset}", position=0)
        if epoch < self._epochs.last_epoch:
            raise EpochRegressionError(f"epoch {epoch} is older than {self._epochs.last_epoch}", position=0)
        base_timestamp, max_timestamp = _TIMESTAMPS.unpack_from(batch, _TIMESTAMPS_START)
        span = _Span(base_offset, end_offset, epoch, len(batch), base_timestamp, max_timestamp)
        return self._append([batch], [span])

    def _append(self, pieces: list[Buffer], spans: list[_Span], *, in_memory: bool = True) -> AppendInfo:
        """`pieces` hold one batch each, or two pieces per batch."""
        start = self.end_offset
        if not spans:
            return AppendInfo(start, start, 0)
        last = spans[-1]
        invariant(spans[0].base_offset == start, "an append does not begin at the log's end", end=start)
        total = last.size if len(spans) == 1 else sum(span.size for span in spans)
        in_memory = in_memory and total <= self._config.tail_bytes
        try:
            segment = self._active
            if not segment.has_room_for(total, end_offset=last.end_offset, timestamp=last.max_timestamp):
                segment = self._roll()
            position = segment.append(pieces, total)
            per_batch = len(pieces) // len(spans)
            note_batch = segment.indexes.note_batch
            WORK.batches += len(spans)
            WORK.bytes += total
            for number, span in enumerate(spans):
                note_batch(
                    position=position,
                    last_offset=span.end_offset - 1,
                    first_timestamp=span.first_timestamp,
                    max_timestamp=span.max_timestamp,
                )
                if span.epoch > self._epochs.newest:
                    self._epochs.assign(span.epoch, span.base_offset)
                position += span.size
                if in_memory:
                    batch = b"".join(pieces[number * per_batch : (number + 1) * per_batch])
                    self._tail.add(span.base_offset, span.end_offset, batch)
        except DescriptorsExhaustedError:
            # Only a roll opens files, before it changes anything: the next append rolls again.
            raise
        except DiskError as error:
            self._failure = error
            raise
        if not in_memory:
            self._tail.clear()
        self._unsynced_bytes += total
        self.end_offset = Offset(last.end_offset)
        return AppendInfo(start, self.end_offset, total)

    def _roll(self) -> Segment:
        self._active.finish_appends()
        self._active = Segment(self._disk, self._folder, self.end_offset, self._config, create=True)
        self._segments.append(self._active)
        self._folder_writes += 1
        return self._active
