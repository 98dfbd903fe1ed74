"""The replicas of this broker: their logs are opened and removed, and their roles follow the metadata.

Metadata arrives without waiting, opening a log takes time: so each partition has the state that it should be
in, and at most one task that brings it there. A partition that is open takes its new role at once.
"""

import uuid
from contextlib import AsyncExitStack
from functools import partial

import trio

from quorate.broker.metadata.metadata_records import is_reserved
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.following.fetcher import Fetchers
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import DamageFound, Failures, OpeningFailed
from quorate.broker.replication.hosting.replica_opening import ReplicaOpening, may_open
from quorate.broker.replication.hosting.state_changes import (
    Cause,
    ChangeJournal,
    ChangeKind,
    RoleLines,
    kind_of,
)
from quorate.broker.replication.replica.directory_assignments import DirectoryAssignments
from quorate.broker.replication.replica.disk_failures import remedy_for
from quorate.broker.replication.replica.hosted_replicas import HeldReplica, Hosted, HostedReplicas
from quorate.broker.replication.replica.partition_replica import PartitionReplica, RoleChange
from quorate.broker.replication.storage.folders import PartitionIdentity
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.upkeep.directory_moves import DirectoryMoves
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.error_code import ErrorCode
from quorate.invariant import invariant
from quorate.log import DamagedLogError, LogError
from quorate.present import present
from quorate.runtime import DescriptorsExhaustedError, DiskError, Tasks, get_logger, uuid_text
from quorate.types import Epoch

log = get_logger(__name__)

_GIVE_UP_SECONDS = 10.0
"""The pause between two reports of a damaged replica that has to lead: somebody else may be back by then."""
_DESCRIPTORS_WAIT_SECONDS = 10.0
"""The pause between two tries to open a log while descriptors are short."""


class Hosting:
    """Hosts and drops replicas as metadata says. Its `tasks` open and remove logs."""

    def __init__(
        self,
        broker_id: int,
        config: ReplicationConfig,
        logs: LogManager,
        replicas: HostedReplicas,
        *,
        opening: ReplicaOpening,
        tasks: Tasks,
        fetchers: Fetchers,
        assignments: DirectoryAssignments,
        moves: DirectoryMoves,
        failures: Failures,
        journal: ChangeJournal,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._opening = opening
        self._tasks = tasks
        self._fetchers = fetchers
        self._assignments = assignments
        self._moves = moves
        self._failures = failures
        self._journal = journal
        self._lines = RoleLines()

    def end(self) -> None:
        """Log no more changes of roles. Metadata goes on arriving for a while."""
        self._lines.finish()

    def host(
        self,
        topic: str,
        topic_id: uuid.UUID,
        partition_id: int,
        state: PartitionState,
        *,
        first_epoch: Epoch,
        cause: Cause,
    ) -> None:
        """Bring this broker's replica to a committed state. `first_epoch`: with which the partition began;
        `cause`: the records that say so."""
        key, identity = (topic, partition_id), PartitionIdentity(topic_id, first_epoch)
        hosted = self._replicas.by_name.get(key)
        before: PartitionState | None = None
        if hosted is None:
            hosted = self._replicas.by_name[key] = Hosted(identity, state)
        elif hosted.identity != identity:
            earlier = hosted.identity.topic_id
            if hosted.target is not None:
                self._journal.begin(topic, earlier, partition_id, ChangeKind.DELETE, None, cause)
            self._forget(hosted, partition_id)
            hosted.identity, hosted.target = identity, state
        else:
            before, hosted.target = hosted.target, state
        kind = kind_of(self._broker_id, before, state)
        self._journal.begin(topic, topic_id, partition_id, kind, state, cause)
        if hosted.held is not None:
            hosted.held.hear(self._broker_id, state)
        elif before is not None:
            partition = hosted.partition
            if partition is not None and not hosted.busy and not partition.lock.locked():
                self._take_in(partition, state)
                return
        self._bring(key, hosted)

    def drop(self, topic: str, topic_id: uuid.UUID, partition_id: int, *, cause: Cause) -> None:
        """Stop serving a replica that this broker no longer has, and delete its data."""
        key = (topic, partition_id)
        hosted = self._replicas.by_name.get(key)
        if hosted is None:
            hosted = self._replicas.by_name[key] = Hosted(PartitionIdentity(topic_id), None)
        elif hosted.identity.topic_id != topic_id:
            return  # of an earlier topic of this name, which is gone already
        self._journal.begin(topic, topic_id, partition_id, ChangeKind.DELETE, None, cause)
        self._forget(hosted, partition_id)
        hosted.target = None
        self._bring(key, hosted)

    def _forget(self, hosted: Hosted, partition_id: int) -> None:
        """Stop serving the partition. Its data is deleted, even if the same replica returns at once."""
        partition, hosted.partition = hosted.partition, None
        hosted.stale, hosted.starved_at, hosted.removed = True, None, hosted.identity
        hosted.damage = hosted.held = hosted.fresh = None
        self._assignments.forget((hosted.identity.topic_id, partition_id))
        if partition is not None:
            hosted.leaving = partition
            partition.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._replicas.by_id.pop((partition.topic_id, partition.partition_id), None)
            self._fetchers.unfollow(partition)

    def _bring(self, key: tuple[str, int], hosted: Hosted) -> None:
        # Metadata goes on arriving for a while when tasks have ended.
        if not self._tasks.ended and not hosted.busy:
            hosted.busy = True
            self._tasks.start(partial(self._settle, key, hosted))

    async def _settle(self, key: tuple[str, int], hosted: Hosted) -> None:
        try:
            while not await self._try_step(key, hosted):
                pass
        finally:
            hosted.busy = False
            self._replicas.end_opening(key)

    async def _try_step(self, key: tuple[str, int], hosted: Hosted) -> bool:
        try:
            return await self._step(key, hosted)
        except DescriptorsExhaustedError as error:
            log.error("a replica can't be opened for now", topic=key[0], partition=key[1], reason=str(error))
            self._journal.hindered(hosted.identity.topic_id, key[1], str(error))
            self._starved(key, hosted)
            self._later(key, hosted)
            return True
        except DamagedLogError as error:
            self._damaged(key, hosted, str(error))
            return not hosted.stale
        except (DiskError, LogError) as error:
            log.error(
                "a replica can't be opened or removed", topic=key[0], partition=key[1], reason=str(error)
            )
            hosted.starved_at = None
            self._failures.report(OpeningFailed(*key, error))
            problem = str(error)
        topic_id = hosted.identity.topic_id
        # A folder that could not even be made may be made in another directory.
        ended = hosted.target is None or hosted.stale
        if hosted.target is not None and not hosted.stale:
            self._report(key, topic_id, hosted.target)
            placed = self._logs.folders.directory_of(*key) is not None
            ended = placed or hosted.target.directory_of(self._broker_id) in self._logs.failed_ids
        if ended:
            self._journal.failed(topic_id, key[1], problem, now=trio.current_time())
        else:
            self._journal.hindered(topic_id, key[1], problem)
        return ended

    def _damaged(self, key: tuple[str, int], hosted: Hosted, problem: str) -> None:
        """Note that the log can't be opened, but the disk works: the other replicas in the directory go on,
        and another member of the ISR leads instead of this one."""
        if hosted.damage is None:
            log.error(
                "a replica is damaged",
                topic=key[0],
                partition=key[1],
                reason=problem,
                remedy=remedy_for(*key, self._broker_id),
            )
        hosted.damage, hosted.starved_at = problem, None
        self._failures.report(DamageFound(*key))
        topic_id = hosted.identity.topic_id
        self._journal.failed(topic_id, key[1], problem, now=trio.current_time())
        self._give_up(key, hosted)
        if not hosted.gives_up and not self._tasks.ended:
            hosted.gives_up = True
            self._tasks.start(partial(self._go_on_giving_up, key, hosted))

    def _give_up(self, key: tuple[str, int], hosted: Hosted) -> None:
        if hosted.target is not None and hosted.target.leader == self._broker_id:
            self._assignments.give_up((hosted.identity.topic_id, key[1]))

    async def _go_on_giving_up(self, key: tuple[str, int], hosted: Hosted) -> None:
        while self._replicas.by_name.get(key) is hosted:
            await trio.sleep(_GIVE_UP_SECONDS)
            if hosted.damage is None:
                break
            self._give_up(key, hosted)
        hosted.gives_up = False

    def hold(self, topic: str, partition_id: int) -> HeldReplica:
        """Let a replica go on in its present role, and take no other until `release`: its log is about to be
        set aside, and must not be fetched for in a later leader epoch. Raises `PartitionError`."""
        key = (topic, partition_id)
        hosted = self._replicas.by_name.get(key)
        if hosted is None or hosted.target is None or hosted.stale:
            raise PartitionError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no replica of {topic}-{partition_id}"
            )
        if hosted.busy or hosted.held is not None:
            raise PartitionError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"{topic}-{partition_id} is being opened or set aside"
            )
        where = self._logs.folders.log_directory_of(*key)
        if where is None or where.failure is not None:
            raise PartitionError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the directory of {topic}-{partition_id} is offline"
            )
        epoch = hosted.target.partition_epoch
        hosted.held = HeldReplica(topic, hosted.identity.topic_id, partition_id, epoch)
        # An earlier report would count it as here again.
        self._assignments.forget((hosted.identity.topic_id, partition_id))
        return hosted.held

    def release(self, held: HeldReplica) -> None:
        """Take the role that metadata gives the replica by now, with or without its log."""
        key = (held.topic, held.partition_id)
        hosted = self._replicas.by_name.get(key)
        if hosted is not None and hosted.held is held:
            hosted.held = None
            self._bring(key, hosted)

    async def set_aside(self, held: HeldReplica, unique: uuid.UUID) -> str:
        """Set the log of a replica aside that has `left`; it begins anew with `release`. Return the folder's
        path now. Raises `PartitionError`; the directory fails then if it was the disk."""
        key = (held.topic, held.partition_id)
        hosted = self._replicas.by_name.get(key)
        if hosted is None or hosted.held is not held or not held.left.is_set():
            raise PartitionError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{held.topic}-{held.partition_id} has gone meanwhile"
            )
        directory, partition = self._logs.folders.directory_of(*key), hosted.partition
        hosted.busy, hosted.partition = True, None
        try:
            if partition is not None:
                self._fetchers.unfollow(partition)
                partition.stop()
                self._replicas.by_id.pop((partition.topic_id, partition.partition_id), None)
            await self._moves.leave(key)
            async with AsyncExitStack() as locks:
                if partition is not None:
                    # Tasks at work in its folder must end first.
                    await locks.enter_async_context(partition.upkeep)
                    await locks.enter_async_context(partition.lock)
                path = await self._logs.folders.set_aside(*key, unique)
            hosted.damage, hosted.fresh = None, directory
        except DiskError as error:
            self._failures.report(OpeningFailed(*key, error))
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        finally:
            hosted.busy = False
            if hosted.stale:
                self._bring(key, hosted)
        return path

    def _report(self, key: tuple[str, int], topic_id: uuid.UUID, state: PartitionState) -> None:
        """Compare the directory that metadata records with the one that the replica is in."""
        self._moves.recorded(key, state.directory_of(self._broker_id))
        self._assignments.report(key[0], (topic_id, key[1]), state)

    def _may_open(self, key: tuple[str, int], hosted: Hosted, target: PartitionState) -> bool:
        moved = hosted.fresh or self._logs.futures.departed_to(key)
        if moved is not None:
            # The controller may count on the folder that is left. It must learn of the move, above all
            # if this folder can't be opened.
            self._report(key, hosted.identity.topic_id, target)
        where = self._logs.folders.log_directory_of(*key)
        allowed = may_open(
            target,
            self._broker_id,
            found=None if where is None else where.id,
            moved=moved,
            own=self._logs.own_ids,
            all_usable=self._logs.all_usable,
        )
        if not allowed and not hosted.waits:
            directory = target.directory_of(self._broker_id) if moved is None else moved
            log.warning(
                "a replica is offline: the directory that it is recorded in isn't here; start the broker "
                "with it in log.dirs, or let a replica elsewhere lead (docs/how-to/replace-a-disk.md)",
                topic=key[0],
                partition=key[1],
                directory_id="unknown" if is_reserved(directory) else uuid_text(directory),
            )
        if not allowed:
            problem = "the directory that the replica is recorded in isn't here"
            self._journal.failed(hosted.identity.topic_id, key[1], problem, now=trio.current_time())
        hosted.waits = not allowed
        return allowed

    def _starved(self, key: tuple[str, int], hosted: Hosted) -> None:
        """Let another replica lead for now. The disk is fine, but a leader must be able to serve."""
        now = trio.current_time()
        if hosted.partition is not None or hosted.target is None:
            return
        if hosted.starved_at is None:
            hosted.starved_at = now
        patience_s = self._config.log_dir_failure_timeout_ms / 1000
        others = len(hosted.target.isr) > 1
        if hosted.target.leader == self._broker_id and others and now - hosted.starved_at >= patience_s:
            log.warning(
                "giving up the lead of a replica that can't be opened", topic=key[0], partition=key[1]
            )
            self._assignments.give_up((hosted.identity.topic_id, key[1]))

    def _later(self, key: tuple[str, int], hosted: Hosted) -> None:
        async def wait() -> None:
            await trio.sleep(_DESCRIPTORS_WAIT_SECONDS)
            if self._replicas.by_name.get(key) is hosted:
                self._bring(key, hosted)

        if not self._tasks.ended:
            self._tasks.start(wait)

    async def _step(self, key: tuple[str, int], hosted: Hosted) -> bool:
        """Take one step towards the target. Return True when it is reached and nothing has changed
        meanwhile."""
        if hosted.stale:
            hosted.stale = False
            removed = hosted.removed or hosted.identity
            try:
                await self._remove(key, hosted)
            except (DiskError, LogError) as error:
                now = trio.current_time()
                self._journal.failed(removed.topic_id, key[1], str(error), now=now)
                raise
            if hosted.target is None or removed.topic_id != hosted.identity.topic_id:
                self._completed(removed.topic_id, key[1])
            return False
        identity = hosted.identity
        if hosted.target is None:
            self._replicas.by_name.pop(key, None)
            return True
        if hosted.held is not None:
            return True
        if hosted.partition is None:
            if not self._may_open(key, hosted, hosted.target):
                return True
            directory = hosted.target.directory_of(self._broker_id)
            if is_reserved(directory):
                directory = hosted.fresh or self._moves.wish(key) or directory
            async with self._opening.turns:
                if hosted.stale:
                    return False  # removed while it waited for its turn
                partition = await self._opening.open(key, identity, hosted.target, directory)
            if hosted.stale:
                partition.log.close()
                return False
            invariant(
                partition.topic_id == hosted.identity.topic_id, "a log of another topic was opened", key=key
            )
            hosted.partition, hosted.starved_at, hosted.damage, hosted.fresh = partition, None, None, None
            self._replicas.by_id[identity.topic_id, key[1]] = partition
            self._moves.opened(partition)
            # No request has found it yet: nothing has run since it was opened.
            self._take_in(partition, hosted.target)
            return True
        partition = hosted.partition
        # A truncation finishes first. Nothing runs between the release and what follows.
        async with partition.lock:
            pass
        if hosted.partition is not partition or hosted.target is None:
            return False  # stale meanwhile
        self._take_in(partition, hosted.target)
        return True

    async def _remove(self, key: tuple[str, int], hosted: Hosted) -> None:
        leaving, hosted.leaving = hosted.leaving, None
        await self._moves.leave(key)
        if leaving is None:
            await self._logs.folders.remove(*key)
            return
        # Tasks at work in its folder must end first.
        async with leaving.compaction.closed("the replica is being removed"), leaving.upkeep, leaving.lock:
            await self._logs.folders.remove(*key)

    def _take_in(self, partition: PartitionReplica, state: PartitionState) -> None:
        if self._tasks.ended:
            return
        self._report((partition.topic, partition.partition_id), partition.topic_id, state)
        if partition.failure is not None:
            now = trio.current_time()
            self._journal.failed(partition.topic_id, partition.partition_id, partition.failure, now=now)
            return
        change = partition.apply(state)
        if change is RoleChange.FOLLOWER:
            self._fetchers.follow(partition, present(partition.following, "the role of a follower"))
        elif change in (RoleChange.LEADER, RoleChange.STOPPED):
            self._fetchers.unfollow(partition)
        if change not in (RoleChange.NONE, RoleChange.ISR):
            self._lines.changed(partition, change, state)
        self._completed(partition.topic_id, partition.partition_id)

    def _completed(self, topic_id: uuid.UUID, partition_id: int) -> None:
        change = self._journal.completed(topic_id, partition_id, now=trio.current_time())
        if change is not None:
            self._lines.completed(change)
