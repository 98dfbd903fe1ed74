"""No coroutine of a log, of a metadata log or of its snapshots holds the event loop, however long the log is.

By the processor's time of the loop's thread: see tests/kit/gaps.py. A new public coroutine without an entry
here fails `test_each_public_coroutine_has_an_entry`.
"""

import inspect
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from gaps import within_gap

from quorate.broker.replication.producing.producer_snapshot import load
from quorate.broker.replication.producing.producer_state import ProducerState
from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.log.metadata_recovery import open_metadata_log, recovered_log
from quorate.log.segments.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from quorate.log.snapshots.snapshot_writer import SnapshotWriter
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.types import Epoch, EpochEnd, Offset, SnapshotId

pytestmark = pytest.mark.real_time

BATCHES = 200_000
T0 = 1_700_000_000_000
PARTITION = LogConfig(segment_bytes=16 << 20)
METADATA = LogConfig(segment_bytes=16 << 20, own_recovery_point=True, reserve_bytes=4 << 20)
SNAPSHOT = SnapshotId(Offset(1000), Epoch(1))


def fill(log: Log, count: int) -> None:
    """One record to a batch, of 171 bytes, a new epoch at every 20,000th."""
    for _ in range(count):
        base = log.end_offset
        epoch = 1 + base // 20_000
        batch = build_batch(base_offset=base, epoch=epoch, timestamp_ms=T0 + base, values=[b"x" * 100])
        log.append_own(batch, base_offset=base, end_offset=base + 1, epoch=epoch)


def disk() -> RealDisk:
    return RealDisk(sync=SyncStrategy.THREAD)


async def open_log(folder: Path, recovery_point: int | None = None, *, clean: bool = False) -> Log:
    point = None if recovery_point is None else Offset(recovery_point)
    return await Log.open(
        disk(), f"{folder}/t-0", PARTITION, recovery_point=point, clean_shutdown=clean, now_ms=lambda: T0
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition's folder t-0 and a metadata log's m-0, both of `BATCHES` and closed in order."""
    import trio

    folder = tmp_path_factory.mktemp("logs")

    async def make() -> None:
        log = await open_log(folder)
        fill(log, BATCHES)
        await log.flush_and_close()
        log = await Log.open(disk(), f"{folder}/m-0", METADATA, now_ms=lambda: T0)
        fill(log, BATCHES)
        await log.flush_and_close()

    trio.run(make)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of `made`."""
    for name in ("t-0", "m-0"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


def forget_indexes(folder: Path) -> None:
    for path in folder.iterdir():
        if path.suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path.unlink()


async def test_opening_what_must_be_checked_as_a_whole(folder: Path) -> None:
    log = await within_gap(open_log(folder), what="Log.open without a recovery point")
    assert log.end_offset == BATCHES
    log.close()


async def test_opening_what_was_shut_down_in_order(folder: Path) -> None:
    log = await within_gap(open_log(folder, BATCHES, clean=True), what="Log.open after a clean shutdown")
    assert log.recovered.rewritten_bytes == 0
    log.close()


async def test_opening_without_indexes_and_epochs(folder: Path) -> None:
    forget_indexes(folder / "t-0")
    (folder / "t-0" / "leader-epoch-checkpoint").unlink()
    log = await within_gap(open_log(folder, BATCHES), what="Log.open without indexes")
    assert len(log.epochs) == BATCHES // 20_000
    log.close()


async def test_recovery_of_a_torn_end_after_many_batches_holds_no_loop(folder: Path) -> None:
    segment = max((folder / "t-0").glob("*.log"))
    with segment.open("r+b") as file:
        file.seek(-50, 2)
        file.truncate()
    log = await within_gap(open_log(folder, 10), what="Log.open with a torn end")
    assert log.end_offset == BATCHES - 1
    log.close()


async def rebuild(log: Log) -> None:
    """A read that finds its index wrong."""
    positions = log._segments[0].indexes.offsets._positions
    for number in range(len(positions)):
        positions[number] += 1
    await log.read(20_000, 100)


async def replace(log: Log) -> None:
    """A segment by its copy."""
    source, _ = log.closed_spans()[0]
    cleaned = log.cleaned_segment(source.base_offset)
    while cleaned.size < source.size:
        data = await source.file.read(cleaned.size, 1 << 18)
        cleaned.append([data], len(data))
        await trio.lowlevel.checkpoint()  # the copy is not what is measured
    await cleaned.file.sync()
    await log.replace_segments((source,), cleaned)


async def unpaced(size: int) -> None:
    """No checkpoint: the check lets others run by itself."""


LOG: dict[str, Callable[[Log], Awaitable[object]]] = {
    "read": lambda log: log.read(BATCHES // 2, 1 << 20),
    "read, index rebuilt": rebuild,
    "voter_sets": lambda log: log.voter_sets(0),
    "offset_for_timestamp": lambda log: log.offset_for_timestamp(T0 + BATCHES * 2 // 3),
    "offset_for_timestamp, newest": lambda log: log.offset_for_timestamp(T0 + BATCHES - 1),
    "offset_for_timestamp, none": lambda log: log.offset_for_timestamp(T0 + BATCHES),
    "sync": lambda log: log.sync(),
    "flush": lambda log: log.flush(),
    "truncate": lambda log: log.truncate(Offset(BATCHES // 2 + 1)),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(Offset(7)),
    "reset": lambda log: log.reset(EpochEnd(Epoch(50), Offset(BATCHES + 5))),
    "advance_log_start": lambda log: log.advance_log_start(Offset(BATCHES - 5)),
    "remove_below_log_start": lambda log: (
        log.raise_log_start(Offset(BATCHES - 5)) and log.remove_below_log_start()
    ),
    "delete_old_segments": lambda log: log.delete_old_segments(
        retention_bytes=1, retention_ms=None, high_watermark=Offset(BATCHES)
    ),
    "replace_segments": replace,
    "verify_segment": lambda log: log.verify_segment(log.bases(closed=False)[0], pace=unpaced),
    "flush_and_close": lambda log: log.flush_and_close(),
}


@pytest.mark.parametrize("kind", ["partition", "metadata log"])
@pytest.mark.parametrize("name", LOG)
async def test_a_log_lets_others_run(folder: Path, name: str, kind: str) -> None:
    if kind == "partition":
        log = await open_log(folder, BATCHES, clean=True)
    else:
        log = await Log.open(disk(), f"{folder}/m-0", METADATA, now_ms=lambda: T0)
    fill(log, 300)
    await within_gap(LOG[name](log), what=f"Log.{name} of a {kind}")
    log.close()


async def test_the_producers_of_a_log_are_read_back_in_slices(folder: Path) -> None:
    log = await open_log(folder, BATCHES, clean=True)
    state = ProducerState()
    await within_gap(load(disk(), log.folder, log, state), what="producer_snapshot.load")
    assert state.end_offset == BATCHES
    log.close()


async def written(store: SnapshotStore, *, chunks: int, size: int) -> SnapshotWriter:
    writer = store.write(SNAPSHOT, last_timestamp_ms=T0, voters=None)
    for _ in range(chunks):
        writer.append(bytes(size))
    return writer


SNAPSHOTS: dict[str, tuple[int, int]] = {"small chunks": (BATCHES, 10), "large chunks": (60, 1 << 20)}


@pytest.mark.parametrize("chunks", SNAPSHOTS)
async def test_a_metadata_log_and_its_snapshots_open_in_slices(folder: Path, chunks: str) -> None:
    where = f"{folder}/m-0"
    store = await SnapshotStore.open(disk(), where)
    count, size = SNAPSHOTS[chunks]
    writer = await written(store, chunks=count, size=size)
    await within_gap(writer.keep_up(), what="SnapshotWriter.keep_up")
    contents = await within_gap(writer.freeze(), what="SnapshotWriter.freeze")
    data = b""
    while len(data) < contents.size_bytes:
        chunk, _ = await within_gap(
            store.read_chunk(SNAPSHOT, len(data), 8 << 20), what="SnapshotStore.read_chunk"
        )
        data += chunk
    store.close()
    snapshots = await within_gap(SnapshotStore.open(disk(), where), what="SnapshotStore.open")
    log = await within_gap(
        open_metadata_log(disk(), METADATA, snapshots=snapshots, now_ms=lambda: T0), what="open_metadata_log"
    )
    recovered = await within_gap(recovered_log(log, snapshots), what="recovered_log")
    assert (recovered.end_offset, recovered.snapshot) == (BATCHES, SNAPSHOT)
    newer = SnapshotId(Offset(2000), Epoch(1))
    (folder / "fetched").mkdir()
    fetched = await SnapshotStore.open(disk(), f"{folder}/fetched")
    fetched.write_part(SNAPSHOT, 0, data)
    await within_gap(fetched.complete_part(SNAPSHOT), what="SnapshotStore.complete_part")
    await within_gap(fetched.write_bootstrap(None), what="SnapshotStore.write_bootstrap")  # type: ignore[arg-type]
    await within_gap(snapshots.set_damaged_aside(), what="SnapshotStore.set_damaged_aside")
    (await written(snapshots, chunks=1, size=1)).abandon()
    writer = snapshots.write(newer, last_timestamp_ms=T0, voters=None)
    await writer.freeze()
    await within_gap(snapshots.delete([SNAPSHOT]), what="SnapshotStore.delete")
    log.close()


NAMED = {
    Log: {name.partition(",")[0] for name in LOG} | {"open"},
    SnapshotStore: {
        "open",
        "complete_part",
        "delete",
        "read_chunk",
        "set_damaged_aside",
        "write_bootstrap",
    },
    SnapshotWriter: {"freeze", "keep_up"},
}


@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
def test_each_public_coroutine_has_an_entry(kind: type) -> None:
    public = {
        name
        for name, member in inspect.getmembers(kind, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert public == NAMED[kind], "give a new coroutine an entry above"
