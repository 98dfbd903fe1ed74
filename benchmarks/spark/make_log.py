"""A node's folder with a long metadata log, for the Spark suite and for a look:

    cd benchmarks && python -m spark.make_log FOLDER --records 5000000

The log is as a node writes it, in segments of 100 MiB with their indexes, and all of it is committed. Of a
million records 97 % are PartitionChange; a batch has 6.9 records, a record takes 48 bytes, and brokers
restart 200 times within three days. With more --partitions the log begins with their creation.
"""

import argparse
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import trio
from spark.cluster_history import PARTITIONS, START_MS, VOTERS, ClusterHistory, EncodedBatch

from quorate.broker.metadata_cache import MetadataCache
from quorate.log import Log, LogConfig
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.quorum_state import QuorumStateFile
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import LOG_FOLDER, format_folder
from quorate.raft.storage.watermark import WatermarkCheckpoint
from quorate.runtime import Entropy, uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import ElectionState, Epoch, NodeId, Offset, SnapshotId

SEGMENT_BYTES: Final = 100 << 20


def make_log(
    folder: Path,
    *,
    records: int,
    partitions: int = PARTITIONS,
    seed: int = 1,
    segment_bytes: int = SEGMENT_BYTES,
    snapshot_records: int | None = None,
) -> None:
    """Write the first so many records of a cluster's life. Equal arguments give equal files.

    `snapshot_records`: the number of records after which a snapshot is taken. None: no snapshots. They take
    an image, and several times as long. Raises `QuorumConfigError` if `folder` has a node's files already.
    """
    batches = ClusterHistory(seed=seed, partitions=partitions).batches(records)
    entropy = Entropy(random.Random(seed))
    trio.run(_write, folder, batches, entropy, segment_bytes, snapshot_records)


async def _write(
    folder: Path,
    batches: Iterator[EncodedBatch],
    entropy: Entropy,
    segment_bytes: int,
    snapshot_records: int | None,
) -> None:
    real = real_runtime(sync=SyncStrategy.INLINE)
    disk, node = real.disk, NodeId(VOTERS[-1])
    folder.parent.mkdir(parents=True, exist_ok=True)
    cluster_id = uuid_text(entropy.uuid())
    runtime = replace(real, entropy=entropy)
    await format_folder(runtime, str(folder), cluster_id=cluster_id, node_id=node)
    log_folder = str(folder / LOG_FOLDER)
    config = LogConfig(segment_bytes=segment_bytes, own_recovery_point=True)
    log = await Log.open(disk, log_folder, config, now_ms=lambda: START_MS)
    cache, store = MetadataCache(), await SnapshotStore.open(disk, log_folder)
    last_snapshot = 0
    try:
        for batch in batches:
            log.append_own(
                batch.data, base_offset=batch.base_offset, end_offset=batch.end_offset, epoch=batch.epoch
            )
            if snapshot_records is None:
                continue
            _apply(batch, cache)
            if batch.end_offset >= last_snapshot + snapshot_records:
                last_snapshot = batch.end_offset
                await log.sync()
                await _take_snapshot(batch, cache, store)
    finally:
        await log.flush_and_close()
    state = QuorumStateFile(disk, log_folder, cluster_id=cluster_id, node=node)
    await state.store(ElectionState(Epoch(log.last_epoch)))
    watermark = WatermarkCheckpoint(disk, log_folder, end_offset=log.end_offset)
    watermark.note_high_watermark(log.end_offset)
    await watermark.store()


def _apply(batch: EncodedBatch, cache: MetadataCache) -> None:
    if batch.values:
        cache.apply(
            CommittedBatch(
                base_offset=Offset(batch.base_offset),
                epoch=Epoch(batch.epoch),
                timestamp_ms=batch.timestamp_ms,
                records=batch.values,
            )
        )


async def _take_snapshot(last: EncodedBatch, cache: MetadataCache, store: SnapshotStore) -> None:
    snapshot = SnapshotId(Offset(last.end_offset), Epoch(last.epoch))
    writer = store.write(snapshot, last_timestamp_ms=last.timestamp_ms, voters=None)
    for chunk in cache.take_snapshot():
        writer.append(chunk)
    await writer.freeze()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topics created first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--snapshot-records", type=int, help="take a snapshot after so many records each")
    asked = parser.parse_args()
    make_log(
        asked.folder,
        records=asked.records,
        partitions=asked.partitions,
        seed=asked.seed,
        snapshot_records=asked.snapshot_records,
    )


if __name__ == "__main__":
    main()
