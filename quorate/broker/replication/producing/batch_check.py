"""The check of what producers send, before a leader appends it: every record of every batch, as Kafka's
LogValidator. What passes can be read by every consumer. Followers take what their leader has checked.

A batch is appended as it came, unless the topic wants another timestamp or another compression.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from crc32c import crc32c

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.producing.producer_state import NO_PRODUCER
from quorate.broker.settings.topic_config import TopicConfig
from quorate.broker.wire.budget import Account, MemoryBudget
from quorate.error_code import ErrorCode
from quorate.log import (
    BatchTooLargeError,
    Codec,
    CompressedDataError,
    DecompressedTooLargeError,
    InvalidBatchError,
    compress,
    decompress_within,
    memory_within,
    output_sizes,
)
from quorate.log.batches.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    attributes_with,
    read_header,
    read_headers,
    seal,
)
from quorate.log.batches.record_walk import InvalidRecordError, RecordBytes, RecordWalk, timestamp_deltas
from quorate.runtime import Buffer, Compute, Slices

_CODECS: Final = MappingProxyType(
    {
        "producer": None,
        "uncompressed": Codec.NONE,
        "gzip": Codec.GZIP,
        "snappy": Codec.SNAPPY,
        "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """Sizes in bytes, durations in ms."""

    max_message_bytes: int
    """The size limit of a whole batch, as sent and as kept."""
    codec: Codec | None
    """The codec of kept batches. None: the producer's choice."""
    log_append_time: bool
    """Records get the broker's time at the append."""
    before_max_ms: int
    """The time that a record's timestamp may be behind this broker's clock (KIP-937)."""
    after_max_ms: int
    """The time that a record's timestamp may be ahead of it."""
    keys_needed: bool
    """The topic is compacted: a record without a key could never be superseded."""
    level: int | None = None
    """The level of `codec` where this broker compresses. None: the codec's usual one, or none at all."""

    @classmethod
    def of(cls, config: TopicConfig) -> "ProduceRules":
        levels = {
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            codec=_CODECS[config.compression_type],
            level=levels.get(config.compression_type),
            log_append_time=config.log_append_time,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            keys_needed=config.cleanup_compact,
        )


_RECORDS_PER_STEP: Final = 512
"""Records that are walked without a look at the clock: less than a ms."""
_INLINE_BYTES: Final = MappingProxyType(
    {Codec.GZIP: 512 << 10, Codec.SNAPPY: 2 << 20, Codec.LZ4: 2 << 20, Codec.ZSTD: 2 << 20}
)
"""The bytes decompressed on the event loop, at most: 1 to 4 ms."""
_INLINE_COMPRESSED_BYTES: Final = 64 << 10
"""The bytes compressed on the event loop, at most: about 1 ms."""
_ZSTD_THOROUGH: Final = 12
_INLINE_THOROUGH_BYTES: Final = 8 << 10
"""The bytes compressed on the event loop from that level of zstd on, which takes up to ten times as long: 9
ms for 64 KiB."""
_UNCOUNTED_BYTES: Final = 64 << 10
"""Memory up to this size isn't counted, as that of a frame of this size isn't."""
_NAMED_MAX: Final = 1000
"""The records at fault that are named per batch."""
_NO_TIMESTAMP: Final = -1
_TIMESTAMP_LIMIT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class CheckedBatches:
    """Batches that may be appended: `headers` of all batches in `records`. `append_time_ms` is -1 if records
    keep their producer's timestamps."""

    records: Buffer
    headers: Sequence[BatchHeader]
    append_time_ms: int = -1


class BatchChecker:
    """One per broker."""

    __slots__ = ("_compute", "_limit", "_now_ms")

    def __init__(self, compute: Compute, now_ms: Callable[[], int], *, uncompressed_max_bytes: int) -> None:
        self._compute = compute
        self._now_ms = now_ms
        self._limit = uncompressed_max_bytes

    async def check(
        self,
        records: Buffer,
        rules: ProduceRules,
        slices: Slices,
        *,
        zstd: bool = True,
        memory: MemoryBudget,
    ) -> CheckedBatches:
        """Check `records`, one batch that must not change meanwhile, and bring it to what `rules` ask for.
        Without a checkpoint if that is short. `slices`: of the whole request. `zstd`: whether the client
        knows of it (Produce 7). What is decompressed counts in `memory` meanwhile, and waits for room in it.
        Raises `PartitionError`."""
        header = read_produced(records, max_bytes=rules.max_message_bytes)
        now_ms = self._now_ms()
        account = Account(memory, unpacks=True)
        try:
            rewritten = await self._check_batch(
                header, memoryview(records), rules, slices, account, zstd=zstd, now_ms=now_ms
            )
        finally:
            account.release()
        await slices.pause()
        append_time_ms = now_ms if rules.log_append_time else -1
        if rewritten is None:
            return CheckedBatches(records, (header,), append_time_ms)
        return CheckedBatches(rewritten, (read_header(rewritten, check_crc=False),), append_time_ms)

    async def _check_batch(
        self,
        header: BatchHeader,
        batch: memoryview,
        rules: ProduceRules,
        slices: Slices,
        account: Account,
        *,
        zstd: bool,
        now_ms: int,
    ) -> bytes | None:
        """Return the bytes to keep instead of the batch, or None to keep it as it is."""
        if header.codec > max(Codec):
            raise PartitionError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no compression has the number {header.codec}"
            )
        codec = Codec(header.codec)
        if codec is Codec.ZSTD and not zstd:
            raise PartitionError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs version 7 of Produce (KIP-110)"
            )
        if header.is_log_append_time and not rules.log_append_time:
            raise PartitionError(
                ErrorCode.INVALID_TIMESTAMP, "the batch is marked as having the broker's time (LogAppendTime)"
            )
        body = batch[HEADER_BYTES:]
        data = await self._unpacked(codec, body, account)
        return await self._check_records(header, data, body, rules, slices, account, now_ms=now_ms)

    async def _unpacked(self, codec: Codec, body: memoryview, account: Account) -> RecordBytes:
        """Return the records as they are uncompressed, whose memory is drawn before it is used. Raises
        `PartitionError`."""
        if codec is Codec.NONE:
            await _draw(account, len(body))
            return bytes(body)
        try:
            for size in output_sizes(codec, body, self._limit):
                output = await self._unpacked_within(codec, body, size, account)
                if output is not None:
                    return output
        except CompressedDataError as error:
            raise PartitionError(
                ErrorCode.INVALID_RECORD, f"the batch can't be decompressed ({codec.name.lower()}): {error}"
            ) from None
        except DecompressedTooLargeError:
            pass
        raise PartitionError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has more than {self._limit} bytes when decompressed ({codec.name.lower()}), which is "
            "more than an uncompressed one could bring (socket.request.max.bytes)",
        )

    async def _unpacked_within(
        self, codec: Codec, body: memoryview, size: int, account: Account
    ) -> RecordBytes | None:
        """Return the records if they take `size` bytes at most, else None."""
        account.release()
        await _draw(account, memory_within(codec, body, size))
        unpack = partial(decompress_within, codec, body, size)
        if size <= _INLINE_BYTES[codec] and len(body) <= _INLINE_BYTES[codec] // 4:
            return unpack()
        return await self._compute.run(unpack)

    async def _compressed(self, target: Codec, data: RecordBytes, rules: ProduceRules) -> bytes:
        work = partial(compress, target, memoryview(data), rules.level)
        if target is Codec.NONE or len(data) <= _compressed_inline(target, rules.level):
            return work()
        return await self._compute.run(work)

    async def _check_records(
        self,
        header: BatchHeader,
        data: RecordBytes,
        body: memoryview,
        rules: ProduceRules,
        slices: Slices,
        account: Account,
        *,
        now_ms: int,
    ) -> bytes | None:
        walk = RecordWalk(data, header.count, keys_needed=rules.keys_needed)
        try:
            while not walk.step(_RECORDS_PER_STEP):
                await slices.pause()
        except InvalidRecordError as error:
            raise PartitionError(
                ErrorCode.INVALID_RECORD, str(error), records=((error.index, error.problem),)
            ) from None
        if walk.keyless:
            raise _refused_records(
                ErrorCode.INVALID_RECORD,
                [index for start, end in walk.keyless for index in range(start, end)],
                "a record of a compacted topic needs a key",
            )
        if rules.log_append_time:
            newest = now_ms
        else:
            newest = header.base_timestamp + walk.newest
            await _check_timestamps(header, data, walk, rules, slices, now_ms=now_ms)
        codec = Codec(header.codec)
        target = codec if rules.codec is None else rules.codec
        if (
            target is codec
            and newest == header.max_timestamp
            and header.is_log_append_time == rules.log_append_time
        ):
            return None
        if target is codec:
            kept: Buffer = body
        elif target is Codec.NONE and HEADER_BYTES + len(data) > rules.max_message_bytes:
            raise _grown(target, HEADER_BYTES + len(data), rules)
        else:
            # What doesn't get smaller.
            await _draw(account, len(data))
            kept = await self._compressed(target, data, rules)
        size = HEADER_BYTES + len(kept)
        if size > rules.max_message_bytes:
            raise _grown(target, size, rules)
        return seal(
            bytes(kept),
            base_offset=0,
            epoch=header.leader_epoch,
            attributes=attributes_with(
                header.attributes, codec=target, log_append_time=rules.log_append_time
            ),
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=newest,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=header.count,
        )


async def _draw(account: Account, size: int) -> None:
    if size > _UNCOUNTED_BYTES:
        await account.draw(size)


def _compressed_inline(codec: Codec, level: int | None) -> int:
    """Return how many bytes are compressed on the event loop at most."""
    if codec is Codec.ZSTD and level is not None and level >= _ZSTD_THOROUGH:
        return _INLINE_THOROUGH_BYTES
    return _INLINE_COMPRESSED_BYTES


def read_produced(records: Buffer, *, max_bytes: int) -> BatchHeader:
    """Return the header of a client's batch, which may stand in a log. Raises `PartitionError`:
    CORRUPT_MESSAGE if the batch was damaged on the way, and INVALID_RECORD if it was sent so."""
    if not len(records):
        raise PartitionError(ErrorCode.INVALID_RECORD, "no record batch")
    try:
        header = read_header(records, max_bytes=max_bytes)
    except BatchTooLargeError as error:
        raise PartitionError(ErrorCode.MESSAGE_TOO_LARGE, f"{error} (max.message.bytes)") from error
    except InvalidBatchError as error:
        code = ErrorCode.INVALID_RECORD if _sent_so(records) else ErrorCode.CORRUPT_MESSAGE
        raise PartitionError(code, str(error)) from error
    problem: str | None = None
    if header.size < len(records):
        problem = (
            f"a request brings one batch for a partition, and {len(records) - header.size} bytes follow it"
        )
    elif header.is_control or header.is_transactional:
        problem = "control and transactional batches are not accepted from clients"
    elif header.base_offset:
        problem = f"a producer's batch begins at offset 0, not {header.base_offset}"
    elif (
        header.producer_id != NO_PRODUCER
        and min(header.producer_id, header.producer_epoch, header.base_sequence) < 0
    ):
        problem = (
            f"producer id {header.producer_id}, epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence} make no sense"
        )
    if problem is not None:
        raise PartitionError(ErrorCode.INVALID_RECORD, problem)
    return header


def read_unchecked(records: Buffer, *, max_bytes: int, internal: bool) -> CheckedBatches:
    """Check the headers of batches whose records need no check. `internal`: this broker wrote them, so
    control batches are allowed, and several of them. Raises `PartitionError`."""
    if not internal:
        return CheckedBatches(records, (read_produced(records, max_bytes=max_bytes),))
    try:
        headers = list(read_headers(records, contiguous=False, max_bytes=max_bytes))
    except BatchTooLargeError as error:
        raise PartitionError(ErrorCode.MESSAGE_TOO_LARGE, f"{error} (max.message.bytes)") from error
    return CheckedBatches(records, headers)


def _sent_so(records: Buffer) -> bool:
    """Return whether a faulty batch arrived as the client sent it."""
    view = memoryview(records)
    if len(view) < HEADER_BYTES:
        return False
    header = BatchHeader(0, *HEADER.unpack_from(view))
    if header.magic != MAGIC:
        return True
    if not HEADER_BYTES <= header.size <= len(view):
        return False
    return crc32c(view[CRC_START : header.size]) == header.crc


def _grown(target: Codec, size: int, rules: ProduceRules) -> PartitionError:
    return PartitionError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size} bytes when it is compressed as the topic wants it ({target.name.lower()}), "
        f"more than max.message.bytes={rules.max_message_bytes}",
    )


def _refused_records(code: ErrorCode, indexes: Sequence[int], problem: str) -> PartitionError:
    more = "" if len(indexes) == 1 else f", {len(indexes)} in all"
    return PartitionError(
        code,
        f"record {indexes[0]}{more}: {problem}",
        records=[(index, problem) for index in indexes[:_NAMED_MAX]],
    )


async def _check_timestamps(
    header: BatchHeader,
    data: RecordBytes,
    walk: RecordWalk,
    rules: ProduceRules,
    slices: Slices,
    *,
    now_ms: int,
) -> None:
    base = header.base_timestamp
    earliest = max(now_ms - rules.before_max_ms, -_TIMESTAMP_LIMIT)
    latest = min(now_ms + rules.after_max_ms, _TIMESTAMP_LIMIT - 1)
    if earliest <= base + walk.oldest and base + walk.newest <= latest:
        return
    refused = await _outside(timestamp_deltas(data, header.count), base, earliest, latest, slices)
    if refused:
        raise _refused_records(
            ErrorCode.INVALID_TIMESTAMP,
            refused,
            f"its timestamp is outside of [{earliest}, {latest}], which message.timestamp.before.max.ms and "
            f"message.timestamp.after.max.ms allow at {now_ms}",
        )


async def _outside(deltas: Iterable[int], base: int, earliest: int, latest: int, slices: Slices) -> list[int]:
    """Return the indexes of the records whose timestamp is not allowed."""
    refused = []
    for index, delta in enumerate(deltas):
        if not earliest <= base + delta <= latest and base + delta != _NO_TIMESTAMP:
            refused.append(index)
        if index % _RECORDS_PER_STEP == 0:
            await slices.pause()
    return refused
