"""Administrators of a simulated broker cluster that move replicas under faults: between brokers, and between
the directories of one (KIP-113). The clients check the acknowledged records."""

import random
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster
from tests.simulator.brokers.one_broker import code_of, open_one, reassign_partition

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse

_REFUSED: Final = (ErrorCode.invalid_replica_assignment, ErrorCode.no_reassignment_in_progress)
"""Answers that say that nothing happened."""


class Reassigner(Clients[BrokerCluster]):
    """Adds, removes, replaces and cancels replicas of a topic's partitions, never fewer than
    min.insync.replicas of them: the budget of faults counts on these. At the end every broker has one
    again."""

    def __init__(self, cluster: BrokerCluster, topic: str, source: random.Random) -> None:
        super().__init__(cluster, source)
        self._topic = topic
        self.begun = 0
        """The moves and cancellations that were granted."""

    async def run(self, pause_max_s: float = 1.5) -> None:
        """Move replicas until `finish`; then give every broker one."""
        settings = self._cluster.settings
        brokers = range(1, settings.brokers + 1)
        while not self._finish.is_set():
            await self._pause(self._random, pause_max_s)
            partition = self._random.randrange(settings.partitions)
            if self._random.random() < 0.25:
                await self._ask(partition, None)
                continue
            count = self._random.randint(min(settings.min_isr, settings.brokers), settings.brokers)
            await self._ask(partition, tuple(self._random.sample(brokers, count)))
        for partition in range(settings.partitions):
            while not await self._ask(partition, tuple(brokers)):  # noqa: ASYNC110
                await trio.sleep(0.2)

    async def _ask(self, partition: int, replicas: tuple[int, ...] | None) -> bool:
        """Ask one broker after the other until there is an answer; whether it was granted."""
        while True:
            host = self._random.choice(self._cluster.nodes)
            try:
                async with open_one(self._cluster, host, "reassigner") as admin:
                    error = await code_of(reassign_partition(admin, self._topic, partition, replicas))
            except (NetworkError, KafkaError):
                await trio.sleep(0.2)
                continue
            wanted = "cancel" if replicas is None else replicas
            self._cluster.trace.add("reassigner", f"{self._topic}-{partition} {wanted} {error.name}")
            if error is ErrorCode.none:
                self.begun += 1
                return True
            if error in _REFUSED:
                return False
            await trio.sleep(0.2)

    async def check(self, *, within_s: float) -> None:
        """Check that all moves end, and that every image has the last requested replicas. Raises
        `LivenessViolation` and `SafetyViolation`."""
        wanted = tuple(range(1, self._cluster.settings.brokers + 1))
        nodes = self._cluster.nodes
        if not await holds_within(within_s, lambda: not any(node.image.reassigning_count for node in nodes)):
            moving = {node.name: node.image.reassigning_count for node in nodes}
            raise LivenessViolation(
                f"MovesEnd: partitions are left moving {within_s:g} s after the last fault: {moving}"
            )
        for partition, state in self._cluster.states(self._topic).items():
            if state.replicas != wanted:
                raise SafetyViolation(
                    f"MovesAreAsAnswered: {self._topic}-{partition} has {state.replicas}, not {wanted}"
                )


_MOVE_REFUSED: Final = (
    ErrorCode.kafka_storage_error,
    ErrorCode.log_dir_not_found,
    ErrorCode.replica_not_available,
    ErrorCode.unknown_topic_or_partition,
)
"""Answers of a broker that has not both directories now, or not the replica."""


class DirectoryMover(Clients[BrokerCluster]):
    """Asks brokers with two directories to move a replica of a topic to one of them, often before the move
    before has ended."""

    def __init__(self, cluster: BrokerCluster, topic: str, source: random.Random) -> None:
        super().__init__(cluster, source)
        self._topic = topic
        self.begun = 0
        """Replicas that were granted another directory."""

    async def run(self, pause_max_s: float = 1.0) -> None:
        """Begin moves until `finish`."""
        while not self._finish.is_set():
            await self._pause(self._random, pause_max_s)
            node = self._random.choice(self._cluster.nodes)
            partition = self._random.randrange(self._cluster.settings.partitions)
            path = self._random.choice(node.log_dirs)
            if len(node.log_dirs) != 2:
                continue
            try:
                async with open_one(self._cluster, node, "mover") as admin:
                    received = await admin.call(
                        ApiKey.ALTER_REPLICA_LOG_DIRS,
                        dirs=[{"path": path, "topics": [{"name": self._topic, "partitions": [partition]}]}],
                    )
            except (NetworkError, KafkaError):
                continue
            answer = cast("AlterReplicaLogDirsResponse", received)
            error = answer.results[0].partitions[0].error_code
            self._cluster.trace.add("mover", f"{self._topic}-{partition} {path} {error.name}")
            if error is ErrorCode.none:
                self.begun += 1
            elif error not in _MOVE_REFUSED:
                raise SafetyViolation(f"a move between directories was refused with {error.name}")
