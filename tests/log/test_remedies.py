"""The remedies in errors never lose anything."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

from quorate.broker.replication.storage.folders import (
    PARTITION_METADATA,
    UnreadablePartitionMetadataError,
    load_partition_metadata,
)
from quorate.log.batches.batch import read_batches
from quorate.log.batches.control import snapshot_footer_batch
from quorate.log.batches.records import RecordContent, build_batch, build_keyed_batch
from quorate.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    UnreadableCheckpointError,
    load_offsets,
)
from quorate.log.log_errors import DamagedLogError, DamagedSnapshotError, InvalidBatchError
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.quorum_state.election_state import QuorumStateFile
from quorate.quorum_state.quorum_state_errors import MissingStateError
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Epoch, NodeId, Offset, SnapshotId

ROOT = pathlib.Path(__file__).parent.parent.parent
LOSES = re.compile(
    r"\b(delete|remove|empty|wipe|erase|reformat)\b (\{\}|it\b|the (data|folder|directory|file|log|disk)|"
    r"leader-epoch)|\bformat the\b"
)
HARMLESS = (
    "for voters that can change, remove it",  # a line of server.properties
    "the mark that the page cache is complete",  # without it less is believed
    "to take it back: delete {}",  # what remembers a token, which is then worth nothing
)
START_NEWER = "Start the version of quorate that wrote it, or a newer one"


async def written(content: bytes, path: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder("data")
    await write_file_atomically(disk, path, content)
    return disk


@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS])
async def test_a_checkpoint_of_a_later_version_asks_for_that_version_and_nothing_else(name: str) -> None:
    disk = await written(b"1\n0\n", f"data/{name}")
    with pytest.raises(UnreadableCheckpointError) as raised:
        load_offsets(disk, f"data/{name}")
    assert str(raised.value).endswith(f"a newer quorate wrote it. {START_NEWER}")


@pytest.mark.parametrize("content", [b"x\n0\n", b"0\n2\na 0 5\n", b"", b"\xff"])
async def test_only_a_damaged_file_of_high_watermarks_may_be_moved_away_by_itself(content: bytes) -> None:
    """Without recovery points, what was damaged would be taken for a crash's torn end, and cut off."""
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        disk = await written(content, f"data/{name}")
        with pytest.raises(UnreadableCheckpointError) as raised:
            load_offsets(disk, f"data/{name}")
        assert START_NEWER not in str(raised.value)
        assert ("move it away" in str(raised.value)) == (name == HIGH_WATERMARKS)
        assert ("replace-a-disk.md" in str(raised.value)) == (name == RECOVERY_POINTS)


async def test_a_batch_of_a_later_format_asks_for_that_version_first() -> None:
    data = bytearray(build_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[b"x"]))
    data[16] = 3
    with pytest.raises(InvalidBatchError, match="magic is 3") as raised:
        list(read_batches(data))
    message = str(DamagedLogError("f", 0, raised.value.problem))
    assert START_NEWER in message
    assert message.index(START_NEWER) < message.index("move the folder away")
    data[16] = 1
    with pytest.raises(InvalidBatchError, match="magic is 1") as raised:
        list(read_batches(data))
    assert START_NEWER not in str(DamagedLogError("f", 0, raised.value.problem))


async def test_a_snapshot_of_a_later_version_asks_for_that_version_first() -> None:
    header = RecordContent(key=b"\0\0\0\3", value=b"\0\1" + bytes(9))
    data = build_keyed_batch(base_offset=0, epoch=3, timestamp_ms=0, records=[header], control=True)
    disk = await written(data + snapshot_footer_batch(base_offset=1, epoch=3, timestamp_ms=0), "data/s")
    with pytest.raises(DamagedSnapshotError, match="version 1 is not known") as raised:
        SnapshotReader(disk.open("data/s"), SnapshotId(Offset(7), Epoch(3)))
    message = str(raised.value)
    assert message.index(START_NEWER) < message.index("move the folder away")


async def test_a_partitions_lost_identity_is_written_anew_and_its_records_stay() -> None:
    """A folder that is moved away leaves a leader without records, which its followers would then copy."""
    disk = await written(b"version: 1\ntopic_id: x\n", f"data/{PARTITION_METADATA}")
    with pytest.raises(UnreadablePartitionMetadataError) as raised:
        load_partition_metadata(disk, "data")
    assert "write it anew" in str(raised.value)
    assert "away" not in str(raised.value)


async def test_the_remedy_for_a_lost_vote_keeps_the_rest_of_the_folder() -> None:
    """The folder may be the only replica of a partition."""
    with pytest.raises(MissingStateError) as raised:
        QuorumStateFile(SimulatedDisk(), "data", cluster_id="c", node=NodeId(1)).load()
    assert "move the directory away, format an empty one" in str(raised.value)


def literals(path: pathlib.Path) -> Iterator[str]:
    """The texts of the program, without docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.slow
def test_no_message_advises_to_delete_files() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for folder in ("raft", "log", "quorum_state", "broker", "cli", "runtime")
        for path in sorted((ROOT / "quorate" / folder).rglob("*.py"))
        for text in literals(path)
        if LOSES.search(text)
        and path.name not in ("server_config.py", "quorum_config.py", "node_keys.py", "storage_config.py")
        if not any(each in text for each in HARMLESS)
    ]
    assert not found, "\n".join(found)
