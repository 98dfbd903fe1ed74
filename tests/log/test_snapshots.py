"""Snapshot files: written, received, read, deleted."""

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
import trio.testing
from captured_logs import captured_logs
from crc32c import crc32c
from gaps import within_gap
from hypothesis import given
from hypothesis import strategies as st

from quorate.log.batches.batch import CRC_START, read_batches
from quorate.log.batches.control import (
    ControlType,
    control_records_of,
    leader_change_in,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from quorate.log.batches.records import build_batch
from quorate.log.log_errors import DamagedSnapshotError, PositionOutOfRangeError, SnapshotMissingError
from quorate.log.snapshots.snapshot_file import MAX_CHUNK_BYTES, SnapshotContents, name_of, parse_name
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime.disk import DiskError, DiskFullError
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VotersAt, VoterSet

F = "data/__cluster_metadata-0"
Fetch = Callable[..., Awaitable[SnapshotContents]]
ID = SnapshotId(Offset(100), Epoch(3))
PATH = f"{F}/00000000000000000100-0000000003.checkpoint"
VOTERS = VoterSet((Voter(ReplicaKey(NodeId(1), "AQEBAQEBAQEBAQEBAQEBAQ"), Endpoint("h", 9)),))


async def opened(disk: SimulatedDisk | None = None) -> SnapshotStore:
    disk = disk or SimulatedDisk()
    disk.make_folder(F)
    return await SnapshotStore.open(disk, F)


async def take(
    store: SnapshotStore,
    chunks: Sequence[bytes] = (b"state",),
    snapshot: SnapshotId = ID,
    voters: VoterSet | None = None,
    leader_change: bytes | None = None,
) -> SnapshotContents:
    writer = store.write(snapshot, last_timestamp_ms=1234, voters=voters, leader_change=leader_change)
    for chunk in chunks:
        writer.append(chunk)
        await writer.keep_up()
    return await writer.freeze()


def loaded(store: SnapshotStore, snapshot: SnapshotId = ID) -> list[bytes]:
    with store.reader(snapshot) as reader:
        return list(reader)


def at(end: int, epoch: int = 1) -> SnapshotId:
    return SnapshotId(Offset(end), Epoch(epoch))


async def test_a_file_is_kafkas_header_the_leader_voters_state_and_footer() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    contents = await take(store, [b"one", b"two"], voters=VOTERS, leader_change=b"value")
    batches = list(read_batches(disk.content(PATH)))
    seen = []
    for batch in batches:
        header = batch.header
        assert (header.leader_epoch, header.base_timestamp, header.max_timestamp) == (3, 1234, 1234)
        kinds = [kind for _, kind in control_records_of(batch)] if header.is_control else None
        seen.append((header.base_offset, header.end_offset, kinds))
    assert seen == [
        (0, 2, [ControlType.SNAPSHOT_HEADER, ControlType.LEADER_CHANGE]),
        (2, 4, [ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]),
        (4, 6, None),
        (6, 7, [ControlType.SNAPSHOT_FOOTER]),
    ]
    assert leader_change_in(batches[0]) == b"value"
    assert contents == store.contents(ID)
    assert contents.size_bytes == len(disk.content(PATH))
    assert store.voters == VotersAt(Offset(99), VOTERS)


@given(
    st.lists(st.binary(max_size=40) | st.integers(0, 700_000).map(bytes), max_size=12),
    st.booleans(),
    st.none() | st.binary(max_size=40),
)
async def test_the_state_comes_back_chunk_by_chunk(
    chunks: list[bytes], with_voters: bool, leader_change: bytes | None
) -> None:
    store = await opened()
    voters = VOTERS if with_voters else None
    writer = store.write(ID, last_timestamp_ms=1234, voters=voters, leader_change=leader_change)
    for chunk in chunks:
        writer.append(chunk)
    assert store.latest is None
    await writer.freeze()
    assert store.latest == ID
    for again in (store, await opened(store._disk)):
        with again.reader(ID) as reader:
            assert list(reader) == chunks
            assert reader.contents == again.contents(ID)
            assert reader.contents.voters == voters
            assert reader.contents.leader_change == leader_change
            assert reader.contents.last_timestamp_ms == 1234


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_snapshots_name_states_its_end_and_epoch(end: int, epoch: int) -> None:
    snapshot = at(end, epoch)
    assert parse_name(name_of(snapshot)) == snapshot
    assert parse_name(name_of(snapshot) + ".part") is None


@pytest.mark.slow
@pytest.mark.bug("KAFKA-14222")
async def test_a_state_of_large_chunks_is_written_in_bounded_batches() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    chunks = [bytes([number]) * MAX_CHUNK_BYTES for number in range(6)]
    await take(store, chunks)
    assert disk.syncs >= 6, "the device works along"
    assert loaded(store) == chunks
    await take(store, [bytes(5000), chunks[0], b"small"], at(150))
    assert [len(chunk) for chunk in loaded(store, at(150))] == [5000, MAX_CHUNK_BYTES, 5]
    small = [b"x" * 1000] * 3000
    await take(store, small, at(200))
    sizes = [batch.header.size for batch in read_batches(disk.content(f"{F}/{name_of(at(200))}"))]
    assert len(sizes) == 2 + 3
    assert max(sizes) < 1024 * 1024 + 100_000
    writer = store.write(at(300), last_timestamp_ms=0, voters=None)
    with pytest.raises(ValueError, match="chunks of at most 8388608"):
        writer.append(bytes(MAX_CHUNK_BYTES + 1))
    writer.abandon()


@pytest.mark.bug("nats-server PR 3844")
async def test_no_snapshot_of_nothing_is_written() -> None:
    store = await opened()
    with pytest.raises(ValueError, match="of nothing"):
        store.write(at(0), last_timestamp_ms=0, voters=None)
    assert store._disk.list(F) == []


@pytest.mark.bug("nats-server PR 3844")
@pytest.mark.parametrize("left", [b"", b"\0" * 200])
async def test_an_empty_or_headless_snapshot_is_put_away_at_the_start(left: bytes) -> None:
    disk = SimulatedDisk()
    await take(await opened(disk))
    path = f"{F}/{name_of(at(7))}"
    disk.open(path, create=True).append([left])
    with captured_logs() as lines:
        store = await opened(disk)
    assert store.ids == (ID,)
    assert [(line["path"], line["log_level"]) for line in lines] == [(path, "warning")]
    kept = [path.rpartition("/")[2] + ".damaged"] if left else []
    assert disk.list(F) == [*kept, name_of(ID)]


@pytest.mark.bug("KAFKA-15312")
async def test_a_snapshot_has_its_name_only_when_it_is_on_the_device() -> None:
    for seed in range(60):
        disk = SimulatedDisk()
        store = await opened(disk)
        writer = store.write(ID, last_timestamp_ms=0, voters=None)
        writer.append(b"state" * 1000)
        disk.fail(DiskOperation.SYNC_FOLDER if seed % 2 else DiskOperation.SYNC)
        with pytest.raises(DiskError):
            await writer.freeze()
        assert store.latest is None
        disk.lose_power(random.Random(seed))
        if disk.exists(PATH):
            assert seed % 2, "renamed before it was synced"
        store = await opened(disk)
        if store.latest is not None:
            assert loaded(store) == [b"state" * 1000]


@pytest.mark.bug("KAFKA-13098")
async def test_a_snapshot_that_vanishes_while_the_folder_is_read_is_skipped() -> None:
    class Vanishing(SimulatedDisk):
        def list(self, path: str) -> list[str]:
            return sorted([*super().list(path), name_of(at(200)), name_of(at(300)) + ".part"])

    disk = Vanishing()
    await take(await opened(disk))
    store = await opened(disk)
    assert (store.ids, store.damaged) == ((ID,), ())


async def test_leftovers_of_a_crash_are_removed_with_a_line_each() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    writer = store.write(ID, last_timestamp_ms=0, voters=None)
    writer.append(b"x" * 2_000_000)
    store.write_part(at(50), 0, b"some")
    disk.open(f"{F}/{name_of(at(20))}.deleted", create=True)
    disk.open(f"{F}/quorum-state", create=True)
    assert len(disk.list(F)) == 4
    disk.crash_process()
    with captured_logs() as lines:
        await opened(disk)
    assert disk.list(F) == ["quorum-state"]
    assert [line["event"] for line in lines] == ["removed what was left of a snapshot"] * 3
    disk.lose_power(random.Random(1))
    assert [name for name in disk.list(F) if "checkpoint" in name] == []


async def test_an_abandoned_snapshot_leaves_nothing() -> None:
    store = await opened()
    writer = store.write(ID, last_timestamp_ms=0, voters=None)
    writer.append(b"state")
    assert writer.size_bytes > 5
    writer.abandon()
    writer.abandon()
    assert store._disk.list(F) == []
    with pytest.raises(DiskError, match="abandoned"):
        writer.append(b"more")


async def test_a_full_disk_ends_a_snapshot_and_nothing_else() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await take(store, snapshot=at(10))
    disk.space_left = 500_000
    writer = store.write(ID, last_timestamp_ms=0, voters=None)
    with pytest.raises(DiskFullError):
        writer.append(bytes(1024 * 1024))
    with pytest.raises(DiskError):
        await writer.freeze()
    writer.abandon()
    assert store.ids == (at(10),)
    assert disk.list(F) == [name_of(at(10))]
    disk.space_left = None
    await take(store)
    assert store.latest == ID


# Damage


@pytest.mark.bug("KAFKA-14104")
@pytest.mark.parametrize("seed", range(40))
async def test_nothing_of_a_damaged_batch_is_loaded(seed: int) -> None:
    draw = random.Random(seed)
    disk = SimulatedDisk()
    store = await opened(disk)
    await take(store, [bytes([65 + number]) * 400_000 for number in range(5)], voters=VOTERS)
    data = disk.content(PATH)
    starts = [batch.header.position for batch in read_batches(data)]
    position = draw.choice([draw.randrange(len(data)), draw.choice(starts) + draw.randrange(61)])
    disk.flip(PATH, position, bit=draw.randrange(8))
    read: list[bytes] = []
    with pytest.raises(DamagedSnapshotError) as caught:
        for chunk in store.reader(ID):
            read.append(chunk)
    assert (caught.value.path, caught.value.snapshot) == (PATH, ID)
    assert caught.value.position <= position
    assert all(len(set(chunk)) == 1 for chunk in read)
    store = await opened(disk)
    assert (store.latest, [error.snapshot for error in store.damaged]) == (None, [ID])
    assert disk.content(PATH), "as it was found"


@pytest.mark.slow
async def test_every_flipped_bit_of_a_small_snapshot_is_found() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await take(store, [b"one", b"two"], voters=VOTERS)
    for position in range(len(disk.content(PATH))):
        for bit in range(8):
            disk.flip(PATH, position, bit=bit)
            with pytest.raises(DamagedSnapshotError):
                loaded(store)
            disk.flip(PATH, position, bit=bit)
    assert loaded(store) == [b"one", b"two"]


def header(base_offset: int = 0, epoch: int = 3) -> bytes:
    return snapshot_header_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=1)


def footer(base_offset: int, epoch: int = 3) -> bytes:
    return snapshot_footer_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=1)


def nonsense(base_offset: int) -> bytes:
    """With a good CRC."""
    data = bytearray(state(base_offset) + b"?")
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(data[CRC_START:]).to_bytes(4, "big")
    return bytes(data)


def state(base_offset: int, epoch: int = 3) -> bytes:
    return build_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=1, values=[b"x"])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "ends after 0 bytes"),
        (header(), "before its SnapshotFooter"),
        (header() + state(1), "before its SnapshotFooter"),
        (state(0) + footer(1), "first batch is no SnapshotHeader"),
        (footer(0), "must be the first record"),
        (header() + header(1) + footer(2), "must be the first record"),
        (header() + state(1) + state(3) + footer(4), "base offset 3, expected 2"),
        (header() + state(1, epoch=2) + footer(2), "epoch 2, expected 3"),
        (header() + footer(1) + state(2), "follow the SnapshotFooter"),
        (header() + footer(1) + b"\0", "follow the SnapshotFooter"),
        (header() + state(1)[:-3], "cut off"),
        (header() + nonsense(1) + footer(2), "bytes follow the last record"),
        (header() + state(1)[:8] + b"\x7f\xff\xff\xff" + state(1)[12:], "more than the allowed"),
    ],
    ids=str.split(
        "empty no-footer no-footer-after-state no-header footer-first two-headers gap epoch "
        "state-after-footer byte-after-footer torn nonsense huge"
    ),
)
async def test_a_fetched_snapshot_that_is_not_whole_is_refused_and_removed(data: bytes, problem: str) -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    store.write_part(ID, 0, data)
    with pytest.raises(DamagedSnapshotError, match=problem):
        await store.complete_part(ID)
    assert (disk.list(F), store.ids, store.part_position(ID)) == ([], (), 0)


async def test_a_damaged_bootstrap_snapshot_stops_the_start_until_there_is_another() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await store.write_bootstrap(VOTERS)
    path = f"{F}/{'0' * 20}-{'0' * 10}.checkpoint"
    disk.flip(path, CRC_START)
    with pytest.raises(DamagedSnapshotError, match="CRC"):
        await opened(disk)
    await take(store)
    assert (await opened(disk)).ids == (ID,)
    assert disk.list(F) == [path.rpartition("/")[2] + ".damaged", name_of(ID)]


# Received


async def test_a_snapshot_is_fetched_in_chunks_and_checked(fetch: Fetch) -> None:
    source, target = await opened(), await opened()
    chunks = [random.Random(1).randbytes(3000) for _ in range(5)]
    await take(source, chunks, voters=VOTERS)
    contents = await fetch(source, target, ID, chunk_bytes=1000)
    assert contents == source.contents(ID) == target.contents(ID)
    assert (target.latest, loaded(target)) == (ID, chunks)
    assert target._disk.list(F) == [name_of(ID)]
    with pytest.raises(SnapshotMissingError):
        await target.complete_part(ID)


async def test_chunks_that_do_not_continue_the_part_are_refused() -> None:
    store = await opened()
    with pytest.raises(PositionOutOfRangeError):
        store.write_part(ID, 5, b"x")
    store.write_part(ID, 0, b"12345")
    for position in (4, 6):
        with pytest.raises(PositionOutOfRangeError, match=f"position {position} .* 5 bytes"):
            store.write_part(ID, position, b"x")
    store.write_part(ID, 5, b"6")
    assert store.part_position(ID) == 6
    with pytest.raises(PositionOutOfRangeError):
        store.write_part(at(200), 6, b"x")
    store.write_part(at(200), 0, b"x")
    assert (store.part_position(ID), store.part_position(at(200))) == (0, 1)
    store.write_part(at(200), 0, b"yz")
    assert store.part_position(at(200)) == 2
    store.close()
    assert store._disk.list(F) == []


async def test_a_disk_that_fails_drops_the_part(fetch: Fetch) -> None:
    source, target = await opened(), await opened()
    await take(source, [bytes(1000)])
    for operation in (DiskOperation.APPEND, DiskOperation.SYNC, DiskOperation.RENAME):
        target._disk.fail(operation)
        with pytest.raises(DiskError):
            await fetch(source, target, ID)
        assert (target.part_position(ID), target._disk.list(F), target.ids) == (0, [], ())
    await fetch(source, target, ID)
    assert target.latest == ID


async def test_a_node_may_write_and_fetch_the_same_snapshot_at_once(fetch: Fetch) -> None:
    source, target = await opened(), await opened()
    await take(source, [b"state"])
    writer = target.write(ID, last_timestamp_ms=1234, voters=None)
    writer.append(b"state")
    await fetch(source, target, ID)
    await writer.freeze()
    assert loaded(target) == [b"state"]


@pytest.mark.slow
@pytest.mark.real_time
async def test_checking_a_large_snapshot_lets_others_run(tmp_path: Path) -> None:
    source = await opened()
    await take(source, [bytes(1024 * 1024)] * 100)
    # Reads of which don't pause by themselves when the page cache has it all.
    target = await SnapshotStore.open(RealDisk(sync=SyncStrategy.THREAD), str(tmp_path))
    data, _ = await source.read_chunk(ID, 0, 10**9)
    target.write_part(ID, 0, data)
    await within_gap(target.complete_part(ID), what="complete_part")


# Read


async def test_chunks_are_read_from_any_position() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await take(store, [b"state" * 100])
    data = disk.content(PATH)
    assert await store.read_chunk(ID, 3, 10) == (data[3:13], len(data))
    assert await store.read_chunk(ID, len(data) - 1, 10) == (data[-1:], len(data))
    for position in (-1, len(data), len(data) + 1):
        with pytest.raises(PositionOutOfRangeError):
            await store.read_chunk(ID, position, 10)


async def test_the_bootstrap_snapshot_is_not_for_others() -> None:
    store = await opened()
    await store.write_bootstrap(VOTERS)
    assert (store.latest, store.ids) == (None, ())
    assert store.voters == VotersAt(Offset(-1), VOTERS)
    with pytest.raises(SnapshotMissingError):
        await store.read_chunk(at(0, 0), 0, 10)
    again = await opened(store._disk)
    assert (again.latest, again.voters) == (None, VotersAt(Offset(-1), VOTERS))


async def test_a_deleted_snapshot_is_missing_for_requests_and_stays_for_its_readers() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await take(store, [bytes([number]) * 1024 * 1024 for number in range(5)])
    await take(store, snapshot=at(200))
    reader = iter(store.reader(ID))
    first = next(reader)
    disk.stall()
    async with trio.open_nursery() as nursery:
        chunks: list[tuple[bytes, int]] = []

        async def read() -> None:
            chunks.append(await store.read_chunk(ID, 0, 100))

        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(store.delete, [ID])
        await trio.testing.wait_all_tasks_blocked()
        disk.release()
    assert len(chunks[0][0]) == 100
    assert [chunk[:1] for chunk in (first, *reader)] == [bytes([number]) for number in range(5)]
    with pytest.raises(SnapshotMissingError):
        await store.read_chunk(ID, 0, 100)
    with pytest.raises(SnapshotMissingError):
        store.reader(ID)


# Deleted


@pytest.mark.bug("KAFKA-12205")
async def test_old_snapshots_are_deleted_but_never_the_latest() -> None:
    disk = SimulatedDisk()
    store = await opened(disk)
    await store.write_bootstrap(VOTERS)
    assert store.below(10**9) == ()
    with pytest.raises(ValueError, match="must stay"):
        await store.delete([at(0, 0)])
    ends = (10, 20, 30, 40, 50)
    for end in ends:
        await take(store, snapshot=at(end))
    assert store.below(30) == (at(0, 0), at(10), at(20))
    assert store.below(10**9) == (at(0, 0), *map(at, ends[:-1]))
    with pytest.raises(ValueError, match="must stay"):
        await store.delete([at(40), at(50)])
    await store.delete([*store.below(30), at(99)])
    assert store.ids == (at(30), at(40), at(50))
    assert disk.list(F) == [name_of(at(end)) for end in (30, 40, 50)]
    disk.remove(f"{F}/{name_of(at(30))}")
    await store.delete([at(30), at(40)])
    assert disk.list(F) == [name_of(at(50))]
    assert (await opened(disk)).ids == (at(50),)
