"""The readiness of the leaders of new partitions.

A leader learns of its partitions a moment after the controller has committed them, and then opens their logs.
Kafka answers CreateTopics before that, and its clients try again for tens of milliseconds. Few partitions are
waited for, as that takes no longer. Many take seconds, and are answered at once, as by Kafka.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Address, Network, NetworkError

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.response import ListOffsetsResponse

_NOT_YET: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.leader_not_available,
)
_LATEST: Final = -1
_WAITED_FOR_MAX: Final = 100
"""The most partitions of a request that it waits for: their three replicas are opened in some 0.2 s on one
machine, a thousand in 3 s."""
_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 3.0
"""The time after which waiting for a leader that serves nothing is no use."""

_Partition = tuple[str, int]


@dataclass(slots=True, eq=False)
class _SharedClient:
    """A connection to a leader, open while it has users. A broken one has no users soon, because each asks
    every 50 ms, and leaves."""

    users: int = 0
    client: WireClient | None = None
    """None until `settled`, and then if there is no connection."""
    settled: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class LeaderReadiness:
    """Asks the leaders, each over one connection however many creations wait for it."""

    def __init__(
        self,
        network: Network,
        *,
        broker_id: int,
        metadata: MetadataCache,
        lookups: PartitionLookups,
        connect: Callable[[int], Address | None],
        tasks: trio.Nursery,
    ) -> None:
        """`connect`: where another broker listens for brokers; None if it isn't known. `tasks` holds the
        connections."""
        self._network = network
        self._broker_id = broker_id
        self._metadata = metadata
        self._lookups = lookups
        self._connect = connect
        self._tasks = tasks
        self._clients: dict[int, _SharedClient] = {}

    async def wait(self, topics: Mapping[str, int], *, deadline: float) -> None:
        """Return when every leader of new partitions serves them, or at `deadline` on trio's clock; at once
        if they are many. `topics`: the first new partition of each. Never raises, because the partitions are
        created even if their leaders do not serve them."""
        by_leader = self._by_leader(topics)
        if sum(map(len, by_leader.values())) > _WAITED_FOR_MAX:
            return
        with trio.move_on_at(min(deadline, trio.current_time() + _PATIENCE_S)):
            async with trio.open_nursery() as nursery:
                for leader, partitions in by_leader.items():
                    if leader == self._broker_id:
                        nursery.start_soon(self._wait_here, partitions)
                    else:
                        nursery.start_soon(self._wait_for, leader, partitions)

    def _by_leader(self, topics: Mapping[str, int]) -> Mapping[int, list[_Partition]]:
        image = self._metadata.image
        found: dict[int, list[_Partition]] = defaultdict(list)
        for name, first in topics.items():
            topic = image.topic(name)
            if topic is None:
                continue
            for index, state in enumerate(image.partitions(topic.topic_id)[first:], first):
                broker = image.broker(state.leader)
                if broker is not None and not broker.fenced:
                    found[state.leader].append((name, index))
        return found

    async def _wait_here(self, partitions: list[_Partition]) -> None:
        pause = _FIRST_PAUSE_S
        for name, index in partitions:
            while not self._leads(name, index):
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _leads(self, name: str, index: int) -> bool:
        try:
            self._lookups.partition(name, index).check_leading()
        except PartitionError as error:
            return wire_code(error.code) not in _NOT_YET
        return True

    async def _wait_for(self, leader: int, partitions: list[_Partition]) -> None:
        # Logs are opened about in this order: while the last of many isn't, it stands for all of them.
        last, waiting = partitions[-1:] if len(partitions) > 1 else [], partitions
        pause = _FIRST_PAUSE_S
        while waiting:
            try:
                async with self._client_of(leader) as client:
                    while (last := await self._not_yet(client, last)) or (
                        waiting := await self._not_yet(client, waiting)
                    ):
                        await trio.sleep(pause)
                        pause = min(2 * pause, _LONGEST_PAUSE_S)
                return
            except (NetworkError, KafkaError, MalformedError):
                pass  # It may be restarting.
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    @asynccontextmanager
    async def _client_of(self, leader: int) -> AsyncIterator[WireClient]:
        """Use the connection to a leader, which all waiting creations share. Raises `NetworkError`."""
        shared = self._clients.get(leader)
        if shared is None:
            address = self._connect(leader)
            if address is None:
                raise NetworkError(f"broker {leader} has no address")
            shared = self._clients[leader] = _SharedClient()
            self._tasks.start_soon(partial(self._keep, shared, address))
        shared.users += 1
        try:
            await shared.settled.wait()
            if shared.client is None:
                raise NetworkError(f"no connection to broker {leader}")
            yield shared.client
        finally:
            shared.users -= 1
            if not shared.users:
                shared.scope.cancel()
                del self._clients[leader]

    async def _keep(self, shared: _SharedClient, address: Address) -> None:
        with shared.scope:
            try:
                async with open_client(self._network, address, timeout_s=_PATIENCE_S) as client:
                    shared.client = client
                    shared.settled.set()
                    await trio.sleep_forever()
            except (NetworkError, KafkaError, MalformedError):
                pass  # Its users hear of it.
            finally:
                shared.settled.set()

    async def _not_yet(self, client: WireClient, partitions: list[_Partition]) -> list[_Partition]:
        """Return the partitions that the leader does not serve."""
        if not partitions:
            return []
        asked: dict[str, list[int]] = defaultdict(list)
        for name, index in partitions:
            asked[name].append(index)
        response = await client.call(
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            isolation_level=0,
            topics=[
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": index, "timestamp": _LATEST, "current_leader_epoch": -1}
                        for index in indexes
                    ],
                }
                for name, indexes in asked.items()
            ],
        )
        answer = cast("ListOffsetsResponse", response)
        return [
            (topic.name, part.partition_index)
            for topic in answer.topics
            for part in topic.partitions
            if part.error_code in _NOT_YET
        ]
