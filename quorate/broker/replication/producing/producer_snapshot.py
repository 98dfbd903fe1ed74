"""Producer state on disk: `<20-digit offset>.producers` beside the segments, and how it comes back.

The file holds the state after everything below its offset; what is above is read back from the batches'
headers. A snapshot is a shortcut: one that is missing or unreadable costs a longer scan.
Layout, big-endian: magic 'QPS', version int8, crc32c uint32 of these two and the rest, then count int32 of
{id int64, epoch int16, silent for int64 (ms), batches int8 of {first sequence int32,
last sequence int32, base offset int64, last offset int64, append time int64 (ms, -1 if none)}}.
Version 2 had no append times, and a CRC of the rest alone; it is still read.

Not Kafka's `.snapshot`, and not called so: that one has room for the last batch of a producer only, so that
an older one that is sent again after a start would be refused, and for no more than the wall clock's time.
Earlier versions called the same file `.snapshot`; it is still read.
"""

import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from quorate.broker.replication.producing.producer_state import (
    KEPT_BATCHES,
    FrozenProducer,
    KeptBatch,
    ProducerState,
)
from quorate.log import Log
from quorate.log.batches.batch import read_headers
from quorate.runtime import (
    Buffer,
    Disk,
    DiskError,
    Slices,
    Steps,
    get_logger,
    in_slices,
    let_go,
    read_file,
    write_file_atomically,
)

log = get_logger(__name__)

SUFFIX: Final = ".producers"
_EARLIER_SUFFIX: Final = ".snapshot"
KEPT_SNAPSHOTS: Final = 2
_HEAD = struct.Struct(">3sbI")
_COUNT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qhqb")
_BATCH = struct.Struct(">iiqqq")
_BATCH_2 = struct.Struct(">iiqq")
_MAGIC: Final = b"QPS"
_VERSION: Final = 3
_UNTIMED_VERSION: Final = 2
_SCAN_BYTES: Final = 1024 * 1024
_PER_STEP: Final = 100
"""Producers between two yields: 0.5 ms."""


def encode_steps(state: ProducerState) -> Steps[bytearray]:
    """Encode the state of this moment, however it changes meanwhile."""
    data = bytearray(_HEAD.size)
    data += _COUNT.pack(len(state.producers))

    def add(producer_id: int, producer: FrozenProducer) -> None:
        nonlocal data
        data += _PRODUCER.pack(producer_id, producer.epoch, producer.silent_ms, len(producer.batches))
        for kept in producer.batches:
            data += _BATCH.pack(
                kept.first_sequence,
                kept.last_sequence,
                kept.base_offset,
                kept.last_offset,
                kept.append_time_ms,
            )

    yield from state.frozen_steps(add)
    _HEAD.pack_into(data, 0, _MAGIC, _VERSION, _crc(_VERSION, memoryview(data)[_HEAD.size :]))
    return data


def _crc(version: int, body: Buffer) -> int:
    if version == _UNTIMED_VERSION:
        return crc32c(body)
    # With the version, of which one flipped bit would otherwise make a file of the other layout.
    return crc32c(body, crc32c(_MAGIC + bytes((version,))))


def decode_steps(state: ProducerState, data: Buffer) -> Steps[None]:
    """Fill an empty `state`. Raises `ValueError`; `state` is then unchanged."""
    producers: list[tuple[int, int, deque[KeptBatch], int]] = []
    try:
        magic, version, crc = _HEAD.unpack_from(data)
        if magic != _MAGIC or version not in (_VERSION, _UNTIMED_VERSION):
            raise ValueError(f"not a producer snapshot of version {_UNTIMED_VERSION} or {_VERSION}")
        timed = version == _VERSION
        layout = _BATCH if timed else _BATCH_2
        if _crc(version, memoryview(data)[_HEAD.size :]) != crc:
            raise ValueError("CRC does not match")
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
        position = _HEAD.size + _COUNT.size
        for _ in range(count):
            producer_id, epoch, silent_ms, batches = _PRODUCER.unpack_from(data, position)
            position += _PRODUCER.size
            if not 0 < batches <= KEPT_BATCHES:
                raise ValueError(f"{batches} batches of producer {producer_id}")
            kept: deque[KeptBatch] = deque(maxlen=KEPT_BATCHES)
            for _ in range(batches):
                fields = layout.unpack_from(data, position)
                kept.append(KeptBatch(*(fields if timed else (*fields, -1))))
                position += layout.size
            producers.append((producer_id, epoch, kept, silent_ms))
            if len(producers) % _PER_STEP == 0:
                yield
    except struct.error as error:
        raise ValueError("truncated") from error
    for number, (producer_id, epoch, kept, silent_ms) in enumerate(producers, 1):
        state.restore(producer_id, epoch, kept, silent_ms=silent_ms)
        if number % _PER_STEP == 0:
            yield
    yield from let_go(producers)


def _found(disk: Disk, folder: str) -> list[tuple[int, str]]:
    """Return (offset, path) of the snapshots in the folder, oldest first."""
    names = (name.rpartition(".") for name in disk.list(folder))
    return sorted(
        (int(stem), f"{folder}/{stem}.{suffix}")
        for stem, _, suffix in names
        if f".{suffix}" in (SUFFIX, _EARLIER_SUFFIX) and stem.isdecimal()
    )


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """A state at one moment, encoded."""

    end_offset: int
    content: Buffer


async def take(disk: Disk, folder: str, state: ProducerState) -> ProducerSnapshot | None:
    """Encode the state of this moment, however it changes meanwhile. Return None if the folder has it already
    or the state is empty. Raises `DiskError`."""
    if not state.end_offset and not state.producers:
        return None
    if any(offset == state.end_offset for offset, _ in _found(disk, folder)):
        return None
    end_offset = state.end_offset
    return ProducerSnapshot(end_offset, await in_slices(encode_steps(state)))


async def store(disk: Disk, folder: str, snapshot: ProducerSnapshot) -> None:
    """Write a snapshot durably. The records that it covers must be durable already. Older snapshots but the
    last are deleted."""
    await write_file_atomically(disk, f"{folder}/{snapshot.end_offset:020}{SUFFIX}", snapshot.content)
    for _, path in _found(disk, folder)[:-KEPT_SNAPSHOTS]:
        disk.remove(path)


async def forget_above(disk: Disk, folder: str, end_offset: int) -> list[tuple[int, str]]:
    """Delete snapshots above the log's new end. They must never be read, even after a power loss once the log
    has grown to their offsets again. Return (end offset, path) of the others, oldest first."""
    found = _found(disk, folder)
    kept = [each for each in found if each[0] <= end_offset]
    for _, path in found[len(kept) :]:
        disk.remove(path)
    if len(kept) < len(found):
        await disk.sync_folder(folder)
    return kept


async def load(disk: Disk, folder: str, partition_log: Log, state: ProducerState) -> None:
    """Bring an empty `state` to the log's end, from the newest usable snapshot and the headers above it.

    Nothing may be appended meanwhile. Raises `DiskError`.
    """
    found = await forget_above(disk, folder, partition_log.end_offset)
    state.end_offset = partition_log.log_start_offset
    for offset, path in reversed(found):
        if offset < partition_log.log_start_offset:
            break
        try:
            await in_slices(decode_steps(state, read_file(disk, path)))
        except (ValueError, FileNotFoundError) as error:
            log.warning("a producer snapshot is unreadable and is left out", path=path, reason=str(error))
            continue
        state.end_offset = offset
        break
    slices = Slices()
    while state.end_offset < partition_log.end_offset:
        before = state.end_offset
        records = await partition_log.read(before, _SCAN_BYTES)
        for header in read_headers(records, check_crc=False, dense=False, contiguous=False):
            state.record(header, header.base_offset)
            await slices.pause()
        if state.end_offset <= before:
            raise DiskError(f"the log holds nothing at offset {before}", path=folder)
