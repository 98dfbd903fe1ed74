"""A topic's partitions in columns, 24 bytes each, with all equal parts shared.

A cluster of two million partitions has some thousand different lists of replicas, and nearly all its ISRs are
the replicas: partitions differ in their epochs. So a topic keeps the epochs as plain numbers, and refers to
the rest: a `Shape`, which many partitions of many topics have in common, and the directories, which are equal
where brokers have one each. A `PartitionState` is built when it is read, and equals the one that was put in.
"""

import abc
from array import array
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar, overload
from uuid import UUID

from quorate.broker.metadata.metadata_records import LeaderRecoveryState
from quorate.broker.metadata.states import EligibleLeaders, PartitionState

MAX_EPOCH: Final = (1 << 31) - 1
"""The largest leader epoch and partition epoch, as in Kafka's protocol."""
_MOST_RECENT: Final = 1 << 17
"""Different values that are remembered, up to twice: some 30 MB of the largest."""

Brokers: TypeAlias = tuple[int, ...]
Directories: TypeAlias = tuple[UUID, ...]
Shape: TypeAlias = tuple[Brokers, Brokers, Brokers, Brokers, int, LeaderRecoveryState, EligibleLeaders]
"""The fields of a `PartitionState` between its epochs and its directories, in their order."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)
_new = tuple.__new__


class Remembered(dict[K, V], abc.ABC):
    """`remembered[key]` is one value for equal keys, of those that were asked for of late. It forgets, so
    that a cluster in which no two are equal does not pay for all of them; then the value is made again."""

    __slots__ = ("_earlier", "_most")

    def __init__(self, most: int = _MOST_RECENT) -> None:
        super().__init__()
        self._most = most
        self._earlier: dict[K, V] = {}
        """The last `most` before these: one that is asked for again stays."""

    def __missing__(self, key: K) -> V:
        held = self._earlier.get(key)
        if held is None:
            held = self._made(key)
        if len(self) >= self._most:
            self._earlier = self.copy()
            self.clear()
        self[key] = held
        return held

    @abc.abstractmethod
    def _made(self, key: K) -> V:
        """Return the value for `key` from here on."""


class Recent(Remembered[H, H]):
    """`recent[value]` is one object for equal values."""

    __slots__ = ()

    def _made(self, key: H) -> H:
        return key


class _Shapes(Recent[Shape]):
    """Different shapes have most of their lists in common."""

    __slots__ = ("_brokers",)

    def __init__(self) -> None:
        super().__init__()
        self._brokers: Recent[Brokers] = Recent()

    def _made(self, key: Shape) -> Shape:
        replicas, isr, removing, adding, leader, recovery, eligible = key
        known = self._brokers
        return (known[replicas], known[isr], known[removing], known[adding], leader, recovery, eligible)


class SharedParts:
    """The parts that partitions have in common. Images that were copied from one another have one: its values
    are immutable, and nothing else depends on which of two equal objects a partition refers to."""

    __slots__ = ("directories", "shapes")

    def __init__(self) -> None:
        self.directories: Recent[Directories] = Recent()
        self.shapes = _Shapes()


class TopicPartitions(Sequence[PartitionState]):
    """A topic's partitions by index. Images that were copied from one another share it until one of them
    changes a partition: `owner` is the one that may."""

    __slots__ = ("_directories", "_leader_epochs", "_partition_epochs", "_shapes", "owner")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self._leader_epochs = array("i")
        self._partition_epochs = array("i")
        self._shapes: list[Shape] = []
        self._directories: list[Directories] = []

    @classmethod
    def of(
        cls,
        *,
        leader_epochs: "array[int]",
        partition_epochs: "array[int]",
        shapes: list[Shape],
        directories: list[Directories],
    ) -> "TopicPartitions":
        """Partitions that no image has yet: columns of one length, not to be changed any more."""
        made = cls(None)
        made._leader_epochs = leader_epochs
        made._partition_epochs = partition_epochs
        made._shapes = shapes
        made._directories = directories
        return made

    def copy(self, owner: object) -> "TopicPartitions":
        """The same partitions, for another owner."""
        twin = TopicPartitions(owner)
        twin._leader_epochs = self._leader_epochs[:]
        twin._partition_epochs = self._partition_epochs[:]
        twin._shapes = self._shapes[:]
        twin._directories = self._directories[:]
        return twin

    # Reading

    def __len__(self) -> int:
        return len(self._shapes)

    @overload
    def __getitem__(self, index: int) -> PartitionState: ...
    @overload
    def __getitem__(self, index: slice) -> list[PartitionState]: ...

    def __getitem__(self, index: int | slice) -> PartitionState | list[PartitionState]:
        if isinstance(index, slice):
            return list(
                map(
                    _joined,
                    self._leader_epochs[index],
                    self._partition_epochs[index],
                    self._shapes[index],
                    self._directories[index],
                )
            )
        return _joined(
            self._leader_epochs[index],
            self._partition_epochs[index],
            self._shapes[index],
            self._directories[index],
        )

    def __iter__(self) -> Iterator[PartitionState]:
        return map(_joined, self._leader_epochs, self._partition_epochs, self._shapes, self._directories)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicPartitions):
            return NotImplemented
        return (
            self._leader_epochs == other._leader_epochs
            and self._partition_epochs == other._partition_epochs
            and self._shapes == other._shapes
            and self._directories == other._directories
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def part(self, start: int, end: int | None = None) -> "TopicPartitions":
        """Those from `start` on, up to `end` (exclusive), as they are now."""
        return TopicPartitions.of(
            leader_epochs=self._leader_epochs[start:end],
            partition_epochs=self._partition_epochs[start:end],
            shapes=self._shapes[start:end],
            directories=self._directories[start:end],
        )

    @property
    def shapes(self) -> Sequence[Shape]:
        """The shape of each partition, by index."""
        return self._shapes

    @property
    def directories(self) -> Sequence[Directories]:
        """The directories of each partition, by index."""
        return self._directories

    # Changing. Only for the owner, with epochs up to MAX_EPOCH.

    def append(self, state: PartitionState, shared: SharedParts) -> None:
        self._leader_epochs.append(state[0])
        self._partition_epochs.append(state[1])
        self._shapes.append(shared.shapes[state[2:9]])
        self._directories.append(shared.directories[state[9]])

    def extend(self, others: "TopicPartitions") -> None:
        self._leader_epochs += others._leader_epochs
        self._partition_epochs += others._partition_epochs
        self._shapes += others._shapes
        self._directories += others._directories

    def replace(self, index: int, state: PartitionState, shared: SharedParts) -> None:
        self._leader_epochs[index] = state[0]
        self._partition_epochs[index] = state[1]
        self._shapes[index] = shared.shapes[state[2:9]]
        self._directories[index] = shared.directories[state[9]]

    def shrink(self, left: int) -> None:
        """Drop the partitions from `left` on."""
        for column in (self._leader_epochs, self._partition_epochs, self._shapes, self._directories):
            del column[left:]


def _joined(
    leader_epoch: int, partition_epoch: int, shape: Shape, directories: Directories
) -> PartitionState:
    # As `PartitionState(...)`, at a third of the cost.
    return _new(PartitionState, (leader_epoch, partition_epoch, *shape, directories))
