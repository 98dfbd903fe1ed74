"""The version of a state machine's code, and the state version, which is the one that records may need.

The state version is replicated: a control record of the log raises it (`Quorum.raise_state_version`), once
every voter runs such code. So no node meets a record that its code can't apply, unless it went back to older
code. Then it stops at that control record, or at a snapshot from behind it.
"""

from collections.abc import Callable, Sequence

from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.raft.quorum_errors import InvalidAppendError, StateMachineError
from quorate.raft.state_machine.interface import StateMachine
from quorate.raft.state_machine.record_check import Check
from quorate.types import Epoch, Offset


def code_version_of(state_machine: object) -> int:
    """Return the version of a state machine's code: the highest state version that it can apply."""
    version: int = getattr(state_machine, "code_version", 0)
    return version


def version_check(state_machine: StateMachine[object], current: Callable[[], int]) -> Check | None:
    """Return the check that no record needs a version above the `current` state version. It raises
    `InvalidAppendError`. None: no record needs one."""
    needed_version: Callable[[bytes], int] | None = getattr(state_machine, "needed_version", None)
    if needed_version is None:
        return None
    needed_of = needed_version

    def refusing(records: Sequence[bytes]) -> None:
        try:
            needed = max(map(needed_of, records), default=0)
        except Exception as error:
            raise InvalidAppendError(
                f"needed_version refuses the records: {type(error).__name__}: {error}"
            ) from error
        if needed > current():
            raise InvalidAppendError(
                f"the records need version {needed} of the state machine's code, and the quorum has agreed "
                f"on {current()}; once every voter runs version {needed}, the leader may raise it: "
                f"raise_state_version({needed})"
            )

    return refusing


def check_snapshot_version(state_machine: StateMachine[object], contents: SnapshotContents) -> None:
    """Raise `StateMachineError` if the code of a state machine is older than what a snapshot may need."""
    snapshot, needed = contents.snapshot, contents.state_version
    if needed > code_version_of(state_machine):
        what = f"the snapshot ending at offset {snapshot.end_offset}, and records behind it,"
        raise too_old(state_machine, what, needed, offset=snapshot.end_offset, epoch=snapshot.epoch)


def too_old(
    state_machine: StateMachine[object], what: str, needed: int, *, offset: Offset, epoch: Epoch
) -> StateMachineError:
    """Return the error of a node whose code is older than `what` may need."""
    return StateMachineError(
        f"{what} may need version {needed} of the state machine's code, and this node runs version "
        f"{code_version_of(state_machine)}; start it with version {needed} or newer",
        offset=offset,
        epoch=epoch,
    )
