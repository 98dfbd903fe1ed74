"""Snapshots from the leader, in place of a log that it no longer has (KIP-630).

Chunks are written as they come. When all are there, the file is checked as a whole and loaded beside the
running state; only then does the core decide to install it, which empties the log and swaps the state.
"""

from collections.abc import Callable

import trio

from quorate.log import DamagedSnapshotError, Log, SnapshotMissingError
from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.core import (
    CheckSnapshot,
    InstallSnapshot,
    SnapshotChecked,
    SnapshotDamaged,
    StoreSnapshotChunk,
)
from quorate.raft.snapshots.snapshot_loading import LoadedSnapshot, load_snapshot
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import StateMachine
from quorate.runtime import get_logger
from quorate.types import EpochEnd, Offset, SnapshotId

log = get_logger(__name__)


class SnapshotReceiver:
    """Holds at most one loaded state beside the running one."""

    def __init__(
        self,
        state_machine: StateMachine[object],
        applier: Applier,
        target: Log,
        store: SnapshotStore,
        *,
        checked: Callable[[SnapshotChecked | SnapshotDamaged], None],
        replaced: Callable[[SnapshotContents], None],
    ) -> None:
        """`checked`: gets the core's event for the outcome of a `CheckSnapshot`. `replaced`: called when the
        state is that of a snapshot."""
        self._state_machine = state_machine
        self._applier = applier
        self._log = target
        self._store = store
        self._checked = checked
        self._replaced = replaced
        self._wanted: SnapshotId | None = None
        """The snapshot to check, or the loaded one that is not installed yet."""
        self._wake = trio.Event()
        self._loading = trio.CancelScope()
        self._loaded: LoadedSnapshot | None = None

    async def load_latest(self) -> None:
        """Load the latest snapshot at a start. Raises
        `StateMachineError`, `DamagedSnapshotError`, `DiskError`."""
        latest = self._store.latest
        if latest is not None:
            self._install_state(await load_snapshot(self._state_machine, self._store, latest, urgent=True))

    def store_chunk(self, effect: StoreSnapshotChunk) -> None:
        """Write a fetched chunk to the partial snapshot. Raises `DiskError`."""
        if effect.position == 0:
            self._drop_loaded()
        self._store.write_part(effect.snapshot, effect.position, effect.chunk)

    def check(self, effect: CheckSnapshot) -> None:
        """Begin to check and load a fetched snapshot. `checked` gets the outcome, unless it is dropped
        before."""
        self._drop_loaded()
        self._wanted = effect.snapshot
        self._wake.set()

    def drop_below(self, high_watermark: Offset) -> None:
        """Drop a loaded state that the log has overtaken, because it will not be installed."""
        if self._loaded is not None and self._loaded.contents.snapshot.end_offset <= high_watermark:
            self._drop_loaded()

    def _drop_loaded(self) -> None:
        self._wanted = self._loaded = None
        self._loading.cancel()

    async def run(self) -> None:
        """Check the snapshots passed to `check`. Runs until cancelled. Raises `StateMachineError`,
        `DiskError`."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            snapshot = self._wanted
            if snapshot is not None:
                await self._check_part(snapshot)

    async def _check_part(self, snapshot: SnapshotId) -> None:
        try:
            # Not cancelled halfway: it may already have its name.
            contents = await self._store.complete_part(snapshot)
            if self._wanted != snapshot:
                return
            loaded = await self._load_part(snapshot)
        except DamagedSnapshotError as error:
            log.warning("a fetched snapshot is damaged and will be fetched again", problem=str(error))
            if self._wanted == snapshot:
                self._wanted = None
                self._checked(SnapshotDamaged(snapshot))
            return
        except SnapshotMissingError:
            return  # dropped before its turn came
        if loaded is not None and self._wanted == snapshot:
            self._loaded = loaded
            self._checked(SnapshotChecked(snapshot, contents.voters))

    async def _load_part(self, snapshot: SnapshotId) -> LoadedSnapshot | None:
        """Load the snapshot. None: it was dropped meanwhile."""
        with trio.CancelScope() as self._loading:
            return await load_snapshot(self._state_machine, self._store, snapshot, urgent=False)
        return None

    async def install(self, effect: InstallSnapshot) -> None:
        """Empty the log and install the loaded state. The next start completes it after a crash. Raises
        `StateMachineError`, `LogError`, `DiskError`."""
        snapshot = effect.snapshot
        await self._log.reset(EpochEnd(snapshot.epoch, snapshot.end_offset))
        loaded, self._loaded, self._wanted = self._loaded, None, None
        if loaded is not None and loaded.contents.snapshot == snapshot:
            self._install_state(loaded)
        elif self._applier.applied_offset != snapshot.end_offset:
            raise AssertionError(f"{snapshot} is to be installed, and was not loaded")

    def _install_state(self, loaded: LoadedSnapshot) -> None:
        loaded.install()
        contents = loaded.contents
        snapshot = contents.snapshot
        log.info(
            "loaded a snapshot",
            end_offset=snapshot.end_offset,
            epoch=snapshot.epoch,
            size_bytes=contents.size_bytes,
        )
        self._applier.replace_state(
            snapshot.end_offset,
            last_timestamp_ms=contents.last_timestamp_ms,
            leader_change=contents.leader_change,
            state_version=contents.state_version,
        )
        self._replaced(contents)
