"""The broker of this node: replicas, groups and the listeners that clients connect to."""

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import trio

from quorate.broker.access.certificates import BrokerNetwork, principal_of
from quorate.broker.access.scram_credentials import MetadataCredentials, has_password
from quorate.broker.access.sealing import Sealer
from quorate.broker.access.signed_tokens import SignedTokens, tokens_of
from quorate.broker.access.standard_authorizer import configured_authorizer
from quorate.broker.access.token_keys import TokenKeysError
from quorate.broker.apis.api_table import Dispatcher, error_table
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.cluster_metadata import ClusterMetadataReader
from quorate.broker.apis.context import Broker
from quorate.broker.apis.features import features_of
from quorate.broker.apis.leader_readiness import LeaderReadiness
from quorate.broker.apis.producer_ids import ProducerIdSource
from quorate.broker.apis.topic_creation import TopicCreator
from quorate.broker.controller.rpc import ControllerRequest, ControllerResponse
from quorate.broker.controller_channel import ControllerChannel, ControllerTimedOutError
from quorate.broker.failure_reports import FailureReports
from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, OffsetsLog
from quorate.broker.lifecycle import BrokerLifecycle, ControllerContact, Identity
from quorate.broker.metadata.configs import ALL_BROKERS, dynamic_values, refused_settings
from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata.quota_precedence import connection_rate_of
from quorate.broker.metadata_cache import MetadataCache, whole_image
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.replication.hosting.state_changes import ChangeSummary
from quorate.broker.replication.replica_manager import ReplicaManager
from quorate.broker.replication.storage.log_directory import BadDirectory, Directory
from quorate.broker.replication.wiring import ReplicationContext
from quorate.broker.wire.connection_quotas import ConnectionQuotas
from quorate.broker.wire.exchanges import ConnectionContext
from quorate.broker.wire.kafka_server import WireServer
from quorate.broker.wire.sasl.login import LoginCounts
from quorate.raft import Quorum
from quorate.raft.transport.identities import Identity as ClusterMember
from quorate.raft.transport.identities import secured_as
from quorate.runtime import Address, Listener, QuotaWindows, Runtime, TlsFilesError, get_logger

log = get_logger(__name__)

R = TypeVar("R", bound=ControllerResponse)

_ELECTIONS_WAITED = 2
"""The number of election timeouts for which a stopping broker waits for a leader, before it stops without
leave."""
_LOSS_PAUSE_S = 0.1
"""The minimum time between heartbeats that broken connections cause."""


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
        credentials: MetadataCredentials,
        tokens: Mapping[str, SignedTokens],
    ) -> None:
        self._config = config
        self._credentials = credentials
        self._tokens = tokens
        self._servers: list[WireServer] = []
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
            config.wire.connections,
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
        sealer: Sealer | None,
    ) -> "BrokerNode":
        """Scan the data folders, `directories`. Raises what `ReplicaManager.open` does,
        `ServerConfigError`."""
        broker_id = config.node_id
        try:
            tokens = tokens_of(config.listener_security, runtime)
        except TokenKeysError as error:
            raise ServerConfigError(str(error)) from error

        async def ask(request: ControllerRequest[R]) -> R:
            return await channel.ask(request, timeout_seconds=config.lifecycle.session_timeout)

        def connect(other: int) -> Address | None:
            held = metadata.image.broker(other)
            endpoint = None if held is None else held.endpoint(config.inter_broker_listener)
            return None if endpoint is None else Address(endpoint.host, endpoint.port)

        contact, times = ControllerContact(), config.lifecycle
        reports = FailureReports(timeout_s=times.directory_failure_timeout)

        def report_failure(directories: Sequence[uuid.UUID]) -> None:
            reports.failed(directories)
            contact.hurry()

        def brokers_at(address: Address) -> frozenset[int]:
            return frozenset(each for each in metadata.image.brokers if connect(each) == address)

        if config.inter_broker_tls is not None:
            own = ClusterMember(cluster_id, broker_id)
            try:
                secured = secured_as(runtime.network, config.inter_broker_tls, own)
            except TlsFilesError as error:
                raise ServerConfigError(f"listener {config.inter_broker_listener}: {error}") from error
            network = BrokerNetwork(secured, cluster_id=cluster_id, brokers_at=brokers_at)
            runtime = replace(runtime, network=network)
        context = ReplicationContext(
            broker_id=broker_id,
            config=config.replication,
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

        groups = GroupCoordinator(
            config.groups,
            OffsetsLog(replicas, runtime.wall_clock, timeout_ms=config.groups.offsets_commit_timeout_ms),
            partition_count=lambda: len(metadata.image.named_partitions(OFFSETS_TOPIC)),
            partition_exists=lambda topic, index: metadata.image.named_partition(topic, index) is not None,
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
            credentials=MetadataCredentials(lambda: metadata.image, cluster_id=cluster_id, sealer=sealer),
            tokens=tokens,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run in the background; at the end of the block hand partitions over and close the logs.

        Its logs are synced even if no controller let it go. It proves that at its next start.
        """
        clean = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._reports.run, self.replicas.hosted.leads_in)
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

    def logins(self) -> Mapping[str, LoginCounts]:
        """Return the logins of each listener for clients, by its name."""
        named = zip(self._config.client_listeners, self._servers, strict=False)
        return {listener.name: wire.statistics().logins for listener, wire in named}

    async def _greet_leaders(self) -> None:
        async for leadership in self._quorum.leadership_changes():
            if leadership.leader is not None:
                self.lifecycle.leader_changed()

    async def _show_life(self) -> None:
        """Send a heartbeat when a connection breaks, because the other node may take this process for
        dead."""
        async for _ in self._quorum.lost_connections():
            self.lifecycle.connection_lost()
            await trio.sleep(_LOSS_PAUSE_S)

    async def _replicate(self) -> None:
        try:
            await self._manager.run()
        finally:
            # The quorum goes on for a while, and replicas can no longer be opened.
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
            wall_clock=self._runtime.wall_clock,
            tasks=nursery,
            authorizer=configured_authorizer(self._config.authorizer, lambda: self._metadata.image.acls),
        )
        dispatcher, errors = Dispatcher(broker), error_table()
        self._reconfigure(self._metadata.image)
        for asked, listener in zip(self._config.client_listeners, self._listeners, strict=True):
            security = self._config.listener_security[asked.name]
            wire = WireServer(
                listener,
                dispatcher,
                self._config.wire,
                errors=errors,
                features=lambda: features_of(self._metadata, self._quorum),
                listener_name=asked.name,
                quotas=self.connections,
                times=self.throttles,
                security=security,
                identify=partial(principal_of, cluster_id=self._cluster_id, rules=security.principal_rules),
                credentials=self._credentials,
                entropy=self._runtime.entropy,
                compute=self._runtime.compute,
                tokens=self._tokens.get(asked.name),
            )
            self._servers.append(wire)
        # A connection waits unanswered until this node's own metadata has it as a broker that serves: a
        # client that is there before the cluster must not be shown an empty one, which some clients believe
        # for minutes.
        self.lifecycle.allow_unfencing()
        await self.lifecycle.wait_unfenced()
        for wire in self._servers:
            nursery.start_soon(wire.run)

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for resource in delta.configs:
            for name, why in refused_settings(image, resource):
                log.warning("ignoring a stored setting", resource=resource.name, name=name, reason=why)
        if any(each in (ALL_BROKERS, self._config.static.resource) for each in delta.configs):
            self._reconfigure(image)
        if delta.quotas:
            self.throttles.quotas_changed()
        if delta.users:
            self._end_logins_without_password(frozenset(delta.users), image)
        self._manager.intake.apply(delta, image, then=self._coordinate)

    def _end_logins_without_password(self, users: frozenset[str], image: MetadataImage) -> None:
        def ends(context: ConnectionContext) -> bool:
            user, mechanism = context.principal.name, context.mechanism
            return mechanism is not None and user in users and not has_password(image, user, mechanism)

        closed = sum(each.close_where(ends) for each in self._servers)
        if closed:
            log.info("connections closed, because their users have no password any more", connections=closed)

    def _reconfigure(self, image: MetadataImage) -> None:
        """Put the settings that may change while the broker runs into effect."""
        config = self._config.with_dynamic(dynamic_values(image, self._config.static))
        self._manager.reconfigure(config.replication)
        self.connections.reconfigure(config.wire.connections)

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
        if not self._config.shutdown.enable:
            return
        with trio.move_on_after(self._config.shutdown.timeout):
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
        """End the wait of the last nodes of a stopping cluster: they have no quorum to ask, and no other
        broker could lead."""
        limit = self._config.raft.election_timeout_ms / 1000 * _ELECTIONS_WAITED
        while True:
            with trio.move_on_after(limit) as waited:
                await self._quorum.wait_leader()
            if waited.cancelled_caught:
                scope.cancel()
                return
            await trio.sleep(limit / 10)
