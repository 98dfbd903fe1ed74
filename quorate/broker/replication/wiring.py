"""The parts that keep and serve the replicas of one broker, made in order and wired together."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from quorate.broker.replication.following.fetcher import FetcherContext, Fetchers
from quorate.broker.replication.following.lost_leaders import LostLeaders
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.failures import (
    DamageFound,
    DirectoryFailed,
    Failures,
    OpeningFailed,
)
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.replication_quota import ReplicationQuotas
from quorate.broker.replication.foundation.stats import PartitionCounts, ReplicationStats
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.metadata_intake import MetadataIntake
from quorate.broker.replication.hosting.refetches import Refetches
from quorate.broker.replication.hosting.replica_opening import ReplicaOpening
from quorate.broker.replication.hosting.state_changes import ChangeJournal
from quorate.broker.replication.producing.batch_check import BatchChecker
from quorate.broker.replication.replica.directory_assignments import AssignDirectories, DirectoryAssignments
from quorate.broker.replication.replica.disk_failures import DiskFailures
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.isr_updater import AlterPartition, IsrUpdater
from quorate.broker.replication.replica.log_starts import LogStarts
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.replication.replica.partition_replica import DamageRead, LogFailed, ReplicaContext
from quorate.broker.replication.serving.delete_records import DeletionService
from quorate.broker.replication.serving.fetch_sessions import FetchSessions
from quorate.broker.replication.serving.incremental_fetch import SessionFetches
from quorate.broker.replication.serving.log_queries import LogQueries
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.replication.serving.plain_fetch import FetchService, ParkedFetch
from quorate.broker.replication.serving.produce_service import ParkedProduce, ProduceService
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.upkeep.cleaning_choice import CleaningStats
from quorate.broker.replication.upkeep.directory_moves import DirectoryMoves
from quorate.broker.replication.upkeep.log_cleaner import LogCleaner
from quorate.broker.replication.upkeep.replica_move import MoveContext
from quorate.broker.replication.upkeep.scrubber import Scrubber
from quorate.broker.replication.upkeep.space_watch import SpaceWatch
from quorate.broker.replication.upkeep.upkeep import Upkeep
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.runtime import Address, Runtime, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationContext:
    """The broker as its replicas see it."""

    broker_id: int
    config: ReplicationConfig
    runtime: Runtime
    static: Mapping[str, str]
    """The node's server.properties."""
    alter_partition: AlterPartition
    assign_directories: AssignDirectories
    connect: Callable[[int], Address | None]
    """Returns where another broker listens for brokers."""
    controller_silent_s: Callable[[], float]
    """Returns for how long the controller has not answered this broker."""
    disk_failed: Callable[[Sequence[uuid.UUID]], None]
    """Called with the ids of all failed directories when there may be more."""

    @property
    def session_s(self) -> float:
        """The silence after which a broker counts as dead, in seconds."""
        return self.config.broker_session_timeout_ms / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaServices:
    """The replicas of this broker, as the rest of the node sees them: one part for each kind of question."""

    lookups: PartitionLookups
    produces: ProduceService
    fetches: FetchService
    sessions: FetchSessions
    session_fetches: SessionFetches
    deletions: DeletionService
    queries: LogQueries
    directories: LogManager
    moves: DirectoryMoves
    refetches: Refetches
    lost_leaders: LostLeaders
    journal: ChangeJournal
    stats: ReplicationStats
    cleaning: CleaningStats
    hosted: HostedReplicas
    purgatory: Purgatory

    def counts(self) -> PartitionCounts:
        """Count the replicas that are hosted, and the roles of those that are open."""
        partitions = self.hosted.partitions()
        leaders = [each.leading for each in partitions if each.leading is not None]
        min_isr = {each.leading: each.min_isr for each in partitions if each.leading is not None}
        return PartitionCounts(
            partition_count=len(partitions),
            leader_count=len(leaders),
            under_replicated_partitions=sum(len(each.isr.committed) < len(each.replicas) for each in leaders),
            under_min_isr_partition_count=sum(each.under_min_isr(min_isr[each]) for each in leaders),
            at_min_isr_partition_count=sum(
                len(each.isr.committed) == each.effective_min_isr(min_isr[each]) for each in leaders
            ),
            offline_replica_count=self.hosted.offline,
            damaged_replica_count=self.hosted.damaged,
            reassigning_partitions=sum(
                each.leading is not None and each.state is not None and each.state.is_reassigning
                for each in partitions
            ),
            delayed_produces=self.purgatory.count(ParkedProduce),
            delayed_fetches=self.purgatory.count(ParkedFetch),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The parts that all others use. They need none of them."""

    logs: LogManager
    metadata: CurrentMetadata
    failures: Failures
    hosted: HostedReplicas
    lookups: PartitionLookups
    log_starts: LogStarts
    disk_failures: DiskFailures
    purgatory: Purgatory
    quotas: ReplicationQuotas
    stats: ReplicationStats
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageParts:
    """The parts that work on logs beside the requests."""

    upkeep: Upkeep
    scrubber: Scrubber
    cleaner: LogCleaner
    space: SpaceWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleParts:
    """The parts that bring replicas to what the metadata says, and tell the controller of them."""

    isr_updater: IsrUpdater
    assignments: DirectoryAssignments
    lost_leaders: LostLeaders
    moves: DirectoryMoves
    journal: ChangeJournal
    hosting: Hosting
    refetches: Refetches
    intake: MetadataIntake


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """All parts of a broker's replication, and what the rest of the node sees of them."""

    base: Base
    storage: StorageParts
    roles: RoleParts
    replicas: ReplicaServices


def assemble(context: ReplicationContext, logs: LogManager) -> ReplicaParts:
    """Make the parts over `logs`, each after those that it uses. Only failures go the other way: their
    handlers are subscribed here, when all parts are made and before any of them runs."""
    base = _base(context, logs)
    storage = _storage_parts(context, base)
    roles = _role_parts(context, base)
    replicas = _services(context, base, storage, roles)
    failures, disks = base.failures, base.disk_failures
    failures.subscribe(LogFailed, disks.log_failed)
    failures.subscribe(DirectoryFailed, disks.directory_failed)
    failures.subscribe(OpeningFailed, disks.opening_failed)
    failures.subscribe(DamageRead, storage.scrubber.suspect)
    if context.config.replica_refetch_damaged:
        failures.subscribe(DamageFound, roles.refetches.by_itself)
    return ReplicaParts(base=base, storage=storage, roles=roles, replicas=replicas)


def _base(context: ReplicationContext, logs: LogManager) -> Base:
    metadata, failures, tasks = CurrentMetadata(context.static), Failures(), Tasks()
    hosted = HostedReplicas(context.broker_id, logs.folders)
    return Base(
        logs=logs,
        metadata=metadata,
        failures=failures,
        hosted=hosted,
        lookups=PartitionLookups(
            context.broker_id,
            hosted,
            metadata,
            controller_silent_s=context.controller_silent_s,
            session_s=context.session_s,
        ),
        log_starts=LogStarts(logs, hosted, failures, tasks),
        disk_failures=DiskFailures(
            context.broker_id, logs, hosted, failures, tell_controller=context.disk_failed
        ),
        purgatory=Purgatory(),
        quotas=ReplicationQuotas(context.broker_id),
        stats=ReplicationStats(),
        tasks=tasks,
    )


def _storage_parts(context: ReplicationContext, base: Base) -> StorageParts:
    config, runtime = context.config, context.runtime
    logs, hosted, failures = base.logs, base.hosted, base.failures
    return StorageParts(
        upkeep=Upkeep(
            config,
            logs,
            hosted,
            base.metadata,
            failures,
            disk=runtime.disk,
            now_ms=runtime.wall_clock.now_ms,
        ),
        scrubber=Scrubber(
            logs,
            hosted,
            failures,
            interval_ms=config.scrub_interval_ms,
            bytes_per_second=config.scrub_io_max_bytes_per_second,
            disk=runtime.disk,
            now_ms=runtime.wall_clock.now_ms,
            stats=base.stats,
        ),
        cleaner=LogCleaner(
            config, logs, hosted, failures, wall_clock=runtime.wall_clock, compute=runtime.compute
        ),
        space=SpaceWatch(
            logs,
            disk=runtime.disk,
            warn_percent=config.free_warn_percent,
            warn_bytes=config.free_warn_bytes,
            stats=base.stats,
        ),
    )


def _role_parts(context: ReplicationContext, base: Base) -> RoleParts:
    broker_id, config, runtime = context.broker_id, context.config, context.runtime
    logs, metadata, hosted, tasks = base.logs, base.metadata, base.hosted, base.tasks
    isr_updater = IsrUpdater(
        broker_id,
        metadata,
        alter_partition=context.alter_partition,
        retry_s=config.alter_partition_retry_ms / 1000,
    )
    assignments = DirectoryAssignments(broker_id, metadata, logs.folders, assign=context.assign_directories)
    lost_leaders, journal = LostLeaders(), ChangeJournal()
    moves = DirectoryMoves(
        logs, base.lookups, _move_context(context, base, assignments), tasks=tasks, entropy=runtime.entropy
    )
    hosting = Hosting(
        broker_id,
        config,
        logs,
        hosted,
        opening=ReplicaOpening(_replica_context(context, base, isr_updater), logs),
        tasks=tasks,
        fetchers=Fetchers(_fetcher_context(context, base, lost_leaders), tasks),
        assignments=assignments,
        moves=moves,
        failures=base.failures,
        journal=journal,
    )
    refetches = Refetches(
        broker_id,
        metadata,
        hosted,
        hosting,
        assign=context.assign_directories,
        entropy=runtime.entropy,
        tasks=tasks,
        timeout_s=context.session_s,
    )
    intake = MetadataIntake(
        broker_id,
        metadata,
        hosted,
        hosting,
        journal,
        folders=logs.folders,
        quotas=base.quotas,
        now_ms=runtime.wall_clock.now_ms,
    )
    return RoleParts(
        isr_updater=isr_updater,
        assignments=assignments,
        lost_leaders=lost_leaders,
        moves=moves,
        journal=journal,
        hosting=hosting,
        refetches=refetches,
        intake=intake,
    )


def _replica_context(context: ReplicationContext, base: Base, isr_updater: IsrUpdater) -> ReplicaContext:
    return ReplicaContext(
        broker_id=context.broker_id,
        disk=context.runtime.disk,
        lag_s=context.config.replica_lag_time_max_ms / 1000,
        metadata=base.metadata,
        proposals=isr_updater,
        failures=base.failures,
        stats=base.stats,
    )


def _fetcher_context(context: ReplicationContext, base: Base, lost: LostLeaders) -> FetcherContext:
    return FetcherContext(
        broker_id=context.broker_id,
        metadata=base.metadata,
        connect=context.connect,
        network=context.runtime.network,
        config=context.config,
        stats=base.stats,
        quotas=base.quotas,
        logs=base.logs,
        log_starts=base.log_starts,
        failures=base.failures,
        lost=lost,
    )


def _move_context(context: ReplicationContext, base: Base, assignments: DirectoryAssignments) -> MoveContext:
    return MoveContext(
        disk=context.runtime.disk,
        futures=base.logs.futures,
        quota=base.quotas.moves,
        pieces=DirectoryMoves.pieces(),
        hosted=base.hosted,
        metadata=base.metadata,
        assignments=assignments,
        failures=base.failures,
    )


def _services(
    context: ReplicationContext, base: Base, storage: StorageParts, roles: RoleParts
) -> ReplicaServices:
    config, runtime = context.config, context.runtime
    lookups, purgatory, stats = base.lookups, base.purgatory, base.stats
    reader = PartitionReader(
        lookups.partition,
        base.failures,
        base.metadata,
        cut_off=lookups.is_cut_off,
        quotas=base.quotas,
        stats=stats,
        selects=config.reads_from_closest_replica,
    )
    checker = BatchChecker(
        runtime.compute,
        runtime.wall_clock.now_ms,
        uncompressed_max_bytes=config.batch_uncompressed_max_bytes,
    )
    sessions = FetchSessions(runtime.entropy, slots=config.max_incremental_fetch_session_cache_slots)
    return ReplicaServices(
        lookups=lookups,
        produces=ProduceService(lookups.writable, purgatory, checker, stats),
        fetches=FetchService(reader, purgatory, max_bytes=config.fetch_max_bytes),
        sessions=sessions,
        session_fetches=SessionFetches(
            reader,
            purgatory,
            sessions,
            max_bytes=config.fetch_max_bytes,
            doubtful=lookups.is_controller_silent,
            tells_high_watermarks=config.reads_from_closest_replica,
        ),
        deletions=DeletionService(lookups.deletable, purgatory, base.log_starts, base.failures),
        queries=LogQueries(
            lookups,
            base.failures,
            compute=runtime.compute,
            now_ms=runtime.wall_clock.now_ms,
            uncompressed_max_bytes=config.batch_uncompressed_max_bytes,
        ),
        directories=base.logs,
        moves=roles.moves,
        refetches=roles.refetches,
        lost_leaders=roles.lost_leaders,
        journal=roles.journal,
        stats=stats,
        cleaning=storage.cleaner.stats,
        hosted=base.hosted,
        purgatory=purgatory,
    )
