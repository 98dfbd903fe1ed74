"""No request holds the event loop while a connection takes it in or refuses it, by the processor's time of
the loop's thread: frames of 100,000 elements, and some near the largest.

Every API that is served has its scenario here; a new one without any fails.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from gaps import within_gap
from kio.schema.errors import ErrorCode
from large_metadata import no_full_collection
from large_requests import fetch_body, produce_body

from quorate.broker.apis.api_table import ROWS
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, encode_entity, request_type
from quorate.broker.wire.connection import Connection, ConnectionLimits, ResponseBudget
from quorate.broker.wire.exchanges import CloseConnection, ConnectionContext
from quorate.broker.wire.feature_levels import NO_FEATURES
from quorate.broker.wire.framing import MAX_FRAME_BYTES
from quorate.broker.wire.headers import write_request_header
from quorate.broker.wire.loop_time import NothingCounted
from quorate.broker.wire.wire_errors import ErrorTable, KafkaError
from quorate.kafka_bytes.primitives import Pieces

pytestmark = pytest.mark.real_time

MANY = 100_000
REFUSED = 10_000


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


def body(key: ApiKey, version: int, **values: object) -> bytes:
    return b"".join(encode_entity(build(request_type(key, version), **values)))


def partitions(many: int, name: str = "name") -> list[dict[str, object]]:
    return [{name: "t", "partitions": [{}] * many}]


SCENARIOS: dict[str, tuple[ApiKey, int, Callable[[int], bytes | dict[str, object]]]] = {
    "Produce, of one topic": (ApiKey.PRODUCE, 9, lambda many: produce_body(1, many)),
    "Produce, of many topics": (ApiKey.PRODUCE, 9, lambda many: produce_body(many, 1)),
    "Produce, near the largest frame": (
        ApiKey.PRODUCE,
        9,
        lambda many: produce_body(1, 1, bytes(MAX_FRAME_BYTES - 1000)),
    ),
    "Fetch, of one topic": (ApiKey.FETCH, 12, lambda many: fetch_body(12, 1, many)),
    "Fetch, of many topics": (ApiKey.FETCH, 12, lambda many: fetch_body(12, many, 1)),
    "Fetch of an old client": (ApiKey.FETCH, 4, lambda many: fetch_body(4, 1, many)),
    "Fetch that forgets much": (ApiKey.FETCH, 12, lambda many: fetch_body(12, 0, 0, forgotten=many)),
    "ListOffsets": (ApiKey.LIST_OFFSETS, 7, lambda many: {"topics": partitions(many)}),
    "Metadata": (ApiKey.METADATA, 12, lambda many: {"topics": [{"name": "t"}] * many}),
    "Metadata of an old client": (ApiKey.METADATA, 0, lambda many: {"topics": [{"name": "t"}] * many}),
    "Metadata of long names": (ApiKey.METADATA, 12, lambda many: {"topics": [{"name": "t" * 20_000}] * 4000}),
    "OffsetCommit": (ApiKey.OFFSET_COMMIT, 8, lambda many: {"topics": partitions(many)}),
    "OffsetCommit of many topics": (
        ApiKey.OFFSET_COMMIT,
        8,
        lambda many: {"topics": [{"name": "t", "partitions": [{}]}] * (many // 2)},
    ),
    "OffsetFetch": (
        ApiKey.OFFSET_FETCH,
        7,
        lambda many: {"topics": [{"name": "t", "partition_indexes": range(many)}]},
    ),
    "OffsetFetch of many groups": (
        ApiKey.OFFSET_FETCH,
        8,
        lambda many: {"groups": [{"group_id": "g", "topics": None}] * many},
    ),
    "FindCoordinator": (ApiKey.FIND_COORDINATOR, 4, lambda many: {"coordinator_keys": ["g"] * many}),
    "JoinGroup": (ApiKey.JOIN_GROUP, 7, lambda many: {"protocols": [{"name": "p", "metadata": b"x"}] * many}),
    "SyncGroup": (
        ApiKey.SYNC_GROUP,
        5,
        lambda many: {"assignments": [{"member_id": "m", "assignment": b"x"}] * many},
    ),
    "LeaveGroup": (ApiKey.LEAVE_GROUP, 4, lambda many: {"members": [{"member_id": "m"}] * many}),
    "DescribeGroups": (ApiKey.DESCRIBE_GROUPS, 6, lambda many: {"groups": ["g"] * many}),
    "ListGroups": (ApiKey.LIST_GROUPS, 5, lambda many: {"states_filter": ["s"] * many}),
    "DeleteGroups": (ApiKey.DELETE_GROUPS, 2, lambda many: {"groups_names": ["g"] * many}),
    "OffsetDelete": (ApiKey.OFFSET_DELETE, 0, lambda many: {"group_id": "g", "topics": partitions(many)}),
    "ConsumerGroupDescribe": (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, lambda many: {"group_ids": ["g"] * many}),
    "CreateTopics": (ApiKey.CREATE_TOPICS, 7, lambda many: {"topics": [{"name": "t"}] * many}),
    "CreateTopics with many replicas": (
        ApiKey.CREATE_TOPICS,
        7,
        lambda many: {"topics": [{"name": "t", "assignments": [{"broker_ids": [1, 2]}] * (many // 3)}]},
    ),
    "DeleteTopics": (ApiKey.DELETE_TOPICS, 6, lambda many: {"topics": [{"name": "t"}] * many}),
    "CreatePartitions": (
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda many: {"topics": [{"name": "t", "count": 2, "assignments": None}] * many},
    ),
    "CreatePartitions with many replicas": (
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda many: {
            "topics": [{"name": "t", "count": 2, "assignments": [{"broker_ids": [1, 2]}] * (many // 3)}]
        },
    ),
    "DeleteTopics by name": (ApiKey.DELETE_TOPICS, 5, lambda many: {"topic_names": ["t"] * many}),
    "OffsetForLeaderEpoch": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda many: {"topics": partitions(many, "topic")},
    ),
    "AlterConfigs": (
        ApiKey.ALTER_CONFIGS,
        2,
        lambda many: {"resources": [{"resource_name": "t", "configs": [{"name": "k"}]}] * many},
    ),
    "IncrementalAlterConfigs": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda many: {"resources": [{"resource_name": "t"}] * many},
    ),
    "IncrementalAlterConfigs of many keys": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda many: {"resources": [{"resource_name": "t", "configs": [{"name": "k"}] * many}]},
    ),
    "ListConfigResources": (ApiKey.LIST_CONFIG_RESOURCES, 1, lambda many: {"resource_types": [2] * many}),
    "DescribeConfigs": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda many: {"resources": [{"resource_name": "t"}] * many},
    ),
    "DescribeConfigs of many keys": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda many: {"resources": [{"resource_name": "t", "configuration_keys": ["k"] * many}]},
    ),
    "DescribeQuorum": (
        ApiKey.DESCRIBE_QUORUM,
        2,
        lambda many: {"topics": [{"topic_name": "t", "partitions": [{}] * many}]},
    ),
    "DescribeTopicPartitions": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda many: {"topics": [{"name": "t"}] * many},
    ),
    "AddRaftVoter": (
        ApiKey.ADD_RAFT_VOTER,
        1,
        lambda many: {"listeners": [{"name": "C", "host": "h"}] * many},
    ),
    "UpdateRaftVoter": (
        ApiKey.UPDATE_RAFT_VOTER,
        0,
        lambda many: {"listeners": [{"name": "C", "host": "h"}] * many},
    ),
    "DeleteRecords": (
        ApiKey.DELETE_RECORDS,
        0,
        lambda many: {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}] * many}]},
    ),
    "AlterReplicaLogDirs": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        1,
        lambda many: {"dirs": [{"path": "/d", "topics": [{"name": "t", "partitions": [0] * many}]}]},
    ),
    "AssignReplicasToDirs": (
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        0,
        lambda many: {
            "broker_id": 1,
            "directories": [
                {
                    "id_": uuid.UUID(int=7),
                    "topics": [{"topic_id": uuid.UUID(int=8), "partitions": [{"partition_index": 0}] * many}],
                }
            ],
        },
    ),
    "DescribeLogDirs": (
        ApiKey.DESCRIBE_LOG_DIRS,
        1,
        lambda many: {"topics": [{"topic": "t", "partitions": [0] * many}]},
    ),
    "DescribeProducers": (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        lambda many: {"topics": [{"name": "t", "partition_indexes": [0] * many}]},
    ),
    "DescribeUserScramCredentials": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        lambda many: {"users": [{"name": "u"}] * many},
    ),
    "AlterUserScramCredentials": (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        lambda many: {"deletions": [{"name": "u", "mechanism": 1}] * many},
    ),
    "very many quotas": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        0,
        lambda many: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u"}],
                    "ops": [{"key": "k", "value": 1.0, "remove": False}],
                }
            ]
            * (many // 3)
        },
    ),
    "very many components of a filter": (
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        0,
        lambda many: {"components": [{"entity_type": "user", "match_type": 2, "match": None}] * many},
    ),
    "CreateAcls": (
        ApiKey.CREATE_ACLS,
        3,
        lambda many: {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "t",
                    "principal": "User:u",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
            * (many // 7)
        },
    ),
    "DeleteAcls": (
        ApiKey.DELETE_ACLS,
        3,
        lambda many: {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "t",
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
            * (many // 7)
        },
    ),
    "ElectLeaders": (
        ApiKey.ELECT_LEADERS,
        2,
        lambda many: {"topic_partitions": [{"topic": "t", "partitions": [0] * many}]},
    ),
    "very many reassignments": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        lambda many: {
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}] * many}]
        },
    ),
    "reassignments of very many partitions": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        lambda many: {"topics": [{"name": "t", "partition_indexes": [0] * many}]},
    ),
    "very many features": (
        ApiKey.UPDATE_FEATURES,
        0,
        lambda many: {
            "feature_updates": [{"feature": "f", "max_version_level": 1, "allow_downgrade": True}] * many
        },
    ),
    "a thousand tagged fields that nobody knows": (
        ApiKey.HEARTBEAT,
        4,
        lambda many: (
            body(ApiKey.HEARTBEAT, 4, group_id="g")[:-1]
            + b"\xe8\x07"
            + b"".join(bytes((number & 0x7F | 0x80, number >> 7, 50)) + bytes(50) for number in range(1000))
        ),
    ),
}

WITHOUT_ARRAYS = {
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_DAMAGE,
    ApiKey.DESCRIBE_STATES,
    ApiKey.DESCRIBE_STATE_CHANGES,
    ApiKey.DESCRIBE_UNUSED_ACLS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.REFETCH_REPLICA,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SEAL_AGAIN,
    ApiKey.UNREGISTER_BROKER,
}
"""Requests in which nothing repeats but tagged fields, for which there is a scenario."""


class Peer:
    """Sends what it has as fast as it is taken, takes every answer, and leaves."""

    peer = "p:1"

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)
        self.taken = 0

    async def receive_some(self, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        part, self._rest = self._rest[:max_bytes], self._rest[max_bytes:]
        return bytes(part)

    async def receive_into(self, buffer: memoryview) -> int:
        await trio.lowlevel.checkpoint()
        # As much as a socket's buffer holds.
        size = min(len(buffer), 1 << 20, len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    async def send(self, pieces: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.taken += sum(map(len, pieces))

    def send_nowait(self, pieces: Any) -> int:
        size = sum(map(len, pieces))
        self.taken += size
        return size

    def close(self) -> None:
        pass


class Handler:
    """Refuses every request, in an answer that says so of all that it named, or without any."""

    apis = ROWS

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.requests = 0

    async def handle(self, context: object, request: object) -> Any:
        self.requests += 1
        if self._answers:
            raise KafkaError(ErrorCode.request_timed_out, "why")
        return CloseConnection("why")


async def taken_in(scenario: str, *, many: int, answers: bool) -> int:
    """How many bytes were answered."""
    key, version, make = SCENARIOS[scenario]
    pieces = Pieces(flexible=APIS[key].flexible(version))
    write_request_header(pieces, api=APIS[key], version=version, correlation_id=1, client_id="c")
    head = b"".join(pieces.finish())
    made = make(many)
    request = made if isinstance(made, bytes) else body(key, version, **made)
    peer = Peer((len(head) + len(request)).to_bytes(4, "big") + head + request)
    handler = Handler(answers=answers)
    connection = Connection(
        peer,  # type: ignore[arg-type]
        ConnectionContext(id=1, peer="p:1", listener="L"),
        handler,
        errors=ErrorTable(),
        features=lambda: NO_FEATURES,
        limits=ConnectionLimits(max_frame_bytes=MAX_FRAME_BYTES),
        forms=APIS,
        response_budget=ResponseBudget(1 << 30),
        times=NothingCounted(),
    )
    await within_gap(connection.run(), what=scenario)
    assert handler.requests == 1
    return peer.taken


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_no_request_holds_the_loop_when_it_is_taken_in(scenario: str) -> None:
    assert await taken_in(scenario, many=MANY, answers=False) == 0


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_no_request_holds_the_loop_when_it_is_refused(scenario: str) -> None:
    assert await taken_in(scenario, many=REFUSED, answers=True) > 8


def test_every_api_that_is_served_has_a_scenario() -> None:
    assert {key for key, *_ in SCENARIOS.values()} | WITHOUT_ARRAYS == set(APIS)
    for key in WITHOUT_ARRAYS:
        for version in range(APIS[key].min_version, APIS[key].max_version + 1):
            assert "tuple" not in str(request_type(key, version).__annotations__)
