"""A crash or a power loss at every operation of what snapshots do to a disk, and a random walk through it.

What comes back is always a state that was, and never less than what was durable.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.log.batches.batch import read_headers
from quorate.log.metadata_recovery import recovered_log
from quorate.runtime.disk import DiskError
from quorate.types import EpochEnd, Offset, SnapshotId

F = "data/__cluster_metadata-0"
OpenNode = Callable[..., Awaitable[Any]]
Fetch = Callable[..., Awaitable[object]]
Prepare = Callable[[], Awaitable[Any]]
Act = Callable[[Any], Awaitable[object]]
Check = Callable[[Any, bool], Awaitable[None]]


def end_of(snapshot: SnapshotId) -> EpochEnd:
    return EpochEnd(snapshot.epoch, snapshot.end_offset)


async def crash_everywhere(prepare: Prepare, act: Act, check: Check) -> int:
    """Run `act` cut at its 1st, 2nd, … operation, with each kind of crash after it; then `check` what a
    restart makes of it, and that `act` can be done again. How many operations there are."""
    operations = 0
    while True:
        finished = True
        for seed in range(-1, 12):
            node = await prepare()
            node.disk.operations_left = operations
            try:
                await act(node)
            except DiskError:
                finished = False
            node.disk.operations_left = None
            if seed < 0:
                node.disk.crash_process()
            else:
                node.disk.lose_power(random.Random(seed))
            node = await node.restarted()
            assert not [name for name in node.disk.list(F) if name.endswith((".part", ".deleted"))]
            await check(node, finished)
            node.disk.lose_power(random.Random(seed))
            node = await node.restarted()
            await check(node, finished)
            await act(node)
            await check(node, True)
        if finished:
            return operations
        operations += 1


@pytest.mark.slow
@pytest.mark.bug("KAFKA-15312")
async def test_a_crash_while_a_snapshot_is_taken_leaves_it_whole_or_not_at_all(
    open_node: OpenNode,
) -> None:
    async def prepare() -> Any:
        node = await open_node()
        await node.fill(8)
        await node.take(4)
        return node

    async def act(node: Any) -> None:
        await node.take(8)

    async def check(node: Any, finished: bool) -> None:
        ends = [one.end_offset for one in node.snapshots.ids]
        assert ends == [4, 8] if finished else ends in ([4], [4, 8])
        assert len(await node.values()) == 8

    assert await crash_everywhere(prepare, act, check) >= 5


@pytest.mark.slow
@pytest.mark.parametrize(("end", "epoch"), [(6, 1), (30, 1)])
async def test_a_crash_while_a_snapshot_is_installed_leaves_the_old_state_or_the_new(
    end: int, epoch: int, open_node: OpenNode, fetch: Fetch
) -> None:
    source = await open_node()
    await source.fill(10, epoch=1)
    await source.fill(10, epoch=3)
    snapshot = await source.take(20)
    expected = await source.values()

    async def prepare() -> Any:
        node = await open_node()
        await node.fill(end, epoch=epoch)
        await node.take(4)
        return node

    async def act(node: Any) -> None:
        await fetch(source.snapshots, node.snapshots, snapshot)
        await node.log.reset(end_of(snapshot))
        await node.snapshots.delete(node.snapshots.below(node.log.log_start_offset))

    async def check(node: Any, finished: bool) -> None:
        values = await node.values()
        recovered = await recovered_log(node.log, node.snapshots)
        assert recovered.log_start_offset == (0 if recovered.snapshot != snapshot else 20)
        if finished or recovered.snapshot == snapshot:
            assert values == expected
            assert (recovered.end_offset, recovered.start_epoch, recovered.epochs) == (20, 3, ())
            assert node.snapshots.ids == (snapshot,)
        else:
            assert len(values) == end == recovered.end_offset

    assert await crash_everywhere(prepare, act, check) >= 15


@pytest.mark.slow
async def test_a_crash_while_the_log_start_moves_loses_nothing(open_node: OpenNode) -> None:
    async def prepare() -> Any:
        node = await open_node()
        await node.fill(25)
        for end in (5, 10, 22, 25):
            await node.take(end)
        return node

    async def act(node: Any) -> None:
        await node.log.advance_log_start(Offset(22))
        await node.snapshots.delete(node.snapshots.below(22))

    async def check(node: Any, finished: bool) -> None:
        recovered = await recovered_log(node.log, node.snapshots)
        ends = [one.end_offset for one in node.snapshots.ids]
        start = recovered.log_start_offset
        assert start in (0, 5, 10, 22)
        assert start == 0 or start in ends
        assert ends[-2:] == [22, 25]
        if finished:
            assert start == 22 and len(ends) == 2
        assert len(await node.values()) == recovered.end_offset == 25

    assert await crash_everywhere(prepare, act, check) >= 12


# A random walk


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False))
async def test_a_node_with_snapshots_is_a_list_that_forgets_nothing_durable(
    draw: random.Random, open_node: OpenNode, fetch: Fetch
) -> None:
    """A leader's committed list, and a node that follows it by records and by snapshots, crashing anywhere.
    The node has a prefix of the list, at least as long as what was durable."""
    leader, node = await open_node(), await open_node()
    epoch = 1
    durable = 0
    for _ in range(draw.randint(5, 25)):
        node.disk.operations_left = draw.randint(0, 12) if draw.random() < 0.3 else None
        try:
            match draw.choice(("lead", "lead", "follow", "follow", "take", "clean", "install", "restart")):
                case "lead":
                    epoch += draw.random() < 0.3
                    await leader.fill(draw.randint(1, 6), count=draw.randint(1, 3), epoch=epoch)
                case "follow" if leader.log.log_start_offset <= node.log.end_offset < leader.log.end_offset:
                    data = await leader.log.read(int(node.log.end_offset), draw.choice((100, 1000)))
                    node.log.append_as_follower(data)
                    durable = int(await node.log.sync())
                case "take":
                    await _take_at_a_boundary(draw, node)
                case "clean":
                    await _clean(draw, node)
                case "install":
                    await leader.take(int(leader.log.end_offset)) if leader.log.end_offset else None
                    snapshot = leader.snapshots.latest
                    if snapshot is not None and snapshot.end_offset > node.log.end_offset:
                        await fetch(leader.snapshots, node.snapshots, snapshot, chunk_bytes=700)
                        await node.log.reset(end_of(snapshot))
                        durable = int(snapshot.end_offset)
                case "restart":
                    raise DiskError("the process dies", path="")
                case _:
                    pass
        except DiskError:
            node.disk.operations_left = None
            if draw.random() < 0.5:
                node.disk.crash_process()
            else:
                node.disk.lose_power(draw)
            node = await node.restarted()
        node.disk.operations_left = None
        await _agrees(node, leader, durable)


async def _take_at_a_boundary(draw: random.Random, node: Any) -> None:
    end = draw.randint(int(node.log.log_start_offset), int(node.log.end_offset))
    latest = node.snapshots.latest
    if end > (0 if latest is None else latest.end_offset) and await _is_batch_boundary(node.log, end):
        await node.take(end)


async def _is_batch_boundary(log: Any, offset: int) -> bool:
    records = await log.read(offset, 1)
    return not records or next(iter(read_headers(records))).base_offset == offset


async def _clean(draw: random.Random, node: Any) -> None:
    above = [one for one in node.snapshots.ids if one.end_offset > node.log.log_start_offset]
    if above:
        await node.log.advance_log_start(draw.choice(above).end_offset)
        await node.snapshots.delete(node.snapshots.below(node.log.log_start_offset))


async def _agrees(node: Any, leader: Any, durable: int) -> None:
    recovered = await recovered_log(node.log, node.snapshots)
    assert durable <= recovered.end_offset <= leader.log.end_offset
    starts = [0, *(one.end_offset for one in node.snapshots.ids)]
    assert recovered.log_start_offset in starts
    assert recovered.last_epoch == (leader.log.epoch_at(recovered.end_offset - 1) or 0)
    assert await node.values() == (await leader.values())[: recovered.end_offset]
    for entry in recovered.epochs:
        assert leader.log.epoch_at(entry.start_offset) == entry.epoch
