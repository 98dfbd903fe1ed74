"""A state machine's state, filled from a snapshot's file."""

from dataclasses import dataclass

from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.quorum_errors import StateMachineError
from quorate.raft.snapshots.snapshot_slices import SnapshotSlices
from quorate.raft.state_machine.code_versions import check_snapshot_version
from quorate.raft.state_machine.interface import SnapshotLoader, StateMachine
from quorate.types import SnapshotId


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A state beside the running one."""

    contents: SnapshotContents
    _loader: SnapshotLoader

    def install(self) -> None:
        """Replace the running state. Raises `StateMachineError`."""
        try:
            self._loader.install()
        except Exception as error:
            raise _loading_error("install raised", self.contents.snapshot, error) from error


async def load_snapshot(
    state_machine: StateMachine[object], store: SnapshotStore, snapshot: SnapshotId, *, urgent: bool
) -> LoadedSnapshot:
    """Fill a second state, in slices of the event loop. `urgent`: without rests, at a start. Raises
    `StateMachineError`, `DamagedSnapshotError`, `SnapshotMissingError`, `DiskError`."""
    contents = store.contents(snapshot)
    check_snapshot_version(state_machine, contents)
    slices = SnapshotSlices(rests=not urgent)
    with store.reader(snapshot) as reader:
        loader = _begin_load(state_machine, snapshot)
        for chunk in reader:
            try:
                loader.add(chunk)
            except Exception as error:
                raise _loading_error("add raised", snapshot, error) from error
            await slices.pause(len(chunk))
    return LoadedSnapshot(contents, loader)


def _begin_load(state_machine: StateMachine[object], snapshot: SnapshotId) -> SnapshotLoader:
    try:
        return state_machine.load_snapshot(snapshot)
    except Exception as error:
        raise _loading_error("load_snapshot raised", snapshot, error) from error


def _loading_error(what: str, snapshot: SnapshotId, error: Exception) -> StateMachineError:
    return StateMachineError(
        f"{what} {type(error).__name__} ({error}) for the snapshot ending at offset {snapshot.end_offset}; "
        "this node stops here. Mend the state machine, which must read what every version of it wrote, and "
        "restart: the snapshot will be loaded again",
        offset=snapshot.end_offset,
        epoch=snapshot.epoch,
    )
