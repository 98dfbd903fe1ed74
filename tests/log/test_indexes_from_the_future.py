"""Indexes that say more than their segment has: left by a later state of the log, or by another file. A start
believes no entry that no batch confirms, so that reads, searches and retention by time are right."""

import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest

from quorate.log import Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset
from tests.log.conftest import new_log

Opener = Callable[..., Awaitable[Log]]
Change = Callable[[list[tuple[int, int]]], list[tuple[int, int]]]
F = "data/t-0"
CONFIG = LogConfig(index_interval_bytes=200, tail_bytes=0, segment_bytes=3000)
FAR_MS = 1 << 62
FAR = 2**31 - 1

BY_TIME: dict[str, Change] = {
    "a time to come": lambda entries: [*entries[:-1], (FAR_MS, entries[-1][1])],
    "an offset to come": lambda entries: [*entries[:-1], (entries[-1][0], FAR)],
    "both": lambda entries: [*entries[:-1], (FAR_MS, FAR)],
    "an entry more": lambda entries: [*entries, (FAR_MS, FAR)],
    "an entry just above": lambda entries: [*entries, (1500, entries[-1][1] + 1)],
    "the first of a time to come": lambda entries: [(FAR_MS, entries[0][1]), *entries[1:]],
}
BY_OFFSET: dict[str, Change] = {
    "a position to come": lambda entries: [*entries[:-1], (entries[-1][0], FAR)],
    "an offset to come": lambda entries: [*entries[:-1], (FAR, entries[-1][1])],
    "an entry more": lambda entries: [*entries, (FAR - 1, FAR)],
    "an entry more inside": lambda entries: [*entries, (FAR - 1, entries[-1][1] + 89)],
    "all of later offsets": lambda entries: [(offset + 40, position) for offset, position in entries],
}
CASES = [
    pytest.param(suffix, layout, change, id=f"{suffix}, {name}")
    for suffix, layout, changes in ((".timeindex", ">qi", BY_TIME), (".index", ">ii", BY_OFFSET))
    for name, change in changes.items()
]


def fill(log: Log, timestamps: Sequence[int]) -> None:
    for timestamp in timestamps:
        base = log.end_offset
        batch = build_batch(base_offset=base, epoch=1, timestamp_ms=timestamp, values=[b"x" * 20])
        log.append_own(batch, base_offset=base, end_offset=base + 1, epoch=1)


def change_indexes(disk: SimulatedDisk, suffix: str, layout: str, change: Change, *, only_last: bool) -> None:
    names = [name for name in disk.list(F) if name.endswith(suffix)]
    assert len(names) > 2
    for name in [max(names)] if only_last else names:
        file = disk.open(f"{F}/{name}")
        changed = change(list(struct.iter_unpack(layout, disk.content(f"{F}/{name}"))))
        file.truncate(0)
        file.append([struct.pack(layout, *entry) for entry in changed])


async def check(log: Log, first_ms: int, end_ms: int) -> None:
    """A record has each millisecond from `first_ms` on, at the offset of that number."""
    assert log.end_offset == end_ms - first_ms
    assert log.max_timestamp() == end_ms - 1, "retention by time would keep or delete others"
    for at in (0, first_ms, first_ms + 42, end_ms - 1):
        assert await log.offset_for_timestamp(at) == max(0, at - first_ms)
    assert await log.offset_for_timestamp(end_ms) is None
    for offset in range(int(log.end_offset)):
        found = next(iter(read_batches(await log.read(offset, 1))))
        assert found.header.base_offset == offset


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("only_last", [True, False], ids=["the last", "all"])
@pytest.mark.parametrize(("suffix", "layout", "change"), CASES)
async def test_an_index_from_the_future_is_believed_by_nobody(
    suffix: str, layout: str, change: Change, only_last: bool, clean: bool, open_log: Opener
) -> None:
    disk, log = await new_log(CONFIG)
    fill(log, range(1000, 1100))
    await log.flush_and_close()
    change_indexes(disk, suffix, layout, change, only_last=only_last)
    log = await open_log(disk, config=CONFIG, recovery_point=100, clean_shutdown=clean)
    await check(log, 1000, 1100)
    fill(log, range(1100, 1200))
    await check(log, 1000, 1200)
    await log.flush_and_close()
    log = await open_log(disk, config=CONFIG, recovery_point=200, clean_shutdown=clean)
    await check(log, 1000, 1200)
    await log.truncate(Offset(50))
    fill(log, range(1050, 1060))
    await check(log, 1000, 1060)
