"""A committed batch that no node can apply, and the deliberate way past it."""

import json

import pytest
import trio

from quorate.quorum_state import SKIPPED_BATCHES, SkippedBatch
from quorate.quorum_state.quorum_state_errors import UnreadableStateError
from quorate.raft.quorum_errors import QuorumError, SkipRefusedError, StateMachineError
from quorate.raft.storage.skipping import skip_batch
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime.disk import DiskLockedError, read_file, write_file_atomically
from quorate.types import Epoch, Offset
from tests.raft.conftest import Journal

PATH = f"data/{LOG_FOLDER}/{SKIPPED_BATCHES}"


async def poisoned(world) -> StateMachineError:
    """All three nodes have stopped at one batch."""
    leader = await world.start_three()
    await leader.append([b"before"])
    for quorum in world.quorums.values():
        await quorum.wait_applied(leader.applied_offset)
    with pytest.raises(QuorumError):
        await leader.append([b"beside", b"poison"])
    for node in (1, 2, 3):
        with trio.fail_after(30):
            await world.ended[node].wait()
        del world.quorums[node]
    causes = [world.failures.pop(node).__cause__ for node in (1, 2, 3)]
    assert all(isinstance(cause, StateMachineError) for cause in causes), causes
    assert len({(cause.offset, cause.epoch) for cause in causes}) == 1
    return causes[0]


async def skip(world, node, where: StateMachineError, *, offset=0, epoch=0):
    return await skip_batch(
        world.runtime(node), "data", offset=Offset(where.offset + offset), epoch=Epoch(where.epoch + epoch)
    )


async def test_a_cluster_goes_on_past_a_batch_that_every_node_skips(autojump_clock, world, log_lines):
    where = await poisoned(world)
    assert "skip-a-batch.md" in str(where)
    await world.start(1, 2, 3)
    # The last of them has nobody left to learn from that the batch is committed.
    await world.until(lambda: len(world.failures) >= 2)
    for node in (1, 2, 3):
        if node not in world.failures:
            await world.stop(node)
    assert all(isinstance(each.__cause__, StateMachineError) for each in world.failures.values())
    world.failures.clear()
    world.quorums.clear()
    named = SkippedBatch(Offset(where.offset), Epoch(where.epoch))
    for node in (1, 2, 3):
        assert await skip(world, node, where) == (named,)
        assert await skip(world, node, where) == (named,), "a second time is no mistake"
    log_lines.clear()
    leader = await world.start_three()
    assert leader.skipped == (named,)
    assert (await leader.append([b"after"])).results == (5,)
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"before", b"after"])
    said = [line for line in log_lines if line["event"] == "a committed batch is skipped, not applied"]
    assert [(line["log_level"], line["offset"], line["epoch"]) for line in said] == [
        ("warning", where.offset, where.epoch)
    ] * 3
    assert world.failures == {}


async def test_a_snapshot_taken_behind_a_skip_holds_the_same_state_for_its_loader(autojump_clock, world):
    where = await poisoned(world)
    for node in (1, 2, 3):
        await skip(world, node, where)
    leader = await world.start_three()
    await leader.append([b"after"])
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"before", b"after"])
        await world.quorums[node].take_snapshot()
    await leader.append([b"last"])
    for node in (1, 2, 3):
        await world.stop(node)
    await world.start(1, 2, 3)
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"before", b"after", b"last"])
    node = (await world.followers())[0].node_id
    await world.stop(node)
    with pytest.raises(SkipRefusedError, match="a snapshot that ends at offset"):
        await skip(world, node, where)


async def test_a_mended_state_machine_leaves_out_what_was_skipped_too(autojump_clock, world):
    """A skip stays: a later start of a version that could apply the batch must come to the same state."""

    class Mended(Journal):
        def apply(self, batch):
            self.records.extend(batch.records)
            return [len(record) for record in batch.records]

    where = await poisoned(world)
    for node in (1, 2, 3):
        await skip(world, node, where)
    await world.start(1, 2, 3, journal=Mended)
    await (await world.leader()).append([b"after"])
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"before", b"after"])


@pytest.mark.parametrize(
    ("offset", "epoch", "why"),
    [
        (0, 1, "that is not offset"),
        (1, 0, "begins at offset"),
        (100, 0, "and not"),
        (-2, 0, "the quorum's own"),
    ],
)
async def test_a_skip_that_is_not_exactly_a_batch_is_refused(autojump_clock, world, offset, epoch, why):
    where = await poisoned(world)
    assert where.offset == 2, "a leader change, one record, and then the poison"
    with pytest.raises(SkipRefusedError, match=why):
        await skip(world, 1, where, offset=offset, epoch=epoch)
    assert not world.runtime(1).disk.exists(PATH)
    assert await skip(world, 1, where) == (SkippedBatch(Offset(where.offset), Epoch(where.epoch)),)


async def test_a_skip_of_another_epochs_batch_applies_to_nothing(autojump_clock, world, log_lines):
    """The batch that it named was never committed, and another stands there."""
    leader = await world.start_three()
    appended = await leader.append([b"here"])
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"here"])
        await world.stop(node)
        content = {
            "version": 1,
            "skipped": [{"offset": appended.base_offset, "epoch": appended.epoch + 7}],
        }
        await write_file_atomically(world.runtime(node).disk, PATH, json.dumps(content).encode())
    await world.start(1, 2, 3)
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"here"])
    assert "a skip names another batch; this one is applied" in {line["event"] for line in log_lines}


async def test_a_running_node_is_not_told_to_skip(autojump_clock, world):
    await world.start(1, 2, 3)
    appended = await (await world.leader()).append([b"x"])
    with pytest.raises(DiskLockedError):
        await skip_batch(world.runtime(1), "data", offset=appended.base_offset, epoch=appended.epoch)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"version": 2, "skipped": []}',
        b'{"version": 1}',
        b'{"version": 1, "skipped": [{"offset": "1", "epoch": 1}]}',
        b'{"version": 1, "skipped": [{"offset": 1, "epoch": true}]}',
        b'{"version": 1, "skipped": [{"offset": -1, "epoch": 1}]}',
        b"[1]",
    ],
)
async def test_a_list_of_skips_that_can_not_be_read_is_a_refusal_to_start(autojump_clock, world, content):
    """A node that forgot one would apply what the others leave out."""
    where = await poisoned(world)
    await skip(world, 1, where)
    disk = world.runtime(1).disk
    assert json.loads(read_file(disk, PATH))["skipped"] == [{"offset": where.offset, "epoch": where.epoch}]
    await write_file_atomically(disk, PATH, content)
    with pytest.raises(UnreadableStateError, match=SKIPPED_BATCHES):
        await skip(world, 1, where)
