"""The invariants of the metadata log of a broker cluster, record by record, as soon as any node knows that it
is committed: records give their reasons, only brokers that may lead are elected, and the state machines
change legally."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.controller.state_machines import (
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
from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    EndTransaction,
    FeatureLevel,
    Partition,
    PartitionChange,
    ProducerIds,
    Record,
    RemoveAccessControlEntry,
    RemoveUserScramCredential,
    Topic,
    UserScramCredential,
)
from quorate.broker.metadata.record_codec import decode
from quorate.broker.metadata.states import PartitionKey
from quorate.invariant import InvariantError
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import records_of
from quorate.simulation.checkers.invariants import CommittedLog, Invariant
from quorate.simulation.checkers.node_view import NodeView, RoleSeen
from quorate.simulation.violations import SafetyViolation
from quorate.types import Offset

_NO_PARTITIONS = (
    Topic,
    Config,
    ClientQuota,
    AccessControlEntry,
    RemoveAccessControlEntry,
    UserScramCredential,
    RemoveUserScramCredential,
    FeatureLevel,
    ProducerIds,
    BeginTransaction,
    AbortTransaction,
)
"""Records that leave every partition as it is."""


VisibleChange = tuple[Sequence[Record], MetadataImage]
"""Records that became visible together, and the image that they led to."""
Rule = Callable[[Sequence[Record], MetadataImage], None]
"""Takes one such change after the other. Raises `SafetyViolation`, whose text begins with the name of the
violated rule."""


class MetadataChangesAreLegal(Invariant):
    """Comes behind the invariants that extend `committed`. Sees each committed record once, as soon as any
    node knows that it is: before anybody is answered."""

    def __init__(self, committed: CommittedLog) -> None:
        self._committed = committed
        self._loader = BatchLoader()
        self._next_offset = Offset(0)
        self._partitions: dict[PartitionKey, PartitionPhase] = {}
        self._replicas: dict[tuple[PartitionKey, int], ReplicaPhase] = {}

        self._hidden: list[Record] = []
        """The records of an open transaction."""
        self._changes: list[VisibleChange] = []

    @property
    def image(self) -> MetadataImage:
        """The newest committed image. It changes."""
        return self._loader.image

    @property
    def in_transaction(self) -> bool:
        return self._loader.in_transaction

    def take_visible(self) -> Sequence[VisibleChange]:
        """Return what has become visible since the last call, batch by batch: a call's records are one, and
        the high watermark may pass several at once. Those of a transaction are visible at its end."""
        changes, self._changes = self._changes, []
        return changes

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        self.read_committed()

    def read_committed(self) -> None:
        while (piece := self._committed.at(self._next_offset)) is not None:
            self._next_offset = piece.end_offset
            for batch in read_batches(piece.data):
                if batch.header.is_control:
                    continue
                visible: list[Record] = []
                for read in records_of(batch):
                    record = decode(read.value or b"")
                    self.take(record, offset=read.offset, epoch=piece.epoch)
                    visible += self._shown(record)
                if visible:
                    self._changes.append((visible, self._loader.image.copy()))

    def _shown(self, record: Record) -> Sequence[Record]:
        """Return what the record makes visible."""
        match record:
            case BeginTransaction() | AbortTransaction():
                self._hidden.clear()
                return ()
            case EndTransaction():
                shown, self._hidden = self._hidden, []
                return shown
            case _ if self._loader.in_transaction:
                self._hidden.append(record)
                return ()
            case _:
                return (record,)

    def take(self, record: Record, *, offset: int, epoch: int) -> None:
        """Check the record at that offset, which follows on the last one. Raises `SafetyViolation`."""
        if isinstance(record, PartitionChange | BrokerRegistrationChange) and record.reason is None:
            raise SafetyViolation(f"the record at offset {offset} doesn't say why: {record}")
        self._loader.load([record], base_offset=offset, epoch=epoch)
        image = self._loader.image
        if isinstance(record, PartitionChange | Partition):
            key = PartitionKey(record.topic_id, record.partition_id)
            self._check_election(image, key, record.leader, offset)
            self._check_image(partial(image.validate_partition, key), offset)
            self._follow(image, (key,), offset)
        elif not isinstance(record, _NO_PARTITIONS):
            self._check_image(image.validate, offset)
            self._follow(image, {*self._partitions, *(key for key, _ in image.all_partitions())}, offset)

    def _check_image(self, validate: Callable[[], None], offset: int) -> None:
        try:
            validate()
        except InvariantError as error:
            raise SafetyViolation(f"offset {offset}: {error}") from error

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


class CommittedMetadata(Invariant):
    """Comes behind `MetadataChangesAreLegal`, which reads the records. A transaction is visible at its
    end, and never if it is aborted."""

    def __init__(self, legal: MetadataChangesAreLegal, *rules: Rule) -> None:
        self._legal = legal
        self.rules = list(rules)

    @property
    def image(self) -> MetadataImage:
        """The newest, whichever nodes know it."""
        return self._legal.image

    @property
    def in_transaction(self) -> bool:
        """Return whether the newest committed record is within a transaction."""
        return self._legal.in_transaction

    def high_watermark(self, node: NodeView, offset: Offset, role: RoleSeen | None) -> None:
        for records, image in self._legal.take_visible():
            for rule in self.rules:
                rule(records, image)
