"""An administrator of a simulated broker cluster, who moves replicas between the directories of their brokers
while disks fail and brokers are killed (KIP-113). What was acknowledged is checked by the clients."""

import random
from typing import TYPE_CHECKING, Final, cast

from kio.schema.errors import ErrorCode

from quorate.broker.wire import ApiKey, KafkaError, open_client
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse

_REQUEST_TIMEOUT_S: Final = 3.0
_REFUSED: Final = (
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
                async with open_client(
                    self._cluster.network.for_node("mover"), node.address, timeout_s=_REQUEST_TIMEOUT_S
                ) as connection:
                    received = await connection.call(
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
            elif error not in _REFUSED:
                raise SafetyViolation(f"a move between directories was refused with {error.name}")
