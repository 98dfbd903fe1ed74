"""One replica's move to another directory: copied, then mirrored, then the replica itself.

Appends never wait for it. From the moment when the future replica has everything, each append goes to both
logs in the same call. So whenever the process is killed, the one that counts has everything acknowledged: the
copied replica until its mark is durable, the future one from then on.
"""

import enum
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import trio

from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.failures import DirectoryFailed, Failures
from quorate.broker.replication.foundation.replication_quota import ReplicationQuota
from quorate.broker.replication.producing.producer_snapshot import store, take
from quorate.broker.replication.replica.directory_assignments import DirectoryAssignments
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.replica.replica_parts import Mirror
from quorate.broker.replication.replica.topic_settings import configure
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.broker.replication.upkeep.future_copy import FutureCopy
from quorate.invariant import invariant
from quorate.log import DamagedLogError, InvalidBatchError, Log, LogError, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, DiskFullError, get_logger

log = get_logger(__name__)


class MoveState(enum.Enum):
    """The states of a replica's move between directories (KIP-113)."""

    COPYING = "copying"
    """The future replica lacks records. It is no more than a copy, and may be dropped."""
    MIRRORING = "mirroring"
    """It has everything, and takes each append in the same call. It may be dropped."""
    SEALED = "sealed"
    """The mark that ends the copied replica is being written: no way back. An error of either directory is
    one of the replica."""
    SWITCHED = "switched"
    """It is the replica. The folder that it was copied from has the mark, and nothing else of worth."""
    DROPPED = "dropped"
    """The copy was given up, and is removed."""
    FAILED = "failed"
    """A directory failed. The folder in the other stays there for the next start."""


LEGAL: Final[Mapping[MoveState, frozenset[MoveState]]] = MappingProxyType(
    {
        MoveState.COPYING: frozenset({MoveState.MIRRORING, MoveState.DROPPED, MoveState.FAILED}),
        # A cut of the replica's log is not mirrored: the copy cuts itself.
        MoveState.MIRRORING: frozenset(
            {MoveState.COPYING, MoveState.SEALED, MoveState.DROPPED, MoveState.FAILED}
        ),
        MoveState.SEALED: frozenset({MoveState.SWITCHED, MoveState.FAILED}),
        MoveState.SWITCHED: frozenset(),
        MoveState.DROPPED: frozenset(),
        MoveState.FAILED: frozenset(),
    }
)
DROPPABLE: Final = frozenset({MoveState.COPYING, MoveState.MIRRORING})


class IllegalMoveError(AssertionError):
    """A bug of ours."""

    def __init__(self, before: MoveState, after: MoveState) -> None:
        super().__init__(f"a move between directories can't go from {before.value} to {after.value}")


def checked_change(before: MoveState, after: MoveState) -> MoveState:
    """Return `after`. Raises `IllegalMoveError` if the table doesn't have the change."""
    if after not in LEGAL[before]:
        raise IllegalMoveError(before, after)
    return after


_DESCRIPTORS_WAIT_S = 10.0
_MARK_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveContext:
    """The parts that all moves of a broker share."""

    disk: Disk
    futures: FutureLogs
    quota: ReplicationQuota
    pieces: trio.CapacityLimiter
    hosted: HostedReplicas
    metadata: CurrentMetadata
    assignments: DirectoryAssignments
    failures: Failures


class ReplicaMove:
    """The move of one replica to another directory. `run` goes on until it has `ended`."""

    def __init__(
        self,
        partition: PartitionReplica,
        target: uuid.UUID,
        future: Log,
        context: MoveContext,
        *,
        settled: Callable[[], trio.Event | None],
    ) -> None:
        """`settled`: an event for the end of the replica's move before, if that still leaves something to
        do."""
        self.partition = partition
        self.target = target
        self.state = MoveState.COPYING
        self.ended = trio.Event()
        self._copy = FutureCopy(future, quota=context.quota, pieces=context.pieces)
        self._mirror = Mirror(future, self._lost)
        self._error: Exception | None = None
        self._context = context
        self._settled = settled
        self._scope = trio.CancelScope()

    @property
    def key(self) -> TopicPartition:
        return (self.partition.topic, self.partition.partition_id)

    def drop(self) -> None:
        """Give it up, if there is still a way back. `ended` comes in either case."""
        if self.state in DROPPABLE:
            self._scope.cancel()

    async def run(self) -> None:
        """Run to the end, or until `drop`."""
        try:
            with self._scope:
                await self._move()
            if self.state in DROPPABLE:
                await self._remove("it was given up")
        except (DiskError, LogError) as error:
            self._failed(error)
        finally:
            self._unmirror()
            self.ended.set()

    def _change_state(self, state: MoveState) -> None:
        self.state = checked_change(self.state, state)

    async def _move(self) -> None:
        while True:
            try:
                await self._catch_up()
                if await self._take_place():
                    return
            except DescriptorsExhaustedError as error:
                if self.state not in DROPPABLE:
                    raise
                self._back_to_copying()
                log.error(
                    "a move between directories waits", partition=str(self.partition), reason=str(error)
                )
                await trio.sleep(_DESCRIPTORS_WAIT_S)
            except _GivenUpError as given_up:
                if self.state in DROPPABLE:
                    await self._remove(str(given_up))
                return
            except (InvalidBatchError, DamagedLogError) as error:
                if self.state not in DROPPABLE:
                    raise
                await self._remove(f"the replica can't be copied: {error}")
                return
            except DiskFullError as error:
                if self.state not in DROPPABLE or not self._is_of_future(error):
                    raise
                await self._remove(f"the directory is full: {error}")
                return

    async def _catch_up(self) -> None:
        synced = False
        while True:
            self._check()
            if not await self._copy.step(self.partition.log):
                continue
            if synced:
                # Nothing has run since the two were compared.
                self._change_state(MoveState.MIRRORING)
                self.partition.mirror = self._mirror
                return
            # Before the replica's upkeep has to wait for it.
            await self._copy.future.flush()
            synced = True

    async def _take_place(self) -> bool:
        """Let the future replica take its place. Return False if its mirror was taken away meanwhile."""
        settled = self._settled()
        if settled is not None:
            await settled.wait()
        partition, futures = self.partition, self._context.futures
        async with partition.upkeep:
            if not await self._seal():
                self._back_to_copying()
                return False
            await self._mark()
            # The directory that failed is reported already, but metadata names the other one.
            if partition.failure is None:
                self._switch()
            if partition.failure is not None:
                self._change_state(MoveState.FAILED)
                self._report()
                return True
            self._change_state(MoveState.SWITCHED)
            configure(partition, self._context.metadata.config(partition.topic))
            await futures.settle_name(self.key)
            partition.settle_deletions()
        log.info(
            "a replica has moved to another directory",
            partition=str(partition),
            folder=partition.log.folder,
            end_offset=partition.log.end_offset,
        )
        self._report()
        return True

    def _report(self) -> None:
        """Tell the controller where the replica is, if metadata says otherwise."""
        partition, context = self.partition, self._context
        if partition.state is not None and context.hosted.has(partition):
            replica = (partition.topic_id, partition.partition_id)
            context.assignments.report(partition.topic, replica, partition.state)

    def _switch(self) -> None:
        partition = self.partition
        try:
            partition.log = self._context.futures.switch(self.key)
        except DiskError as error:
            partition.fail(str(error))
            self._context.failures.report(DirectoryFailed(self.target, error))
        partition.mirror = None

    async def _seal(self) -> bool:
        """Make what the future replica has durable. Return whether it still has everything, and nothing may
        take that away any more."""
        partition, futures = self.partition, self._context.futures
        folder = self._copy.future.folder
        snapshot = await take(self._context.disk, folder, partition.producers)
        await self._copy.future.flush()
        if snapshot is not None:
            await store(self._context.disk, folder, snapshot)
        futures.seal(self.key)
        await futures.store_start(self.key)
        self._check()
        if partition.mirror is not self._mirror:
            return False
        if self._scope.cancel_called:
            raise _GivenUpError("it was given up")
        # From here on the mirror may become the replica: what it lacks would be lost.
        invariant(
            self._mirror.log.end_offset == partition.log.end_offset,
            "a mirror that is sealed lacks records",
            mirror=self._mirror.log.end_offset,
            log=partition.log.end_offset,
        )
        self._change_state(MoveState.SEALED)
        return True

    async def _mark(self) -> None:
        while True:
            try:
                await self._context.futures.mark_source(self.key)
                return
            except DescriptorsExhaustedError as error:
                # It may be there or not: nothing else may be done before it is.
                log.error(
                    "a move between directories waits", partition=str(self.partition), reason=str(error)
                )
                await trio.sleep(_MARK_RETRY_S)

    def _check(self) -> None:
        """Raise if the move has no sense any more, or the error of the mirror."""
        if self._error is not None:
            raise self._error
        if self.partition.failure is not None:
            self._change_state(MoveState.FAILED)
            raise _GivenUpError("the replica has failed")
        if not self._context.hosted.has(self.partition):
            raise _GivenUpError("the replica is being removed")
        if not self._context.futures.is_usable(self.target):
            self._change_state(MoveState.FAILED)
            raise _GivenUpError("the directory has failed")

    def _back_to_copying(self) -> None:
        self._unmirror()
        self._error = None
        self._context.futures.unseal(self.key)
        if self.state is MoveState.MIRRORING:
            self._change_state(MoveState.COPYING)

    def _unmirror(self) -> None:
        if self.partition.mirror is self._mirror:
            self.partition.mirror = None

    def _lost(self, error: Exception) -> None:
        """The mirror could not take an append."""
        self._unmirror()
        self._error = error
        if self.state is MoveState.SEALED:
            # Its mark may be durable already, and then the record that it lacks would be gone.
            self.partition.fail(str(error))
            self._context.failures.report(DirectoryFailed(self.target, error))

    async def _remove(self, why: str) -> None:
        self._unmirror()
        self._change_state(MoveState.DROPPED)
        log.warning("a move between directories ends", partition=str(self.partition), reason=why)
        await self._context.futures.remove(self.key)

    def _is_of_future(self, error: DiskError) -> bool:
        return self._context.futures.is_inside(error.path, self.target)

    def _failed(self, error: Exception) -> None:
        """Handle an error of either directory. One whose log can't be told is the partition's."""
        partition = self.partition
        if self.state in DROPPABLE or self.state is MoveState.SEALED:
            self._change_state(MoveState.FAILED)
        if partition.failure is not None and not isinstance(error, DiskError):
            return
        if error is self._error or (isinstance(error, DiskError) and self._is_of_future(error)):
            self._context.failures.report(DirectoryFailed(self.target, error))
        else:
            self._context.failures.report(LogFailed(partition, error))


class _GivenUpError(Exception):
    """The move ends, and nothing is wrong with the directories."""
