"""Counts of partitions by broker, updated with every change.

An index from brokers to their partitions would cost more than the partitions themselves (three replicas
each). Counts answer "does it lead anything", and end a pass over the image as soon as nothing is left to
find; a pass over a million partitions that changes none takes a fifth of a second, in pieces (`sweep`).

A topic's partitions from number `PIECE` on are counted apart, so many together: when the topic is deleted,
their counts go as they are, and no step of the event loop counts more than one piece.
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Final, TypeAlias

from quorate.broker.metadata.metadata_records import MIGRATING, NO_LEADER
from quorate.broker.metadata.states import NO_ELIGIBLE, PartitionState
from quorate.broker.metadata.topic_partitions import TopicPartitions

Home: TypeAlias = tuple[int, uuid.UUID]
"""The place of a replica: its broker and its directory."""
PIECE: Final = 2048
"""Partitions of a topic that are counted in two or three milliseconds."""
_MOST_PLACED: Final = 2048
"""Counted in a millisecond or two."""
_MOST_PENDING: Final = 2048
"""Partitions that are counted together, in about two milliseconds."""


class Tallies:
    """The counts of some partitions. Mutable."""

    __slots__ = (
        "_directories",
        "_few",
        "_homes",
        "_pending",
        "_placed",
        "displaced",
        "elrs",
        "isrs",
        "leaderless",
        "leaders",
        "preferred",
        "reassigning",
    )

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        """The number of partitions that each broker leads."""
        self.isrs: dict[int, int] = {}
        """The number of ISRs that each broker is in."""
        self.elrs: dict[int, int] = {}
        """The number of ELRs that each broker is in."""
        self.leaderless = 0
        """The number of partitions without a leader."""
        self.preferred: dict[int, int] = {}
        """The number of partitions whose first replica is on each broker."""
        self.displaced: dict[int, int] = {}
        """The number of those that the broker does not lead."""
        self.reassigning = 0
        """The number of partitions with replicas that are being added or removed."""
        self._homes: dict[Home, int] = {}
        """The number of replicas in each directory of each broker, without those in `_placed`."""
        # By the identity of a directory's id, a little at a time: records share these mostly, and to hash one
        # costs more than all the rest.
        self._placed: dict[tuple[int, int], int] = {}
        self._directories: dict[int, uuid.UUID] = {}
        """The directories by their identity, which stays theirs while they are here."""
        self._pending: list[TopicPartitions] = []
        """Partitions that are not counted yet: together they take a fifth of the time."""
        self._few = 0
        """The number of partitions in `_pending`."""

    @property
    def settled(self) -> "Tallies":
        """Itself, with everything counted."""
        if self._pending:
            self._count_pending()
        return self

    def copy(self) -> "Tallies":
        twin = Tallies()
        self._settle()
        twin.leaders = self.leaders.copy()
        twin.isrs = self.isrs.copy()
        twin.elrs = self.elrs.copy()
        twin.leaderless = self.leaderless
        twin.preferred = self.preferred.copy()
        twin.displaced = self.displaced.copy()
        twin.reassigning = self.reassigning
        twin._homes = self._homes.copy()
        return twin

    def homes(self) -> Mapping[Home, int]:
        """Return how many replicas are in each directory of each broker."""
        self._settle()
        return self._homes

    def add(self, state: PartitionState) -> None:
        # With few calls, because a replay comes here for each partition.
        leader, first = state.leader, state.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + 1
        if leader == first:
            self.leaders[leader] = self.leaders.get(leader, 0) + 1
        else:
            self._lead(leader, 1)
            self.displaced[first] = self.displaced.get(first, 0) + 1
        self._place(state.replicas, state.directories, 1)
        isrs = self.isrs
        for broker_id in state.isr:
            isrs[broker_id] = isrs.get(broker_id, 0) + 1
        if state.adding_replicas or state.removing_replicas:
            self.reassigning += 1
        if state.eligible.elr:
            _count(self.elrs, state.eligible.elr, 1)

    def add_all(self, states: TopicPartitions) -> None:
        """Add many partitions, which don't change any more."""
        self._pending.append(states)
        self._few += len(states)
        if self._few >= _MOST_PENDING:
            self._count_pending()

    def _count_pending(self) -> None:
        pending, self._pending, self._few = self._pending, [], 0
        self._count_together(pending, 1)

    def _count_together(self, columns: Sequence[TopicPartitions], by: int) -> None:
        shapes = [shape for states in columns for shape in states.shapes]
        replicas = [shape[0] for shape in shapes]
        firsts = [brokers[0] for brokers in replicas]
        leaders = [shape[4] for shape in shapes]
        displaced = [first for first, leader in zip(firsts, leaders, strict=True) if first != leader]
        for leader, times in Counter(leaders).items():
            self._lead(leader, times * by)
        _add(self.preferred, Counter(firsts), by)
        _add(self.displaced, Counter(displaced), by)
        _add(self.isrs, Counter(chain.from_iterable([shape[1] for shape in shapes])), by)
        self.reassigning += by * len([shape for shape in shapes if shape[2] or shape[3]])
        eligible = [shape[6].elr for shape in shapes if shape[6] is not NO_ELIGIBLE]
        _add(self.elrs, Counter(chain.from_iterable(eligible)), by)
        placed = [ids for states in columns for ids in states.directories]
        if () in placed:
            placed = [ids or (MIGRATING,) * len(of) for of, ids in zip(replicas, placed, strict=True)]
        # By the identity of a directory's id, which stays its own while the columns hold it.
        directories = list(chain.from_iterable(placed))
        known = dict(zip(map(id, directories), directories, strict=True))
        pairs = Counter(zip(chain.from_iterable(replicas), map(id, directories), strict=True))
        for (replica, identity), times in pairs.items():
            self._move((replica, known[identity]), times * by)

    def _move(self, home: Home, by: int) -> None:
        homes = self._homes
        homes[home] = homes.get(home, 0) + by
        if not homes[home]:
            del homes[home]

    def remove(self, states: TopicPartitions) -> None:
        """Remove all of these partitions, which are counted together."""
        self._count_together((states,), -1)

    def replace(self, *, before: PartitionState, after: PartitionState) -> None:
        if before.leader != after.leader:
            self._lead(before.leader, -1)
            self._lead(after.leader, 1)
        if before.leader != after.leader or before.replicas is not after.replicas:
            self._prefer(before, -1)
            self._prefer(after, 1)
        if before.replicas is not after.replicas or before.directories is not after.directories:
            self._place(before.replicas, before.directories, -1)
            self._place(after.replicas, after.directories, 1)
        if (
            before.adding_replicas is not after.adding_replicas
            or before.removing_replicas is not after.removing_replicas
        ):
            self.reassigning += after.is_reassigning - before.is_reassigning
        if before.isr is not after.isr:
            _count(self.isrs, before.isr, -1)
            _count(self.isrs, after.isr, 1)
        if before.eligible is not after.eligible:
            _count(self.elrs, before.elr, -1)
            _count(self.elrs, after.elr, 1)

    def _place(self, replicas: tuple[int, ...], directories: tuple[uuid.UUID, ...], by: int) -> None:
        placed = self._placed
        for replica, directory in zip(replicas, directories or repeat(MIGRATING), strict=False):
            key = (replica, id(directory))
            try:
                placed[key] += by
            except KeyError:
                if len(placed) >= _MOST_PLACED:
                    self._settle()
                self._directories[key[1]] = directory
                placed[key] = by

    def _settle(self) -> None:
        if self._pending:
            self._count_pending()
        for (replica, identity), times in self._placed.items():
            self._move((replica, self._directories[identity]), times)
        self._placed.clear()
        self._directories.clear()

    def _prefer(self, state: PartitionState, by: int) -> None:
        first = state.replicas[0]
        self.preferred[first] = self.preferred.get(first, 0) + by
        if state.leader != first:
            self.displaced[first] = self.displaced.get(first, 0) + by

    def _lead(self, leader: int, by: int) -> None:
        if leader == NO_LEADER:
            self.leaderless += by
        else:
            self.leaders[leader] = self.leaders.get(leader, 0) + by


class TopicTallies:
    """The counts of all partitions. Mutable; owned by one image."""

    __slots__ = ("_first", "_further", "partitions")

    def __init__(self) -> None:
        self.partitions = 0
        """The number of partitions."""
        self._first = Tallies()
        """The counts of the first piece of every topic."""
        self._further: dict[uuid.UUID, list[Tallies]] = {}
        """The counts of the other pieces, by topic."""

    def copy(self) -> "TopicTallies":
        twin = TopicTallies()
        twin.partitions = self.partitions
        twin._first = self._first.copy()
        twin._further = {
            topic_id: [piece.copy() for piece in pieces] for topic_id, pieces in self._further.items()
        }
        return twin

    # Reading

    def leaders(self, broker_id: int) -> int:
        """Return the number of partitions that the broker leads."""
        return sum(each.leaders.get(broker_id, 0) for each in self._settled())

    def isrs(self, broker_id: int) -> int:
        """Return the number of ISRs that the broker is in."""
        return sum(each.isrs.get(broker_id, 0) for each in self._settled())

    def elrs(self, broker_id: int) -> int:
        """Return the number of ELRs that the broker is in."""
        return sum(each.elrs.get(broker_id, 0) for each in self._settled())

    def isr_members(self) -> list[int]:
        """Return the brokers that are in any ISR."""
        counted = chain.from_iterable(each.isrs.items() for each in self._settled())
        return list(dict.fromkeys(broker_id for broker_id, count in counted if count))

    def has_elrs(self) -> bool:
        return any(any(each.elrs.values()) for each in self._settled())

    def leaderless(self) -> int:
        """Return the number of partitions without a leader."""
        return sum(each.leaderless for each in self._settled())

    def reassigning(self) -> int:
        """Return the number of partitions with replicas that are being added or removed."""
        return sum(each.reassigning for each in self._settled())

    def displaced(self) -> int:
        """Return the number of partitions that their first replica does not lead."""
        return sum(sum(each.displaced.values()) for each in self._settled())

    def imbalance(self, broker_id: int) -> float:
        """Return the share of those among the partitions whose first replica is on the broker; 0 if it has
        none."""
        preferred = displaced = 0
        for each in self._settled():
            preferred += each.preferred.get(broker_id, 0)
            displaced += each.displaced.get(broker_id, 0)
        return displaced / preferred if preferred else 0.0

    def homes(self) -> Mapping[Home, int]:
        """Return the number of replicas in each directory of each broker."""
        if not self._further:
            return self._first.homes()
        found: dict[Home, int] = {}
        for each in self._all():
            for home, count in each.homes().items():
                found[home] = found.get(home, 0) + count
        return found

    def _all(self) -> Iterator[Tallies]:
        yield self._first
        for pieces in self._further.values():
            yield from pieces

    def _settled(self) -> Iterator[Tallies]:
        return (each.settled for each in self._all())

    # Changing

    def add(self, topic_id: uuid.UUID, number: int, state: PartitionState) -> None:
        self.partitions += 1
        self._piece_of(topic_id, number).add(state)

    def add_all(self, topic_id: uuid.UUID, first: int, states: TopicPartitions) -> None:
        """Add many partitions, from number `first` on, which don't change any more."""
        self.partitions += len(states)
        end = first + len(states)
        if end <= PIECE:
            self._first.add_all(states)
            return
        at = first
        while at < end:
            stop = min(end, (at // PIECE + 1) * PIECE)
            self._piece_of(topic_id, at).add_all(states.part(at - first, stop - first))
            at = stop

    def replace(
        self, topic_id: uuid.UUID, number: int, *, before: PartitionState, after: PartitionState
    ) -> None:
        self._piece_of(topic_id, number).replace(before=before, after=after)

    def remove(self, topic_id: uuid.UUID, states: TopicPartitions, *, left: int) -> None:
        """Remove all partitions from number `left` on, of a topic that has `states`."""
        self.partitions -= len(states) - left
        last = left // PIECE
        further = self._further.get(topic_id)
        if further is not None:
            del further[last:]
            if not further:
                del self._further[topic_id]
        self._piece_of(topic_id, left).remove(states.part(left, (last + 1) * PIECE))

    def _piece_of(self, topic_id: uuid.UUID, number: int) -> Tallies:
        if number < PIECE:
            return self._first
        pieces = self._further.setdefault(topic_id, [])
        while len(pieces) < number // PIECE:
            pieces.append(Tallies())
        return pieces[number // PIECE - 1]


def _count(counts: dict[int, int], brokers: Iterable[int], by: int) -> None:
    for broker_id in brokers:
        counts[broker_id] = counts.get(broker_id, 0) + by


def _add(counts: dict[int, int], found: Mapping[int, int], by: int) -> None:
    for broker_id, times in found.items():
        counts[broker_id] = counts.get(broker_id, 0) + times * by
