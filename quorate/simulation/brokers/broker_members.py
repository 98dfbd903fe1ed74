"""Members of a consumer group of a simulated broker cluster: they join, share the partitions, and commit.

What a member commits for a partition is one more than the group has committed before, so commits tell by
themselves whether any was lost, taken back or taken from a member whose partition is another's by now.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire import BY_NAME, ApiKey, KafkaError, WireClient, open_client
from quorate.runtime import Address, NetworkError
from quorate.simulation.brokers.broker_cluster import BrokerCluster
from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.heartbeat.v4.response import HeartbeatResponse
    from kio.schema.join_group.v9.response import JoinGroupResponse
    from kio.schema.offset_commit.v10.response import OffsetCommitResponse
    from kio.schema.offset_fetch.v10.response import OffsetFetchResponse
    from kio.schema.sync_group.v5.response import SyncGroupResponse

GROUP: Final = "readers"
_REQUEST_TIMEOUT_S: Final = 2.0
_REBALANCE_TIMEOUT: Final = timedelta(seconds=2)
_SESSION_TIMEOUT: Final = timedelta(seconds=2)


class _StartAgainError(Exception):
    """Join as a new member: the last request's outcome is unknown, or the coordinator is elsewhere."""


@dataclass(frozen=True, slots=True)
class _Generation:
    number: int
    member_id: str
    partitions: Sequence[int]


class GroupMembers(Clients[BrokerCluster]):
    """`members` consumers of one group that commit offsets for the partitions of `topic` until `finish`."""

    def __init__(
        self, cluster: BrokerCluster, topic: str, source: random.Random, *, members: int, think_max_s: float
    ) -> None:
        super().__init__(cluster, source)
        self._topic = topic
        self._members = members
        self._think_max_s = think_max_s
        self.acknowledged: dict[int, int] = {}
        """The newest offset per partition whose commit was acknowledged."""
        self.commits = 0
        """The number of acknowledged commits."""

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(1, self._members + 1):
                nursery.start_soon(self._member, f"member-{number}", self._derived())

    async def check(self) -> None:
        """Check that the present coordinator has the acknowledged commits. Raises `SafetyViolation`."""
        held = await self._held()
        for partition, offset in self.acknowledged.items():
            if held[partition] < offset:
                raise SafetyViolation(
                    f"CommittedOffsetsStay: {offset} was committed for {self._topic}-{partition}, and the "
                    f"group is at {held[partition]} now"
                )

    async def _held(self) -> dict[int, int]:
        while True:
            try:
                async with self._coordinator("auditor", self._random) as connection:
                    return await self._fetch_offsets(connection, range(self._cluster.settings.partitions))
            except (NetworkError, KafkaError, _StartAgainError):
                await trio.sleep(0.2)

    # A member

    async def _member(self, client: str, source: random.Random) -> None:
        while not self._finish.is_set():
            try:
                async with self._coordinator(client, source) as connection:
                    await self._live(client, connection, source)
            except (NetworkError, KafkaError, _StartAgainError):
                await self._think(source)

    async def _think(self, source: random.Random) -> None:
        await self._pause(source, self._think_max_s, min_s=0.05)

    @asynccontextmanager
    async def _coordinator(self, client: str, source: random.Random) -> AsyncIterator[WireClient]:
        network = self._cluster.network.for_node(client)
        host = source.choice(self._cluster.nodes)
        async with open_client(
            network, host.address, client_id=client, timeout_s=_REQUEST_TIMEOUT_S
        ) as connection:
            received = await connection.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[GROUP])
            answer = cast("FindCoordinatorResponse", received)
        found = answer.coordinators[0]
        if found.error_code is not ErrorCode.none:
            raise _StartAgainError
        async with open_client(
            network, Address(found.host, found.port), client_id=client, timeout_s=_REQUEST_TIMEOUT_S
        ) as connection:
            yield connection

    async def _live(self, client: str, connection: WireClient, source: random.Random) -> None:
        """Take part in one generation after another with one coordinator."""
        member_id = ""
        while not self._finish.is_set():
            generation = await self._join(connection, member_id)
            member_id = generation.member_id
            self._cluster.trace.add(client, f"generation {generation.number} of {generation.partitions}")
            held = await self._fetch_offsets(connection, generation.partitions)
            while await self._goes_on(connection, generation):
                for partition in generation.partitions:
                    held[partition] = max(held[partition], 0) + 1
                await self._commit(client, connection, generation, held)
                await self._think(source)
                if self._finish.is_set():
                    return

    async def _join(self, connection: WireClient, member_id: str) -> _Generation:
        joined = await self._ask_to_join(connection, member_id)
        if joined.error_code is ErrorCode.member_id_required:
            joined = await self._ask_to_join(connection, joined.member_id)
        if joined.error_code is not ErrorCode.none:
            raise _StartAgainError
        partitions = range(self._cluster.settings.partitions)
        members = sorted(each.member_id for each in joined.members)
        received = await connection.call(
            ApiKey.SYNC_GROUP,
            timeout_s=_REBALANCE_TIMEOUT.total_seconds() + _REQUEST_TIMEOUT_S,
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="share",
            assignments=[
                {"member_id": each, "assignment": bytes(partitions[index :: len(members)])}
                for index, each in enumerate(members)
            ],
        )
        synced = cast("SyncGroupResponse", received)
        if synced.error_code is ErrorCode.rebalance_in_progress:
            return await self._join(connection, joined.member_id)
        if synced.error_code is not ErrorCode.none:
            raise _StartAgainError
        return _Generation(joined.generation_id, joined.member_id, tuple(synced.assignment))

    async def _ask_to_join(self, connection: WireClient, member_id: str) -> "JoinGroupResponse":
        received = await connection.call(
            ApiKey.JOIN_GROUP,
            timeout_s=_REBALANCE_TIMEOUT.total_seconds() + _REQUEST_TIMEOUT_S,
            group_id=GROUP,
            session_timeout=_SESSION_TIMEOUT,
            rebalance_timeout=_REBALANCE_TIMEOUT,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "share", "metadata": b""}],
        )
        return cast("JoinGroupResponse", received)

    async def _goes_on(self, connection: WireClient, generation: _Generation) -> bool:
        """Return whether the generation continues; otherwise join the next one."""
        received = await connection.call(
            ApiKey.HEARTBEAT,
            group_id=GROUP,
            generation_id=generation.number,
            member_id=generation.member_id,
            group_instance_id=None,
        )
        answer = cast("HeartbeatResponse", received)
        if answer.error_code not in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            raise _StartAgainError
        return answer.error_code is ErrorCode.none

    async def _fetch_offsets(self, connection: WireClient, partitions: Sequence[int]) -> dict[int, int]:
        """Return the committed offsets; -1 where nothing was committed."""
        received = await connection.call(
            ApiKey.OFFSET_FETCH,
            at_most=BY_NAME[ApiKey.OFFSET_FETCH],
            groups=[
                {
                    "group_id": GROUP,
                    "topics": [{"name": self._topic, "partition_indexes": list(partitions)}],
                }
            ],
            require_stable=False,
        )
        answer = cast("OffsetFetchResponse", received)
        group = answer.groups[0]
        if group.error_code is not ErrorCode.none:
            raise _StartAgainError
        return {each.partition_index: each.committed_offset for each in group.topics[0].partitions}

    async def _commit(
        self, client: str, connection: WireClient, generation: _Generation, held: dict[int, int]
    ) -> None:
        before = dict(self.acknowledged)
        received = await connection.call(
            ApiKey.OFFSET_COMMIT,
            at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
            group_id=GROUP,
            generation_id_or_member_epoch=generation.number,
            member_id=generation.member_id,
            group_instance_id=None,
            topics=[
                {
                    "name": self._topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                        for partition, offset in held.items()
                    ],
                }
            ],
        )
        answer = cast("OffsetCommitResponse", received)
        if not held:
            return
        for each in answer.topics[0].partitions:
            if each.error_code is not ErrorCode.none:
                # A commit that may yet happen must not follow those of a later generation: leave this one.
                raise _StartAgainError
            partition, offset = each.partition_index, held[each.partition_index]
            self.commits += 1
            self._cluster.trace.add(client, f"committed {offset} for {partition}")
            if offset <= before.get(partition, -1):
                self._cluster.found(
                    "CommittedOffsetsStay",
                    SafetyViolation(
                        f"{client}, generation {generation.number}, committed {offset} for {self._topic}-"
                        f"{partition}, where {before[partition]} had been acknowledged before it asked"
                    ),
                )
            self.acknowledged[partition] = max(offset, self.acknowledged.get(partition, -1))
