"""A node's folder with a long metadata log, for the Spark suite and for a look:

    cd benchmarks && python -m spark.make_log FOLDER --records 5000000

The log is as a node writes it, in segments of 100 MiB with their indexes, and all of it is committed. Of a
million records 97 % are PartitionChange; a batch has 6.9 records, a record takes 48 bytes, and brokers
restart 200 times within three days. With more --partitions the log begins with their creation.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path
from typing import Final

import trio
from spark.cluster_history import PARTITIONS, START_MS, VOTERS, ClusterHistory

from quorate.log import Log, LogConfig
from quorate.quorum_state import QuorumStateFile
from quorate.raft.storage.storage import LOG_FOLDER, format_folder
from quorate.raft.storage.watermark import WatermarkCheckpoint
from quorate.runtime import Entropy, uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import ElectionState, Epoch, NodeId

SEGMENT_BYTES: Final = 100 << 20


def make_log(
    folder: Path,
    *,
    records: int,
    partitions: int = PARTITIONS,
    seed: int = 1,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Write the first so many records of a cluster's life. Equal arguments give equal files. Raises
    `QuorumConfigError` if `folder` has a node's files already."""
    history = ClusterHistory(seed=seed, partitions=partitions)
    trio.run(_write, folder, history, records, segment_bytes, Entropy(random.Random(seed)))


async def _write(
    folder: Path, history: ClusterHistory, records: int, segment_bytes: int, entropy: Entropy
) -> None:
    real = real_runtime(sync=SyncStrategy.INLINE)
    disk, node = real.disk, NodeId(VOTERS[-1])
    runtime = replace(real, entropy=entropy)
    folder.parent.mkdir(parents=True, exist_ok=True)
    cluster_id = uuid_text(entropy.uuid())
    await format_folder(runtime, str(folder), cluster_id=cluster_id, node_id=node)
    log_folder = str(folder / LOG_FOLDER)
    config = LogConfig(segment_bytes=segment_bytes, own_recovery_point=True)
    log = await Log.open(disk, log_folder, config, now_ms=lambda: START_MS)
    try:
        for base_offset, end_offset, epoch, data in history.batches(records):
            log.append_own(data, base_offset=base_offset, end_offset=end_offset, epoch=epoch)
    finally:
        await log.flush_and_close()
    state = QuorumStateFile(disk, log_folder, cluster_id=cluster_id, node=node)
    await state.store(ElectionState(Epoch(log.last_epoch)))
    watermark = WatermarkCheckpoint(disk, log_folder, end_offset=log.end_offset)
    watermark.note_high_watermark(log.end_offset)
    await watermark.store()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="of the topics created first")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    make_log(asked.folder, records=asked.records, partitions=asked.partitions, seed=asked.seed)


if __name__ == "__main__":
    main()
