"""A compacted topic in the run of a broker cluster: its clients, and the movers of its replicas."""

import random
from dataclasses import dataclass
from typing import Final

import trio

from quorate.simulation.cluster_run import derived
from tests.simulator.brokers.broker_admin import Administrator
from tests.simulator.brokers.broker_cluster import BrokerCluster
from tests.simulator.brokers.compacted_topic import COMPACTED, CompactedSettings, CompactedTopic
from tests.simulator.brokers.replica_moves import DirectoryMover, Reassigner

COMPACTING: Final = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.segment.bytes": "1000",
    "replica.socket.timeout.ms": "5000",
}
"""Settings of brokers that compact often, the committed offsets too. A follower whose connection goes silent
is back before tombstones go (`CompactedSettings.retention_ms`)."""
_DAY_MS: Final = 86_400_000


def draw_compacted(source: random.Random, *, jumps: bool) -> CompactedSettings | None:
    """Draw the settings of a run's compacted topic; None: it has none. `jumps`: whether clocks jump in it, by
    a day at most."""
    if source.random() < 0.5:
        return None
    return CompactedSettings(
        keys=source.choice((1, 3, 8)),
        think_max_s=source.choice((0.1, 0.3)),
        segment_bytes=source.choice((300, 600, 1500)),
        min_lag_ms=source.choice((0, 0, 500)),
        max_lag_ms=source.choice((None, 600)),
        retention_ms=365 * _DAY_MS if jumps else 20_000,
        tombstones_go=not jumps and source.random() < 0.3,
    )


@dataclass(frozen=True, slots=True)
class CompactedMix:
    """Use `begin`, then `run` beside `clients.consume`."""

    clients: CompactedTopic
    reassigner: Reassigner | None
    mover: DirectoryMover | None
    settings: CompactedSettings

    @classmethod
    async def begin(
        cls,
        cluster: BrokerCluster,
        admin: Administrator,
        settings: CompactedSettings | None,
        source: random.Random,
        *,
        reassigns: bool,
    ) -> "CompactedMix | None":
        """Create the topic. `reassigns`: whether its replicas move, between brokers and directories."""
        if settings is None:
            return None
        await admin.create(COMPACTED, partitions=cluster.settings.partitions, configs=settings.configs)
        return cls(
            CompactedTopic(cluster, settings, derived(source)),
            Reassigner(cluster, COMPACTED, derived(source)) if reassigns else None,
            DirectoryMover(cluster, COMPACTED, derived(source)) if reassigns else None,
            settings,
        )

    async def run(self) -> None:
        """Write, and move replicas, until `finish`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.clients.produce)
            if self.reassigner is not None:
                nursery.start_soon(self.reassigner.run)
            if self.mover is not None:
                nursery.start_soon(self.mover.run)

    def finish(self) -> None:
        """Let all of them complete the work that they have begun."""
        self.clients.finish()
        if self.reassigner is not None:
            self.reassigner.finish()
        if self.mover is not None:
            self.mover.finish()

    async def check(self, *, within_s: float) -> None:
        """Check the topic. For a cluster that is in sync and idle. Raises `SafetyViolation`,
        `LivenessViolation`."""
        if self.reassigner is not None:
            await self.reassigner.check(within_s=within_s)
        await self.clients.check(within_s=within_s)
        if self.settings.tombstones_go:
            await self.clients.check_tombstones_go(within_s=within_s)
