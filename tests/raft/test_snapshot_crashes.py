"""Crashes and power cuts at each step of taking, fetching, installing and cleaning up lose nothing."""

import contextlib
import random

import pytest
import trio

from quorate.raft.quorum_config import parse_voters
from quorate.raft.quorum_errors import QuorumError
from quorate.raft.storage.storage import LOG_FOLDER, format_folder
from quorate.runtime.disk import DiskError
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import NodeId

FOLDER = f"data/{LOG_FOLDER}"
HARMLESS = (None, DiskOperation.READ, DiskOperation.OPEN, DiskOperation.RESERVE)


class CrashingDisk(SimulatedDisk):
    """Is gone at the operation that `operations_left` counts down to; None: it never is."""

    operations_left: int | None = None

    def enter(self, operation: DiskOperation | None, path: str) -> str:
        if self.operations_left is not None and operation not in HARMLESS:
            if self.operations_left == 0:
                self.cut()
            self.operations_left -= 1
        return super().enter(operation, path)


async def host(world, node):
    """With a disk that crashes when it is told to."""
    world.hosts[node] = SimulatedRuntime(f"node-{node}", world.network, random.Random(node))
    world.hosts[node].disk = CrashingDisk(sync_delay=0.001)
    await format_folder(world.runtime(node), "data", cluster_id="driver-tests", node_id=NodeId(node))


def small_settings(world):
    world.overrides |= {
        "segment_bytes": 300,
        "retention_bytes": 0,
        "recovery_point_bytes": 500,
        "max_batch_bytes": 4096,
    }


async def crashed(world, node, *, power_loss):
    """The disk is gone: so ends the process, however far it was."""
    with trio.move_on_after(1):
        await world.ended[node].wait()
    await world.crash(node, power_loss=power_loss)
    world.failures.pop(node, None)


async def take_until_crash(quorum, acknowledged):
    """Appends with a snapshot after every few, the older of which goes with the log before the newer."""
    for number in range(9):
        record = b"%d of %d" % (number, len(acknowledged))
        await quorum.append([record], timeout_ms=500)
        acknowledged.append(record)
        if number % 4 == 3:
            await quorum.take_snapshot()
            await trio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True])
async def test_taking_and_cleaning_up_survive_a_crash_at_every_step(autojump_clock, world, power_loss):
    small_settings(world)
    world.voters = parse_voters("1@node-1:9093")
    await host(world, 1)
    disk = world.hosts[1].disk
    acknowledged = []
    crashes = 0
    while True:
        await world.start(1)
        quorum = await world.leader()
        await quorum.append([b"start"])
        assert [record for record in world.journals[1].records if b" of " in record][: len(acknowledged)] == (
            acknowledged
        )
        acknowledged = [record for record in world.journals[1].records if b" of " in record]
        disk.operations_left = crashes
        with contextlib.suppress(QuorumError, DiskError):
            await take_until_crash(quorum, acknowledged)
        finished = disk.operations_left > 0
        disk.operations_left = None
        if finished:
            break
        await crashed(world, 1, power_loss=power_loss)
        crashes += 1
    assert crashes > 30
    assert quorum.log.log_start_offset > 0
    assert len(quorum.snapshots()) == 1


def caught_up(world):
    return world.quorums[3].applied_offset == max(quorum.applied_offset for quorum in world.quorums.values())


async def leave_behind(world, leader, crashes):
    """Move the log start beyond the followers that are cut off."""
    for _ in range(2):
        for number in range(4):
            await leader.append([b"%d after %d crashes" % (number, crashes)])
        snapshot = await leader.take_snapshot()
    await world.until(lambda: leader.log.log_start_offset == snapshot.end_offset)
    return snapshot


@pytest.mark.slow
@pytest.mark.parametrize("power_loss", [False, True])
async def test_fetching_and_installing_survive_a_crash_at_every_step(autojump_clock, world, power_loss):
    """The follower is whole after each: with its old log, or with the snapshot."""
    small_settings(world)
    await host(world, 3)
    await world.start(1, 2, 3)
    disk = world.hosts[3].disk
    crashes = 0
    while True:
        leader = await world.leader()
        assert leader.node_id != 3
        await world.until(lambda: caught_up(world))
        world.network.partition(["node-3"], ["node-1", "node-2"])
        snapshot = await leave_behind(world, leader, crashes)
        disk.operations_left = crashes
        world.network.heal()
        await world.until(lambda: disk.operations_left < 0 or caught_up(world))
        finished = disk.operations_left > 0
        disk.operations_left = None
        if finished:
            break
        await crashed(world, 3, power_loss=power_loss)
        await world.start(3)
        crashes += 1
    assert crashes > 12
    assert world.journals[3].records == world.journals[leader.node_id].records
    assert world.quorums[3].snapshots() == (snapshot,)
