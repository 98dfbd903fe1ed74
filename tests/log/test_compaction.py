"""Compaction of one log: the records that stay and those that go, as readers see them meanwhile."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.kafka_bytes.varints import varint
from quorate.log import CompactionAbandonedError, DamagedLogError, Log, LogConfig
from quorate.log.batches.batch import (
    HEADER_BYTES,
    Batch,
    bare_header,
    read_batches,
    read_header,
    read_headers,
    seal,
)
from quorate.log.batches.records import Record, RecordContent, build_keyed_batch, records_of
from quorate.log.compaction.dirty import compactable_end, survey
from quorate.log.compaction.offset_map import OffsetMap
from quorate.log.compaction.terms import OffsetMapTooSmallError
from quorate.log.compression import Codec, compress, decompress
from quorate.log.log_errors import LogError, OffsetGapError
from quorate.runtime import DescriptorsExhaustedError, DiskError, at_once
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from quorate.types import Offset
from tests.log.conftest import FreePace, compacted, new_log

OpenLog = Callable[..., Awaitable[Log]]
OneRecord = tuple[str | None, str | None]
LARGE = LogConfig(index_interval_bytes=100, tail_bytes=0)
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes=0)
NOW = 1_000_000
DAY = 86_400_000
F = "data/t-0"


def key_values(*records: OneRecord) -> list[RecordContent]:
    return [
        RecordContent(None if key is None else key.encode(), None if value is None else value.encode())
        for key, value in records
    ]


def append(log: Log, *records: OneRecord, epoch: int = 1, timestamp_ms: int = 1000, **producer: int) -> int:
    """One batch; its base offset."""
    base = int(log.end_offset)
    log.append_as_follower(
        build_keyed_batch(
            base_offset=base,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            records=key_values(*records),
            **producer,
        )
    )
    return base


def roll(log: Log) -> None:
    """Nothing that is in the log is in its active segment afterwards."""
    config = log.config
    log.configure(replace(config, segment_bytes=1))
    append(log, ("rolled", "r"), epoch=int(log.last_epoch))
    log.configure(config)


async def all_batches(log: Log, *, compacted_meanwhile: bool = False) -> Sequence[Batch]:
    """They are contiguous. If the log is compacted meanwhile, one bare header may have taken the place of
    batches on both sides of where the next read begins."""
    found: list[Batch] = []
    offset = int(log.log_start_offset)
    while offset < log.end_offset:
        for batch in read_batches(await log.read(offset, 300)):
            begins = batch.header.base_offset
            assert begins == offset or not found or (compacted_meanwhile and begins < offset)
            found.append(batch)
            offset = batch.header.end_offset
    return found


def decoded(batch: Batch) -> Sequence[Record]:
    if not batch.header.codec:
        return records_of(batch)
    body = decompress(Codec(batch.header.codec), batch.data[HEADER_BYTES:], 1 << 20)
    fields = {name: getattr(batch.header, name) for name in SEALED}
    plain = seal(bytes(body), epoch=1, **{**fields, "attributes": batch.header.attributes & ~7})
    return records_of(next(iter(read_batches(plain))))


SEALED = (
    "base_offset",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


async def all_records(log: Log, *, compacted_meanwhile: bool = False) -> Sequence[Record]:
    batches = await all_batches(log, compacted_meanwhile=compacted_meanwhile)
    return [record for batch in batches for record in decoded(batch)]


async def shape(log: Log) -> list[tuple[int, int, int]]:
    """Base offset, end offset and records of each batch."""
    return [
        (one.header.base_offset, one.header.end_offset, one.header.count) for one in await all_batches(log)
    ]


# What stays


async def test_the_last_record_of_each_key_stays_where_it_was(open_log: OpenLog) -> None:
    disk, log = await new_log(SMALL)
    for number in range(60):
        append(log, (f"k{number % 7}", f"v{number}"))
    before = await all_records(log)
    pace = FreePace()
    result = await compacted(log, pace=pace)
    after = await all_records(log)
    end = int(log.active_base_offset)
    assert result.cleaned_to == end and not result.map_full
    latest = {record.key: record.offset for record in before if record.offset < end}
    assert after == [
        record for record in before if record.offset >= end or latest[record.key] == record.offset
    ]
    assert (result.records_before, result.records_after) == (end, 7)
    assert pace.read == 2 * result.bytes_before, "each batch is read for its keys, and to be copied"
    assert pace.written == result.bytes_after == sum(one.size for one, _ in log.closed_spans())
    log.close()
    again = await open_log(disk, config=SMALL)
    assert await all_records(again) == after
    assert again.end_offset == log.end_offset


async def test_a_compacted_log_is_left_as_it_is() -> None:
    disk, log = await new_log(SMALL)
    for number in range(60):
        append(log, (f"k{number % 7}", f"v{number}"))
    start = (await compacted(log)).cleaned_to
    # Small segments that are left are put together, and the headers in them.
    for _ in range(4):
        first = await compacted(log, dirty_start=start)
    names, content = disk.list(F), [bytes(one.data) for one in await all_batches(log)]
    again = await compacted(log, dirty_start=start)
    assert again.bytes_before == again.bytes_after == first.bytes_after
    assert (disk.list(F), [bytes(one.data) for one in await all_batches(log)]) == (names, content)


async def test_records_at_or_above_the_end_stay_and_supersede_nothing(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for number in range(12):
        append(log, ("k", f"v{number}"))
    roll(log)
    result = await compacted(log, end=5)
    assert result.cleaned_to == 5
    assert [record.offset for record in await all_records(log) if record.key == b"k"] == [4, *range(5, 12)]


async def test_an_end_inside_of_a_batch_leaves_the_whole_batch_dirty(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("k", "0"))
    append(log, ("k", "1"), ("k", "2"), ("k", "3"))
    roll(log)
    result = await compacted(log, end=3)
    assert result.cleaned_to == 1
    assert [record.offset for record in await all_records(log) if record.key == b"k"] == [0, 1, 2, 3]


async def test_a_record_without_a_key_goes(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, (None, "x"), ("k", "v"), (None, "y"))
    roll(log)
    await compacted(log)
    assert [record.offset for record in await all_records(log)][:1] == [1]


async def test_a_batch_that_lost_records_keeps_all_else(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40}
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), epoch=3, **producer)
    append(log, ("a", "2"), ("c", "2"), epoch=3)
    roll(log)
    (before, *_) = await all_batches(log)
    await compacted(log)
    (after, *_) = await all_batches(log)
    assert (after.header.base_offset, after.header.end_offset, after.header.count) == (0, 4, 2)
    assert list(records_of(after)) == [records_of(before)[number] for number in (1, 3)]
    for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence", "base_timestamp"):
        assert getattr(after.header, name) == getattr(before.header, name), name


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("count", [4, 3000], ids=["small", "large"])
async def test_a_compressed_batch_is_filtered_and_has_its_codec_again(
    codec: Codec, count: int, open_log: OpenLog
) -> None:
    log = await open_log(SimulatedDisk(), config=LARGE)
    draw = random.Random(1)
    plain = build_keyed_batch(
        base_offset=0,
        epoch=1,
        timestamp_ms=1000,
        records=key_values(*((f"k{n}", draw.randbytes(16).hex()) for n in range(count))),
    )
    expected = records_of(next(iter(read_batches(plain))))
    header = read_header(plain)
    fields = {name: getattr(header, name) for name in SEALED} | {"attributes": int(codec)}
    log.append_as_follower(seal(compress(codec, plain[HEADER_BYTES:]), epoch=1, **fields))
    append(log, *((f"k{n}", "new") for n in range(0, count, 2)))
    roll(log)
    await compacted(log)
    (first, *_) = await all_batches(log)
    assert (first.header.codec, first.header.count) == (codec, count // 2)
    assert decoded(first) == expected[1::2]


async def test_the_newest_timestamp_is_of_what_stays(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    pieces = []
    for delta, (key, at) in enumerate((("a", 0), ("b", 500), ("c", 20))):
        body = b"\0" + varint(at) + varint(delta) + varint(1) + key.encode() + varint(1) + b"v" + b"\0"
        pieces.append(varint(len(body)) + body)
    log.append_as_follower(
        seal(
            b"".join(pieces), base_offset=0, epoch=1, attributes=0, last_offset_delta=2, base_timestamp=1000,
            max_timestamp=1500, producer_id=-1, producer_epoch=-1, base_sequence=-1, count=3,
        )
    )  # fmt: skip
    append(log, ("b", "w"), timestamp_ms=1001)
    roll(log)
    await compacted(log)
    (first, *_) = await all_batches(log)
    assert first.header.max_timestamp == 1020
    assert await log.offset_for_timestamp(1021) is None
    assert await log.offset_for_timestamp(1020) == 0


async def test_of_the_brokers_time_the_newest_timestamp_stays(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    built = build_keyed_batch(
        base_offset=0, epoch=1, timestamp_ms=1000, records=key_values(("a", "1"), ("b", "1"))
    )
    fields = {name: getattr(read_header(built), name) for name in SEALED}
    log.append_as_follower(
        seal(built[HEADER_BYTES:], epoch=1, **(fields | {"attributes": 8, "max_timestamp": 5000}))
    )
    append(log, ("a", "2"), timestamp_ms=5000)
    roll(log)
    await compacted(log)
    assert (await all_records(log))[0] == Record(1, 5000, b"b", b"1")


# Emptied batches


async def test_emptied_batches_of_one_epoch_become_one_header(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=LARGE)
    for number in range(4):
        append(log, ("k", "x"), ("l", "x"), epoch=1, timestamp_ms=1000 + number)
    append(log, ("k", "y"), epoch=2, timestamp_ms=900)
    append(log, ("k", "z"), ("l", "z"), epoch=2)
    roll(log)
    epochs = log.epochs
    await compacted(log)
    assert (await shape(log))[:3] == [(0, 8, 0), (8, 9, 0), (9, 11, 2)]
    first = (await all_batches(log))[0]
    assert len(first.data) == HEADER_BYTES
    assert first.header.max_timestamp == 1003, "retention by time goes on as before"
    assert log.epochs == epochs


async def test_headers_of_one_compaction_are_merged_by_the_next(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=LARGE)
    append(log, ("a", "1"))
    append(log, ("b", "1"))
    append(log, ("a", "2"))
    roll(log)
    first = await compacted(log)
    assert (await shape(log))[:3] == [(0, 1, 0), (1, 2, 1), (2, 3, 1)]
    append(log, ("b", "2"))
    append(log, ("a", "3"))
    roll(log)
    await compacted(log, dirty_start=first.cleaned_to)
    assert (await shape(log))[0] == (0, 3, 0)


@pytest.mark.bug("KAFKA-5490")
async def test_a_live_producers_last_sequence_stays_as_a_header_of_its_own(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("k", "1"))
    append(log, ("k", "2"), ("k", "3"), producer_id=7, producer_epoch=1, base_sequence=4)
    append(log, ("k", "4"))
    append(log, ("k", "5"))
    roll(log)
    lives = lambda header: header.producer_id == 7  # noqa: E731
    first = await compacted(log, last=lives)
    assert (await shape(log))[:4] == [(0, 1, 0), (1, 3, 0), (3, 4, 0), (4, 5, 1)]
    header = (await all_batches(log))[1].header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 4)
    again = await compacted(log, dirty_start=first.cleaned_to, last=lives)
    assert again.bytes_after == first.bytes_after
    await compacted(log, dirty_start=first.cleaned_to)
    assert (await shape(log))[0] == (0, 4, 0), "a producer that is forgotten needs no header"


@pytest.mark.bug("KAFKA-8335")
async def test_the_last_sequence_is_asked_of_the_batch_and_not_of_the_number(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=LARGE)
    for _ in range(20):
        newest = append(log, ("k", "x"), producer_id=7, producer_epoch=1, base_sequence=0)
    roll(log)
    append(log, ("k", "y"))
    roll(log)
    await compacted(log, last=lambda header: header.base_offset == newest)
    assert (await shape(log))[:2] == [(0, newest, 0), (newest, newest + 1, 0)]


@pytest.mark.bug("KAFKA-5413")
async def test_headers_and_segments_span_fewer_than_2_31_offsets(open_log: OpenLog) -> None:
    disk, log = await new_log(SMALL)
    append(log, ("a", "1"))
    header = partial(bare_header, epoch=1, max_timestamp=1000)
    far = 2**31 + 10
    gap = header(base_offset=1, end_offset=1000) + header(base_offset=1000, end_offset=far - 5)
    gap += header(base_offset=far - 5, end_offset=far)
    log.append_as_follower(gap, headers=list(read_headers(gap, dense=False)))
    assert append(log, ("b", "1")) == far
    roll(log)
    append(log, ("c", "1"))
    roll(log)
    await compacted(log)
    for again in (log, await open_log(disk, config=SMALL)):
        for offset in (0, 1, 999, 1000, far - 6, far - 1, far, far + 1):
            batch = next(iter(read_batches(await again.read(offset, 1))))
            assert batch.header.base_offset <= offset < batch.header.end_offset
        assert [record.offset for record in await all_records(again)][:2] == [0, far]
    follower = await open_log(SimulatedDisk(), config=SMALL)
    while follower.end_offset < log.end_offset:
        data = await log.read(follower.end_offset, 100_000)
        follower.append_as_follower(data, headers=list(read_headers(data, dense=False)))
    assert [record.offset for record in await all_records(follower)][:2] == [0, far]


@pytest.mark.bug("KAFKA-12889")
async def test_the_number_of_segments_does_not_grow(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    start, counts = 0, []
    for turn in range(10):
        for number in range(40):
            append(log, (f"k{number % 5}", f"{turn}"))
        roll(log)
        result = await compacted(log, dirty_start=start)
        start = result.cleaned_to
        counts.append(log.segment_count)
    assert counts[-1] == counts[2], counts


# Tombstones


@pytest.mark.bug("KAFKA-4529")
async def test_a_tombstone_stays_for_its_time_after_the_compaction_that_met_it(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("k", "1"), timestamp_ms=10)
    append(log, ("k", None), ("l", "1"), timestamp_ms=20)
    roll(log)
    first = await compacted(log)
    assert (first.tombstones_kept, first.next_horizon_ms) == (1, NOW + DAY)
    kept = [record for record in await all_records(log) if record.key in (b"k", b"l")]
    assert kept == [Record(1, 20, b"k", None), Record(2, 20, b"l", b"1")]
    header = (await all_batches(log))[1].header
    assert header.delete_horizon_ms == NOW + DAY
    assert header.first_timestamp == header.max_timestamp == 20, "a horizon is no timestamp"
    start = first.cleaned_to
    second = await compacted(log, dirty_start=start, now_ms=NOW + DAY - 1)
    assert (second.tombstones_kept, second.next_horizon_ms) == (1, NOW + DAY), "the horizon does not move"
    third = await compacted(log, dirty_start=start, now_ms=NOW + DAY)
    assert (third.tombstones_kept, third.tombstones_dropped, third.next_horizon_ms) == (0, 1, None)
    kept = [record for record in await all_records(log) if record.key in (b"k", b"l")]
    assert kept == [Record(2, 20, b"l", b"1")]


async def test_a_tombstone_that_no_compaction_met_has_no_horizon(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("a", "1"))
    append(log, ("k", None))
    roll(log)
    await compacted(log, end=1)
    assert (await all_batches(log))[1].header.delete_horizon_ms is None


async def test_an_empty_value_is_a_value(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("k", ""))
    roll(log)
    result = await compacted(log)
    assert result.tombstones_kept == 0
    assert (await all_records(log))[0] == Record(0, 1000, b"k", b"")


async def test_a_log_with_a_horizon_rolls_by_its_records_time(open_log: OpenLog) -> None:
    leader = await open_log(SimulatedDisk(), config=SMALL)
    append(leader, ("k", None), timestamp_ms=1000)
    roll(leader)
    await compacted(leader)
    disk, follower = await new_log(LogConfig(segment_ms=100))
    data = bytes((await all_batches(leader))[0].data)
    follower.append_as_follower(data)
    follower.close()
    for again in (follower, await open_log(disk, config=LogConfig(segment_ms=100))):
        assert again._segments[0].indexes.first_timestamp == 1000


# What is no key's


async def test_control_batches_and_transactions_are_left_as_they_are(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for flags in ({"control": True}, {"transactional": True}):
        for _ in range(2):
            log.append_as_follower(
                build_keyed_batch(
                    base_offset=int(log.end_offset), epoch=1, timestamp_ms=1000,
                    records=key_values(("k", "x")), **flags,
                )
            )  # fmt: skip
    before = [bytes(one.data) for one in await all_batches(log)]
    append(log, ("k", "mine"))
    roll(log)
    await compacted(log)
    assert [bytes(one.data) for one in await all_batches(log)][:4] == before


async def test_a_metadata_log_is_refused(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=LogConfig(own_recovery_point=True))
    with pytest.raises(LogError, match="never compacted"):
        await compacted(log)


# Bounds of the work


async def test_a_full_map_ends_the_compaction_earlier_and_the_next_goes_on(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for number in range(120):
        append(log, (f"k{number % 60}", f"v{number}"))
    roll(log)
    end, start, turns = log.active_base_offset, 0, 0
    while start < end:
        result = await compacted(log, dirty_start=start, end=end, map_bytes=20 * 32)
        assert result.map_full == (result.cleaned_to < end)
        assert result.cleaned_to > start
        start, turns = result.cleaned_to, turns + 1
    assert turns > 3
    kept = [record for record in await all_records(log) if (record.key or b"").startswith(b"k")]
    assert [record.offset for record in kept] == list(range(60, 120))


async def test_a_batch_with_more_records_than_the_map_takes_is_named(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("a", "1"))
    base = append(log, *((f"k{number}", "v") for number in range(50)))
    roll(log)
    first = await compacted(log, map_bytes=240)
    assert (first.cleaned_to, first.map_full) == (base, True)
    with pytest.raises(OffsetMapTooSmallError, match=f"offset {base} has 50 records"):
        await compacted(log, dirty_start=base, map_bytes=240)


def test_the_map_has_the_last_offset_of_each_key_in_its_memory() -> None:
    offsets = OffsetMap(map_bytes=24 * 40_000, keys_max=10**9)
    expected = {}
    for number in range(offsets.capacity):
        key = b"%d" % (number * number % 50_021)
        expected[key] = number
        assert offsets.put(key, number)
    assert offsets.keys == len(expected) and offsets.room == offsets.capacity - len(expected)
    assert all(offsets.last_offset(key) == number for key, number in expected.items())
    assert offsets.last_offset(b"none") == -1
    assert sum(len(part or b"") for part in offsets._parts) <= 24 * 40_000
    at_once(offsets.free())
    assert OffsetMap(map_bytes=1 << 30, keys_max=100).capacity >= 100
    assert len(OffsetMap(map_bytes=1 << 30, keys_max=100)._parts) == 1


def test_keys_chosen_for_one_place_make_the_map_full_and_not_slow() -> None:
    offsets = OffsetMap(map_bytes=24 * 64, keys_max=48)
    offsets._crowded = 20
    puts = [offsets.put(b"%d" % number, number) for number in range(30)]
    assert puts == [True] * 20 + [False] * 10
    assert offsets.put(b"3", 99), "a key that is there has its place"
    assert offsets.last_offset(b"3") == 99


async def test_segments_are_put_together_up_to_their_size() -> None:
    disk, log = await new_log(SMALL)
    for number in range(60):
        append(log, ("k", f"v{number}"))
    start = (await compacted(log)).cleaned_to
    before = log.segment_count
    await compacted(log, dirty_start=start)
    assert log.segment_count < before
    log.configure(LogConfig(segment_bytes=10**6, index_interval_bytes=100, tail_bytes=0))
    await compacted(log, dirty_start=start)
    assert log.segment_count == 2
    assert [name for name in disk.list(F) if name.endswith(".log")] == [
        f"{0:020}.log", f"{log.active_base_offset:020}.log"
    ]  # fmt: skip


async def test_a_survey_tells_clean_from_dirty(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for number in range(30):
        append(log, (f"k{number}", "v"), timestamp_ms=5000 - number)
    size = sum(one.size for one, _ in log.closed_spans())
    end = log.active_base_offset
    each = size // end
    found = await survey(log, dirty_start=Offset(0), end=end)
    assert (found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (0, size, 1.0)
    newest_first = min(5000 - one.base_offset for one, _ in log.closed_spans())
    assert found.first_dirty_ms == newest_first
    found = await survey(log, dirty_start=Offset(7), end=Offset(9))
    assert (found.clean_bytes // each, found.dirty_bytes // each, found.first_dirty_ms) == (7, 2, 4993)
    found = await survey(log, dirty_start=end, end=end)
    assert (found.clean_bytes, found.dirty_bytes, found.first_dirty_ms, found.dirty_ratio) == (
        size,
        0,
        None,
        0,
    )


async def test_a_compaction_reaches_to_the_first_segment_that_is_too_young(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    for number in range(30):
        append(log, ("k", "v"), timestamp_ms=1000 + number)
    bases = [one.base_offset for one, _ in log.closed_spans()]
    reach = partial(compactable_end, log, dirty_start=Offset(0))
    assert reach(limit=Offset(99), newest_ms=5000) == log.active_base_offset
    assert reach(limit=Offset(7), newest_ms=5000) == 7
    assert reach(limit=Offset(99), newest_ms=1000 + bases[2]) == bases[2]
    assert reach(limit=Offset(99), newest_ms=0) == 0
    assert compactable_end(log, dirty_start=Offset(bases[2]), limit=Offset(99), newest_ms=0) == bases[2]


# Beside others


@pytest.mark.bug("pulsar PR 12522")
async def test_appends_and_reads_go_on_meanwhile(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(sync_delay=lambda path: 0.01), config=SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))
    done = False

    async def read() -> None:
        while not done:
            offsets = [record.offset for record in await all_records(log, compacted_meanwhile=True)]
            assert offsets == sorted(offsets)
            assert set(offsets) >= {*range(int(log.active_base_offset) + 1, 40)}
            await log.offset_for_timestamp(1000)
            await trio.sleep(0.001)

    async def write() -> None:
        while not done:
            append(log, ("w", "w"))
            await log.flush()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(write)
        result = await compacted(log)
        done = True
    assert result.records_after < result.records_before
    assert await log.flush() == log.end_offset == log.recovery_point


@pytest.mark.bug("KAFKA-7278")
@pytest.mark.parametrize("what", ["truncate", "retention", "close", "begin anew"])
async def test_a_log_that_is_cut_meanwhile_ends_the_compaction(what: str, open_log: OpenLog) -> None:
    disk, log = await new_log(SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))

    async def cut() -> None:
        match what:
            case "truncate":
                await log.truncate(Offset(2))
            case "retention":
                await log.advance_log_start(Offset(20))
            case "close":
                log.close()
            case _:
                await log.truncate_fully_and_start_at(Offset(100))

    with pytest.raises(CompactionAbandonedError, match="cut, closed or moved"):
        await compacted(log, pace=FreePace(cut))
    assert not [name for name in disk.list(F) if name.endswith((".cleaned", ".swap", ".deleted"))]
    log.close()
    again = await open_log(disk, config=SMALL)
    start = {"truncate": 0, "retention": 20, "close": 0, "begin anew": 100}[what]
    expected = {"truncate": [0, 1], "begin anew": []}.get(what, list(range(start, 40)))
    assert [record.offset for record in await all_records(again)] == expected


async def test_a_cancelled_compaction_leaves_nothing_behind() -> None:
    disk, log = await new_log(SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))
    before = await all_records(log)
    with trio.CancelScope() as scope:

        async def cancel() -> None:
            scope.cancel()
            await trio.lowlevel.checkpoint()

        await compacted(log, pace=FreePace(cancel))
    assert scope.cancelled_caught
    assert await all_records(log) == before
    assert not [name for name in disk.list(F) if name.endswith(".cleaned")]
    await compacted(log)


async def test_without_a_descriptor_the_log_is_as_it_was_and_goes_on() -> None:
    disk, log = await new_log(SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))
    before = await all_records(log)
    disk.descriptors = 0
    with pytest.raises(DescriptorsExhaustedError):
        await compacted(log)
    disk.descriptors = None
    assert await all_records(log) == before
    append(log, ("k", "v"))
    assert (await compacted(log)).records_after


@pytest.mark.parametrize("place", ["the keys", "the copy"])
async def test_a_damaged_batch_is_named_and_the_log_left_as_it_was(place: str) -> None:
    disk, log = await new_log(SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))
    names = disk.list(F)
    size = (await all_batches(log))[0].header.size
    segment = log.closed_spans()[0][0]
    disk.flip(segment.path, size + 70)
    with pytest.raises(DamagedLogError, match=f"{segment.path}, byte {size}: CRC is"):
        await compacted(log, dirty_start=0 if place == "the keys" else int(log.active_base_offset))
    assert disk.list(F) == names
    assert next(one.base_offset for one, _ in log.closed_spans()) == 0


async def test_records_that_contradict_their_header_are_named(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    header = read_header(
        build_keyed_batch(base_offset=0, epoch=1, timestamp_ms=1, records=key_values(("k", "v")))
    )
    fields = {name: getattr(header, name) for name in SEALED}
    for attributes, body in ((0, b"\x20\0\0\0\x02k"), (0, b"\x02\0"), (4, b"no zstd"), (7, b"?")):
        log = await open_log(SimulatedDisk(), config=SMALL)
        log.append_as_follower(seal(body, epoch=1, **(fields | {"attributes": attributes})))
        roll(log)
        with pytest.raises(DamagedLogError, match="byte 0"):
            await compacted(log)


async def test_a_disk_that_fails_in_the_copy_leaves_the_log_as_it_was() -> None:
    disk, log = await new_log(SMALL)
    for number in range(40):
        append(log, (f"k{number % 3}", f"v{number}"))
    before = await all_records(log)
    for operation in (DiskOperation.OPEN, DiskOperation.APPEND, DiskOperation.SYNC):
        disk.fail(operation, path_part=".log.cleaned")
        with pytest.raises(DiskError, match="injected"):
            await compacted(log)
        assert await all_records(log) == before
        append(log, ("z", "z"))
        before = await all_records(log)


# Other replicas


async def test_a_follower_in_the_middle_of_a_header_takes_the_rest_of_it(open_log: OpenLog) -> None:
    leader = await open_log(SimulatedDisk(), config=LARGE)
    for number in range(20):
        append(leader, ("k", f"v{number}"))
    roll(leader)
    follower = await open_log(SimulatedDisk(), config=LARGE)
    for _ in range(6):
        append(follower, ("k", "old"))
    await compacted(leader)
    assert (await shape(leader))[0][:2] == (0, 19)
    while follower.end_offset < leader.end_offset:
        data = await leader.read(follower.end_offset, 200)
        follower.append_as_follower(data, headers=list(read_headers(data, dense=False)))
    assert (await shape(follower))[5:8] == [(5, 6, 1), (6, 19, 0), (19, 20, 1)]
    assert (await all_records(follower))[6:] == await all_records(leader)


async def test_a_batch_with_records_is_never_cut_for_a_follower(open_log: OpenLog) -> None:
    log = await open_log(SimulatedDisk(), config=SMALL)
    append(log, ("k", "v"))
    data = build_keyed_batch(
        base_offset=0, epoch=1, timestamp_ms=1, records=key_values(("a", "1"), ("b", "1"))
    )
    with pytest.raises(OffsetGapError):
        log.append_as_follower(data)


async def test_a_recovery_point_inside_of_a_header_is_no_damage(open_log: OpenLog) -> None:
    disk, log = await new_log(LARGE)
    for number in range(20):
        append(log, ("k", f"v{number}"))
    roll(log)
    await compacted(log)
    await log.sync()
    expected = await all_records(log)
    assert (await shape(log))[0] == (0, 19, 0)
    for point in range(22):
        disk.crash_process()
        again = await open_log(disk, config=LARGE, recovery_point=point)
        assert await all_records(again) == expected
        assert again.end_offset == log.end_offset


async def test_a_search_by_time_passes_over_what_has_no_record(open_log: OpenLog) -> None:
    disk, log = await new_log(SMALL)
    for number in range(20):
        append(log, ("k", "v"), timestamp_ms=5000 + number)
    append(log, ("l", "v"), timestamp_ms=5003)
    append(log, ("k", "w"), timestamp_ms=5001)
    roll(log)
    await compacted(log)
    for again in (log, await open_log(disk, config=SMALL)):
        assert await again.offset_for_timestamp(5002) == 20
        assert await again.offset_for_timestamp(5004) is None
        assert again.max_timestamp() == 5019


# A random walk


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False), steps=st.integers(5, 60))
async def test_a_compacted_log_is_a_dictionary_and_a_reader_that_keeps_up_misses_no_deletion(
    draw: random.Random, steps: int, open_log: OpenLog
) -> None:
    disk, log = await new_log(SMALL)
    written: dict[int, tuple[bytes | None, bytes | None]] = {}
    view: dict[bytes, bytes] = {}
    bases: list[int] = []
    dirty, position, now, epoch, seen = 0, 0, NOW, 1, NOW

    async def consume(upto: int | None = None) -> None:
        nonlocal position, seen
        while position < (log.end_offset if upto is None else upto):
            for batch in read_batches(await log.read(position, 200)):
                for record in records_of(batch):
                    if record.offset >= position and record.key is not None:
                        if record.value is None:
                            view.pop(record.key, None)
                        else:
                            view[record.key] = record.value
                position = batch.header.end_offset
        seen = now

    for _ in range(steps):
        match draw.choice(("append", "append", "append", "compact", "consume", "wait", "restart")):
            case "append":
                epoch += draw.random() < 0.1
                records: list[OneRecord] = [
                    (
                        None if draw.random() < 0.05 else f"k{draw.randrange(6)}",
                        None if draw.random() < 0.3 else f"v{draw.randrange(1000)}",
                    )
                    for _ in range(draw.randint(1, 4))
                ]
                base = append(log, *records, epoch=epoch, timestamp_ms=draw.randrange(2000))
                bases.append(base)
                written |= {base + n: tuple(one) for n, one in enumerate(key_values(*records))}
            case "consume":
                await consume()
            case "wait":
                if now - seen < DAY // 2:
                    now += draw.randrange(DAY // 2)
            case "restart":
                await log.sync()
                disk.crash_process()
                log = await open_log(
                    disk, config=SMALL, recovery_point=draw.choice([*bases, int(log.end_offset)])
                )
            case _:
                end = min(int(log.active_base_offset), draw.randint(0, int(log.end_offset)))
                if end < dirty:
                    continue
                if now - seen > DAY // 2:
                    await consume()
                result = await compacted(
                    log, dirty_start=dirty, end=end, now_ms=now, map_bytes=draw.choice((24 * 8, 1 << 16))
                )
                assert dirty <= result.cleaned_to <= end
                dirty = int(result.cleaned_to)
        found = {record.offset: (record.key, record.value) for record in await all_records(log)}
        assert all(written[offset] == one for offset, one in found.items())
        assert [offset for offset in written if offset >= dirty] == [o for o in found if o >= dirty]
        last = {key: offset for offset, (key, _) in written.items() if key is not None and offset < dirty}
        for offset, (key, value) in written.items():
            if offset < dirty and key is not None and last[key] == offset and value is not None:
                assert offset in found, f"the last record of {key!r} is gone"
        for offset, (key, _) in found.items():
            assert offset >= dirty or last.get(key) == offset, f"{key!r} is there twice below {dirty}"
    await consume()
    expected: dict[Any, Any] = {}
    for key, value in written.values():
        if key is not None:
            expected.pop(key, None) if value is None else expected.__setitem__(key, value)
    assert view == expected
