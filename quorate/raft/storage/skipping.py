"""The way past a committed batch that no version of the state machine can apply."""

from quorate.log.batches.batch import Batch, read_batches
from quorate.quorum_state import SkippedBatch, load_meta_properties, store_skipped
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import SkipRefusedError
from quorate.raft.storage.storage import LOG_FOLDER, Storage, open_storage
from quorate.runtime import Runtime, get_logger
from quorate.types import Epoch, NodeId, Offset

log = get_logger(__name__)

_READ_BYTES = 1024 * 1024


async def skip_batch(
    runtime: Runtime, folder: str, *, offset: Offset, epoch: Epoch
) -> tuple[SkippedBatch, ...]:
    """Make a stopped node skip the committed batch at `offset`: the node counts it as applied without calling
    `apply`. Returns all batches that this node skips, in ascending order. The skip is durable when it
    returns. Idempotent.

    Use it only for a batch on which `apply` raises on every node (`StateMachineError` names its offset and
    epoch). The application loses its records. **Skip it on every node before one of them continues past it.**
    Otherwise their states differ. Then take a snapshot, so that new nodes start after the batch.

    Raises `SkipRefusedError` without a change, unless a batch of this epoch begins at exactly this offset of
    the node's log and no snapshot contains it yet. Raises `DiskLockedError` while the node runs, and the
    errors of opening a folder.
    """
    meta = load_meta_properties(runtime.disk, folder)
    config = QuorumConfig(node_id=NodeId(meta.node_id), cluster_id=meta.cluster_id, folder=folder)
    storage = await open_storage(runtime, config)
    try:
        wanted = SkippedBatch(offset, epoch)
        count = await _check_skippable(storage, wanted)
        skipped = tuple(sorted({*storage.skipped.as_tuple(), wanted}))
        await store_skipped(runtime.disk, f"{folder}/{LOG_FOLDER}", skipped)
        log.warning("a batch will be skipped", folder=folder, offset=offset, epoch=epoch, records=count)
        return skipped
    finally:
        storage.snapshots.close()
        storage.log.close()
        storage.lock.release()


async def _check_skippable(storage: Storage, wanted: SkippedBatch) -> int:
    """Return the number of records that are lost. Raises `SkipRefusedError`."""
    offset, latest = wanted.offset, storage.recovered.snapshot
    if latest is not None and latest.end_offset > offset:
        raise SkipRefusedError(
            f"a snapshot that ends at offset {latest.end_offset} stands for offset {offset} on this node, "
            "with or without what the batch did; a skip would change nothing. A node that starts needs none. "
            "If this one applied what others skip, give it an empty folder, and let it load their snapshot"
        )
    if not storage.log.log_start_offset <= offset < storage.log.end_offset:
        raise SkipRefusedError(
            f"this node's log has offsets {storage.log.log_start_offset} to {storage.log.end_offset} "
            f"(exclusive), and not {offset}; if it is behind, start it, and skip when it stops at the batch"
        )
    batch = await _read_batch_with(storage, offset)
    header = batch.header
    if header.base_offset != offset or header.leader_epoch != wanted.epoch:
        raise SkipRefusedError(
            f"the batch with offset {offset} begins at offset {header.base_offset} and is of epoch "
            f"{header.leader_epoch}; that is not offset {offset}, epoch {wanted.epoch}. Take both from what "
            "the node said when it stopped"
        )
    if header.is_control:
        raise SkipRefusedError(
            f"the batch at offset {offset} is the quorum's own, which no state machine applies"
        )
    return int(header.end_offset - header.base_offset)


async def _read_batch_with(storage: Storage, offset: Offset) -> Batch:
    data = await storage.log.read(offset, _READ_BYTES)
    return next(batch for batch in read_batches(data) if batch.header.end_offset > offset)
