"""What the image's partitions come to, by broker: kept up with every change instead of counted.

An index from brokers to their partitions would cost more than the partitions themselves; counts answer "does
it lead anything" and spare a scan for brokers that hold nothing.
"""

import uuid
from collections.abc import Iterable

from quorate.broker.controller.records import NO_LEADER
from quorate.broker.controller.states import PartitionKey, PartitionState


class Tallies:
    """Mutable; owned by one image."""

    __slots__ = ("elrs", "isrs", "leaderless", "leaders")

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        """How many partitions each broker leads."""
        self.isrs: dict[int, int] = {}
        """In how many ISRs each broker is."""
        self.elrs: dict[int, int] = {}
        """In how many ELRs each broker is."""
        self.leaderless: dict[PartitionKey, None] = {}
        """The partitions that nobody leads."""

    def copy(self) -> "Tallies":
        twin = Tallies()
        twin.leaders = self.leaders.copy()
        twin.isrs = self.isrs.copy()
        twin.elrs = self.elrs.copy()
        twin.leaderless = self.leaderless.copy()
        return twin

    def came(self, topic_id: uuid.UUID, partition_id: int, state: PartitionState) -> None:
        self._led(topic_id, partition_id, state.leader)
        _count(self.isrs, state.isr, 1)
        _count(self.elrs, state.elr, 1)

    def went(self, topic_id: uuid.UUID, partition_id: int, state: PartitionState) -> None:
        self._not_led(topic_id, partition_id, state.leader)
        _count(self.isrs, state.isr, -1)
        _count(self.elrs, state.elr, -1)

    def changed(
        self, topic_id: uuid.UUID, partition_id: int, *, before: PartitionState, after: PartitionState
    ) -> None:
        if before.leader != after.leader:
            self._not_led(topic_id, partition_id, before.leader)
            self._led(topic_id, partition_id, after.leader)
        if before.isr is not after.isr:
            _count(self.isrs, before.isr, -1)
            _count(self.isrs, after.isr, 1)
        if before.eligible is not after.eligible:
            _count(self.elrs, before.elr, -1)
            _count(self.elrs, after.elr, 1)

    def _led(self, topic_id: uuid.UUID, partition_id: int, leader: int) -> None:
        if leader == NO_LEADER:
            self.leaderless[PartitionKey(topic_id, partition_id)] = None
        else:
            self.leaders[leader] = self.leaders.get(leader, 0) + 1

    def _not_led(self, topic_id: uuid.UUID, partition_id: int, leader: int) -> None:
        if leader == NO_LEADER:
            self.leaderless.pop(PartitionKey(topic_id, partition_id), None)
        else:
            self.leaders[leader] -= 1


def _count(counts: dict[int, int], brokers: Iterable[int], by: int) -> None:
    for broker_id in brokers:
        counts[broker_id] = counts.get(broker_id, 0) + by
