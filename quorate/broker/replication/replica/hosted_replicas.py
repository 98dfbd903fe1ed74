"""The replicas that this broker hosts, and what is known of each."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import trio

from quorate.broker.metadata.metadata_records import LOST
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.foundation.purgatory import Watchers
from quorate.broker.replication.foundation.requests import TopicRef
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.storage.folders import PartitionIdentity
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.log import DamagedRange
from quorate.runtime import Slices


@dataclass(slots=True)
class HeldReplica:
    """A replica whose log is about to be set aside."""

    topic: str
    topic_id: uuid.UUID
    partition_id: int
    partition_epoch: int
    """The partition epoch of the state that was known when the replica was asked for."""
    left: trio.Event = field(default_factory=trio.Event)
    """Metadata says that the replica counts for nothing any more."""

    def hear(self, broker_id: int, state: PartitionState) -> None:
        """Take in a committed state."""
        if state.partition_epoch > self.partition_epoch and state.directory_of(broker_id) == LOST:
            self.left.set()


@dataclass(slots=True)
class Hosted:
    """One partition by name. A recreated topic has the same folder as its predecessor, and so has a partition
    of a topic that was shrunk and has grown again."""

    identity: PartitionIdentity
    target: PartitionState | None
    """The state to reach. None: the replica is to be removed."""
    partition: PartitionReplica | None = None
    stale: bool = False
    """The folder's contents belong to another partition than `target`, and are removed first."""
    removed: PartitionIdentity | None = None
    """The partition that the folder's contents belong to, while it is `stale`."""
    leaving: PartitionReplica | None = None
    """The open replica that no longer serves requests."""
    busy: bool = False
    """A task is at work. It reads `target` again when it is done."""
    starved_at: float | None = None
    """The time since which the log can't be opened for want of file descriptors."""
    damage: str | None = None
    """Why the log can't be opened although the disk works."""
    gives_up: bool = False
    """A task asks the controller to let another replica lead, as long as this one can't be opened."""
    held: HeldReplica | None = None
    """While its log is about to be set aside: it goes on in its present role, and takes no other."""
    fresh: uuid.UUID | None = None
    """The directory in which it begins anew, after its log was set aside there."""
    waits: bool = False
    """The replica is offline: metadata records it in a directory that isn't here."""

    @property
    def is_damaged(self) -> bool:
        return self.damage is not None or (self.partition is not None and bool(self.partition.damage))


class HostedReplicas:
    """The replicas of this broker by name, open or not, and the open ones by topic id."""

    __slots__ = ("_broker_id", "_folders", "_openings", "by_id", "by_name")

    def __init__(self, broker_id: int, folders: PartitionFolders) -> None:
        self._broker_id = broker_id
        self._folders = folders
        self.by_name: dict[tuple[str, int], Hosted] = {}
        """Only `Hosting` changes this table and `by_id`."""
        self._openings: dict[tuple[str, int], Watchers] = {}
        self.by_id: dict[tuple[uuid.UUID, int], PartitionReplica] = {}

    @property
    def settled(self) -> bool:
        """Return whether all replicas that are here and should be are open, and no others are."""
        folders = self._folders
        return all(
            not each.busy
            and (each.partition is not None or (each.waits and folders.log_directory_of(*key) is None))
            for key, each in self.by_name.items()
        )

    @property
    def offline(self) -> int:
        """Replicas that a failed disk has taken away, or that could not be opened."""
        return sum(
            each.target is not None
            and (not each.busy if each.partition is None else each.partition.failure is not None)
            for each in self.by_name.values()
        )

    def leads_in(self, directory: uuid.UUID) -> bool:
        """Return whether metadata has this broker lead a partition whose replica is in `directory`."""
        return any(
            each.target is not None
            and each.target.leader == self._broker_id
            and self._folders.directory_of(*key) == directory
            for key, each in self.by_name.items()
        )

    def has(self, partition: PartitionReplica) -> bool:
        """Return whether the partition is served, or would be if its disk worked."""
        return self.by_id.get((partition.topic_id, partition.partition_id)) is partition

    def opening(self, topic: str, partition_id: int) -> Watchers | None:
        """Return the watchers of a replica that metadata has here and that isn't open; None if no task will
        open it."""
        hosted = self.by_name.get((topic, partition_id))
        if hosted is not None and not hosted.busy:
            return None
        return self._openings.setdefault((topic, partition_id), Watchers())

    def end_opening(self, key: tuple[str, int]) -> None:
        """Wake the requests that wait for the replica: it is open, or can't be opened for now."""
        opening = self._openings.pop(key, None)
        if opening is not None:
            opening.changed()

    def is_starved(self, topic: str, partition_id: int) -> bool:
        """Return whether a lack of file descriptors keeps its log from being opened."""
        hosted = self.by_name.get((topic, partition_id))
        return hosted is not None and hosted.starved_at is not None

    def damage_of(self, topic: str, partition_id: int) -> str | None:
        """Return why its log can't be opened although the disk works; None: it can, or it isn't here."""
        hosted = self.by_name.get((topic, partition_id))
        return None if hosted is None else hosted.damage

    def is_damaged(self, topic: str, partition_id: int) -> bool:
        """Return whether a part of its log is known to be damaged, or it can't be opened because of that."""
        hosted = self.by_name.get((topic, partition_id))
        return hosted is not None and hosted.is_damaged

    @property
    def damaged(self) -> int:
        """Replicas of whose log a part is known to be damaged, or that can't be opened because of that."""
        return sum(each.is_damaged for each in self.by_name.values())

    async def damages(self) -> list[tuple[str, int, DamagedRange | str]]:
        """Return topic, partition and damage: a range that can't be read, or the reason why the log can't be
        opened."""
        found, slices = list[tuple[str, int, DamagedRange | str]](), Slices()
        for (topic, partition_id), hosted in list(self.by_name.items()):
            if hosted.damage is not None:
                found.append((topic, partition_id, hosted.damage))
            for each in () if hosted.partition is None else hosted.partition.damage:
                found.append((topic, partition_id, each))
            await slices.pause()
        return found

    def partitions(self) -> list[PartitionReplica]:
        """Return those that are open."""
        return [each.partition for each in self.by_name.values() if each.partition is not None]

    def find(self, topic: TopicRef, partition_id: int) -> PartitionReplica | None:
        """Return the replica if it is open."""
        if isinstance(topic, uuid.UUID):
            return self.by_id.get((topic, partition_id))
        hosted = self.by_name.get((topic, partition_id))
        return None if hosted is None else hosted.partition

    def each(self) -> Iterator[PartitionReplica]:
        """Yield the `partitions` for a walk in pieces. Those opened meanwhile are left out."""
        for key in tuple(self.by_name):
            hosted = self.by_name.get(key)
            if hosted is not None and hosted.partition is not None:
                yield hosted.partition
