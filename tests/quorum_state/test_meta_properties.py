import random
import uuid

import pytest

from quorate.quorum_state.meta_properties import MetaProperties, load_meta_properties, store_meta_properties
from quorate.quorum_state.quorum_state_errors import (
    ForeignStateError,
    MissingStateError,
    UnknownVersionError,
    UnreadableStateError,
)
from quorate.runtime.disk import read_file, write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk

MINE = MetaProperties(cluster_id="abc", node_id=3, directory_id=uuid.UUID(int=5))


async def stored() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("d")
    await store_meta_properties(disk, "d", MINE)
    return disk


async def test_the_identity_reads_back_after_a_power_loss() -> None:
    disk = await stored()
    disk.lose_power(random.Random(0))
    assert load_meta_properties(disk, "d") == MINE


async def test_the_file_is_kafkas_version_1() -> None:
    lines = read_file(await stored(), "d/meta.properties").decode().splitlines()
    assert lines[1:] == ["version=1", "cluster.id=abc", "node.id=3", "directory.id=AAAAAAAAAAAAAAAAAAAABQ"]


async def test_a_folder_that_was_not_formatted_says_so() -> None:
    with pytest.raises(MissingStateError, match="quorate storage format"):
        load_meta_properties(SimulatedDisk(), "d")


async def test_a_foreign_folder_is_refused() -> None:
    MINE.check("d", cluster_id="abc", node_id=3)
    with pytest.raises(ForeignStateError, match="cluster abc, not x"):
        MINE.check("d", cluster_id="x")
    with pytest.raises(ForeignStateError, match="node 3, not 4"):
        MINE.check("d", node_id=4)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("version=1", "version=2", UnknownVersionError),
        ("version=1", "version", UnreadableStateError),
        ("node.id=3", "node.id=x", UnreadableStateError),
        ("node.id=3", "node.id=3\nnode.id=4", UnreadableStateError),
        ("cluster.id=abc", "", UnreadableStateError),
        ("directory.id=AAAA", "directory.id=", UnreadableStateError),
        ("abc", "\xe9", UnreadableStateError),
    ],
)
async def test_a_damaged_file_is_refused(old: str, new: str, error: type[Exception]) -> None:
    disk = await stored()
    text = read_file(disk, "d/meta.properties").decode()
    await write_file_atomically(disk, "d/meta.properties", text.replace(old, new).encode("latin-1"))
    with pytest.raises(error, match=r"d/meta\.properties: "):
        load_meta_properties(disk, "d")
