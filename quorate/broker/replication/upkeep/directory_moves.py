"""The moves of a broker's replicas between its directories: begun by AlterReplicaLogDirs, continued after a
restart, ended with their replicas (KIP-113)."""

import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.metadata.metadata_records import is_reserved
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import DirectoryFailed, Failures
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.topic_settings import log_config
from quorate.broker.replication.storage.folders import PartitionIdentity, fits_future_name
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.upkeep.replica_move import MoveContext, ReplicaMove
from quorate.error_code import ErrorCode
from quorate.log import LogConfig, LogError, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, DiskError, Entropy, Tasks, get_logger

log = get_logger(__name__)


class Retirement:
    """The end of the folder that a replica was moved from: first its records go, then the folder itself. The
    folder with its mark stays until metadata names another directory (`recorded`): a broker that finds
    nothing where metadata says that its replica is would begin an empty log there."""

    def __init__(
        self,
        key: TopicPartition,
        source: uuid.UUID,
        futures: FutureLogs,
        *,
        failures: Failures,
        kept_s: float,
    ) -> None:
        """`kept_s`: for how long readers of the old log may go on."""
        self.key = key
        self.source = source
        self.ended = trio.Event()
        self._futures = futures
        self._kept_s = kept_s
        self._failures = failures
        self._recorded = trio.Event()
        self._scope = trio.CancelScope()

    def recorded(self, directory: uuid.UUID) -> None:
        """Metadata names this directory for the replica."""
        if directory != self.source and not is_reserved(directory):
            self._recorded.set()

    def drop(self) -> None:
        """Stop: the whole replica is being removed."""
        self._scope.cancel()

    async def run(self) -> None:
        """Run until nothing is left, or `drop`."""
        try:
            with self._scope:
                await trio.sleep(self._kept_s)
                await self._futures.empty_departed(self.key)
                await self._recorded.wait()
                await self._futures.forget_departed(self.key)
        except DiskError as error:
            self._failures.report(DirectoryFailed(self.source, error))
        finally:
            self.ended.set()


KEPT_SECONDS: Final = 10.0
"""The time for which the folder of a moved replica keeps its records, for fetches that are reading from it.
(Kafka's `file.delete.delay.ms` is a minute.)"""
_WISHES_MAX: Final = 10_000
_PIECES_AT_ONCE: Final = 4
"""The copies that read and write at one time. The others wait for their turn."""


class DirectoryMoves:
    """The moves of replicas between directories. Clients call `move`; the hosting calls `opened`, `recorded`
    and `leave`."""

    def __init__(
        self,
        logs: LogManager,
        lookups: PartitionLookups,
        context: MoveContext,
        *,
        tasks: Tasks,
        entropy: Entropy,
        kept_s: float = KEPT_SECONDS,
    ) -> None:
        self._logs = logs
        self._context = context
        self._tasks = tasks
        self._entropy = entropy
        self._lookups = lookups
        self._kept_s = kept_s
        self._moves: dict[TopicPartition, ReplicaMove] = {}
        self._retiring: dict[TopicPartition, Retirement] = {}
        self._wishes: OrderedDict[TopicPartition, uuid.UUID] = OrderedDict()
        self._lock = trio.Lock()

    def __len__(self) -> int:
        """Return the number of moves under way."""
        return len(self._moves)

    @staticmethod
    def pieces() -> trio.CapacityLimiter:
        """Return the limit for the copies of one broker."""
        return trio.CapacityLimiter(_PIECES_AT_ONCE)

    def wish(self, key: TopicPartition) -> uuid.UUID | None:
        """Return the usable directory that was asked for before the replica was here."""
        wished = self._wishes.get(key)
        return wished if wished is not None and self._context.futures.is_usable(wished) else None

    async def move(self, topic: str, partition_id: int, path: str) -> None:
        """Begin to move a replica to the directory at `path`. Another move of it ends; the present directory
        ends it too. Raises `PartitionError`."""
        if not fits_future_name(topic, partition_id):
            raise PartitionError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"the name of topic {topic} is too long for the folder of a replica that moves",
            )
        try:
            target = self._logs.folders.at_path(path)
        except DiskError as error:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is offline: {error}") from error
        if target is None:
            raise PartitionError(
                ErrorCode.LOG_DIR_NOT_FOUND,
                f"{path} is no directory of log.dirs of this broker; `quorate log-dirs describe` lists them",
            )
        async with self._lock:
            await self._move((topic, partition_id), target)

    async def _move(self, key: TopicPartition, target: uuid.UUID) -> None:
        running = self._moves.get(key)
        if running is not None and running.target != target:
            running.drop()
            await running.ended.wait()
            running = None
        self._remember(key, target)
        partition = self._hosted(key)
        self._wishes.pop(key, None)
        if self._logs.folders.directory_of(*key) == target or running is not None:
            return
        if self._logs.unused_dirs:
            raise PartitionError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{partition} can't move while a directory is offline: {', '.join(self._logs.unused_dirs)}",
            )
        await self._create(key, partition, target)

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self._context.metadata.config(topic))

    def _remember(self, key: TopicPartition, target: uuid.UUID) -> None:
        self._wishes[key] = target
        self._wishes.move_to_end(key)
        if len(self._wishes) > _WISHES_MAX:
            self._wishes.popitem(last=False)

    def _hosted(self, key: TopicPartition) -> PartitionReplica:
        try:
            partition = self._lookups.partition(*key)
        except PartitionError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                where = self._logs.folders.log_directory_of(*key)
                failed = where is not None and where.failure is not None
                raise PartitionError(
                    ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.REPLICA_NOT_AVAILABLE,
                    f"this broker has no usable replica of {key[0]}-{key[1]}; if it gets one, that is "
                    "made in the directory",
                ) from error
            raise
        if partition.failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, partition.failure)
        return partition

    async def _create(self, key: TopicPartition, partition: PartitionReplica, target: uuid.UUID) -> None:
        futures = self._context.futures
        where = self._logs.folders.log_directory_of(*key)
        identity = PartitionIdentity(partition.topic_id) if where is None else where.identities[key]
        try:
            if futures.find(key) is not None:
                # It is left over from a move that failed.
                await futures.remove(key)
            future = await futures.create(
                key, identity, target, self._entropy.uuid(), self._log_config(partition.topic)
            )
        except DescriptorsExhaustedError as error:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except DiskError as error:
            self._context.failures.report(DirectoryFailed(target, error))
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        log.info("a replica begins to move", partition=str(partition), to=self._logs.folders.path_of(target))
        self._start(ReplicaMove(partition, target, future, self._context, settled=self._settling(key)))

    def _settling(self, key: TopicPartition) -> Callable[[], trio.Event | None]:
        def event() -> trio.Event | None:
            retiring = self._retiring.get(key)
            return None if retiring is None else retiring.ended

        return event

    def _start(self, move: ReplicaMove) -> None:
        async def run() -> None:
            try:
                async with move.partition.compaction.closed("the replica moves to another directory"):
                    await move.run()
            finally:
                if self._moves.get(move.key) is move:
                    del self._moves[move.key]
            self._retire(move.partition, kept_s=self._kept_s)

        if not self._tasks.ended:
            self._moves[move.key] = move
            self._tasks.start(run)

    def _retire(self, partition: PartitionReplica, *, kept_s: float) -> None:
        """Begin to clear the folder that the replica was moved from, if there is one."""
        key = (partition.topic, partition.partition_id)
        source = self._context.futures.departed_from(key)
        if source is None or key in self._retiring or partition.failure is not None or self._tasks.ended:
            return
        retirement = Retirement(
            key, source, self._context.futures, failures=self._context.failures, kept_s=kept_s
        )
        self._retiring[key] = retirement
        if partition.state is not None:
            retirement.recorded(partition.state.directory_of(partition.broker_id))

        async def run() -> None:
            try:
                await retirement.run()
            finally:
                if self._retiring.get(key) is retirement:
                    del self._retiring[key]

        self._tasks.start(run)

    # The replicas

    def opened(self, partition: PartitionReplica) -> None:
        """A replica was opened: go on with the move that an earlier life began, or with the end of one."""
        key = (partition.topic, partition.partition_id)
        self._wishes.pop(key, None)
        self._retire(partition, kept_s=0.0)
        if self._context.futures.find(key) is not None and not self._tasks.ended:
            self._tasks.start(lambda: self._continue(key, partition))

    async def _continue(self, key: TopicPartition, partition: PartitionReplica) -> None:
        futures = self._context.futures
        async with self._lock:
            found = futures.find(key)
            if found is None or key in self._moves or not self._context.hosted.has(partition):
                return
            where, future = found
            here = self._logs.folders.log_directory_of(*key)
            try:
                if where is here or here is None or future.identity != here.identities[key]:
                    await futures.remove(key)
                    return
                opened = await futures.open(key, self._log_config(partition.topic))
            except DescriptorsExhaustedError as error:
                log.error("a future replica can't be opened", path=where.path, reason=str(error))
                return
            except DiskError as error:
                self._context.failures.report(DirectoryFailed(where.id, error))
                return
            except LogError as error:
                log.warning(
                    "a future replica is damaged, and is begun anew", path=where.path, reason=str(error)
                )
                await self._begin_anew(key, partition, where.id)
                return
            log.info("a replica goes on moving", partition=str(partition), to=where.path)
            self._start(ReplicaMove(partition, where.id, opened, self._context, settled=self._settling(key)))

    async def _begin_anew(self, key: TopicPartition, partition: PartitionReplica, target: uuid.UUID) -> None:
        try:
            await self._create(key, partition, target)
        except PartitionError as error:
            log.error("a replica can't move", partition=str(partition), reason=error.message)

    def recorded(self, key: TopicPartition, directory: uuid.UUID) -> None:
        """Metadata names `directory` for the replica."""
        retiring = self._retiring.get(key)
        if retiring is not None:
            retiring.recorded(directory)

    async def leave(self, key: TopicPartition) -> None:
        """Prepare the removal of the replica. A move of it ends first."""
        async with self._lock:
            self._wishes.pop(key, None)
            move = self._moves.get(key)
            if move is not None:
                move.drop()
                await move.ended.wait()
            retiring = self._retiring.get(key)
            if retiring is not None:
                retiring.drop()
                await retiring.ended.wait()
