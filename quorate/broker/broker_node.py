"""The broker of this node: replicas, groups and the listeners that clients connect to."""

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from quorate.broker.apis import (
    Broker,
    ClientThrottles,
    ClusterMetadataReader,
    Dispatcher,
    LeaderReadiness,
    ProducerIdSource,
    TopicCreator,
    error_table,
    features_of,
)
from quorate.broker.controller.rpc import ControllerRequest, ControllerResponse
from quorate.broker.controller_channel import ControllerChannel, ControllerTimedOutError
from quorate.broker.failure_reports import FailureReports
from quorate.broker.group_log import OffsetsLog
from quorate.broker.groups import OFFSETS_TOPIC, GroupConfig, GroupCoordinator, GroupLimits, OffsetRetention
from quorate.broker.lifecycle import BrokerLifecycle, ControllerContact, Identity, LifecycleTimes
from quorate.broker.metadata import (
    ALL_BROKERS,
    BrokerEndpoint,
    MetadataDelta,
    MetadataImage,
    PartitionDelta,
    connection_rate_of,
    dynamic_values,
    overrides_of,
    refused_settings,
)
from quorate.broker.metadata_cache import MetadataCache, whole_image
from quorate.broker.replication import ReplicaManager, ReplicationConfig, ReplicationContext
from quorate.broker.replication.changes import ChangeSummary
from quorate.broker.replication.storage import BadDirectory, Directory
from quorate.broker.settings import RACK_AWARE, ServerConfig
from quorate.broker.wire import ConnectionQuotas, ConnectionRules, KafkaServerConfig, WireServer
from quorate.raft import Quorum
from quorate.runtime import Address, Listener, QuotaWindows, Runtime, get_logger

log = get_logger(__name__)

R = TypeVar("R", bound=ControllerResponse)

_ELECTIONS_WAITED = 2
"""For so many election timeouts without a leader a stopping broker waits before it goes without leave."""
_LOSS_PAUSE_S = 0.1
"""Connections that break as soon as they are used cost no more heartbeats than one in so long."""


class BrokerNode:
    """Open with `open`, then run within `running`."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        cluster_id: str,
        metadata: MetadataCache,
        quorum: Quorum[None],
        channel: ControllerChannel,
        lifecycle: BrokerLifecycle,
        reports: FailureReports,
        manager: ReplicaManager,
        groups: GroupCoordinator,
        listeners: Sequence[Listener],
        advertised: tuple[BrokerEndpoint, ...],
        runtime: Runtime,
        connect: Callable[[int], Address | None],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._metadata = metadata
        self._quorum = quorum
        self._channel = channel
        self._listeners = listeners
        self.advertised = advertised
        self._runtime = runtime
        self._connect = connect
        self.lifecycle = lifecycle
        self._reports = reports
        self._manager = manager
        self.replicas = manager.replicas
        self.groups = groups
        self.throttles = ClientThrottles(lambda: metadata.image, QuotaWindows())
        self.connections = ConnectionQuotas(
            connection_rules(config),
            protected=config.inter_broker_listener if len(config.client_listeners) > 1 else None,
            rate_of=lambda address: connection_rate_of(metadata.image, address),
        )

    @classmethod
    async def open(
        cls,
        config: ServerConfig,
        *,
        cluster_id: str,
        directories: Sequence[Directory | BadDirectory],
        advertised: tuple[BrokerEndpoint, ...],
        listeners: Sequence[Listener],
        metadata: MetadataCache,
        quorum: Quorum[None],
        channel: ControllerChannel,
        runtime: Runtime,
    ) -> "BrokerNode":
        """Scan the data folders, `directories`. Raises what `ReplicaManager.open` does."""
        broker_id = config.node_id

        async def ask(request: ControllerRequest[R]) -> R:
            return await channel.ask(request, timeout_seconds=config.seconds("broker.session.timeout.ms"))

        def connect(other: int) -> Address | None:
            held = metadata.image.broker(other)
            endpoint = None if held is None else held.endpoint(config.inter_broker_listener)
            return None if endpoint is None else Address(endpoint.host, endpoint.port)

        contact, times = ControllerContact(), lifecycle_times(config)
        reports = FailureReports(timeout_s=times.directory_failure_timeout)

        def report_failure(directories: Sequence[uuid.UUID]) -> None:
            reports.failed(directories)
            contact.hurry()

        context = ReplicationContext(
            broker_id=broker_id,
            config=replication_config(config),
            runtime=runtime,
            static=config.static,
            alter_partition=ask,
            assign_directories=ask,
            connect=connect,
            controller_silent_s=contact.silent_s,
            disk_failed=report_failure,
        )
        manager = await ReplicaManager.open(context, directories)
        intake, replicas = manager.intake, manager.replicas

        def changes() -> ChangeSummary:
            if intake.began:
                return intake.changes
            # It acts upon nothing before it has all that is older than its registration.
            return ChangeSummary(acted_offset=metadata.offset, completed_offset=metadata.offset)

        lifecycle = BrokerLifecycle(
            Identity(
                broker_id=broker_id,
                cluster_id=cluster_id,
                incarnation_id=runtime.entropy.uuid(),
                listeners=advertised,
                rack=config.rack,
            ),
            times=times,
            channel=channel,
            metadata=metadata,
            contact=contact,
            log_dirs=lambda: replicas.directories.online_ids,
            failed_dirs=lambda: replicas.directories.failed_ids,
            proof=replicas.directories.proof,
            changes=changes,
            registered=manager.registered,
            reported=reports.reported,
        )

        def partition_count() -> int:
            topic = metadata.image.topic(OFFSETS_TOPIC)
            return 0 if topic is None else len(metadata.image.partitions(topic.topic_id))

        def partition_exists(topic: str, partition: int) -> bool:
            held = metadata.image.topic(topic)
            return held is not None and metadata.image.partition(held.topic_id, partition) is not None

        groups = GroupCoordinator(
            group_config(config),
            OffsetsLog(replicas, runtime.wall_clock, timeout_ms=config.int("offsets.commit.timeout.ms")),
            partition_count=partition_count,
            partition_exists=partition_exists,
            entropy=runtime.entropy,
            wall_clock=runtime.wall_clock,
        )
        return cls(
            config,
            cluster_id=cluster_id,
            metadata=metadata,
            quorum=quorum,
            channel=channel,
            lifecycle=lifecycle,
            reports=reports,
            manager=manager,
            groups=groups,
            listeners=listeners,
            advertised=advertised,
            runtime=runtime,
            connect=connect,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the background; at the end of the block hand partitions over and close the logs.

        Whether or not a controller let it go, what it has is synced then, and it proves that when it is back.
        """
        clean = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._reports.run, self.replicas.leads_in)
                nursery.start_soon(self.lifecycle.run)
                nursery.start_soon(self._greet_leaders)
                nursery.start_soon(self._show_life)
                nursery.start_soon(self._replicate)
                nursery.start_soon(self.groups.run)
                nursery.start_soon(self._start_serving, nursery)
                yield
                await self._leave()
                clean = True
                self._metadata.unsubscribe(self._metadata_changed)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._manager.close(clean=clean)

    async def _greet_leaders(self) -> None:
        async for leadership in self._quorum.leadership_changes():
            if leadership.leader is not None:
                self.lifecycle.leader_changed()

    async def _show_life(self) -> None:
        """Whoever sees this node's connection break may take its process for dead. So it says at once that it
        lives."""
        async for _ in self._quorum.lost_connections():
            self.lifecycle.connection_lost()
            await trio.sleep(_LOSS_PAUSE_S)

    async def _replicate(self) -> None:
        try:
            await self._manager.run()
        finally:
            # The quorum goes on for a while, and no replica can be opened any more.
            self._metadata.unsubscribe(self._metadata_changed)

    async def _start_serving(self, nursery: trio.Nursery) -> None:
        await self.lifecycle.wait_caught_up()
        # From here on to the subscription without a pause: no batch may fall between the two.
        self._metadata_changed(whole_image(self._metadata.image), self._metadata.image)
        self._metadata.subscribe(self._metadata_changed)
        broker = Broker(
            config=self._config,
            cluster_id=self._cluster_id,
            metadata=self._metadata,
            quorum=self._quorum,
            channel=self._channel,
            replicas=self.replicas,
            groups=self.groups,
            cluster_metadata=ClusterMetadataReader(self._quorum, self._metadata),
            topics=TopicCreator(self._config, self._channel, self._metadata, self._quorum),
            producer_ids=ProducerIdSource(
                self._channel,
                broker_id=self._config.node_id,
                broker_epoch=lambda: self.lifecycle.broker_epoch,
            ),
            leaders=LeaderReadiness(
                self._runtime.network,
                broker_id=self._config.node_id,
                metadata=self._metadata,
                lookups=self.replicas.lookups,
                connect=self._connect,
                tasks=nursery,
            ),
            throttles=self.throttles,
            tasks=nursery,
        )
        dispatcher, errors = Dispatcher(broker), error_table()
        servers: list[WireServer] = []
        self._reconfigure(self._metadata.image)
        for asked, listener in zip(self._config.client_listeners, self._listeners, strict=True):
            wire = WireServer(
                listener,
                dispatcher,
                wire_config(self._config),
                errors=errors,
                features=lambda: features_of(self._metadata, self._quorum),
                listener_name=asked.name,
                quotas=self.connections,
                times=self.throttles,
            )
            servers.append(wire)
        # A connection waits unanswered until this node's own metadata has it as a broker that serves: who is
        # there before the cluster must not be shown an empty one, which some clients believe for minutes.
        self.lifecycle.allow_unfencing()
        await self.lifecycle.wait_unfenced()
        for wire in servers:
            nursery.start_soon(wire.run)

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for resource in delta.configs:
            for name, why in refused_settings(image, resource):
                log.warning("ignoring a stored setting", resource=resource.name, name=name, reason=why)
        if any(each in (ALL_BROKERS, self._config.static.resource) for each in delta.configs):
            self._reconfigure(image)
        if delta.quotas:
            self.throttles.quotas_changed()
        self._manager.intake.apply(delta, image, then=self._coordinate)

    def _reconfigure(self, image: MetadataImage) -> None:
        """Put the settings that may change while the broker runs into effect."""
        config = self._config.with_dynamic(dynamic_values(image, self._config.static))
        self._manager.reconfigure(replication_config(config))
        self.connections.reconfigure(connection_rules(config))

    def _coordinate(self, each: PartitionDelta) -> None:
        if each.after is None:
            self.groups.expiry.partition_deleted(each.topic, each.partition_id)
        if each.topic == OFFSETS_TOPIC:
            after = each.after
            if after is not None and after.leader == self._config.node_id:
                self.groups.elect(each.partition_id, after.leader_epoch)
            else:
                self.groups.resign(each.partition_id)

    async def _leave(self) -> None:
        """Let others lead its partitions, if there is a controller to arrange it."""
        if not self._config.flag("controlled.shutdown.enable"):
            return
        with trio.move_on_after(self._config.seconds("controlled.shutdown.timeout.ms")):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._give_up_without_controllers, nursery.cancel_scope)
                try:
                    await self.lifecycle.shut_down()
                    return
                except ControllerTimedOutError as error:
                    log.warning("controlled shutdown failed", reason=str(error))
                finally:
                    nursery.cancel_scope.cancel()
        log.warning("controlled shutdown was not granted", broker_id=self._config.node_id)

    async def _give_up_without_controllers(self, scope: trio.CancelScope) -> None:
        """The last nodes of a cluster that is stopped have no quorum to ask, and nobody to lead instead."""
        limit = self._config.seconds("controller.quorum.election.timeout.ms") * _ELECTIONS_WAITED
        while True:
            with trio.move_on_after(limit) as waited:
                await self._quorum.wait_leader()
            if waited.cancelled_caught:
                scope.cancel()
                return
            await trio.sleep(limit / 10)


def replication_config(config: ServerConfig) -> ReplicationConfig:
    return ReplicationConfig(
        replica_lag_time_max_ms=config.int("replica.lag.time.max.ms"),
        replica_fetch_wait_max_ms=config.int("replica.fetch.wait.max.ms"),
        replica_fetch_min_bytes=config.int("replica.fetch.min.bytes"),
        replica_fetch_max_bytes=config.int("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=config.int("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=config.int("replica.fetch.backoff.ms"),
        replica_fetch_backoff_min_ms=config.int("replica.fetch.backoff.min.ms"),
        replica_socket_timeout_ms=config.int("replica.socket.timeout.ms"),
        replica_high_watermark_checkpoint_interval_ms=config.int(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        log_flush_offset_checkpoint_interval_ms=config.int("log.flush.offset.checkpoint.interval.ms"),
        log_retention_check_interval_ms=config.int("log.retention.check.interval.ms"),
        log_cleaner_enable=config.flag("log.cleaner.enable"),
        log_cleaner_threads=config.int("log.cleaner.threads"),
        log_cleaner_backoff_ms=config.int("log.cleaner.backoff.ms"),
        log_cleaner_io_max_bytes_per_second=float(config.values["log.cleaner.io.max.bytes.per.second"]),
        log_cleaner_dedupe_buffer_size=config.int("log.cleaner.dedupe.buffer.size"),
        producer_id_expiration_ms=config.int("producer.id.expiration.ms"),
        log_close_timeout_ms=config.int("log.close.timeout.ms"),
        alter_partition_retry_ms=config.int("alter.partition.retry.ms"),
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        log_dir_failure_timeout_ms=config.int("log.dir.failure.timeout.ms"),
        reads_from_closest_replica=config.values["replica.selector.class"] == RACK_AWARE,
        fetch_max_bytes=config.int("fetch.max.bytes"),
        max_incremental_fetch_session_cache_slots=config.int("max.incremental.fetch.session.cache.slots"),
        batch_uncompressed_max_bytes=config.int("socket.request.max.bytes"),
        replica_refetch_damaged=config.flag("quorate.replica.refetch.damaged"),
        free_warn_percent=config.int("quorate.log.dir.free.warn.percent"),
        free_warn_bytes=config.int("quorate.log.dir.free.warn.bytes"),
        scrub_interval_ms=config.int("quorate.log.scrub.interval.ms"),
        scrub_io_max_bytes_per_second=config.int("quorate.log.scrub.io.max.bytes.per.second"),
    )


def lifecycle_times(config: ServerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat_interval=config.seconds("broker.heartbeat.interval.ms"),
        session_timeout=config.seconds("broker.session.timeout.ms"),
        registration_timeout=config.seconds("initial.broker.registration.timeout.ms"),
        directory_failure_timeout=config.seconds("log.dir.failure.timeout.ms"),
    )


def group_config(config: ServerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        limits=GroupLimits(
            initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
            max_size=config.int("group.max.size"),
        ),
        offset_metadata_max_bytes=config.int("offset.metadata.max.bytes"),
        retention=OffsetRetention(
            retention_ms=config.int("offsets.retention.minutes") * 60_000,
            check_interval_ms=config.int("offsets.retention.check.interval.ms"),
        ),
    )


def connection_rules(config: ServerConfig) -> ConnectionRules:
    return ConnectionRules(
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        per_ip_overrides=overrides_of(config.values["max.connections.per.ip.overrides"]),
        creation_rate=config.int("max.connection.creation.rate"),
    )


def wire_config(config: ServerConfig) -> KafkaServerConfig:
    return KafkaServerConfig(
        connections=connection_rules(config),
        request_max_bytes=config.int("socket.request.max.bytes"),
        queued_max_request_bytes=config.int("queued.max.request.bytes"),
        idle_timeout_s=config.seconds("connections.max.idle.ms"),
    )
