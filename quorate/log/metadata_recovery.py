"""The metadata log and its snapshots, opened together.

Only snapshots move the log's start. Where it is within the first segment stands in no file of its own; the
rule of a start is: 0 if the first segment begins there, or else the end of the oldest snapshot that ends at
or above that segment's base. So the log start may go back over a restart, to a place from which everything is
there all the same; and what may have been cleaned away is never part of the log.
"""

from collections.abc import Callable

from quorate.log.checkpoints import RECOVERY_POINTS
from quorate.log.durability import own_recovery_point
from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError, UncoveredLogStartError
from quorate.log.segments.segment_files import segment_bases
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime import Disk, get_logger
from quorate.types import Epoch, EpochEnd, Offset, RecoveredLog, SnapshotId

log = get_logger(__name__)


async def open_metadata_log(
    disk: Disk, config: LogConfig, *, snapshots: SnapshotStore, now_ms: Callable[[], int]
) -> Log:
    """Recover the metadata log in the folder of `snapshots`. `config.own_recovery_point` must be set.

    A crash between the arrival of a snapshot and the reset of the log is completed: the log is then empty and
    starts at the snapshot's end. Snapshots below the log start are deleted.

    Raises `UncoveredLogStartError`, `DamagedSnapshotError` if a damaged snapshot has records that the log
    lacks, `DamagedLogError`, `UnreadableCheckpointError`, `DiskError`.
    """
    folder = snapshots.folder
    start = await _find_start(disk, folder, snapshots)
    opened = await Log.open(
        disk,
        folder,
        config,
        log_start_offset=None if start is None else start.end_offset,
        log_start_epoch=Epoch(0) if start is None else start.epoch,
        now_ms=now_ms,
    )
    try:
        await _reconcile(opened, snapshots)
        await opened.advance_log_start(opened.log_start_offset)
        await snapshots.delete(snapshots.below(opened.log_start_offset))
    except BaseException:
        opened.close()
        raise
    return opened


async def recovered_log(opened: Log, snapshots: SnapshotStore) -> RecoveredLog:
    """Return the state of an open log and its snapshots, as the Raft core needs it. Raises `DamagedLogError`,
    `DiskError`."""
    latest = snapshots.latest
    held = snapshots.voters
    later = await opened.voter_sets(0 if latest is None else latest.end_offset)
    return RecoveredLog(
        epochs=opened.epochs,
        log_start_offset=Offset(opened.log_start_offset),
        start_epoch=opened.log_start_epoch,
        end_offset=Offset(opened.end_offset),
        snapshot=latest,
        voters=((held,) if held is not None else ()) + tuple(later),
    )


async def _find_start(disk: Disk, folder: str, snapshots: SnapshotStore) -> SnapshotId | None:
    """Return the snapshot at whose end the log starts. None: offset 0, or no snapshot ends at or above the
    first segment's base, because the log was about to be dropped, or the snapshot is lost."""
    bases = segment_bases(disk, folder)
    if bases:
        return next((one for one in snapshots.ids if bases[0] and one.end_offset >= bases[0]), None)
    path = f"{folder}/{RECOVERY_POINTS}"
    if disk.exists(path):
        # A reset forgets the recovery point before it drops the segments.
        if await own_recovery_point(disk, folder, Offset(0)):
            raise DamagedLogError(folder, 0, "no segments, although a part of the log was durable")
    elif snapshots.latest is not None:
        raise DamagedLogError(folder, 0, "there are snapshots but no log")
    return snapshots.latest


async def _reconcile(opened: Log, snapshots: SnapshotStore) -> None:
    latest = snapshots.latest
    for error in snapshots.damaged:
        if not _covers_damaged(opened, error.snapshot, latest):
            raise error
    await snapshots.set_damaged_aside()
    if latest is not None and (latest.epoch > opened.last_epoch or latest.end_offset > opened.end_offset):
        log.warning(
            "the log ends before the latest snapshot, or differs from it, and begins anew at its end",
            folder=opened.folder,
            end_offset=opened.end_offset,
            last_epoch=opened.last_epoch,
            snapshot_end_offset=latest.end_offset,
            snapshot_epoch=latest.epoch,
        )
        await opened.reset(EpochEnd(latest.epoch, latest.end_offset))
    start = opened.log_start_offset
    if start > 0 and (latest is None or latest.end_offset < start):
        raise UncoveredLogStartError(opened.folder, start, latest)
    if latest is not None and latest.end_offset > start:
        found = opened.epoch_at(latest.end_offset - 1)
        if found != latest.epoch:
            raise DamagedLogError(
                opened.folder,
                0,
                f"the record below offset {latest.end_offset} is of epoch {found} in the log and of epoch "
                f"{latest.epoch} in the snapshot that ends there",
            )


def _covers_damaged(opened: Log, damaged: SnapshotId, latest: SnapshotId | None) -> bool:
    """Return whether an older snapshot and the log have all records of the damaged one."""
    start = opened.log_start_offset
    return (
        (start == 0 or (latest is not None and latest.end_offset >= start))
        and damaged.end_offset <= opened.end_offset
        and opened.epoch_at(damaged.end_offset - 1) == damaged.epoch
    )
