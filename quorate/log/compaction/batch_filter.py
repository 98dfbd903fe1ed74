"""The part of one batch that stays."""

import enum
from functools import partial
from typing import Final

from quorate.log.batches.batch import (
    HEADER_BYTES,
    NO_PRODUCER,
    BatchHeader,
    seal,
    with_delete_horizon,
    without_records,
)
from quorate.log.batches.record_walk import RecordBytes
from quorate.log.compaction.offset_map import OffsetMap
from quorate.log.compaction.record_keys import (
    KeyedRecord,
    KeyWalk,
    UnreadableRecordsError,
    with_timestamp_delta,
)
from quorate.log.compaction.terms import CompactionRules, LastSequences
from quorate.log.compression import (
    Codec,
    CompressedDataError,
    DecompressedTooLargeError,
    compress,
    decompress,
)
from quorate.runtime import Compute, Slices, let_go

RECORDS_PER_STEP: Final = 512
"""The number of records between two looks at the clock: about 1 ms."""
_INLINE_BYTES: Final = 32 * 1024
"""The largest compressed batch that is decompressed on the event loop: about 1 ms."""


class Fate(enum.Enum):
    """The fate of a batch that is not written again."""

    STAYS = enum.auto()
    EMPTIED = enum.auto()
    """Only its offsets are needed."""


class CompactionCounts:
    """The counts of a compaction so far. Mutable."""

    __slots__ = (
        "next_horizon_ms",
        "records_after",
        "records_before",
        "tombstones_dropped",
        "tombstones_kept",
    )

    def __init__(self) -> None:
        self.records_before = 0
        self.records_after = 0
        self.tombstones_kept = 0
        self.tombstones_dropped = 0
        self.next_horizon_ms: int | None = None


def has_keys(header: BatchHeader) -> bool:
    """Return whether a batch has records that a compaction may remove. Those of control batches and of
    transactions are kept, because their meaning depends on other batches."""
    return not (header.is_bare or header.is_control or header.is_transactional)


async def records_in(
    header: BatchHeader, batch: memoryview, compute: Compute, *, most_bytes: int
) -> RecordBytes:
    """Return the decompressed records. Raises `UnreadableRecordsError`."""
    body = batch[HEADER_BYTES:]
    if not header.codec:
        return bytes(body)
    try:
        function = partial(decompress, Codec(header.codec), body, most_bytes)
        return function() if len(body) <= _INLINE_BYTES else await compute.run(function)
    except DecompressedTooLargeError:
        raise UnreadableRecordsError(f"its records take more than {most_bytes} bytes") from None
    except (ValueError, CompressedDataError) as error:
        raise UnreadableRecordsError(str(error)) from error


class BatchFilter:
    """Decides which records stay of the batches below `end`. Their keys are all in `offsets`."""

    def __init__(
        self,
        offsets: OffsetMap,
        end: int,
        rules: CompactionRules,
        last: LastSequences,
        compute: Compute,
        slices: Slices,
    ) -> None:
        self._offsets = offsets
        self._end = end
        self._rules = rules
        self._last = last
        self._compute = compute
        self._slices = slices
        self.counts = CompactionCounts()

    async def filter(self, header: BatchHeader, batch: memoryview) -> bytes | Fate:
        """Return the bytes that replace the batch, or its fate. `batch` must not change meanwhile. Raises
        `UnreadableRecordsError`."""
        counts = self.counts
        counts.records_before += header.count
        if header.is_bare:
            return Fate.STAYS if self._is_last_sequence(header) else Fate.EMPTIED
        if header.end_offset > self._end or not has_keys(header):
            counts.records_after += header.count
            return Fate.STAYS
        data = await records_in(header, batch, self._compute, most_bytes=self._rules.uncompressed_max_bytes)
        kept, tombstones = await self._select_records(header, data)
        counts.records_after += len(kept)
        try:
            return await self._decide(header, data, kept, tombstones)
        finally:
            for _ in let_go(kept):
                await self._slices.pause()

    async def _decide(
        self, header: BatchHeader, data: RecordBytes, kept: list[KeyedRecord], tombstones: int
    ) -> bytes | Fate:
        counts = self.counts
        if not kept:
            return without_records(header) if self._is_last_sequence(header) else Fate.EMPTIED
        horizon = header.delete_horizon_ms
        if tombstones:
            counts.tombstones_kept += tombstones
            if horizon is None:
                horizon = self._rules.now_ms + self._rules.delete_retention_ms
            counts.next_horizon_ms = min(horizon, counts.next_horizon_ms or horizon)
        if len(kept) == header.count and horizon == header.delete_horizon_ms:
            return Fate.STAYS
        return await self._write_batch(header, data, kept, horizon)

    def _is_last_sequence(self, header: BatchHeader) -> bool:
        return header.producer_id != NO_PRODUCER and self._last(header)

    async def _select_records(self, header: BatchHeader, data: RecordBytes) -> tuple[list[KeyedRecord], int]:
        """Return the records that stay, and the number of tombstones among them."""
        horizon = header.delete_horizon_ms
        tombstones_go = horizon is not None and horizon <= self._rules.now_ms
        base, last_offset = header.base_offset, self._offsets.last_offset
        walk = KeyWalk(data, header.count)
        kept: list[KeyedRecord] = []
        tombstones = 0
        while walk.left:
            for record in walk.next(RECORDS_PER_STEP):
                # A record without a key can't be superseded. Kafka too removes it from a compacted log.
                if record.key is None or last_offset(record.key) > base + record.offset_delta:
                    continue
                if not record.has_value:
                    if tombstones_go:
                        self.counts.tombstones_dropped += 1
                        continue
                    tombstones += 1
                kept.append(record)
            await self._slices.pause()
        return kept, tombstones

    async def _write_batch(
        self, header: BatchHeader, data: RecordBytes, kept: list[KeyedRecord], horizon: int | None
    ) -> bytes:
        base, attributes = header.base_timestamp, header.attributes
        if horizon is not None and horizon != header.delete_horizon_ms:
            base, attributes = horizon, with_delete_horizon(attributes)
        moved = header.base_timestamp - base
        pieces: list[bytes] = []
        newest_delta = kept[0].timestamp_delta
        for start in range(0, len(kept), RECORDS_PER_STEP):
            step: list[bytes | bytearray] = []
            for record in kept[start : start + RECORDS_PER_STEP]:
                newest_delta = max(newest_delta, record.timestamp_delta)
                if moved:
                    step.append(with_timestamp_delta(data, record, record.timestamp_delta + moved))
                else:
                    step.append(data[record.start : record.end])
            pieces.append(b"".join(step))
            await self._slices.pause()
        newest = header.max_timestamp
        if not header.is_log_append_time:
            newest = header.base_timestamp + newest_delta
        codec = Codec(header.codec)
        body = b"".join(pieces)
        if codec is not Codec.NONE:
            function = partial(compress, codec, body)
            body = function() if len(body) <= _INLINE_BYTES else await self._compute.run(function)
        return seal(
            body,
            base_offset=header.base_offset,
            epoch=header.leader_epoch,
            attributes=attributes,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=base,
            max_timestamp=newest,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=len(kept),
        )
