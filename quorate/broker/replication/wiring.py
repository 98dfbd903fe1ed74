"""The parts that keep and serve the replicas of one broker, wired together."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from quorate.broker.replication.following import FetcherContext, Fetchers, LostLeaders
from quorate.broker.replication.foundation import (
    PartitionCounts,
    Purgatory,
    ReplicationConfig,
    ReplicationQuotas,
    ReplicationStats,
)
from quorate.broker.replication.hosting import (
    AssignDirectories,
    ChangeJournal,
    DirectoryAssignments,
    Hosting,
    MetadataIntake,
    Refetches,
    ReplicaOpening,
    configure,
    log_config,
)
from quorate.broker.replication.producing import BatchChecker
from quorate.broker.replication.replica import (
    AlterPartition,
    DamageReport,
    DiskFailures,
    HostedReplicas,
    IsrUpdater,
    LogStarts,
    PartitionLookups,
    remedy_for,
)
from quorate.broker.replication.serving import (
    DeletionService,
    FetchService,
    FetchSessions,
    LogQueries,
    ParkedFetch,
    ParkedProduce,
    PartitionReader,
    ProduceService,
    SessionFetches,
)
from quorate.broker.replication.storage import DirectoriesView, LogManager
from quorate.broker.replication.upkeep import (
    CleaningStats,
    DirectoryMoves,
    LogCleaner,
    MoveContext,
    Scrubber,
    SpaceWatch,
    Upkeep,
)
from quorate.runtime import Address, Runtime, Tasks


def count_partitions(hosted: HostedReplicas, purgatory: Purgatory) -> PartitionCounts:
    """Count the replicas that are hosted, and the roles of those that are open."""
    partitions = hosted.partitions()
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
        offline_replica_count=hosted.offline,
        damaged_replica_count=hosted.damaged,
        reassigning_partitions=sum(
            each.leading is not None and each.state is not None and each.state.is_reassigning
            for each in partitions
        ),
        delayed_produces=purgatory.count(ParkedProduce),
        delayed_fetches=purgatory.count(ParkedFetch),
    )


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
    """Where another broker listens for brokers."""
    controller_silent_s: Callable[[], float]
    """For how long the controller has not answered this broker."""
    disk_failed: Callable[[Sequence[uuid.UUID]], None]
    """Called with the ids of all failed directories when there may be more."""


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
    directories: DirectoriesView
    moves: DirectoryMoves
    damage: DamageReport
    refetches: Refetches
    lost_leaders: LostLeaders
    journal: ChangeJournal
    stats: ReplicationStats
    cleaning: CleaningStats
    counts: Callable[[], PartitionCounts]
    """Returns gauges over the partitions of this broker."""
    leads_in: Callable[[uuid.UUID], bool]
    """Whether metadata has this broker lead a partition whose replica is in that directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """The parts that run and end with the broker, and what the rest of the node sees of them."""

    replicas: ReplicaServices
    intake: MetadataIntake
    hosted: HostedReplicas
    hosting: Hosting
    failures: DiskFailures
    purgatory: Purgatory
    quotas: ReplicationQuotas
    isr_updater: IsrUpdater
    assignments: DirectoryAssignments
    upkeep: Upkeep
    scrubber: Scrubber
    cleaner: LogCleaner
    space: SpaceWatch
    tasks: Tasks


def assemble(
    context: ReplicationContext, logs: LogManager, *, broker_epoch: Callable[[], int]
) -> ReplicaParts:
    """Make the parts over `logs`. `broker_epoch`: of the newest registration, -1 before it."""
    broker_id, config, runtime = context.broker_id, context.config, context.runtime
    now_ms, session_s = runtime.wall_clock.now_ms, config.broker_session_timeout_ms / 1000
    stats, tasks, purgatory, quotas = ReplicationStats(), Tasks(), Purgatory(), ReplicationQuotas(broker_id)
    hosted = HostedReplicas(broker_id, logs.folders)

    def found_damaged(topic: str, partition_id: int) -> None:
        if config.replica_refetch_damaged:
            refetches.by_itself(topic, partition_id)

    failures = DiskFailures(broker_id, logs, hosted=hosted, report=context.disk_failed, damaged=found_damaged)
    intake = MetadataIntake(
        broker_id,
        hosted=hosted,
        hosting=lambda: hosting,
        folders=logs.folders,
        quotas=quotas,
        static=context.static,
        now_ms=now_ms,
    )
    lookups = PartitionLookups(
        broker_id,
        hosted=hosted,
        image=lambda: intake.image,
        config_of=intake.config,
        controller_silent_s=context.controller_silent_s,
        session_s=session_s,
    )
    scrubber = Scrubber(
        logs,
        interval_ms=config.scrub_interval_ms,
        bytes_per_second=config.scrub_io_max_bytes_per_second,
        disk=runtime.disk,
        find=hosted.find,
        now_ms=now_ms,
        stats=stats,
        found=lambda partition: found_damaged(partition.topic, partition.partition_id),
    )
    reader = PartitionReader(
        lookups.partition,
        disk_failed=failures.failed,
        damaged=scrubber.suspect,
        cut_off=lookups.is_cut_off,
        quotas=quotas,
        stats=stats,
        image=lambda: intake.image,
        selects=config.reads_from_closest_replica,
    )
    checker = BatchChecker(
        runtime.compute, now_ms, uncompressed_max_bytes=config.batch_uncompressed_max_bytes
    )
    sessions = FetchSessions(runtime.entropy, slots=config.max_incremental_fetch_session_cache_slots)
    session_fetches = SessionFetches(
        reader,
        purgatory,
        sessions,
        max_bytes=config.fetch_max_bytes,
        doubtful=lookups.is_controller_silent,
        tells_high_watermarks=config.reads_from_closest_replica,
    )
    queries = LogQueries(
        lookups.partition,
        disk_failed=failures.failed,
        damaged=scrubber.suspect,
        compute=runtime.compute,
        now_ms=now_ms,
        uncompressed_max_bytes=config.batch_uncompressed_max_bytes,
    )
    isr_updater = IsrUpdater(
        broker_id,
        broker_epoch=broker_epoch,
        alter_partition=context.alter_partition,
        retry_s=config.alter_partition_retry_ms / 1000,
    )
    assignments = DirectoryAssignments(
        broker_id, broker_epoch=broker_epoch, assign=context.assign_directories
    )
    log_starts = LogStarts(logs, tasks=tasks, has=lookups.is_served, disk_failed=failures.failed)
    lost_leaders = LostLeaders()
    fetcher_context = FetcherContext(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        connect=context.connect,
        network=runtime.network,
        config=config,
        stats=stats,
        quotas=quotas,
        cutting=lambda partition, offset: logs.cutting(partition.topic, partition.partition_id, offset),
        disk_failed=failures.failed,
        log_starts_raised=log_starts.raised,
        lost=lost_leaders,
    )
    move_context = MoveContext(
        disk=runtime.disk,
        futures=logs.futures,
        quota=quotas.moves,
        pieces=DirectoryMoves.pieces(),
        is_served=lookups.is_served,
        configure=lambda partition: configure(partition, intake.config(partition.topic)),
        report=lambda partition: hosting.report(partition),
        disk_failed=failures.failed,
        directory_failed=failures.directory_failed,
    )
    moves = DirectoryMoves(
        logs,
        move_context,
        tasks=tasks,
        entropy=runtime.entropy,
        find=lookups.partition,
        log_config=lambda topic: log_config(intake.config(topic)),
    )
    opening = ReplicaOpening(
        broker_id,
        config,
        logs,
        disk=runtime.disk,
        topic_config=intake.config,
        eligible=intake.eligible,
        propose=isr_updater.submit,
        stats=stats,
        disk_failed=failures.failed,
    )
    hosting = Hosting(
        broker_id,
        config,
        logs,
        hosted,
        opening=opening,
        tasks=tasks,
        fetchers=Fetchers(fetcher_context, tasks),
        assignments=assignments,
        moves=moves,
        failed=failures.cant_open,
        remedy=lambda topic, partition_id: remedy_for(topic, partition_id, broker_id),
        damaged=found_damaged,
        journal=intake.journal,
    )
    refetches = Refetches(
        broker_id,
        hosting=hosting,
        hosted=hosted,
        broker_epoch=broker_epoch,
        assign=context.assign_directories,
        entropy=runtime.entropy,
        tasks=tasks,
        timeout_s=session_s,
    )
    upkeep = Upkeep(
        config,
        logs,
        hosted,
        disk=runtime.disk,
        topic_config=intake.config,
        disk_failed=failures.failed,
        now_ms=now_ms,
    )
    space = SpaceWatch(
        logs,
        disk=runtime.disk,
        warn_percent=config.free_warn_percent,
        warn_bytes=config.free_warn_bytes,
        stats=stats,
    )
    cleaner = LogCleaner(
        config,
        logs,
        partitions=hosted.each,
        is_served=lookups.is_served,
        wall_clock=runtime.wall_clock,
        compute=runtime.compute,
        disk_failed=failures.failed,
    )
    replicas = ReplicaServices(
        lookups=lookups,
        produces=ProduceService(lookups.writable, purgatory, checker, stats),
        fetches=FetchService(reader, purgatory, max_bytes=config.fetch_max_bytes),
        sessions=sessions,
        session_fetches=session_fetches,
        deletions=DeletionService(lookups.deletable, purgatory, log_starts.raised),
        queries=queries,
        directories=logs,
        moves=moves,
        damage=DamageReport(hosted, logs.folders),
        refetches=refetches,
        lost_leaders=lost_leaders,
        journal=intake.journal,
        stats=stats,
        cleaning=cleaner.stats,
        counts=partial(count_partitions, hosted, purgatory),
        leads_in=hosted.leads_in,
    )
    return ReplicaParts(
        replicas=replicas,
        intake=intake,
        hosted=hosted,
        hosting=hosting,
        failures=failures,
        purgatory=purgatory,
        quotas=quotas,
        isr_updater=isr_updater,
        assignments=assignments,
        upkeep=upkeep,
        scrubber=scrubber,
        cleaner=cleaner,
        space=space,
        tasks=tasks,
    )
