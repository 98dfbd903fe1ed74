"""The controller of this node, active while the node leads the quorum, and its own clients."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from quorate.broker.access.certificates import principal_of
from quorate.broker.access.sealing import Sealer
from quorate.broker.access.standard_authorizer import configured_authorizer
from quorate.broker.apis.api_table import ControllerDispatcher, error_table
from quorate.broker.apis.cluster_metadata import ClusterMetadataReader
from quorate.broker.apis.context import ServingNode
from quorate.broker.apis.features import features_of
from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.liveness.broker_watch import BrokerWatch
from quorate.broker.controller.partition_walks import PartitionWalks
from quorate.broker.controller_channel import ControllerChannel
from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, LeaderRecoveryState, Record
from quorate.broker.metadata_cache import MetadataCache, whole_image
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.settings.client_settings import ConnectionRules, KafkaServerConfig
from quorate.broker.wire.kafka_server import WireServer
from quorate.metrics import ControllerStats
from quorate.raft import NotLeaderError, Quorum, QuorumStoppedError
from quorate.runtime import Runtime, get_logger

log = get_logger(__name__)

_CONNECTIONS_MAX: Final = 100
"""Beside the quorum's own, which they must not displace."""
_REQUEST_BYTES_MAX: Final = 1024 * 1024
"""Nothing that is served here is large."""
_CATCH_UP_PAUSE_S: Final = 0.5


class ControllerNode:
    """Starts and stops the controller as leadership comes and goes, and lets other nodes ask it."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        cluster_id: str,
        quorum: Quorum[None],
        metadata: MetadataCache,
        runtime: Runtime,
        sealer: Sealer | None,
        first_records: Sequence[Record] = (),
    ) -> None:
        self._node_id = config.node_id
        self._quorum = quorum
        self._metadata = metadata
        self.stats = ControllerStats()
        confirm_s = config.controller.refusal_confirm_ms / 1000
        self.progress = BrokerProgress()
        self.unclean_elections = 0
        """Of partitions, while this node's controller is active: what a node replays is history, and each
        election counts once."""
        self._elections = PartitionWalks(self._note_election)
        self._watch: BrokerWatch | None = None
        if confirm_s:
            self._watch = BrokerWatch(runtime.network, own_id=config.node_id, confirm_s=confirm_s)
        self.controller = Controller(
            quorum,
            settings=ControllerSettings(
                cluster_id=cluster_id,
                tuning=config.controller,
                balance=config.balance,
                topics=config.topics,
                static=config.static,
                first_records=first_records,
                authorizer=config.authorizer,
            ),
            entropy=runtime.entropy,
            telemetry=self.stats,
            watch=self._watch,
            wall_clock=runtime.wall_clock,
            progress=self.progress,
            sealer=sealer,
        )

    async def run(self) -> None:
        """Run until cancelled."""
        self._quorum.serve_callers(self.controller.answer_encoded)
        self._metadata.subscribe(self._committed)
        if self._watch is not None:
            self._watch.changed(whole_image(self._metadata.image), self._metadata.image)
            self._metadata.subscribe(self._watch.changed)
        async with trio.open_nursery() as nursery:
            for task in (self.controller.run, self.progress.run, self._elections.run):
                nursery.start_soon(task)
            await self._follow_leadership()

    def _committed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        active = self.controller.active
        self.progress.committed(delta, now=trio.current_time(), active=active)
        if active:
            self._elections.begin(delta)

    def _note_election(self, offset: int, change: PartitionDelta) -> None:
        self.unclean_elections += _is_unclean(change)

    async def _follow_leadership(self) -> None:
        active_epoch = None
        # The quorum names this node as leader only once everything from earlier epochs is applied.
        async for leadership in self._quorum.leadership_changes():
            leads = leadership.leader == self._node_id
            if active_epoch is not None and (not leads or leadership.epoch != active_epoch):
                self.controller.deactivate()
                active_epoch = None
            if leads and active_epoch is None:
                active_epoch = leadership.epoch
                metadata = self._metadata
                self.controller.activate(
                    metadata.image.copy(),
                    epoch=leadership.epoch,
                    in_transaction=metadata.in_transaction,
                    predecessor=self._quorum.predecessor,
                )


def _is_unclean(change: PartitionDelta) -> bool:
    before, after = change.before, change.after
    return (
        before is not None
        and after is not None
        and after.leader != NO_LEADER
        and after.leader_epoch > before.leader_epoch
        and after.leader_recovery_state is LeaderRecoveryState.RECOVERING
        and after.leader not in before.isr
    )


@asynccontextmanager
async def controller_clients(
    config: ServerConfig,
    *,
    cluster_id: str,
    quorum: Quorum[None],
    metadata: MetadataCache,
    channel: ControllerChannel,
) -> AsyncIterator[None]:
    """Serve clients of Kafka's protocol on the controller listener (KIP-919) within the block. Until this
    node has caught up with the metadata, only super users and nodes may ask for what needs a right."""
    caught_up = trio.Event()
    async with trio.open_nursery() as nursery:
        node = ServingNode(
            config=config,
            cluster_id=cluster_id,
            metadata=metadata,
            quorum=quorum,
            channel=channel,
            cluster_metadata=ClusterMetadataReader(quorum, metadata),
            tasks=nursery,
            authorizer=configured_authorizer(
                config.authorizer, lambda: metadata.image.acls, loaded=caught_up.is_set
            ),
        )
        if not node.is_open:
            nursery.start_soon(_catch_up, quorum, caught_up)
        clients = WireServer(
            None,
            ControllerDispatcher(node),
            KafkaServerConfig(
                connections=ConnectionRules(max_connections=_CONNECTIONS_MAX),
                request_max_bytes=_REQUEST_BYTES_MAX,
                idle_timeout_s=config.wire.idle_timeout_s,
            ),
            errors=error_table(),
            features=lambda: features_of(metadata, quorum),
            listener_name=config.controller_listener_name,
            identify=lambda stream: principal_of(stream, cluster_id),
        )
        nursery.start_soon(clients.run)
        quorum.serve_kafka(clients.serve)
        try:
            yield
        finally:
            quorum.serve_kafka(None)
            nursery.cancel_scope.cancel()


async def _catch_up(quorum: Quorum[None], caught_up: trio.Event) -> None:
    """Set the event when all that was committed before this node's start is applied here."""
    with suppress(QuorumStoppedError):
        while not caught_up.is_set():
            await quorum.wait_leader()
            try:
                await quorum.wait_read_index()
            except NotLeaderError:
                await trio.sleep(_CATCH_UP_PAUSE_S)
            else:
                caught_up.set()
