"""Compaction of one log: what stays, what goes, and what everybody sees of it meanwhile."""

from collections.abc import Awaitable, Callable, Sequence

from quorate.log import Log, LogConfig
from quorate.log.batches import KeyValue, Record, build_keyed_batch, read_batches, records_of
from quorate.log.compaction import CompactionBounds, CompactionResult, CompactionRules, compact
from quorate.simulation.world.simulated_compute import InlineCompute
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset

OpenLog = Callable[..., Awaitable[Log]]
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, tail_bytes=0)
NOW = 1_000_000
DAY = 86_400_000


class Free:
    """A pace without a limit."""

    def __init__(self) -> None:
        self.read = self.written = 0

    async def moved(self, bytes_read: int, bytes_written: int) -> None:
        self.read += bytes_read
        self.written += bytes_written


def append(
    log: Log, *records: tuple[str | None, str | None], epoch: int = 1, timestamp_ms: int = 1000
) -> int:
    """One batch."""
    base = int(log.end_offset)
    values = [
        KeyValue(None if key is None else key.encode(), None if value is None else value.encode())
        for key, value in records
    ]
    log.append_as_follower(
        build_keyed_batch(base_offset=base, epoch=epoch, timestamp_ms=timestamp_ms, records=values)
    )
    return base


async def compacted(
    log: Log,
    *,
    dirty_start: int = 0,
    end: int | None = None,
    now_ms: int = NOW,
    map_bytes: int = 1 << 20,
    last: Callable[[object], bool] = lambda header: False,
) -> CompactionResult:
    return await compact(
        log,
        CompactionBounds(
            dirty_start=Offset(dirty_start), end=log.active_base_offset if end is None else Offset(end)
        ),
        CompactionRules(delete_retention_ms=DAY, now_ms=now_ms, map_bytes=map_bytes),
        Free(),
        last,
        InlineCompute(),
    )


async def all_records(log: Log) -> Sequence[Record]:
    """Of batches that are contiguous."""
    found: list[Record] = []
    offset = int(log.log_start_offset)
    while offset < log.end_offset:
        for batch in read_batches(await log.read(offset, 300)):
            assert batch.header.base_offset == offset
            found += records_of(batch)
            offset = batch.header.end_offset
    return found


async def test_the_last_record_of_each_key_stays_where_it_was(open_log: OpenLog) -> None:
    disk = SimulatedDisk()
    log = await open_log(disk, config=SMALL)
    for number in range(60):
        append(log, (f"k{number % 7}", f"v{number}"))
    before = await all_records(log)
    result = await compacted(log)
    after = await all_records(log)
    end = int(log.active_base_offset)
    assert result.cleaned_to == end and not result.map_full
    latest = {record.key: record.offset for record in before if record.offset < end}
    assert after == [
        record for record in before if record.offset >= end or latest[record.key] == record.offset
    ]
    assert result.records_before == end
    assert result.records_after == 7
    assert result.bytes_after == log.size_bytes - log._segments[-1].size
    log.close()
    again = await open_log(disk, config=SMALL)
    assert await all_records(again) == after
    assert again.end_offset == log.end_offset
