"""The controller of this node, active while the node leads the quorum."""

import trio

from quorate.broker.controller import BrokerWatch, Controller, ControllerSettings
from quorate.broker.controller.operations import TopicDefaults
from quorate.broker.metadata_cache import MetadataCache, whole_image
from quorate.broker.settings import ServerConfig
from quorate.metrics import ControllerStats
from quorate.raft import Quorum
from quorate.runtime import Runtime, get_logger

log = get_logger(__name__)


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
    ) -> None:
        self._node_id = config.node_id
        self._quorum = quorum
        self._metadata = metadata
        self.stats = ControllerStats()
        settings = controller_settings(config, cluster_id=cluster_id)
        confirm_s = settings.refusal_confirm_ms / 1000
        self._watch: BrokerWatch | None = None
        if confirm_s:
            self._watch = BrokerWatch(runtime.network, own_id=config.node_id, confirm_s=confirm_s)
        self.controller = Controller(
            quorum,
            settings=settings,
            entropy=runtime.entropy,
            telemetry=self.stats,
            watch=self._watch,
            wall_clock=runtime.wall_clock,
        )

    async def run(self) -> None:
        """Run until cancelled."""
        self._quorum.serve_callers(self.controller.answer_encoded)
        if self._watch is not None:
            self._watch.changed(whole_image(self._metadata.image), self._metadata.image)
            self._metadata.subscribe(self._watch.changed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.controller.run)
            await self._follow_leadership()

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
                    metadata.image.copy(), epoch=leadership.epoch, in_transaction=metadata.in_transaction
                )


def controller_settings(config: ServerConfig, *, cluster_id: str) -> ControllerSettings:
    return ControllerSettings(
        cluster_id=cluster_id,
        broker_session_timeout_ms=config.int("broker.session.timeout.ms"),
        refusal_confirm_ms=config.int("quorate.controller.refusal.confirm.ms"),
        topic_defaults=TopicDefaults(
            num_partitions=config.int("num.partitions"),
            replication_factor=config.int("default.replication.factor"),
        ),
        static=config.static,
        auto_leader_rebalance_enable=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.int("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.int("leader.imbalance.per.broker.percentage"),
        partitions_per_step=config.int("quorate.controller.partitions.per.step"),
    )
