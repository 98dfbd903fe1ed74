"""What a node keeps in its folder, prepared once and opened at each start."""

from dataclasses import dataclass

from quorate.log import Log, LogConfig
from quorate.quorum_state.election_state import QuorumStateFile
from quorate.quorum_state.meta_properties import MetaProperties, load_meta_properties, store_meta_properties
from quorate.raft.config import QuorumConfig
from quorate.raft.core.types import ElectionState, Epoch, NodeId, Offset, RecoveredLog
from quorate.raft.errors import QuorumConfigError
from quorate.raft.watermark import WatermarkCheckpoint
from quorate.runtime import Runtime
from quorate.runtime.disk import DiskLock

LOG_FOLDER = "__cluster_metadata-0"
"""Kafka's name for the metadata log's folder."""
LOCK_FILE = ".lock"
_WRITTEN_BY_FORMAT = frozenset(("quorum-state", "quorum-state.tmp"))
"""What a crash in the middle of formatting leaves; nothing was said on the strength of it."""
_BATCH_OVERHEAD = 1024 * 1024
"""Headers and varints of a batch whose records fill `max_batch_bytes`."""
_RESERVE_BYTES = 4 * 1024 * 1024
"""Room made ahead in the log, because a sync of a file that grows costs more (docs/explanation/log.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """An opened folder."""

    lock: DiskLock
    meta: MetaProperties
    state_file: QuorumStateFile
    election: ElectionState
    log: Log
    watermark: WatermarkCheckpoint

    @property
    def recovered(self) -> RecoveredLog:
        return RecoveredLog(
            epochs=self.log.epochs,
            log_start_offset=Offset(self.log.log_start_offset),
            end_offset=Offset(self.log.end_offset),
        )


async def format_folder(runtime: Runtime, folder: str, *, cluster_id: str, node_id: NodeId) -> MetaProperties:
    """Prepare an empty folder for a node: its identity, and a vote that was not given yet.

    Raises `QuorumConfigError` if the folder is formatted already: doing it again would forget the vote.
    """
    disk = runtime.disk
    log_folder = f"{folder}/{LOG_FOLDER}"
    if disk.exists(f"{folder}/meta.properties"):
        raise QuorumConfigError(
            f"{folder} is formatted already; choose an empty folder, or keep using this one"
        )
    if set(disk.list(log_folder)) - _WRITTEN_BY_FORMAT:
        raise QuorumConfigError(
            f"{folder} has lost its meta.properties, but {log_folder} holds a log; restore the file, "
            "or remove the folder to begin again as a new node"
        )
    disk.make_folder(log_folder)
    await QuorumStateFile(disk, log_folder, cluster_id=cluster_id, node=node_id).store(
        ElectionState(Epoch(0))
    )
    # Last, because it is what makes the folder count as formatted.
    meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=runtime.entropy.uuid())
    await store_meta_properties(disk, folder, meta)
    return meta


async def open_storage(runtime: Runtime, config: QuorumConfig) -> Storage:
    """Lock and recover a formatted folder. Raises `QuorumStateError`, `LogError`, `DiskLockedError`."""
    disk, folder, node = runtime.disk, config.folder, config.node_id
    meta = load_meta_properties(disk, folder)
    meta.check(folder, cluster_id=config.cluster_id, node_id=node)
    lock = disk.lock(f"{folder}/{LOCK_FILE}")
    try:
        log_folder = f"{folder}/{LOG_FOLDER}"
        state_file = QuorumStateFile(disk, log_folder, cluster_id=config.cluster_id, node=node)
        election = state_file.load()
        log = await Log.open(
            disk,
            log_folder,
            LogConfig(
                segment_bytes=config.segment_bytes,
                max_batch_bytes=config.max_batch_bytes + _BATCH_OVERHEAD,
                own_recovery_point=True,
                reserve_bytes=_RESERVE_BYTES,
                recovery_point_interval_bytes=config.recovery_point_bytes,
            ),
            now_ms=runtime.wall_clock.now_ms,
        )
        watermark = WatermarkCheckpoint(disk, log_folder)
    except BaseException:
        lock.release()
        raise
    return Storage(
        lock=lock, meta=meta, state_file=state_file, election=election, log=log, watermark=watermark
    )
