import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.quorum_state.election_state import QuorumStateFile
from quorate.quorum_state.quorum_state_errors import (
    ForeignStateError,
    MissingStateError,
    UnknownVersionError,
    UnreadableStateError,
)
from quorate.runtime.disk import DiskError, read_file, write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
from quorate.types import ElectionState, Epoch, NodeId, ReplicaKey

DIRECTORY = "JsnFVYTRRwWqGUfJ_vVqhw"
VOTED = ElectionState(Epoch(4), None, ReplicaKey(NodeId(2), DIRECTORY))

states = st.builds(
    ElectionState,
    epoch=st.integers(0, 2**31 - 1).map(Epoch),
    leader=st.none() | st.integers(0, 2**31 - 1).map(NodeId),
    voted=st.none()
    | st.builds(ReplicaKey, st.integers(0, 2**31 - 1).map(NodeId), st.none() | st.just(DIRECTORY)),
    promise_ms=st.just(0) | st.integers(0, 2**31 - 1),
)


def state_file(disk: SimulatedDisk, *, cluster_id: str = "c", node: int = 1) -> QuorumStateFile:
    disk.make_folder("m")
    return QuorumStateFile(disk, "m", cluster_id=cluster_id, node=NodeId(node))


@given(state=states)
async def test_a_state_reads_back_as_it_was_stored(state: ElectionState) -> None:
    disk = SimulatedDisk()
    await state_file(disk).store(state)
    assert state_file(disk).load() == state


async def test_a_missing_file_is_a_lost_vote_and_the_error_says_how_to_come_back() -> None:
    with pytest.raises(MissingStateError, match=r"m/quorum-state: .*the vote.*replace-a-disk.md"):
        state_file(SimulatedDisk()).load()


async def test_a_voter_remembers_its_vote_after_a_power_loss() -> None:
    for seed in range(100):
        disk = SimulatedDisk()
        await state_file(disk).store(VOTED)
        disk.lose_power(random.Random(seed))
        assert state_file(disk).load() == VOTED


@pytest.mark.parametrize("operation", [DiskOperation.SYNC, DiskOperation.SYNC_FOLDER, DiskOperation.RENAME])
async def test_a_store_that_failed_leaves_the_old_state_or_the_new_one(operation: DiskOperation) -> None:
    new = ElectionState(Epoch(5))
    for seed in range(50):
        disk = SimulatedDisk()
        store = state_file(disk)
        await store.store(VOTED)
        disk.fail(operation)
        with pytest.raises(DiskError):
            await store.store(new)
        disk.lose_power(random.Random(seed))
        assert state_file(disk).load() in (VOTED, new)


async def test_storing_costs_two_syncs_and_none_if_nothing_changed() -> None:
    disk = SimulatedDisk()
    store = state_file(disk)
    await store.store(VOTED)
    assert disk.syncs == 2
    await store.store(VOTED)
    assert disk.syncs == 2
    again = state_file(disk)
    again.load()
    await again.store(VOTED)
    assert disk.syncs == 2


async def test_a_failed_store_is_not_taken_for_durable() -> None:
    disk = SimulatedDisk()
    store = state_file(disk)
    await store.store(VOTED)
    disk.fail(DiskOperation.SYNC_FOLDER)
    with pytest.raises(DiskError):
        await store.store(ElectionState(Epoch(9)))
    syncs = disk.syncs
    await store.store(VOTED)
    assert disk.syncs == syncs + 2


async def test_another_clusters_or_nodes_state_is_refused() -> None:
    disk = SimulatedDisk()
    await state_file(disk).store(VOTED)
    with pytest.raises(ForeignStateError, match="cluster c, not other"):
        state_file(disk, cluster_id="other").load()
    with pytest.raises(ForeignStateError, match="node 1, not 7"):
        state_file(disk, node=7).load()


@pytest.mark.bug("KAFKA-15412")
async def test_an_unknown_data_version_is_refused() -> None:
    disk = SimulatedDisk()
    store = state_file(disk)
    await store.store(VOTED)
    fields = json.loads(read_file(disk, store.path))
    await write_file_atomically(disk, store.path, json.dumps({**fields, "data_version": 99}).encode())
    with pytest.raises(UnknownVersionError, match="99"):
        store.load()


async def test_a_file_truncated_anywhere_is_refused() -> None:
    disk = SimulatedDisk()
    store = state_file(disk)
    await store.store(VOTED)
    whole = read_file(disk, store.path)
    for size in range(len(whole)):
        await write_file_atomically(disk, store.path, whole[:size])
        with pytest.raises(UnreadableStateError, match=r"replace-a-disk\.md"):
            store.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leaderEpoch", -1),
        ("leaderEpoch", "3"),
        ("votedId", True),
        ("votedId", None),
        ("votedId", -1),
        ("leaderId", 2**40),
        ("votedDirectoryId", 7),
    ],
)
async def test_a_field_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    disk = SimulatedDisk()
    store = state_file(disk)
    await store.store(VOTED)
    fields = json.loads(read_file(disk, store.path))
    await write_file_atomically(disk, store.path, json.dumps({**fields, name: value}).encode())
    with pytest.raises(UnreadableStateError):
        store.load()


async def test_a_version_before_read_leases_does_not_start_with_a_promise() -> None:
    """It would vote within the promise after a restart."""
    disk = SimulatedDisk()
    await state_file(disk).store(replace(VOTED, promise_ms=1000))
    assert json.loads(read_file(disk, "m/quorum-state"))["data_version"] == 2
    await state_file(disk).store(VOTED)
    stored = json.loads(read_file(disk, "m/quorum-state"))
    assert stored["data_version"] == 1
    assert "readLeaseMs" not in stored
