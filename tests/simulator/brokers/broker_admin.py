"""An administrator of a simulated broker cluster that creates and deletes topics under faults."""

import enum
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin import topics
from quorate.broker.admin.admin_client import AdminClient
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.patience import holds_within
from quorate.simulation.violations import SafetyViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster
from tests.simulator.brokers.one_broker import code_of, open_one


class TopicFate(enum.Enum):
    """The administrator's knowledge of a topic."""

    ASKED_FOR = "asked for"
    CREATED = "created"
    DOOMED = "doomed"
    """The topic's deletion was requested."""
    DELETED = "deleted"


class Administrator(Clients[BrokerCluster]):
    """Every topic's name is used once, so "already exists" and "unknown" show the outcome of an earlier
    attempt."""

    def __init__(self, cluster: BrokerCluster, source: random.Random) -> None:
        super().__init__(cluster, source)
        self.fates: dict[str, TopicFate] = {}

    async def create(
        self, name: str, *, partitions: int, configs: Mapping[str, str] = MappingProxyType({})
    ) -> bool:
        """Ask one broker after the other until it exists. Whether one request did it: of several, one may
        be under way still."""
        await self._settled()
        self._decide(name, TopicFate.ASKED_FOR)
        asked = 0

        async def ask(admin: AdminClient) -> None:
            nonlocal asked
            asked += 1
            factor = self._cluster.settings.brokers
            await topics.create_topic(
                admin, name, partitions=partitions, replication_factor=factor, configs=list(configs.items())
            )

        self._cluster.creating += 1
        try:
            await self._until(ask, (ErrorCode.none, ErrorCode.topic_already_exists))
        finally:
            self._cluster.creating -= 1
        self._decide(name, TopicFate.CREATED)
        return asked == 1

    async def _settled(self) -> None:
        """Wait until no broker is registered with a lost directory, or losing its registration. A partition
        that was created on this broker alone would wait for the lost directory, and rightly so."""
        while not self._cluster.may_create():  # noqa: ASYNC110
            await trio.sleep(0.1)

    async def delete(self, name: str) -> None:
        """Ask one broker after the other until it does not exist. It must have been created."""
        self._decide(name, TopicFate.DOOMED)
        await self._until(
            lambda admin: topics.delete_topic(admin, name),
            (ErrorCode.none, ErrorCode.unknown_topic_or_partition),
        )
        self._decide(name, TopicFate.DELETED)

    async def churn(self, pause_max_s: float = 3.0) -> None:
        """Create topics and delete some of them until `finish`."""
        number = 0
        while not self._finish.is_set():
            await self._pause(self._random, pause_max_s)
            if self._finish.is_set():
                return
            number += 1
            name = f"topic-{number}"
            once = await self.create(name, partitions=1 + number % 3)
            if once and self._random.random() < 0.6:
                await trio.sleep(self._random.choice((0.0, 0.0, 0.5)))
                await self.delete(name)

    def _decide(self, name: str, fate: TopicFate) -> None:
        self.fates[name] = fate
        self._cluster.trace.add("admin", f"{name} {fate.value}")

    async def _until(
        self, ask: Callable[[AdminClient], Awaitable[object]], wanted: tuple[ErrorCode, ...]
    ) -> None:
        while True:
            host = self._random.choice(self._cluster.nodes)
            try:
                async with open_one(self._cluster, host, "admin") as admin:
                    error = await code_of(ask(admin))
                    if error in wanted:
                        return
                    self._cluster.trace.add("admin", f"{host.name} {error.name}")
            except (NetworkError, KafkaError):
                pass
            await trio.sleep(0.2)

    async def check(self, *, within_s: float) -> None:
        """Check that every node comes to have all topics that were created, and no trace of those that were
        deleted, not even on its disk. Raises `SafetyViolation`."""
        if not await holds_within(within_s, lambda: not list(self._wrong())):
            raise SafetyViolation(
                f"TopicsAreAsAnswered: {within_s:g} s after the last fault {list(self._wrong())}"
            )

    def _wrong(self) -> Iterator[str]:
        for node in self._cluster.nodes:
            names = set(node.image.topic_names())
            folders = [folder for path in node.log_dirs for folder in node.disk.list(path)]
            for name, fate in self.fates.items():
                if fate is TopicFate.CREATED and name not in names:
                    yield f"{node.name} lacks {name}, which was created"
                if fate is TopicFate.DELETED:
                    if name in names:
                        yield f"{node.name} has {name}, which was deleted"
                    left = [folder for folder in folders if folder.startswith(f"{name}-")]
                    if left:
                        yield f"{node.name} keeps {left} of {name}, which was deleted"
