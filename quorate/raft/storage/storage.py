"""The content of a node's folder: prepared once, opened at each start."""

import uuid
from dataclasses import dataclass

from quorate.log import Log, LogConfig, open_metadata_log, recovered_log
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, name_of
from quorate.log.snapshots.snapshot_writer import PART_SUFFIX
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.quorum_state import (
    MetaProperties,
    QuorumStateFile,
    SkippedBatches,
    load_meta_properties,
    load_skipped,
    store_meta_properties,
)
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumConfigError
from quorate.raft.storage.watermark import WatermarkCheckpoint
from quorate.runtime import DiskLock, Runtime, parse_uuid, uuid_text
from quorate.types import ElectionState, Epoch, NodeId, RecoveredLog, ReplicaKey, Voter, VoterSet

LOG_FOLDER = "__cluster_metadata-0"
"""Kafka's name for the metadata log's folder."""
LOCK_FILE = ".lock"
_BOOTSTRAP_FILES = (name_of(BOOTSTRAP), name_of(BOOTSTRAP) + PART_SUFFIX)
_WRITTEN_BY_FORMAT = frozenset(("quorum-state", "quorum-state.tmp", *_BOOTSTRAP_FILES))
"""The files that a crash during formatting leaves. The node has not answered any request from them."""
_BATCH_OVERHEAD = 1024 * 1024
"""The size of the headers and varints of a batch with `max_batch_bytes` of records."""
_RESERVE_BYTES = 4 * 1024 * 1024
"""Room made ahead in the log, because a sync of a file that grows costs more (docs/explanation/log.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The opened folder of a node."""

    lock: DiskLock
    meta: MetaProperties
    state_file: QuorumStateFile
    election: ElectionState
    log: Log
    snapshots: SnapshotStore
    """The snapshots. Their reads and syncs are off the event loop."""
    recovered: RecoveredLog
    """The state of log and snapshots, for the core."""
    watermark: WatermarkCheckpoint
    skipped: SkippedBatches


async def format_folder(
    runtime: Runtime, folder: str, *, cluster_id: str, node_id: NodeId, voters: VoterSet | None = None
) -> MetaProperties:
    """Prepare an empty folder for a node: its identity and an empty vote. With `voters`, also the bootstrap
    snapshot with the first voters of a cluster that keeps its voter set in the log (KIP-853).

    Each of `voters` needs a directory id, except this node, which gets a new one. Format every first voter
    with the same set. Raises `QuorumConfigError` if an id is missing, or if the folder is already formatted:
    a second time would forget the vote.
    """
    disk = runtime.disk
    log_folder = f"{folder}/{LOG_FOLDER}"
    if disk.exists(f"{folder}/meta.properties"):
        raise QuorumConfigError(
            f"{folder} is formatted already; choose an empty folder, or keep using this one"
        )
    if set(disk.list(log_folder)) - _WRITTEN_BY_FORMAT:
        raise QuorumConfigError(
            f"{folder} has lost its meta.properties, but {log_folder} holds a log; restore the file, or "
            "move the folder away and come back as a new replica: docs/how-to/replace-a-disk.md says when "
            "that is safe"
        )
    directory_id = runtime.entropy.uuid()
    if voters is not None:
        voters, directory_id = first_voters(voters, node_id, directory_id)
    disk.make_folder(log_folder)
    for name in _BOOTSTRAP_FILES:
        if disk.exists(f"{log_folder}/{name}"):
            disk.remove(f"{log_folder}/{name}")
    if voters is not None:
        await (await SnapshotStore.open(disk, log_folder)).write_bootstrap(voters)
    await QuorumStateFile(disk, log_folder, cluster_id=cluster_id, node=node_id).store(
        ElectionState(Epoch(0))
    )
    # Last, because it makes the folder count as formatted.
    meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    await store_meta_properties(disk, folder, meta)
    return meta


def first_voters(voters: VoterSet, node: NodeId, drawn: uuid.UUID) -> tuple[VoterSet, uuid.UUID]:
    """Return the set with all its directory ids, and this node's: `drawn` unless the set has one. Raises
    `QuorumConfigError` if another one lacks its id."""
    endpoint = voters.endpoint_of(node)
    if endpoint is not None:
        named = next(voter.key.directory_id for voter in voters if voter.key.id == node)
        if named is not None:
            drawn = parse_uuid(named)
        voters = voters.with_voter(Voter(ReplicaKey(node, uuid_text(drawn)), endpoint))
    for voter in voters:
        if voter.key.directory_id is None:
            raise QuorumConfigError(
                f"voter {voter.key.id} has no directory id; draw one with `quorate storage random-uuid`, and "
                "name it in the first voters of every node"
            )
    return voters, drawn


async def open_storage(runtime: Runtime, config: QuorumConfig) -> Storage:
    """Lock and recover a formatted folder. Raises `QuorumStateError`, `LogError`, `DiskLockedError`."""
    disk, folder, node = runtime.disk, config.folder, config.node_id
    meta = load_meta_properties(disk, folder, names=config.names)
    meta.check(folder, cluster_id=config.cluster_id, node_id=node, names=config.names)
    lock = disk.lock(f"{folder}/{LOCK_FILE}")
    try:
        log_folder = f"{folder}/{LOG_FOLDER}"
        state_file = QuorumStateFile(disk, log_folder, cluster_id=config.cluster_id, node=node)
        skipped = load_skipped(disk, log_folder)
        election = state_file.load()
        snapshots = await SnapshotStore.open(disk.in_background(), log_folder)
        log = await open_metadata_log(
            disk,
            LogConfig(
                segment_bytes=config.segment_bytes,
                max_batch_bytes=config.max_batch_bytes + _BATCH_OVERHEAD,
                own_recovery_point=True,
                reserve_bytes=_RESERVE_BYTES,
                recovery_point_interval_bytes=config.recovery_point_bytes,
            ),
            snapshots=snapshots,
            now_ms=runtime.wall_clock.now_ms,
        )
        try:
            recovered = await recovered_log(log, snapshots)
            watermark = WatermarkCheckpoint(disk, log_folder, end_offset=recovered.end_offset)
        except BaseException:
            log.close()
            raise
    except BaseException:
        lock.release()
        raise
    return Storage(
        lock=lock,
        meta=meta,
        state_file=state_file,
        election=election,
        log=log,
        snapshots=snapshots,
        recovered=recovered,
        watermark=watermark,
        skipped=skipped,
    )
