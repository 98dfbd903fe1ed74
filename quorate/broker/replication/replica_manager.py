"""All replicas on this broker: takes committed metadata in, and answers what clients and followers ask."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

import trio

from quorate.broker.metadata import (
    MetadataDelta,
    MetadataImage,
    PartitionDelta,
)
from quorate.broker.replication.changes import ChangeSummary
from quorate.broker.replication.damage import DiskFailures, Refetches, Scrubber, SpaceWatch, remedy_for
from quorate.broker.replication.following import FetcherContext, Fetchers, LostLeaders
from quorate.broker.replication.gauges import count_partitions
from quorate.broker.replication.hosting import HostedReplicas, Hosting, ReplicaOpening, configure, log_config
from quorate.broker.replication.metadata_intake import MetadataIntake
from quorate.broker.replication.partition_lookups import PartitionLookups
from quorate.broker.replication.producing import BatchChecker
from quorate.broker.replication.proposals import (
    AlterPartition,
    AssignDirectories,
    DirectoryAssignments,
    IsrUpdater,
)
from quorate.broker.replication.purgatory import Purgatory
from quorate.broker.replication.replica import PartitionReplica, ReplicationQuotas
from quorate.broker.replication.replication_config import ReplicationConfig
from quorate.broker.replication.replication_errors import AllDirectoriesFailedError, PartitionError
from quorate.broker.replication.requests import (
    DeleteRecordsItem,
    DescribedProducer,
    EpochEndResult,
    FetchOptions,
    FetchResult,
    OffsetResult,
    ProduceItem,
    SessionRef,
    TopicRef,
)
from quorate.broker.replication.serving import (
    DeletionService,
    FetchService,
    FetchSession,
    FetchSessions,
    ParkedDeletions,
    ParkedFetch,
    ParkedProduce,
    PartitionKey,
    PartitionReader,
    ProduceService,
    QuietRead,
    SessionFetches,
    find_offset,
)
from quorate.broker.replication.stats import PartitionCounts, ReplicationStats
from quorate.broker.replication.storage import (
    BadDirectory,
    Directory,
    DirectoryReport,
    LogManager,
    LogStarts,
    Proof,
    SetAsideFolder,
)
from quorate.broker.replication.storage.cleaning import CleaningStats, LogCleaner
from quorate.broker.replication.storage.moves import DirectoryMoves, MoveContext
from quorate.broker.replication.upkeep import Upkeep
from quorate.error_code import ErrorCode
from quorate.log import DamagedRange
from quorate.runtime import Address, DiskError, Runtime, Slices, Tasks, get_logger
from quorate.types import UNKNOWN_EPOCH, Epoch

log = get_logger(__name__)

__all__ = ["ParkedProduce", "ReplicaManager"]


class ReplicaManager:
    """The replicas of a broker. Open it with `open`. It serves while `run` runs. Call `close` last."""

    __slots__ = (
        "_assignments",
        "_broker_epoch",
        "_cleaner",
        "_compute",
        "_config",
        "_deletions",
        "_failures",
        "_fetches",
        "_hosted",
        "_hosting",
        "_intake",
        "_isr_updater",
        "_logs",
        "_lookups",
        "_moves",
        "_produces",
        "_purgatory",
        "_quotas",
        "_refetches",
        "_scrubber",
        "_session_fetches",
        "_space",
        "_tasks",
        "_upkeep",
        "_wall_clock",
        "broker_id",
        "journal",
        "lost_leaders",
        "sessions",
        "stats",
    )

    def __init__(
        self,
        broker_id: int,
        config: ReplicationConfig,
        logs: LogManager,
        *,
        runtime: Runtime,
        static: Mapping[str, str],
        alter_partition: AlterPartition,
        assign_directories: AssignDirectories,
        connect: Callable[[int], Address | None],
        controller_silent_s: Callable[[], float],
        disk_failed: Callable[[Sequence[uuid.UUID]], None],
    ) -> None:
        self.broker_id = broker_id
        self.stats = ReplicationStats()
        self._config = config
        self._compute = runtime.compute
        self._wall_clock = runtime.wall_clock
        self._logs = logs
        self._broker_epoch = -1
        self._hosted = HostedReplicas(broker_id, logs.folders)
        self._failures = DiskFailures(
            broker_id,
            logs,
            hosted=self._hosted,
            report=disk_failed,
            damaged=self._found_damaged,
        )
        self._purgatory = Purgatory()
        self._quotas = ReplicationQuotas(broker_id)
        self._intake = MetadataIntake(
            broker_id,
            hosted=self._hosted,
            hosting=lambda: self._hosting,
            folders=logs.folders,
            quotas=self._quotas,
            static=static,
            now_ms=runtime.wall_clock.now_ms,
        )
        self.journal = self._intake.journal
        config_of = self._intake.config
        self._lookups = PartitionLookups(
            hosted=self._hosted,
            image=lambda: self._intake.image,
            config_of=config_of,
            controller_silent_s=controller_silent_s,
            session_s=config.broker_session_timeout_ms / 1000,
        )
        self._produces = ProduceService(
            self._lookups.writable,
            self._purgatory,
            BatchChecker(
                runtime.compute,
                runtime.wall_clock.now_ms,
                uncompressed_max_bytes=config.batch_uncompressed_max_bytes,
            ),
            self.stats,
        )
        reader = PartitionReader(
            self._lookups.partition,
            disk_failed=self._failures.failed,
            damaged=lambda partition, error: self._scrubber.suspect(partition, error),
            cut_off=self._lookups.is_cut_off,
            quotas=self._quotas,
            stats=self.stats,
            image=lambda: self._intake.image,
            selects=config.reads_from_closest_replica,
        )
        self._fetches = FetchService(reader, self._purgatory, max_bytes=config.fetch_max_bytes)
        self.sessions = FetchSessions(runtime.entropy, slots=config.max_incremental_fetch_session_cache_slots)
        self._session_fetches = SessionFetches(
            reader,
            self._purgatory,
            self.sessions,
            max_bytes=config.fetch_max_bytes,
            doubtful=self._lookups.is_controller_silent,
            tells_high_watermarks=config.reads_from_closest_replica,
        )
        self._isr_updater = IsrUpdater(
            broker_id,
            broker_epoch=lambda: self._broker_epoch,
            alter_partition=alter_partition,
            retry_s=config.alter_partition_retry_ms / 1000,
        )
        self._assignments = DirectoryAssignments(
            broker_id, broker_epoch=lambda: self._broker_epoch, assign=assign_directories
        )
        self._tasks = Tasks()
        log_starts = LogStarts(
            logs, tasks=self._tasks, has=self._lookups.is_served, disk_failed=self._failures.failed
        )
        self._deletions = DeletionService(self._lookups.deletable, self._purgatory, log_starts.raised)
        self.lost_leaders = LostLeaders()
        fetcher_context = FetcherContext(
            broker_id=broker_id,
            broker_epoch=lambda: self._broker_epoch,
            connect=connect,
            network=runtime.network,
            config=config,
            stats=self.stats,
            quotas=self._quotas,
            cutting=lambda partition, offset: logs.cutting(partition.topic, partition.partition_id, offset),
            disk_failed=self._failures.failed,
            log_starts_raised=log_starts.raised,
            lost=self.lost_leaders,
        )
        self._moves = DirectoryMoves(
            logs,
            MoveContext(
                disk=runtime.disk,
                futures=logs.futures,
                quota=self._quotas.moves,
                pieces=DirectoryMoves.pieces(),
                is_served=self._lookups.is_served,
                configure=lambda partition: configure(partition, config_of(partition.topic)),
                report=lambda partition: self._hosting.report(partition),
                disk_failed=self._failures.failed,
                directory_failed=self._failures.directory_failed,
            ),
            tasks=self._tasks,
            entropy=runtime.entropy,
            find=self._lookups.partition,
            log_config=lambda topic: log_config(config_of(topic)),
        )
        opening = ReplicaOpening(
            broker_id,
            config,
            logs,
            disk=runtime.disk,
            topic_config=config_of,
            eligible=self._intake.eligible,
            propose=self._isr_updater.submit,
            stats=self.stats,
            disk_failed=self._failures.failed,
        )
        self._hosting = Hosting(
            broker_id,
            config,
            logs,
            self._hosted,
            opening=opening,
            tasks=self._tasks,
            fetchers=Fetchers(fetcher_context, self._tasks),
            assignments=self._assignments,
            moves=self._moves,
            failed=self._failures.cant_open,
            remedy=lambda topic, partition_id: remedy_for(topic, partition_id, broker_id),
            damaged=self._found_damaged,
            journal=self.journal,
        )
        self._upkeep = Upkeep(
            config,
            logs,
            self._hosted,
            disk=runtime.disk,
            topic_config=config_of,
            disk_failed=self._failures.failed,
            now_ms=runtime.wall_clock.now_ms,
        )
        self._scrubber = Scrubber(
            logs,
            interval_ms=config.scrub_interval_ms,
            bytes_per_second=config.scrub_io_max_bytes_per_second,
            disk=runtime.disk,
            find=self._hosted.find,
            now_ms=runtime.wall_clock.now_ms,
            stats=self.stats,
            found=lambda partition: self._found_damaged(partition.topic, partition.partition_id),
        )
        self._space = SpaceWatch(
            logs,
            disk=runtime.disk,
            warn_percent=config.free_warn_percent,
            warn_bytes=config.free_warn_bytes,
            stats=self.stats,
        )
        self._refetches = Refetches(
            broker_id,
            hosting=self._hosting,
            hosted=self._hosted,
            broker_epoch=lambda: self._broker_epoch,
            assign=assign_directories,
            entropy=runtime.entropy,
            tasks=self._tasks,
            timeout_s=config.broker_session_timeout_ms / 1000,
        )
        self._cleaner = LogCleaner(
            config,
            logs,
            partitions=self._hosted.each,
            is_served=self._lookups.is_served,
            wall_clock=runtime.wall_clock,
            compute=runtime.compute,
            disk_failed=self._failures.failed,
        )

    @classmethod
    async def open(
        cls,
        broker_id: int,
        config: ReplicationConfig,
        directories: Sequence[Directory | BadDirectory],
        *,
        runtime: Runtime,
        static: Mapping[str, str],
        alter_partition: AlterPartition,
        assign_directories: AssignDirectories,
        connect: Callable[[int], Address | None],
        controller_silent_s: Callable[[], float],
        disk_failed: Callable[[Sequence[uuid.UUID]], None],
    ) -> "ReplicaManager":
        """Scan `directories`, the directories of `log.dirs`. `static`: the node's server.properties.
        `connect`: returns the address of another broker for brokers. `controller_silent_s`: returns the
        time since the controller's last answer to this broker. `disk_failed` is called with all
        `failed_dirs` when one may have been added. Raises the errors of `LogManager.open`."""
        logs = await LogManager.open(
            runtime.disk, directories, now_ms=runtime.wall_clock.now_ms, boot_id=runtime.boot_id
        )
        return cls(
            broker_id,
            config,
            logs,
            runtime=runtime,
            static=static,
            alter_partition=alter_partition,
            assign_directories=assign_directories,
            connect=connect,
            controller_silent_s=controller_silent_s,
            disk_failed=disk_failed,
        )

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Apply the fields of `config` that may change while a broker runs."""
        self._upkeep.producer_id_expiration_ms = config.producer_id_expiration_ms
        self._cleaner.reconfigure(config)

    def online_dirs(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that work. The broker registers them."""
        return self._logs.online_ids

    def failed_dirs(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that have failed since the start. The controller removes their
        replicas from ISRs and ELRs."""
        return self._logs.failed_ids

    def unusable_directories(self) -> tuple[str, ...]:
        """The directories of `log.dirs` that were bad at the start, or have failed since."""
        return self._logs.unused_dirs

    def log_directories(self) -> list[DirectoryReport]:
        """Describe the directories of `log.dirs` and the logs in them."""
        return self._logs.reports()

    async def move_replica(self, topic: str, partition_id: int, path: str) -> None:
        """Begin to move a replica of this broker to the directory at `path` (AlterReplicaLogDirs). Raises
        `PartitionError`."""
        await self._moves.move(topic, partition_id, path)

    def leads_in(self, directory: uuid.UUID) -> bool:
        """Return whether this broker leads, as far as it knows, a partition with its replica in
        `directory`."""
        return self._hosted.leads_in(directory)

    @property
    def proof(self) -> Proof:
        """The broker's newest life whose data is complete; see `LogManager.proof`."""
        return self._logs.proof

    @property
    def complete_epoch(self) -> int:
        """The broker epoch of `proof`; -1 if there is none."""
        return self._logs.complete_epoch

    def registered(self, broker_epoch: int) -> None:
        """Send `broker_epoch` with this broker's requests from now on."""
        self._broker_epoch = broker_epoch
        self._logs.registered(broker_epoch)

    async def run(self) -> None:
        """Run until cancelled. Raises `AllDirectoriesFailedError` when no directory is left,
        or that of the metadata log has failed."""
        async with self._tasks.running() as nursery:
            nursery.start_soon(self._purgatory.run)
            nursery.start_soon(self.sessions.run)
            nursery.start_soon(self._isr_updater.run)
            nursery.start_soon(self._assignments.run)
            nursery.start_soon(self._upkeep.run)
            nursery.start_soon(self._scrubber.run)
            nursery.start_soon(self._cleaner.run)
            nursery.start_soon(self._space.run)
            nursery.start_soon(self._intake.run)
            try:
                await self._failures.out_of_folders.wait()
            finally:
                self._hosting.end()
            raise AllDirectoriesFailedError(
                f"no directory of log.dirs can be used any more, or not that of the metadata log: "
                f"{', '.join(self._logs.failed_dirs)}; see the errors logged before, mend the disk, and "
                "start again"
            )

    async def close(self, *, clean: bool) -> None:
        """Stop serving, and close the logs. `clean`: the broker was asked to stop. It then leaves the mark
        of an orderly shutdown, if everything was loaded (KAFKA-15375) and synced. Without the mark the
        next life proves nothing."""
        if not clean:
            self._logs.forsake()
        complete = self._intake.complete and self._hosted.settled
        for partition in self._hosted.partitions():
            partition.stop()
        try:
            with trio.move_on_after(self._config.log_close_timeout_ms / 1000) as closing:
                await self._upkeep.flush_all()
                clean = clean and complete and not self._logs.failed_dirs
                await self._logs.close(clean_epoch=self._broker_epoch if clean else None)
            if closing.cancelled_caught:
                log.error(
                    "the disk did not sync the logs in time; the next start recovers them",
                    timeout_ms=self._config.log_close_timeout_ms,
                )
        except DiskError as error:
            self._logs.forsake()
            log.error(
                "the logs could not be closed in order; the next start recovers them", reason=str(error)
            )
        finally:
            self._logs.abandon()

    # Metadata

    def apply(
        self,
        delta: MetadataDelta,
        image: MetadataImage,
        *,
        then: Callable[[PartitionDelta], None] = lambda each: None,
    ) -> None:
        """Apply the changes of committed records; see `MetadataIntake.apply`."""
        self._intake.apply(delta, image, then=then)

    @property
    def began(self) -> bool:
        """True once any metadata was applied."""
        return self._intake.began

    @property
    def changes(self) -> ChangeSummary:
        """The state changes of this broker's replicas: the backlog and the journal."""
        return self._intake.changes

    # Lookups

    def partition(self, topic: TopicRef, partition_id: int) -> PartitionReplica:
        """Return the replica. Raises `PartitionError` if this broker does not have it, or not yet."""
        return self._lookups.partition(topic, partition_id)

    def is_cut_off(self, topic: TopicRef, partition_id: int) -> bool:
        """Return whether clients of this partition should look for another leader."""
        return self._lookups.sends_clients_away(topic, partition_id)

    @property
    def any_cut_off(self) -> bool:
        """True if clients of any partition should look for another leader."""
        return self._lookups.any_cut_off

    # Requests

    async def produce(
        self, items: Sequence[ProduceItem], *, acks: int, timeout_ms: int, zstd: bool = True
    ) -> ParkedProduce:
        """Check a client's batches, then append them (see `append`). Returns when the append is done.
        Large batches let other tasks run, so concurrent calls have no order. `zstd`: whether the client's
        version of Produce supports it."""
        return await self._produces.produce(items, acks=acks, timeout_ms=timeout_ms, zstd=zstd)

    def append(
        self, items: Sequence[ProduceItem], *, acks: int, timeout_ms: int, internal: bool = False
    ) -> ParkedProduce:
        """Append batches that need no check, to each partition, at once. The answer is `done` when `acks`
        (0, 1 or -1 for all) is satisfied or `timeout_ms` is over. `internal`: the batches are from this
        broker itself."""
        return self._produces.append(items, acks=acks, timeout_ms=timeout_ms, internal=internal)

    async def delete_records(self, items: Sequence[DeleteRecordsItem], *, timeout_ms: int) -> ParkedDeletions:
        """Delete records at the start of partitions that this broker leads (KIP-107). Returns when it is
        done here. The result is `done` when the live followers have done it too, or `timeout_ms` is over."""
        return await self._deletions.delete(items, timeout_ms=timeout_ms)

    async def begin_fetch(
        self, options: FetchOptions, *, again: bool = False
    ) -> list[FetchResult] | ParkedFetch:
        """Begin a fetch. Return the answer if it need not wait; see `FetchService.begin`."""
        return await self._fetches.begin(options, again=again)

    def begin_fetch_again(self, options: FetchOptions, quiet: QuietRead) -> ParkedFetch | None:
        """Begin a fetch that repeats one without records; see `FetchService.begin_again`."""
        return self._fetches.begin_again(options, quiet)

    async def fetch(self, options: FetchOptions) -> list[FetchResult]:
        """Fetch, and wait if necessary."""
        return await self._fetches.fetch(options)

    async def enter_session(
        self, ref: SessionRef, options: FetchOptions, forgotten: Sequence[PartitionKey]
    ) -> FetchSession | None:
        """Return the session of a fetch; see `SessionFetches.enter`."""
        return await self._session_fetches.enter(ref, options, forgotten)

    async def begin_session_fetch(
        self, session: FetchSession, options: FetchOptions
    ) -> list[FetchResult] | ParkedFetch:
        """Begin a fetch after `enter_session`; see `SessionFetches.begin`."""
        return await self._session_fetches.begin(session, options)

    async def list_offset(
        self,
        topic: TopicRef,
        partition_id: int,
        *,
        timestamp: int,
        current_leader_epoch: Epoch = UNKNOWN_EPOCH,
    ) -> OffsetResult:
        """Return the offset for ListOffsets. `timestamp` -1: the high watermark; -2 and -4: the log start;
        -3: the record with the newest timestamp; -5 and -6 (tiered storage): none. Otherwise: the first
        record at or after `timestamp` (ms)."""
        try:
            partition = self.partition(topic, partition_id)
            partition.check_leading(current_leader_epoch)
            return await find_offset(
                partition,
                timestamp,
                self._failures.failed,
                damaged=self._scrubber.suspect,
                compute=self._compute,
                uncompressed_max_bytes=self._config.batch_uncompressed_max_bytes,
            )
        except PartitionError as error:
            return OffsetResult(error=error.code)

    def offset_for_leader_epoch(
        self,
        topic: TopicRef,
        partition_id: int,
        *,
        leader_epoch: Epoch,
        current_leader_epoch: Epoch = UNKNOWN_EPOCH,
    ) -> EpochEndResult:
        """Return the end offset of a leader epoch, for OffsetForLeaderEpoch (KIP-101, KIP-279)."""
        try:
            partition = self.partition(topic, partition_id)
            partition.check_leading(current_leader_epoch)
        except PartitionError as error:
            return EpochEndResult(error=error.code)
        found = partition.log.end_offset_for_epoch(leader_epoch)
        if found is None:
            return EpochEndResult()
        return EpochEndResult(leader_epoch=found.epoch, end_offset=found.end_offset)

    def producers(self, topic: TopicRef, partition_id: int) -> Iterator[DescribedProducer]:
        """Yield the idempotent producers of a replica, leader or follower, each in its state when it is
        yielded. Raises `PartitionError`."""
        partition = self.partition(topic, partition_id)
        if partition.failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, partition.failure)
        return partition.producers.described(self._wall_clock.now_ms)

    # Damage

    def _found_damaged(self, topic: str, partition_id: int) -> None:
        if self._config.replica_refetch_damaged:
            self._refetches.by_itself(topic, partition_id)

    async def refetch(self, topic: str, partition_id: int) -> str:
        """Set the log of a replica of this broker aside, and fetch it anew from the leader; see
        `Refetches`. Return the path of the old log. Raises `PartitionError`."""
        return await self._refetches.refetch(topic, partition_id)

    async def damages(self) -> list[tuple[str, int, DamagedRange | str]]:
        """Return topic, partition and damage: an unreadable range of offsets, or the reason why the log
        can't be opened."""
        found, slices = list[tuple[str, int, DamagedRange | str]](), Slices()
        for each in self._hosted.damages():
            if each is not None:
                found.append(each)
            await slices.pause()
        return found

    def damaged_folders(self) -> list[SetAsideFolder]:
        """Return the folders of damaged logs that were set aside."""
        return self._logs.folders.damaged_folders()

    # Watching

    @property
    def cleaning(self) -> CleaningStats:
        """The statistics of this broker's compactions."""
        return self._cleaner.stats

    def counts(self) -> PartitionCounts:
        """Return gauges over the partitions of this broker."""
        return count_partitions(
            self._hosted.partitions(),
            offline_replicas=self._hosted.offline,
            damaged_replicas=self._hosted.damaged,
            purgatory=self._purgatory,
        )
