"""Checkpoints of offsets that contradict the log, or each other: each start has its clear outcome.

Where a file says that records were there, and the partition counts on them, the replica is damaged: it does
not go on with fewer. The log is believed where it knows better than the file.
"""

import uuid
from collections.abc import Mapping

import pytest

from quorate.broker.replication.storage.folders import PartitionIdentity
from quorate.broker.replication.storage.log_directory import Directory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.log import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch
from quorate.log.checkpoints import UnreadableCheckpointError, load_offsets, store_offsets
from quorate.log.log_errors import DamagedLogError, IncompleteLogError
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Offset

T = ("t", 0)
IDENTITY = PartitionIdentity(uuid.UUID(int=7))
DIRECTORY = Directory(path="data", id=uuid.UUID(int=1))
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, tail_bytes=0)
STOPPED, COUNTED, UNCOUNTED = "stopped in order", "killed, in the ISR", "killed, in no ISR"
STARTS = (STOPPED, COUNTED, UNCOUNTED)
START, HIGH_WATERMARK, END = 4, 8, 10
"""The log start is in the middle of its first segment, of [3, 6)."""
AS_IT_WAS = (START, HIGH_WATERMARK, END)
TRUE = {RECOVERY_POINTS: END, HIGH_WATERMARKS: HIGH_WATERMARK, LOG_STARTS: START, CLEANED: 6}


async def opened(disk: SimulatedDisk) -> LogManager:
    return await LogManager.open(disk, [DIRECTORY], now_ms=lambda: 0, boot_id="boot")


async def left_behind(how: str) -> SimulatedDisk:
    """The disk of a broker with one log."""
    disk = SimulatedDisk()
    disk.make_folder("data")
    manager = await opened(disk)
    log = await manager.open_log(*T, IDENTITY, CONFIG)
    for base in range(END):
        log.append_as_follower(build_batch(base_offset=base, epoch=1, timestamp_ms=1000, values=[b"x" * 20]))
    log.high_watermark = Offset(HIGH_WATERMARK)
    await log.flush()
    await log.advance_log_start(Offset(START))
    assert await manager.store_log_starts([T]) == {}
    manager.directories[0].cleaned[T] = Offset(6)
    await manager.close(clean_epoch=1 if how == STOPPED else None)
    disk.crash_process()
    for name, offset in TRUE.items():
        assert load_offsets(disk, f"data/{name}") == {T: offset}
    return disk


async def started(disk: SimulatedDisk, how: str) -> tuple[LogManager, Log]:
    manager = await opened(disk)
    return manager, await manager.open_log(*T, IDENTITY, CONFIG, counts=how == COUNTED)


async def state(log: Log) -> tuple[int, int, int]:
    """Log start, high watermark and log end, all of which can be read."""
    for offset in range(int(log.log_start_offset), int(log.end_offset)):
        assert next(iter(read_batches(await log.read(offset, 1)))).header.base_offset == offset
    return int(log.log_start_offset), int(log.high_watermark), int(log.end_offset)


async def outcome(disk: SimulatedDisk, how: str) -> object:
    try:
        _, log = await started(disk, how)
    except DamagedLogError as error:
        assert "Restore the folder" in str(error)
        assert "fetched anew" in str(error), "the folder alone, moved away, would be missing"
        return type(error)
    return await state(log)


CASES: dict[str, tuple[Mapping[str, int | None], tuple[object, object, object]]] = {
    "nothing is wrong": ({}, (AS_IT_WAS, AS_IT_WAS, AS_IT_WAS)),
    # Recovery points
    "a recovery point above the log end": (
        {RECOVERY_POINTS: 15},
        (IncompleteLogError, DamagedLogError, DamagedLogError),
    ),
    "a recovery point below the log start": ({RECOVERY_POINTS: 1}, (AS_IT_WAS,) * 3),
    "no recovery point": ({RECOVERY_POINTS: None}, (AS_IT_WAS,) * 3),
    # High watermarks
    "a high watermark above the log end": (
        {HIGH_WATERMARKS: 15},
        (IncompleteLogError, IncompleteLogError, (START, END, END)),
    ),
    "a high watermark below the log start": ({HIGH_WATERMARKS: 1}, ((START, START, END),) * 3),
    "no high watermark": ({HIGH_WATERMARKS: None}, ((START, START, END),) * 3),
    # Log starts
    "a log start beyond the log end": (
        {LOG_STARTS: 15},
        (DamagedLogError, IncompleteLogError, (15, 15, 15)),
    ),
    "a log start at the log end": ({LOG_STARTS: END}, ((END, END, END),) * 3),
    "a log start below the first segment": ({LOG_STARTS: 1}, ((3, HIGH_WATERMARK, END),) * 3),
    "a log start above the high watermark": ({LOG_STARTS: 9}, ((9, 9, END),) * 3),
    "no log start": ({LOG_STARTS: None}, ((3, HIGH_WATERMARK, END),) * 3),
    # The cleaner's
    "an end of what is compacted beyond the log end": ({CLEANED: 15}, (AS_IT_WAS,) * 3),
    "an end of what is compacted below the log start": ({CLEANED: 1}, (AS_IT_WAS,) * 3),
    "an end of what is compacted above the high watermark": ({CLEANED: 9}, (AS_IT_WAS,) * 3),
    # Each other
    "a recovery point and a log start beyond the log end": (
        {RECOVERY_POINTS: 15, LOG_STARTS: 15},
        (IncompleteLogError, DamagedLogError, DamagedLogError),
    ),
    "a recovery point below a high watermark above the log end": (
        {RECOVERY_POINTS: 5, HIGH_WATERMARKS: 15},
        (IncompleteLogError, IncompleteLogError, (START, END, END)),
    ),
    "a log start above a high watermark beyond the log end": (
        {HIGH_WATERMARKS: 12, LOG_STARTS: 15},
        (IncompleteLogError, IncompleteLogError, (15, 15, 15)),
    ),
    "all of another log": (
        {RECOVERY_POINTS: 0, HIGH_WATERMARKS: 2, LOG_STARTS: 1, CLEANED: 1},
        ((3, 3, END),) * 3,
    ),
}


@pytest.mark.bug("KAFKA-10101")
@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
async def test_checkpoints_that_contradict_a_log_have_a_clear_outcome(
    files: Mapping[str, int | None], expected: tuple[object, ...], how: str
) -> None:
    disk = await left_behind(how)
    for name, offset in files.items():
        entries = {} if offset is None else {T: Offset(offset)}
        await store_offsets(disk, f"data/{name}", entries)
    assert await outcome(disk, how) == expected[STARTS.index(how)]


@pytest.mark.parametrize("how", STARTS)
async def test_files_that_name_a_replica_whose_folder_was_never_here_leave_nothing_to_its_successor(
    how: str,
) -> None:
    """Only the high watermark says that there was something to lose, if the partition counts on it."""
    disk = await left_behind(how)
    never = ("never", 3)
    for name, offset in TRUE.items():
        await store_offsets(disk, f"data/{name}", {T: Offset(offset), never: Offset(9)})
    manager, log = await started(disk, how)
    assert await state(log) == AS_IT_WAS
    with pytest.raises(IncompleteLogError, match="the folder is missing"):
        await manager.open_log(*never, IDENTITY, CONFIG, counts=True)
    fresh = await manager.open_log(*never, IDENTITY, CONFIG)
    assert await state(fresh) == (0, 0, 0)
    for name in TRUE:
        assert load_offsets(disk, f"data/{name}").get(never, 0) == 0, name


@pytest.mark.parametrize("how", STARTS)
@pytest.mark.parametrize("entry", [b"t 0 -1", b"t 0 5\nt 0 9", b"t 0 99999999999999999999"])
@pytest.mark.parametrize("name", TRUE)
async def test_a_file_that_contradicts_itself_is_refused_or_counts_as_none(
    name: str, entry: bytes, how: str
) -> None:
    """It counts as none where the log or the other replicas know better, else the error names the remedy."""
    disk = await left_behind(how)
    content = b"0\n%d\n%s\n" % (entry.count(b"\n") + 1, entry)
    await write_file_atomically(disk, f"data/{name}", content)
    if name in (RECOVERY_POINTS, LOG_STARTS):
        with pytest.raises(UnreadableCheckpointError, match="Restore the file"):
            await opened(disk)
        return
    expected = (START, START, END) if name == HIGH_WATERMARKS else AS_IT_WAS
    assert await outcome(disk, how) == expected


@pytest.mark.bug("KAFKA-8306")
async def test_an_empty_log_goes_on_at_the_log_start_of_its_checkpoint() -> None:
    disk = await left_behind(UNCOUNTED)
    await store_offsets(disk, f"data/{LOG_STARTS}", {T: Offset(500)})
    _, log = await started(disk, UNCOUNTED)
    assert await state(log) == (500, 500, 500)
    log.append_as_follower(build_batch(base_offset=500, epoch=1, timestamp_ms=1000, values=[b"first"]))
    await log.flush()
    disk.crash_process()
    _, log = await started(disk, UNCOUNTED)
    assert await state(log) == (500, 500, 501)
