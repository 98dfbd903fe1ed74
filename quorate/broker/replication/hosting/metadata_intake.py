"""Committed metadata comes to the replicas of this broker: the intake turns each change into work on them."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import trio

from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.replication_quota import ReplicationQuotas
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.state_changes import Cause, ChangeJournal, ChangeSummary
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.topic_settings import configure
from quorate.broker.replication.storage.folders import PartitionIdentity
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.broker.settings.topic_config import TopicConfig
from quorate.runtime import get_logger

log = get_logger(__name__)

LOOKED_AT: Final = 1
"""The cost of seeing that a partition needs nothing: less than a microsecond."""
CHANGED: Final = 16
"""The cost of giving a partition another role: tens of microseconds."""
_PIECE: Final = 1024
"""64 changes, or a few milliseconds."""


class Backlog:
    """Work on many partitions, in the order in which it came, a piece of it in each pass of the event loop.
    Each work is an iterator that does a little and yields its cost."""

    __slots__ = ("_wake", "_works")

    def __init__(self) -> None:
        self._works: deque[Iterator[int]] = deque()
        self._wake = trio.Event()

    @property
    def empty(self) -> bool:
        return not self._works

    def add(self, work: Iterator[int]) -> None:
        """Begin at once if nothing waits, so a small work is done when this returns. Raises the work's
        errors."""
        idle = not self._works
        self._works.append(work)
        if idle:
            self._do_piece()
        if self._works:
            self._wake.set()

    async def run(self) -> None:
        """Do the waiting works. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._works:
                await trio.lowlevel.checkpoint()
                self._do_piece()

    def _do_piece(self) -> None:
        left = _PIECE
        while left > 0 and self._works:
            cost = next(self._works[0], None)
            if cost is None:
                self._works.popleft()
            else:
                left -= cost


class MetadataIntake:
    """Sets the image that this broker's replicas act upon, and has them act."""

    __slots__ = (
        "_backlog",
        "_broker_id",
        "_folders",
        "_hosted",
        "_hosting",
        "_journal",
        "_metadata",
        "_now_ms",
        "_quotas",
        "began",
    )

    def __init__(
        self,
        broker_id: int,
        metadata: CurrentMetadata,
        hosted: HostedReplicas,
        hosting: Hosting,
        journal: ChangeJournal,
        *,
        folders: PartitionFolders,
        quotas: ReplicationQuotas,
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._hosted = hosted
        self._hosting = hosting
        self._journal = journal
        self._folders = folders
        self._quotas = quotas
        self._now_ms = now_ms
        self.began = False
        """True once any metadata was applied."""
        self._backlog = Backlog()

    async def run(self) -> None:
        """Work off what `apply` began. Runs until cancelled."""
        await self._backlog.run()

    @property
    def complete(self) -> bool:
        """True if all that was applied has been worked off, and there was anything."""
        return self.began and self._backlog.empty

    def apply(
        self,
        delta: MetadataDelta,
        image: MetadataImage,
        *,
        then: Callable[[PartitionDelta], None] = lambda each: None,
    ) -> None:
        """Apply the changes of committed records. Never waits: logs are opened and removed in the background,
        and a change of many partitions in pieces (`changes`). `then` is called with each partition when
        it has its role here, but not with new ones of other brokers."""
        self._metadata.image = image
        cause = Cause(delta.end_offset - 1, trio.current_time(), self._now_ms())
        self._journal.arrived(cause)
        if not self.began:
            self.began = True
            self._backlog.add(self._remove_strays(image, cause))
        self._backlog.add(self._take_in(delta, image, then, cause))

    @property
    def changes(self) -> ChangeSummary:
        """Return how far this broker is with the state changes of its replicas."""
        return self._journal.summary(now=trio.current_time())

    def _take_in(
        self,
        delta: MetadataDelta,
        image: MetadataImage,
        then: Callable[[PartitionDelta], None],
        cause: Cause,
    ) -> Iterator[int]:
        broker_id, removed = self._broker_id, list[PartitionDelta]()
        for each in delta.looks_for(broker_id):
            cost = LOOKED_AT
            if each is None:
                yield cost
                continue
            if each.after is not None and broker_id in each.after.replicas:
                self._hosting.host(
                    each.topic,
                    each.topic_id,
                    each.partition_id,
                    each.after,
                    first_epoch=each.first_epoch,
                    cause=cause,
                )
                cost = CHANGED
            elif each.before is not None and broker_id in each.before.replicas:
                removed.append(each)
            then(each)
            yield cost
        for each in removed:
            self._hosting.drop(each.topic, each.topic_id, each.partition_id, cause=cause)
            yield CHANGED
        yield from self._configure(delta, image)
        if delta.brokers:
            # A changed broker may join an ISR or not, and holds the high watermark back accordingly.
            for partition in self._hosted.each():
                partition.advance_high_watermark()
                partition.settle_deletions()
                yield LOOKED_AT
        self._journal.acted()

    def _configure(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[int]:
        topics = {each.name for each in delta.configs if each.type is ConfigType.TOPIC}
        everywhere = any(self._is_ours(each) for each in delta.configs)
        if not topics and not everywhere:
            return
        self._quotas.configure(image)
        configs: dict[str, TopicConfig] = {}
        for partition in self._hosted.each():
            topic = partition.topic
            if not everywhere and topic not in topics:
                yield LOOKED_AT
                continue
            if topic not in configs:
                configs[topic] = self._metadata.config_in(image, topic)
            configure(partition, configs[topic])
            yield CHANGED

    def _is_ours(self, resource: ConfigResource) -> bool:
        """Return whether a resource is of this broker, or of all."""
        return resource.type is ConfigType.BROKER and resource.name in ("", str(self._broker_id))

    def _remove_strays(self, image: MetadataImage, cause: Cause) -> Iterator[int]:
        """Remove replicas that were given to others, or whose topic was deleted or shrunk, while this broker
        was down. `image` has the broker's registration, so that it is newer than all that it acted upon in an
        earlier life."""
        for key in self._folders.namesakes.held():
            known = image.topic(key[0])
            if known is not None:
                identity = PartitionIdentity(known.topic_id, known.first_epoch(key[1]))
                self._folders.namesakes.prefer(key, identity)
        for topic, partition_id, (topic_id, first_epoch) in self._folders.held():
            held, state = image.topic_by_id(topic_id), image.partition(topic_id, partition_id)
            if (
                held is None
                or state is None
                or self._broker_id not in state.replicas
                or held.first_epoch(partition_id) != first_epoch
            ):
                log.info("removing a stray replica", topic=topic, partition=partition_id)
                self._hosting.drop(topic, topic_id, partition_id, cause=cause)
            yield CHANGED
