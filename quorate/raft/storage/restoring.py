"""A folder of a new cluster, made from a snapshot of another one."""

from contextlib import closing, suppress
from typing import Final

from quorate.log import DamagedSnapshotError, Log, LogConfig
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, SnapshotContents, SnapshotReader, parse_name
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.quorum_state import (
    MetaProperties,
    QuorumStateError,
    QuorumStateFile,
    load_meta_properties,
    store_meta_properties,
)
from quorate.raft.quorum_config import text_of
from quorate.raft.quorum_errors import RestoreRefusedError
from quorate.raft.state_machine.code_versions import check_snapshot_version
from quorate.raft.state_machine.interface import PlainStateMachine, StateMachine
from quorate.raft.state_machine.plain import with_snapshots
from quorate.raft.storage.storage import LOCK_FILE, LOG_FOLDER, first_voters
from quorate.runtime import Disk, DiskError, ReadableFile, Runtime, Slices, get_logger
from quorate.types import ElectionState, Epoch, NodeId, Offset, SnapshotId, VoterSet

log = get_logger(__name__)

OFFSET_GAP: Final = 1_000_000_000
"""The distance from the end of the snapshot to the log start of the restored cluster. The old cluster may
have gone on after the snapshot. So this cluster gives none of its offsets again, which are the ids of
sessions, for example."""
EPOCH_GAP: Final = 1_000_000
"""The same for epochs, which are fencing tokens."""


def restored_id(snapshot: SnapshotId) -> SnapshotId:
    """Return the id that a snapshot has in the cluster that is restored from it."""
    return SnapshotId(Offset(snapshot.end_offset + OFFSET_GAP), Epoch(snapshot.epoch + EPOCH_GAP))


async def restore_folder(
    runtime: Runtime,
    folder: str,
    snapshot: str,
    *,
    state_machine: StateMachine[object] | PlainStateMachine[object],
    cluster_id: str,
    node_id: NodeId,
    voters: VoterSet | None = None,
) -> MetaProperties:
    """Prepare an empty folder for a node of a new cluster, whose log begins with the state in `snapshot`.

    `snapshot`: the path of a copy of a node's `END-EPOCH.checkpoint`. It is only read. `state_machine`: a new
    one, as for `Quorum.open`. The snapshot is loaded into it, to see that it can be. `cluster_id`: another
    one than that of the old cluster, whose nodes and clients are refused then. `voters`: as for
    `format_folder`. They take the place of those in the snapshot.

    Restore every voter from the same file, or one that is the only voter, and add the others. Offsets and
    epochs continue a billion and a million above those of the snapshot, so that no offset, no session and no
    fencing token of the old cluster is given again. What the old cluster committed after the snapshot is
    lost. An append that a session repeats is answered if the snapshot has it, and refused otherwise.

    Nothing happens if it raises `RestoreRefusedError`: the folder is not empty, the file is no snapshot, the
    state machine can't load it, the cluster id is that of the snapshot's folder, or `voters` lacks this node.
    The same for `QuorumConfigError`, as of `format_folder`, and for `DamagedSnapshotError`, which names the
    position. `DiskError`: the folder is as empty as before, unless the disk fails again.
    """
    disk, log_folder = runtime.disk, f"{folder}/{LOG_FOLDER}"
    source = _source_of(disk, snapshot)
    _check_empty(disk, folder)
    _check_cluster(disk, snapshot, cluster_id)
    directory_id = runtime.entropy.uuid()
    if voters is not None:
        if node_id not in voters:
            raise RestoreRefusedError(
                f"node {node_id} is not among the voters ({text_of(voters)}); restore the folders of voters "
                "only: another node starts with a formatted folder, and fetches the state from them"
            )
        voters, directory_id = first_voters(voters, node_id, directory_id)
    with closing(disk.open_read_only(snapshot)) as file:
        contents = await _load(file, source, with_snapshots(state_machine))
    disk.make_folder(folder)
    lock = disk.lock(f"{folder}/{LOCK_FILE}")
    try:
        _check_empty(disk, folder)  # nobody else has restored it meanwhile
        try:
            with closing(disk.open_read_only(snapshot)) as file:
                await _write_log(runtime, log_folder, file, contents, voters)
            restored = restored_id(source)
            state_file = QuorumStateFile(disk, log_folder, cluster_id=cluster_id, node=node_id)
            await state_file.store(ElectionState(restored.epoch))
            # Last, because it makes the folder count as formatted.
            meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
            await store_meta_properties(disk, folder, meta)
        except BaseException:
            with suppress(DiskError):
                _clear(disk, folder)
            raise
    finally:
        lock.release()
    log.info(
        "restored a folder from a snapshot",
        folder=folder,
        snapshot=snapshot,
        cluster_id=cluster_id,
        log_start_offset=restored.end_offset,
        epoch=restored.epoch,
    )
    return meta


def _source_of(disk: Disk, path: str) -> SnapshotId:
    """Return the id in the file's name. Raises `RestoreRefusedError`."""
    name = path.rpartition("/")[2]
    found = parse_name(name)
    if found is None or found == BOOTSTRAP:
        raise RestoreRefusedError(
            f"{name} is not the name of a snapshot with a state, such as "
            "00000000000000001817-0000000004.checkpoint; keep the name that the node gave it"
        )
    if not disk.exists(path):
        raise RestoreRefusedError(f"there is no file {path}")
    return found


def _check_empty(disk: Disk, folder: str) -> None:
    held = [name for name in disk.list(folder) if name != LOCK_FILE]
    if LOG_FOLDER in held and not disk.list(f"{folder}/{LOG_FOLDER}"):
        held.remove(LOG_FOLDER)
    if held:
        raise RestoreRefusedError(
            f"{folder} is not empty ({', '.join(held[:3])}), and what it holds would be hidden; restore into "
            "a new folder, or move this one away first"
        )


def _clear(disk: Disk, folder: str) -> None:
    """Remove what was written to a folder that was empty."""
    for name in disk.list(folder):
        if name == LOG_FOLDER:
            disk.remove_folder(f"{folder}/{name}")
        elif name != LOCK_FILE:
            disk.remove(f"{folder}/{name}")


def _check_cluster(disk: Disk, snapshot: str, cluster_id: str) -> None:
    """Refuse the id of the cluster whose folder has the snapshot, if it is still in one."""
    home = snapshot.rpartition("/")[0].rpartition("/")[0] or "."
    try:
        old = load_meta_properties(disk, home).cluster_id
    except (QuorumStateError, DiskError):
        return
    if old == cluster_id:
        raise RestoreRefusedError(
            f"{cluster_id} is the id of the cluster that the snapshot is of; choose another one, because a "
            "node of that cluster that still runs would take the restored nodes for its own"
        )


async def _load(file: ReadableFile, source: SnapshotId, machine: StateMachine[object]) -> SnapshotContents:
    """Read the whole snapshot, and load it into `machine`. Raises `RestoreRefusedError`,
    `DamagedSnapshotError`."""
    reader = SnapshotReader(file, source)
    slices = Slices()
    try:
        check_snapshot_version(machine, reader.contents)
        loader = machine.load_snapshot(restored_id(source))
        for chunk in reader:
            loader.add(chunk)
            await slices.pause()
        loader.install()
    except DamagedSnapshotError:
        raise
    except Exception as error:
        raise RestoreRefusedError(
            f"the state machine can't load {file.path}: {type(error).__name__}: {error}; it is of another "
            "state machine, or of a version that this one does not read"
        ) from error
    return reader.contents


async def _write_log(
    runtime: Runtime, log_folder: str, file: ReadableFile, contents: SnapshotContents, voters: VoterSet | None
) -> None:
    """Write the snapshot under its new id, and the empty log that begins at its end."""
    disk, restored = runtime.disk, restored_id(contents.snapshot)
    disk.make_folder(log_folder)
    store = await SnapshotStore.open(disk.in_background(), log_folder)
    writer = store.write(
        restored,
        last_timestamp_ms=contents.last_timestamp_ms,
        voters=voters,
        form=None if contents.state is None else contents.state.form,
        state_version=contents.state_version,
    )
    try:
        slices = Slices()
        for chunk in SnapshotReader(file, contents.snapshot):
            writer.append(chunk)
            await slices.pause()
            await writer.keep_up()
        written = await writer.freeze()
    finally:
        writer.abandon()
    if written.state != contents.state:
        raise RestoreRefusedError(f"{file.path} changed while it was read; restore from a copy")
    opened = await Log.open(
        disk,
        log_folder,
        LogConfig(own_recovery_point=True),
        log_start_offset=restored.end_offset,
        log_start_epoch=restored.epoch,
        now_ms=runtime.wall_clock.now_ms,
    )
    await opened.flush_and_close()
