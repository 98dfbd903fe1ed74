"""The metadata log beside its snapshots: its start, its recovery with them, and the voters that count."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from captured_logs import captured_logs

from quorate.log.batches.control import leader_change_batch, voters_batch
from quorate.log.log import Log
from quorate.log.log_errors import (
    DamagedLogError,
    DamagedSnapshotError,
    EpochRegressionError,
    OffsetOutOfRangeError,
    UncoveredLogStartError,
)
from quorate.log.metadata_recovery import recovered_log
from quorate.log.snapshots.snapshot_file import name_of
from quorate.runtime.disk import DiskError
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from quorate.types import (
    Endpoint,
    Epoch,
    EpochEnd,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    Voter,
    VotersAt,
    VoterSet,
)

F = "data/__cluster_metadata-0"
OpenNode = Callable[..., Awaitable[Any]]
Fetch = Callable[..., Awaitable[object]]
Builder = Callable[..., bytes]


def at(end: int, epoch: int = 1) -> SnapshotId:
    return SnapshotId(Offset(end), Epoch(epoch))


def end_of(snapshot: SnapshotId) -> EpochEnd:
    return EpochEnd(snapshot.epoch, snapshot.end_offset)


def voters(*ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(ReplicaKey(NodeId(one)), Endpoint("h", one)) for one in ids))


def segments(disk: SimulatedDisk) -> list[int]:
    return [int(name.removesuffix(".log")) for name in disk.list(F) if name.endswith(".log")]


async def restarted_after_power_loss(node: Any) -> Any:
    node.disk.lose_power(random.Random(1))
    return await node.restarted()


# The start moves


async def test_the_start_moves_to_a_snapshots_end_and_whole_segments_below_go(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(12)
    await node.fill(3, epoch=2)
    bases = segments(node.disk)
    assert len(bases) >= 4
    end = bases[2] + 1
    snapshot = await node.take(end)
    assert await node.log.advance_log_start(Offset(end)) == 2
    assert segments(node.disk) == bases[2:]
    assert (node.log.log_start_offset, node.log.log_start_epoch) == (end, 1)
    assert node.log.epochs == (EpochStart(Epoch(1), Offset(end)), EpochStart(Epoch(2), Offset(12)))
    with pytest.raises(OffsetOutOfRangeError):
        await node.log.read(end - 1, 100)
    node = await restarted_after_power_loss(node)
    assert await recovered_log(node.log, node.snapshots) == RecoveredLog(
        epochs=(EpochStart(Epoch(1), Offset(end)), EpochStart(Epoch(2), Offset(12))),
        log_start_offset=Offset(end),
        start_epoch=Epoch(1),
        end_offset=Offset(15),
        snapshot=snapshot,
    )
    assert len(await node.values()) == 15


async def test_a_start_within_the_first_segment_goes_back_over_a_restart_and_loses_nothing(
    open_node: OpenNode,
) -> None:
    node = await open_node()
    await node.fill(3)
    await node.take(2)
    await node.log.advance_log_start(Offset(2))
    assert node.log.log_start_offset == 2
    node = await restarted_after_power_loss(node)
    assert (node.log.log_start_offset, node.log.log_start_epoch, node.snapshots.ids) == (0, 0, (at(2),))
    assert len(await node.values()) == 3


async def test_the_start_may_move_to_the_end_and_the_next_epoch_begins_there(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(12, epoch=4)
    await node.take(12)
    await node.log.advance_log_start(Offset(12))
    for _ in range(2):
        assert (node.log.epochs, node.log.last_epoch, node.log.log_start_epoch) == ((), 4, 4)
        node = await restarted_after_power_loss(node)
    with pytest.raises(EpochRegressionError):
        await node.fill(1, epoch=3)
    await node.fill(1, epoch=5)
    assert node.log.epochs == (EpochStart(Epoch(5), Offset(12)),)
    node = await restarted_after_power_loss(node)
    assert node.log.epochs == (EpochStart(Epoch(5), Offset(12)),)


async def test_a_log_begins_at_a_snapshots_end_and_grows_from_there(
    open_node: OpenNode, fetch: Fetch
) -> None:
    source, node = await open_node(), await open_node()
    await source.fill(30, epoch=7)
    snapshot = await source.take(30)
    await fetch(source.snapshots, node.snapshots, snapshot)
    await node.log.reset(end_of(snapshot))
    for _ in range(2):
        assert await recovered_log(node.log, node.snapshots) == RecoveredLog(
            log_start_offset=Offset(30), start_epoch=Epoch(7), end_offset=Offset(30), snapshot=snapshot
        )
        assert (node.log.high_watermark, node.log.last_epoch) == (30, 7)
        node = await restarted_after_power_loss(node)
    with pytest.raises(EpochRegressionError):
        await node.fill(1, epoch=6)
    await node.fill(10, epoch=7)
    node = await restarted_after_power_loss(node)
    assert (node.log.log_start_offset, node.log.end_offset) == (30, 40)
    assert node.log.epochs == (EpochStart(Epoch(7), Offset(30)),)
    assert len(await node.values()) == 40


async def test_truncating_back_to_the_start_leaves_the_epoch_below_it(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(12, epoch=2)
    await node.take(12)
    await node.log.advance_log_start(Offset(12))
    await node.fill(3, epoch=5)
    await node.log.truncate(Offset(12))
    assert (node.log.end_offset, node.log.last_epoch, node.log.epochs) == (12, 2, ())


@pytest.mark.bug("KAFKA-12205")
async def test_a_start_removes_what_a_crash_left_below_the_log_start(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(20)
    ends = [4, 8, 12, 16, 20]
    for end in ends:
        await node.take(end)
    # The node dies after the first segment went.
    node.disk.fail(DiskOperation.SYNC_FOLDER, path_part=F)
    with pytest.raises(DiskError, match="injected"):
        await node.log.advance_log_start(Offset(16))
    node.disk.crash_process()
    first = segments(node.disk)[0]
    assert 0 < first < 16
    node = await node.restarted()
    kept = [end for end in ends if end >= first]
    assert [one.end_offset for one in node.snapshots.ids] == kept
    assert node.log.log_start_offset == kept[0]
    assert len(await node.values()) == 20


@pytest.mark.bug("KAFKA-12205")
async def test_a_follower_deletes_its_own_when_it_has_installed_one(
    open_node: OpenNode, fetch: Fetch
) -> None:
    source, node = await open_node(), await open_node()
    await node.fill(6)
    for end in (2, 4, 6):
        await node.take(end)
    await source.fill(30)
    snapshot = await source.take(30)
    await fetch(source.snapshots, node.snapshots, snapshot)
    await node.log.reset(end_of(snapshot))
    await node.snapshots.delete(node.snapshots.below(node.log.log_start_offset))
    assert node.snapshots.ids == (snapshot,)


async def test_a_start_removes_the_segments_that_a_crash_left_below_the_log_start(
    open_node: OpenNode,
) -> None:
    node = await open_node()
    await node.fill(20)
    for end in (2, 18):
        await node.take(end)
    node.disk.fail(DiskOperation.SYNC_FOLDER, path_part=F)
    with pytest.raises(DiskError, match="injected"):
        await node.log.advance_log_start(Offset(18))
    node.disk.crash_process()
    assert len([base for base in segments(node.disk) if base <= 18]) > 2
    node = await node.restarted()
    assert node.log.log_start_offset == 18
    assert len([base for base in segments(node.disk) if base <= 18]) == 1


# What a start refuses


@pytest.mark.bug("KAFKA-14240")
@pytest.mark.parametrize("kept", [None, 4])
async def test_a_log_that_starts_above_its_snapshots_is_refused(
    kept: int | None, open_node: OpenNode
) -> None:
    node = await open_node()
    await node.fill(30)
    await node.take(4)
    await node.take(20)
    await node.log.advance_log_start(Offset(20))
    assert segments(node.disk)[0] > 4
    for snapshot in node.snapshots.ids:
        if snapshot.end_offset != kept:
            node.disk.remove(f"{F}/{name_of(snapshot)}")
    with pytest.raises(UncoveredLogStartError, match=r"Restore the \.checkpoint") as caught:
        await node.restarted()
    assert caught.value.latest == (None if kept is None else at(kept))
    assert caught.value.log_start_offset == segments(node.disk)[0]


async def test_snapshots_without_a_log_are_refused(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(6)
    await node.take(6)
    for name in node.disk.list(F):
        if name.endswith((".log", ".index")):
            node.disk.remove(f"{F}/{name}")
    await node.disk.sync_folder(F)
    node.disk.crash_process()
    node.disk.remove(f"{F}/recovery-point-offset-checkpoint")
    with pytest.raises(DamagedLogError, match="snapshots but no log"):
        await node.restarted()


async def test_a_lost_log_is_not_taken_for_one_that_was_reset(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(6)
    await node.take(6)
    await node.log.flush_and_close()
    for base in segments(node.disk):
        node.disk.remove(f"{F}/{base:020}.log")
    node.disk.crash_process()
    with pytest.raises(DamagedLogError, match="no segments, although"):
        await node.restarted()


async def test_a_log_and_a_snapshot_that_contradict_each_other_are_refused(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(3, epoch=1)
    await node.fill(3, epoch=3)
    writer = node.snapshots.write(at(3, 2), last_timestamp_ms=0, voters=None)
    await writer.freeze()
    with pytest.raises(DamagedLogError, match="of epoch 1 in the log and of epoch 2"):
        await restarted_after_power_loss(node)


# A damaged snapshot


@pytest.mark.bug("KAFKA-14104")
async def test_a_damaged_snapshot_is_set_aside_if_the_log_holds_what_it_did(open_node: OpenNode) -> None:
    for older in (False, True):
        node = await open_node()
        await node.fill(12)
        if older:
            await node.take(4)
        snapshot = await node.take(12)
        path = f"{F}/{name_of(snapshot)}"
        node.disk.flip(path, 100)
        with captured_logs() as lines:
            node = await restarted_after_power_loss(node)
        assert [line["event"] for line in lines if line.get("path") == path] == [
            "set a damaged snapshot aside"
        ]
        assert node.snapshots.latest == (at(4) if older else None)
        assert f"{name_of(snapshot)}.damaged" in node.disk.list(F)
        assert len(await node.values()) == 12
        node = await restarted_after_power_loss(node)
        assert len(await node.values()) == 12
        assert await node.take(12) == snapshot


@pytest.mark.bug("KAFKA-14104")
async def test_a_damaged_snapshot_that_the_log_begins_with_stops_the_start(
    open_node: OpenNode, fetch: Fetch
) -> None:
    source, node = await open_node(), await open_node()
    await source.fill(30)
    snapshot = await source.take(30)
    await node.fill(6)
    await node.take(6)
    await fetch(source.snapshots, node.snapshots, snapshot)
    path = f"{F}/{name_of(snapshot)}"
    for reset in (False, True):
        if reset:
            await node.log.reset(end_of(snapshot))
        node.disk.flip(path, 100)
        node.disk.crash_process()
        for _ in range(2):
            with pytest.raises(DamagedSnapshotError, match="move the folder away") as caught:
                await node.restarted()
            assert caught.value.path == path
        node.disk.flip(path, 100)
        node = await node.restarted()
        assert len(await node.values()) == 30


@pytest.mark.bug("KAFKA-14104")
async def test_a_damaged_snapshot_is_not_set_aside_for_the_end_of_a_log(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(40)
    await node.take(6)
    snapshot = await node.take(30)
    await node.log.advance_log_start(Offset(30))
    assert 6 < segments(node.disk)[0] < 30
    node.disk.flip(f"{F}/{name_of(snapshot)}", 100)
    node.disk.crash_process()
    with pytest.raises(DamagedSnapshotError):
        await node.restarted()
    assert name_of(snapshot) in node.disk.list(F)


@pytest.mark.bug("KAFKA-14104")
async def test_a_damaged_snapshot_is_not_set_aside_for_a_log_that_differs(
    open_node: OpenNode, fetch: Fetch
) -> None:
    source, node = await open_node(), await open_node()
    await source.fill(20, epoch=3)
    snapshot = await source.take(20)
    await node.fill(30, epoch=1)
    await fetch(source.snapshots, node.snapshots, snapshot)
    node.disk.flip(f"{F}/{name_of(snapshot)}", 100)
    node.disk.crash_process()
    with pytest.raises(DamagedSnapshotError):
        await node.restarted()


async def test_a_diverged_log_that_is_longer_than_the_snapshot_is_dropped(
    open_node: OpenNode, fetch: Fetch
) -> None:
    source, node = await open_node(), await open_node()
    await source.fill(10, epoch=1)
    await source.fill(10, epoch=3)
    snapshot = await source.take(20)
    await node.fill(30, epoch=1)
    await fetch(source.snapshots, node.snapshots, snapshot)
    with captured_logs() as lines:
        node = await restarted_after_power_loss(node)
    assert [line["snapshot_end_offset"] for line in lines if "snapshot_end_offset" in line] == [20]
    assert (node.log.log_start_offset, node.log.end_offset, node.log.last_epoch) == (20, 20, 3)
    assert await node.values() == await source.values()


# Voters


async def append_voters(log: Log, *ids: int, first: bool = False) -> None:
    data = voters_batch(
        base_offset=int(log.end_offset), epoch=1, timestamp_ms=0, voters=voters(*ids), first=first
    )
    log.append_as_follower(data)
    await log.sync()


async def test_the_voters_of_the_log_are_found_among_other_batches(open_node: OpenNode) -> None:
    node = await open_node()
    log = node.log
    log.append_as_follower(
        leader_change_batch(
            base_offset=0,
            epoch=1,
            timestamp_ms=0,
            leader=1,
            voters=[1],
            granting_voters=[1],
            voter_set=voters(1),
        )
    )
    await node.fill(7)
    await append_voters(log, 1, 2)
    await node.fill(7, count=5)
    await append_voters(log, 1, 2, 3)
    expected = [
        VotersAt(Offset(2), voters(1)),
        VotersAt(Offset(10), voters(1, 2)),
        VotersAt(Offset(46), voters(1, 2, 3)),
    ]
    assert len(segments(node.disk)) > 2
    for start in range(int(log.end_offset) + 1):
        assert await log.voter_sets(start) == [one for one in expected if one.offset >= start]
    with pytest.raises(OffsetOutOfRangeError):
        await log.voter_sets(100)


async def test_voters_come_from_the_latest_snapshot_and_the_log_above_it(open_node: OpenNode) -> None:
    node = await open_node()
    await node.snapshots.write_bootstrap(voters(1))
    recovered = await recovered_log(node.log, node.snapshots)
    assert recovered.voters == (VotersAt(Offset(-1), voters(1)),)
    await append_voters(node.log, 1, 2, first=True)
    await node.fill(3)
    await append_voters(node.log, 1, 2, 3)
    node = await restarted_after_power_loss(node)
    recovered = await recovered_log(node.log, node.snapshots)
    in_log = VotersAt(Offset(5), voters(1, 2, 3))
    assert recovered.voters == (
        VotersAt(Offset(-1), voters(1)), VotersAt(Offset(1), voters(1, 2)), in_log,
    )  # fmt: skip
    writer = node.snapshots.write(at(4), last_timestamp_ms=0, voters=voters(1, 2))
    await writer.freeze()
    for _ in range(2):
        recovered = await recovered_log(node.log, node.snapshots)
        assert recovered.voters == (VotersAt(Offset(3), voters(1, 2)), in_log)
        node = await restarted_after_power_loss(node)


async def test_a_damaged_control_record_is_damage(open_node: OpenNode) -> None:
    node = await open_node()
    await append_voters(node.log, 1)
    node.disk.flip(f"{F}/{0:020}.log", 80)
    with pytest.raises(DamagedLogError, match="CRC"):
        await node.log.voter_sets(0)


# Truncation (KAFKA-16541, KAFKA-6492)


@pytest.mark.bug("KAFKA-16541")
async def test_a_power_loss_after_a_truncation_leaves_the_epochs_right(open_node: OpenNode) -> None:
    for seed in range(30):
        node = await open_node()
        for epoch in range(1, 6):
            await node.fill(2, epoch=epoch)
        await node.log.flush()
        node.disk.operations_left = seed
        with contextlib.suppress(DiskError):
            await node.log.truncate(Offset(5))
        node.disk.operations_left = None
        node.disk.lose_power(random.Random(seed))
        node = await node.restarted()
        end = int(node.log.end_offset)
        assert end in (5, *range(5, 11))
        starts = [EpochStart(Epoch(e), Offset(2 * (e - 1))) for e in range(1, 6) if 2 * (e - 1) < end]
        assert node.log.epochs == tuple(starts)


@pytest.mark.bug("KAFKA-6492")
async def test_a_segment_that_was_truncated_to_nothing_takes_appends_again(open_node: OpenNode) -> None:
    node = await open_node()
    await node.fill(20)
    bases = segments(node.disk)
    await node.log.truncate(Offset(bases[-1]))
    await node.log.truncate(Offset(bases[-2]))
    assert node.log.end_offset == bases[-2]
    await node.fill(20 - bases[-2])
    assert segments(node.disk) == bases
    node = await restarted_after_power_loss(node)
    assert len(await node.values()) == 20
