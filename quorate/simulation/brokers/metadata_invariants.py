"""The invariants of the metadata log of a broker cluster, record by record, as soon as any node has applied
it: it says why, nobody is elected who can't lead, and the state machines change legally."""

from collections.abc import Iterable

from quorate.broker.controller import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    PartitionPhase,
    ReplicaPhase,
    illegal_change,
    partition_changes,
    partition_phase,
    replica_changes,
    replica_phase,
)
from quorate.broker.controller.operations import may_lead
from quorate.broker.metadata import (
    NO_LEADER,
    BatchLoader,
    BrokerRegistrationChange,
    MetadataImage,
    Partition,
    PartitionChange,
    PartitionKey,
    Record,
    decode,
)
from quorate.raft.state_machine import CommittedBatch
from quorate.simulation.checkers import Invariant, NodeView
from quorate.simulation.violations import SafetyViolation


class MetadataChangesAreLegal(Invariant):
    """Sees each committed record once, from the first node that applies it."""

    def __init__(self) -> None:
        self._loader = BatchLoader()
        self._next_offset = 0
        self._partitions: dict[PartitionKey, PartitionPhase] = {}
        self._replicas: dict[tuple[PartitionKey, int], ReplicaPhase] = {}

    def applied(self, node: NodeView, batch: CommittedBatch) -> None:
        if batch.base_offset < self._next_offset:
            return
        for offset, data in enumerate(batch.records, batch.base_offset):
            self.take(decode(data), offset=offset, epoch=batch.epoch)
        self._next_offset = batch.base_offset + len(batch.records)

    def take(self, record: Record, *, offset: int, epoch: int) -> None:
        """Check the record at that offset, which follows on the last one. Raises `SafetyViolation`."""
        if isinstance(record, PartitionChange | BrokerRegistrationChange) and record.reason is None:
            raise SafetyViolation(f"the record at offset {offset} doesn't say why: {record}")
        self._loader.load([record], base_offset=offset, epoch=epoch)
        image = self._loader.image
        if isinstance(record, PartitionChange | Partition):
            key = PartitionKey(record.topic_id, record.partition_id)
            self._check_election(image, key, record.leader, offset)
            self._follow(image, (key,), offset)
        else:
            self._follow(image, {*self._partitions, *(key for key, _ in image.all_partitions())}, offset)

    def _check_election(
        self, image: MetadataImage, key: PartitionKey, elected: int | None, offset: int
    ) -> None:
        state = image.partition(*key)
        if state is None or elected is None or elected == NO_LEADER:
            return
        if not may_lead(image, state, elected):
            raise SafetyViolation(
                f"offset {offset} elects broker {elected} for {key}, which is not active or not in a "
                f"directory that is online: {image.broker(elected)}, {state}"
            )

    def _follow(self, image: MetadataImage, keys: Iterable[PartitionKey], offset: int) -> None:
        for key in keys:
            before = self._partitions.get(key, PartitionPhase.NON_EXISTENT)
            after = partition_phase(image, key)
            if (bad := illegal_change(partition_changes(before, after), PARTITION_MOVES)) is not None:
                raise SafetyViolation(f"offset {offset} takes {key} from {bad[0]} to {bad[1]}")
            if after is PartitionPhase.NON_EXISTENT:
                self._partitions.pop(key, None)
            else:
                self._partitions[key] = after
            state = image.partition(*key)
            for broker_id in image.brokers if state is None else {*state.replicas, *image.brokers}:
                self._follow_replica(image, key, broker_id, offset)

    def _follow_replica(self, image: MetadataImage, key: PartitionKey, broker_id: int, offset: int) -> None:
        before = self._replicas.get((key, broker_id), ReplicaPhase.NON_EXISTENT)
        after = replica_phase(image, key, broker_id)
        if after is ReplicaPhase.NON_EXISTENT:
            # Its deletion is the broker's own matter.
            self._replicas.pop((key, broker_id), None)
            return
        if (bad := illegal_change(replica_changes(before, after), REPLICA_MOVES)) is not None:
            raise SafetyViolation(
                f"offset {offset} takes the replica of {key} on {broker_id} from {bad[0]} to {bad[1]}"
            )
        self._replicas[key, broker_id] = after
