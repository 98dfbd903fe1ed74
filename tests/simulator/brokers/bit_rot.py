"""Bits that flip at rest, in the old segments of one replica at a time, and the operator who mends it.

A flip needs a whole cluster: every replica is in sync, so that the others have what the segment holds, and
nobody's data counts as lost (`LossBudget`). Until the replica is whole again nobody else may lose data. The
segment lies below the recovery point: above it, a start would take the flip for what a power loss leaves. And
below the high watermark: a leader's own records are nowhere else.
"""

import posixpath
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import trio
from kio.schema.types import TopicName
from kio.static.primitive import i32

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    RefetchReplicaRequest,
    RefetchReplicaResponse,
)
from quorate.broker.wire.wire_errors import KafkaError
from quorate.log import RECOVERY_POINTS, load_offsets, segment_bases
from quorate.runtime import NetworkError
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import LivenessViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost
from tests.simulator.brokers.loss_budget import LossBudget

_TIMEOUT_S: Final = 5.0
_WAIT_S: Final = 3.0

ROT_CONFIGS: Final = MappingProxyType({"segment.bytes": "400", "index.interval.bytes": "200"})
"""The configs of a topic with old segments after a few seconds."""
ROT_VALUES: Final = MappingProxyType(
    {"quorate.log.scrub.interval.ms": "1000", "log.flush.offset.checkpoint.interval.ms": "500"}
)
"""Settings of brokers that soon advance their recovery points, and scrub often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotSettings:
    """A run in which bits flip."""

    mends_itself: bool
    """`quorate.replica.refetch.damaged`; otherwise an operator has each damaged replica fetched again."""


@dataclass(frozen=True, slots=True)
class _Flip:
    node: BrokerHost
    partition: int
    segment: str
    """The name of the file."""
    position: int
    byte: int
    """The wrong one."""


class BitRot:
    """`flip` is the fault; `mend` the operator. At the end, when all are up: `mended`."""

    def __init__(self, cluster: BrokerCluster, topic: str, source: random.Random, budget: LossBudget) -> None:
        self._cluster = cluster
        self._topic = topic
        self._random = source
        self._budget = budget
        self._flip: _Flip | None = None
        self.flips = 0

    async def flip(self) -> None:
        """Flip a bit of a replica as soon as every replica is whole, if that is soon."""
        await holds_within(_WAIT_S, self._flips)

    def _flips(self) -> bool:
        if self._is_rotten() or not self._cluster.all_in_sync():
            return False
        node = self._random.choice(self._cluster.nodes)
        segments = list(self._old_segments(node))
        if not segments or not self._budget.take_alone(node):
            return False
        partition, path = self._random.choice(segments)
        position = self._random.randrange(len(node.disk.content(path)))
        node.disk.flip(path, position, bit=self._random.randrange(8))
        byte = node.disk.content(path)[position]
        node.rotten = self._cluster.has_flipped = True
        self._flip = _Flip(node, partition, posixpath.basename(path), position, byte)
        self.flips += 1
        self._cluster.trace.add(node.name, f"a bit flips in {path} at {position}")
        return True

    def _old_segments(self, node: BrokerHost) -> Iterator[tuple[int, str]]:
        broker = node.serving.broker
        for directory in node.log_dirs:
            durable = load_offsets(node.disk, f"{directory}/{RECOVERY_POINTS}")
            for partition in range(self._cluster.settings.partitions):
                folder = f"{directory}/{self._topic}-{partition}"
                if broker is None or not node.disk.exists(folder):
                    continue
                try:
                    committed = broker.replicas.lookups.partition(self._topic, partition).high_watermark
                except PartitionError:
                    continue
                trusted = min(committed, durable.get((self._topic, partition), 0))
                for base, following in pairwise(segment_bases(node.disk, folder)):
                    if following <= trusted:
                        yield partition, f"{folder}/{base:020}.log"

    def _is_rotten(self) -> bool:
        """Return whether the wrong byte is still in a replica, known or not. Frees the budget if not."""
        if self._flip is None:
            return False
        flip = self._flip
        for path in flip.node.disk.files():
            folder, name = posixpath.split(path)
            place = posixpath.basename(folder)
            if name != flip.segment or not place.startswith(f"{self._topic}-{flip.partition}"):
                continue
            content = flip.node.disk.content(path)
            wrong = flip.position < len(content) and content[flip.position] == flip.byte
            if wrong and not place.endswith(("-damaged", "-delete")):
                return True
        self._flip = None
        flip.node.rotten = False
        self._budget.is_whole_again()
        self._cluster.trace.add(flip.node.name, "the flipped bit is gone")
        return False

    async def mend(self) -> None:
        """Have damaged replicas fetched again, until cancelled."""
        while True:
            await trio.sleep(self._random.uniform(0.2, 1.0))
            if self._is_rotten():
                for node in self._cluster.nodes:
                    try:
                        await self._mend(node)
                    except (NetworkError, KafkaError):
                        continue

    async def _mend(self, node: BrokerHost) -> None:
        network = self._cluster.network.for_node("mender")
        async with open_client(
            network, node.address, client_id="mender", timeout_s=_TIMEOUT_S, negotiate=False
        ) as client:
            answer = await client.send(DescribeDamageRequest(), DescribeDamageResponse)
            for each in answer.damaged:
                request = RefetchReplicaRequest(
                    topic_name=TopicName(each.topic_name), partition_index=i32(each.partition_index)
                )
                outcome = await client.send(request, RefetchReplicaResponse)
                name = f"{each.topic_name}-{each.partition_index} on {node.name}"
                self._cluster.trace.add("mender", f"{name}: {outcome.error_message or outcome.path}")

    async def mended(self, *, within_s: float) -> None:
        """Wait until no wrong byte is left, and nothing is taken for damaged. Raises `LivenessViolation`."""
        if not await holds_within(
            within_s, lambda: not self._is_rotten() and not any(self._damaged()), every_s=0.2
        ):
            raise LivenessViolation(
                f"DamagedReplicasComeBack: {within_s:g} s after the last fault {self._flip} is there, and "
                f"{list(self._damaged())} are known"
            )

    def _damaged(self) -> Iterator[str]:
        for node in self._cluster.nodes:
            broker = node.serving.broker
            if broker is None or broker.replicas.counts().damaged_replica_count:
                yield node.name
