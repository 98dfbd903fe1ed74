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
from quorate.log import Log, LogConfig
from quorate.log.batches.records import values_of
from quorate.quorum_state import load_meta_properties
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.spark_source import FolderLog

RECORDS = 6_000
PARTITIONS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "node"
    make_log(folder, records=RECORDS, partitions=PARTITIONS, segment_bytes=100_000)
    return folder


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


def test_a_made_log_can_be_opened_by_a_node(folder: Path) -> None:
    disk = RealDisk(sync=SyncStrategy.INLINE)

    async def opened() -> tuple[int, int, int]:
        config = LogConfig(own_recovery_point=True)
        log = await Log.open(disk, str(folder / LOG_FOLDER), config, now_ms=lambda: 0)
        try:
            return log.log_start_offset, log.end_offset, log.segment_count
        finally:
            log.close()

    start, end, segments = trio.run(opened)
    assert (start, end) == (0, RECORDS)
    assert segments > 2
    assert load_meta_properties(disk, str(folder)).cluster_id == FolderLog(path=str(folder)).extent().cluster


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
