"""One node's snapshots: taken, fetched, served and cleaned up, beside the driver that steps the core."""

from collections.abc import Callable
from typing import Protocol

import trio

from quorate.log import SnapshotMissingError
from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader
from quorate.raft.core import (
    Core,
    Event,
    FetchSnapshotResponse,
    LogStartMoved,
    SnapshotTaken,
)
from quorate.raft.snapshots.snapshot_cleaning import Retention, SnapshotCleaner
from quorate.raft.snapshots.snapshot_fetching import SnapshotReceiver
from quorate.raft.snapshots.snapshot_serving import CHUNK_BYTES, SnapshotSender
from quorate.raft.snapshots.snapshot_taking import SnapshotTaker, SnapshotTriggers
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import StateMachine
from quorate.raft.state_machine.plain import form_of
from quorate.raft.storage.storage import Storage
from quorate.raft.telemetry import Telemetry
from quorate.runtime import WallClock
from quorate.types import EpochEnd, Offset, SnapshotId


class SnapshotDriver(Protocol):
    """The calls of snapshots into the driver."""

    @property
    def core(self) -> Core: ...

    @property
    def applier(self) -> Applier: ...

    def deliver(self, event: Event) -> None: ...

    def answer_snapshot_fetch(self, response: FetchSnapshotResponse) -> None:
        """Send the response, if this node still leads in its epoch."""
        ...

    async def wait_unblocked(self) -> None:
        """Return when no barrier is under way: events delivered before the next await are stepped at once."""
        ...

    async def make_durable(self, end_offset: Offset) -> None:
        """Return when the core knows that the log is durable below `end_offset`."""
        ...


class Snapshots:
    """The parts, wired together: the driver calls `taker`, `receiver` and `sender`. `SnapshotStore` owns the
    files."""

    def __init__(
        self,
        driver: SnapshotDriver,
        storage: Storage,
        state_machine: StateMachine[object],
        clock: WallClock,
        telemetry: Telemetry,
        *,
        triggers: SnapshotTriggers,
        retention: Retention,
        compare: Callable[[SnapshotContents], None] | None,
    ) -> None:
        """`compare`: gets each snapshot that this node took or loaded. None: states are not compared."""
        self._driver = driver
        self._log = storage.log
        self._store = storage.snapshots
        self._telemetry = telemetry
        self._compare = compare
        core, applier = driver.core, driver.applier
        self.taker = SnapshotTaker(
            state_machine,
            applier,
            storage.log,
            storage.snapshots,
            triggers=triggers,
            form=None if compare is None else form_of(state_machine),
            voters_at=core.voters_at,
            make_durable=driver.make_durable,
            taken=self._report_taken,
        )
        self._cleaner = SnapshotCleaner(
            storage.log,
            storage.snapshots,
            clock,
            retention=retention,
            wait_unblocked=driver.wait_unblocked,
            latest=self._latest_of_log,
            start_moved=self._start_moved,
        )
        self.receiver = SnapshotReceiver(
            state_machine,
            applier,
            storage.log,
            storage.snapshots,
            checked=driver.deliver,
            replaced=self._report_replaced,
        )
        self.sender = SnapshotSender(storage.snapshots, answer=driver.answer_snapshot_fetch)

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """The snapshots of this node's log, in ascending order."""
        latest = self._driver.core.snapshot
        return () if latest is None else tuple(one for one in self._store.ids if one <= latest)

    @property
    def contents(self) -> tuple[SnapshotContents, ...]:
        """The descriptions of the `ids`, ascending."""
        return tuple(map(self._store.contents, self.ids))

    def reader(self, snapshot: SnapshotId) -> SnapshotReader:
        """Open one of the `ids`. Raises `SnapshotMissingError`, `DamagedSnapshotError`, `DiskError`."""
        return self._store.reader(snapshot)

    async def read_chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Bytes of one of the `ids` from `position` on, 1 MiB at most, and the size of the whole. Raises
        `SnapshotMissingError`, `PositionOutOfRangeError`, `DiskError`."""
        if snapshot not in self.ids:
            raise SnapshotMissingError(snapshot)
        return await self._store.read_chunk(snapshot, position, min(max_bytes, CHUNK_BYTES))

    async def run(self) -> None:
        """Run the tasks of the parts until cancelled. Raises the error that stops the node."""
        async with trio.open_nursery() as nursery:
            for task in (self.taker.run, self._cleaner.run, self.receiver.run, self.sender.run):
                nursery.start_soon(task)

    # Calls from one part to another

    def _report_taken(self, contents: SnapshotContents) -> None:
        self._driver.deliver(SnapshotTaken(contents.snapshot))
        self._telemetry.snapshot_taken(contents.size_bytes)
        self._note_state(contents)
        self._cleaner.clean_soon()

    def _report_replaced(self, contents: SnapshotContents) -> None:
        self.taker.replace_state(contents.snapshot)
        self._telemetry.snapshot_loaded(contents.size_bytes)
        self._telemetry.log_end_offset(self._log.end_offset, self._log.last_epoch)
        self._note_state(contents)
        self._cleaner.clean_soon()

    def _note_state(self, contents: SnapshotContents) -> None:
        if self._compare is not None:
            self._compare(contents)

    def _latest_of_log(self) -> SnapshotId | None:
        core = self._driver.core
        if core.high_watermark is not None:
            self.receiver.drop_below(core.high_watermark)
        return core.snapshot

    def _start_moved(self, start: EpochEnd) -> None:
        self._driver.deliver(LogStartMoved(start))
