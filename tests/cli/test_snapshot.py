"""Snapshots of a node's folder, listed and dumped while nothing runs."""

import json
import uuid
from pathlib import Path

import pytest
import trio
from kafka.record.memory_records import MemoryRecords

from quorate.broker.metadata.metadata_records import Topic
from quorate.broker.metadata.record_codec import encode
from quorate.cli.console.cli_errors import ExitCode
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime.entropy import uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet
from tests.cli.command import Quorate

DIRECTORY = uuid.UUID(int=7)
VOTERS = VoterSet((Voter(ReplicaKey(NodeId(1), uuid_text(DIRECTORY)), Endpoint("one.example", 9093)),))
TOPIC = Topic(name="orders", topic_id=uuid.UUID(int=5))
STATE = (encode(TOPIC), encode(Topic(name="logs", topic_id=uuid.UUID(int=6))))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a node's folder, with the snapshot that names the first voters and two that were taken."""
    home = tmp_path / "data" / "__cluster_metadata-0"
    home.mkdir(parents=True)
    write_snapshot(home, 10, 1, STATE[:1], timestamp_ms=1_700_000_000_010)
    write_snapshot(home, 25, 3, STATE, timestamp_ms=1_700_000_000_025)
    return home.parent


def write_snapshot(home: Path, end: int, epoch: int, state: tuple[bytes, ...], *, timestamp_ms: int) -> None:
    async def write() -> None:
        store = await SnapshotStore.open(real_runtime(sync=SyncStrategy.INLINE).disk, str(home))
        await store.write_bootstrap(VOTERS)
        snapshot = SnapshotId(Offset(end), Epoch(epoch))
        writer = store.write(snapshot, last_timestamp_ms=timestamp_ms, voters=VOTERS)
        for chunk in state:
            writer.append(chunk)
        await writer.freeze()
        store.close()

    trio.run(write)


def file_of(folder: Path, end: int, epoch: int) -> Path:
    return folder / "__cluster_metadata-0" / f"{end:020}-{epoch:010}.checkpoint"


def spoil(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("within", ["", "__cluster_metadata-0"])
def test_snapshots_are_listed_oldest_first(quorate: Quorate, folder: Path, within: str) -> None:
    assert quorate.json("snapshot", "list", folder / within) == [
        {
            "file": file_of(folder, end, epoch).name,
            "endOffset": end,
            "epoch": epoch,
            "size": file_of(folder, end, epoch).stat().st_size,
            "lastTimestamp": at,
            "voters": [1],
            "problem": None,
        }
        for end, epoch, at in ((0, 0, 0), (10, 1, 1_700_000_000_010), (25, 3, 1_700_000_000_025))
    ]
    table = quorate("snapshot", "list", folder).output
    assert table.count("whole") == 3


def test_a_time_that_no_calendar_has_is_listed_in_ms(quorate: Quorate, folder: Path) -> None:
    write_snapshot(folder / "__cluster_metadata-0", 30, 3, STATE, timestamp_ms=1 << 56)
    assert f"{1 << 56} ms" in quorate.output("snapshot", "list", folder)


def test_listing_leaves_the_folder_of_a_running_node_as_it_is(quorate: Quorate, folder: Path) -> None:
    home = folder / "__cluster_metadata-0"
    for name in (f"{40:020}-{3:010}.checkpoint.part", f"{10:020}-{1:010}.checkpoint.deleted"):
        (home / name).write_bytes(b"under way")
    before = {file.name: file.read_bytes() for file in home.iterdir()}
    assert len(quorate.json("snapshot", "list", folder)) == 3
    assert {file.name: file.read_bytes() for file in home.iterdir()} == before


def test_a_damaged_snapshot_is_listed_and_named_with_its_place(quorate: Quorate, folder: Path) -> None:
    file = file_of(folder, 25, 3)
    spoil(file, file.stat().st_size // 2)
    result = quorate("snapshot", "list", folder, "--json")
    assert result.exit_code == ExitCode.STORAGE
    problems = [each["problem"] for each in json.loads(result.stdout)]
    assert problems[:2] == [None, None]
    assert "at byte " in problems[2]
    assert f"{file} is damaged" in result.stderr


def test_a_folder_without_a_metadata_log_is_named(quorate: Quorate, tmp_path: Path) -> None:
    refused = quorate.error("snapshot", "list", tmp_path, code=ExitCode.STORAGE)
    assert f"{tmp_path} holds no __cluster_metadata-0" in refused


def test_a_snapshot_is_dumped_as_others_read_it(quorate: Quorate, folder: Path) -> None:
    file = file_of(folder, 25, 3)
    lines = quorate.output("snapshot", "dump", file, "--json").splitlines()
    records = [record for line in lines for record in json.loads(line)["records"]]
    assert [record["type"] for record in records] == [
        "SnapshotHeader",
        "KRaftVersion",
        "KRaftVoters",
        "Topic",
        "Topic",
        "SnapshotFooter",
    ]
    assert records[0]["record"] == {"last_timestamp_ms": 1_700_000_000_025}
    (voter,) = records[2]["record"]["voters"]
    assert voter == {
        "key": {"id": 1, "directory_id": uuid_text(DIRECTORY)},
        "endpoint": {"host": "one.example", "port": 9093},
    }
    assert records[3]["record"]["name"] == "orders"
    others, found = MemoryRecords(file.read_bytes()), []
    while (batch := others.next_batch()) is not None:
        found += [record.offset for record in batch]
    assert [record["offset"] for record in records] == found == list(range(6))
    assert "| offset: 3 " in quorate("snapshot", "dump", file).output
    without = quorate("snapshot", "dump", file, "--json", "--no-records").output
    assert json.loads(without.splitlines()[0])["records"] is None


def test_the_state_of_another_service_is_shown_in_hexadecimal(quorate: Quorate, folder: Path) -> None:
    async def write() -> None:
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        store = await SnapshotStore.open(disk, str(folder / "__cluster_metadata-0"))
        writer = store.write(SnapshotId(Offset(30), Epoch(3)), last_timestamp_ms=5, voters=None)
        writer.append(b"anything")
        await writer.freeze()
        store.close()

    trio.run(write)
    lines = quorate("snapshot", "dump", file_of(folder, 30, 3), "--json").output.splitlines()
    (state,) = json.loads(lines[1])["records"]
    assert state["value"] == b"anything".hex()


@pytest.mark.parametrize("damage", ["flipped", "cut in a batch", "cut between batches"])
def test_damage_is_named_after_what_is_whole(quorate: Quorate, folder: Path, damage: str) -> None:
    file = file_of(folder, 25, 3)
    lines = quorate("snapshot", "dump", file, "--json").output.splitlines()
    footer = json.loads(lines[-1])["position"]
    match damage:
        case "flipped":
            spoil(file, footer + 30)
        case "cut in a batch":
            file.write_bytes(file.read_bytes()[:-3])
        case _:
            file.write_bytes(file.read_bytes()[:footer])
    result = quorate("snapshot", "dump", file, "--json")
    assert result.exit_code == ExitCode.STORAGE
    assert result.stdout.splitlines() == lines[:-1]
    assert str(file) in result.stderr


def test_a_file_that_is_no_snapshot_is_refused(quorate: Quorate, tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    refused = quorate.error("snapshot", "dump", tmp_path / "00000000000000000000.log", code=ExitCode.USAGE)
    assert "is no snapshot" in refused
