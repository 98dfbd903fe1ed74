"""Members of a consumer group of a simulated broker cluster: they join, share the partitions, and commit.

What a member commits for a partition is one more than the group has committed before, so commits tell by
themselves whether any was lost, taken back or taken from a member whose partition is another's by now.

A member whose coordinator is gone looks for the next one and goes on in its generation, as clients do.
"""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Address, NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.patience import must_end
from quorate.simulation.violations import SafetyViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster

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


_ELSEWHERE: Final = (
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
)


@dataclass(frozen=True, slots=True)
class _Generation:
    number: int
    member_id: str
    partitions: Sequence[int]


class _NoCoordinatorError(Exception):
    """The broker names no coordinator: ask again."""


class _CoordinatorLostError(Exception):
    """Go on in the same generation with the next coordinator."""

    def __init__(self, generation: _Generation) -> None:
        super().__init__(generation.number)
        self.generation = generation


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
        self.outlived = 0
        """The number of times that a member went on in its generation with another coordinator."""
        self._rounds = [0] * members
        """The number of times, by member, that its coordinator heard it and acknowledged its commits."""
        self._round_ended = trio.Event()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(1, self._members + 1):
                nursery.start_soon(self._member, number, self._derived())

    async def read_on(self, *, within_s: float) -> None:
        """Wait until every member has been heard, and its commits acknowledged, once more. Raises
        `LivenessViolation`."""
        before = [rounds + 1 for rounds in self._rounds]  # one may be under way
        with must_end(within_s, f"a member of group {GROUP} did not read on within {within_s:g} s"):
            while any(now <= then for now, then in zip(self._rounds, before, strict=True)):
                await self._round_ended.wait()

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
            except (NetworkError, KafkaError, _NoCoordinatorError, _StartAgainError):
                await trio.sleep(0.2)

    # A member

    async def _member(self, number: int, source: random.Random) -> None:
        client = f"member-{number}"
        generation: _Generation | None = None
        while not self._finish.is_set():
            try:
                async with self._coordinator(client, source) as connection:
                    await self._live(number, connection, source, generation)
            except _CoordinatorLostError as lost:
                generation = lost.generation
            except _StartAgainError:
                generation = None
            except (NetworkError, KafkaError, _NoCoordinatorError):
                pass
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
            raise _NoCoordinatorError
        async with open_client(
            network, Address(found.host, found.port), client_id=client, timeout_s=_REQUEST_TIMEOUT_S
        ) as connection:
            yield connection

    async def _live(
        self, number: int, connection: WireClient, source: random.Random, generation: _Generation | None
    ) -> None:
        """Take part in one generation after another with one coordinator until `finish`, first in the one
        that another coordinator knew. Raises `_CoordinatorLostError` where it may be gone on with, and
        `_StartAgainError`."""
        client = f"member-{number}"
        if generation is not None and await self._goes_on(connection, generation):
            self.outlived += 1
            self._cluster.trace.add(client, f"goes on in generation {generation.number}")
        else:
            generation = await self._join(connection, generation)
        while True:
            self._cluster.trace.add(client, f"generation {generation.number} of {generation.partitions}")
            held = await self._held_by(connection, generation)
            while await self._goes_on(connection, generation):
                for partition in generation.partitions:
                    held[partition] = max(held[partition], 0) + 1
                await self._commit(client, connection, generation, held)
                self._rounds[number - 1] += 1
                self._round_ended.set()
                self._round_ended = trio.Event()
                await self._think(source)
                if self._finish.is_set():
                    return
            generation = await self._join(connection, generation)

    async def _join(self, connection: WireClient, last: _Generation | None) -> _Generation:
        try:
            return await self._join_as(connection, "" if last is None else last.member_id)
        except (NetworkError, KafkaError) as error:
            raise _StartAgainError from error

    async def _join_as(self, connection: WireClient, member_id: str) -> _Generation:
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
            return await self._join_as(connection, joined.member_id)
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
        try:
            received = await connection.call(
                ApiKey.HEARTBEAT,
                group_id=GROUP,
                generation_id=generation.number,
                member_id=generation.member_id,
                group_instance_id=None,
            )
        except (NetworkError, KafkaError) as error:
            raise _CoordinatorLostError(generation) from error
        answer = cast("HeartbeatResponse", received)
        if answer.error_code in _ELSEWHERE:
            raise _CoordinatorLostError(generation)
        if answer.error_code not in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            raise _StartAgainError
        return answer.error_code is ErrorCode.none

    async def _held_by(self, connection: WireClient, generation: _Generation) -> dict[int, int]:
        try:
            return await self._fetch_offsets(connection, generation.partitions)
        except (NetworkError, KafkaError, _StartAgainError) as error:
            raise _CoordinatorLostError(generation) from error

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
        try:
            answer = await self._ask_to_commit(connection, generation, held)
        except (NetworkError, KafkaError) as error:
            # The commit may yet happen, and must not follow one of another generation: leave this one.
            raise _StartAgainError from error
        if not held:
            return
        for each in answer.topics[0].partitions:
            if each.error_code in _ELSEWHERE:
                raise _CoordinatorLostError(generation)
            if each.error_code is not ErrorCode.none:
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

    async def _ask_to_commit(
        self, connection: WireClient, generation: _Generation, held: dict[int, int]
    ) -> "OffsetCommitResponse":
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
        return cast("OffsetCommitResponse", received)
