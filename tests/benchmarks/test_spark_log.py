"""The log that the Spark suite measures with is one that a node could have left."""

from collections import Counter
from pathlib import Path

import pytest
import trio
from spark.cluster_history import ClusterHistory
from spark.make_log import make_log

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.metadata_records import ChangeReason, PartitionChange
from quorate.broker.metadata.record_codec import decode, encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.history import FolderLog
from quorate.log import Log, LogConfig
from quorate.log.batches.records import values_of
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.quorum_state import load_meta_properties
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime.real import RealDisk, SyncStrategy

RECORDS = 6_000
PARTITIONS = 300
SNAPSHOT_RECORDS = 2_500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "node"
    make_log(
        folder,
        records=RECORDS,
        partitions=PARTITIONS,
        segment_bytes=100_000,
        snapshot_records=SNAPSHOT_RECORDS,
    )
    return folder


@pytest.mark.slow
def test_a_made_log_is_read_whole_and_the_nodes_image_accepts_it(folder: Path) -> None:
    access = FolderLog(path=str(folder))
    extent = access.extent()
    assert (extent.start_offset, extent.end_offset) == (0, RECORDS)
    loader = BatchLoader()
    kinds: Counter[str] = Counter()
    reasons = set()
    for batch in access.batches(0, RECORDS):
        header = batch.header
        if header.is_control:
            kinds["control"] += header.count
            continue
        values = values_of(batch)
        records = [decode(value) for value in values]
        assert [encode(record) for record in records] == values, "a record is not as a node encodes it"
        loader.load(records, base_offset=header.base_offset, epoch=header.leader_epoch)
        kinds.update(type(record).__name__ for record in records)
        reasons |= {record.reason for record in records if isinstance(record, PartitionChange)}
    loader.image.validate()
    assert kinds.total() == RECORDS == loader.image.offset + 1
    assert min(kinds[each] for each in ("RegisterBroker", "Topic", "RemoveTopic", "ProducerIds")) > 0
    assert kinds["PartitionChange"] > RECORDS / 2, kinds
    assert reasons == {
        ChangeReason.BROKER_FENCED,
        ChangeReason.CONTROLLED_SHUTDOWN,
        ChangeReason.PREFERRED_LEADER,
        ChangeReason.REPLICA_LAGGED,
        ChangeReason.REPLICA_CAUGHT_UP,
    }
    assert all(state.isr and state.leader >= 0 for _, state in loader.image.all_partitions())


@pytest.mark.slow
def test_a_node_can_open_a_made_log_and_its_snapshots_are_the_image_of_the_records_below(
    folder: Path,
) -> None:
    disk, log_folder = RealDisk(sync=SyncStrategy.INLINE), str(folder / LOG_FOLDER)

    async def opened() -> tuple[int, int, int]:
        log = await Log.open(disk, log_folder, LogConfig(own_recovery_point=True), now_ms=lambda: 0)
        try:
            return log.log_start_offset, log.end_offset, log.segment_count
        finally:
            log.close()

    start, end, segments = trio.run(opened)
    assert (start, end) == (0, RECORDS)
    assert segments > 2
    access = FolderLog(path=str(folder))
    assert load_meta_properties(disk, str(folder)).cluster_id == access.extent().cluster

    store = trio.run(SnapshotStore.open, disk, log_folder)
    assert [each.end_offset // SNAPSHOT_RECORDS for each in store.ids] == [1, 2]
    for snapshot in store.ids:
        loaded = MetadataCache()
        loader = loaded.load_snapshot(snapshot)
        with store.reader(snapshot) as chunks:
            for chunk in chunks:
                loader.add(chunk)
        loader.install()
        replayed = BatchLoader()
        for batch in access.batches(0, snapshot.end_offset):
            if not batch.header.is_control:
                records = [decode(value) for value in values_of(batch)]
                replayed.load(records, base_offset=batch.header.base_offset, epoch=batch.header.leader_epoch)
        assert loaded.image == replayed.image


def test_a_made_log_begins_with_the_creation_of_its_partitions() -> None:
    created = 0
    for batch in ClusterHistory(seed=3, partitions=1_000).batches(1_400):
        created += batch.data.count(b"\x83\x05\x00")
    assert created == 1_000


def test_equal_seeds_make_equal_logs_and_others_do_not() -> None:
    one, again, other = (
        [*ClusterHistory(seed=seed, partitions=PARTITIONS).batches(2_000)] for seed in (1, 1, 2)
    )
    assert one == again != other
    assert [batch.base_offset for batch in one] == [0, *(batch.end_offset for batch in one[:-1])]
    assert one[-1].end_offset == 2_000
