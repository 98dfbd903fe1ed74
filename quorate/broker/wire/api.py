"""The APIs we serve, and in which versions.

The ranges are what stock clients were seen to work with. Produce is advertised from 0 although 0 to 2 are
refused: librdkafka 2.0.2 otherwise sends gzip, snappy and lz4 uncompressed without a word (KIP-896 does the
same).
"""

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from kio.static.protocol import RequestPayload, ResponsePayload

from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    DescribeStateChangesRequest,
    DescribeStateChangesResponse,
    DescribeStatesRequest,
    DescribeStatesResponse,
    RefetchReplicaRequest,
    RefetchReplicaResponse,
)


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    CONSUMER_GROUP_DESCRIBE = 69
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    REFETCH_REPLICA = 10_034
    """Ours, as all from `FIRST_OWN` on."""
    DESCRIBE_DAMAGE = 10_035
    DESCRIBE_STATE_CHANGES = 10_060
    DESCRIBE_STATES = 10_075


FIRST_OWN: Final = 10_000
"""API keys from here on are ours, and not named by ApiVersions: no client of Kafka's knows them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """The form of an API's messages. Versions are inclusive; requests below `min_version` are refused even if
    advertised."""

    key: int
    """An `ApiKey`, or another number from `FIRST_OWN` on."""
    name: str
    advertised_from: int
    min_version: int
    max_version: int
    first_flexible: int | None
    """None: no version is flexible."""
    request: type[RequestPayload] | None = None
    """The class of its only version; None: kio has one for each version, or a codec is written by hand."""
    response: type[ResponsePayload] | None = None

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def flexible(self, version: int) -> bool:
        """Return whether requests of this version have varint lengths and tagged fields (KIP-482)."""
        return self.first_flexible is not None and version >= self.first_flexible

    def flexible_response_header(self, version: int) -> bool:
        """Return whether the response header has tagged fields. Never for ApiVersions, because the client
        does not know our versions yet (KIP-511)."""
        return self.flexible(version) and self.key != ApiKey.API_VERSIONS


def _api(
    key: ApiKey,
    min_version: int,
    max_version: int,
    *,
    flexible: int | None,
    advertised_from: int | None = None,
) -> Api:
    return Api(
        key=key,
        name=key.name,
        advertised_from=min_version if advertised_from is None else advertised_from,
        min_version=min_version,
        max_version=max_version,
        first_flexible=flexible,
    )


def own_api(
    key: int,
    name: str,
    request: type[RequestPayload] | None = None,
    response: type[ResponsePayload] | None = None,
) -> Api:
    """Return the form of an API that Kafka lacks, in one version. A client needs no classes in it."""
    return Api(
        key=key,
        name=name,
        advertised_from=0,
        min_version=0,
        max_version=0,
        first_flexible=0,
        request=request,
        response=response,
    )


def _own(key: ApiKey, request: type[RequestPayload], response: type[ResponsePayload]) -> Api:
    return own_api(key, key.name, request, response)


APIS: Final = MappingProxyType(
    {
        int(api.key): api
        for api in (
            _api(ApiKey.PRODUCE, 3, 11, flexible=9, advertised_from=0),
            _api(ApiKey.FETCH, 4, 18, flexible=12),
            _api(ApiKey.LIST_OFFSETS, 1, 11, flexible=6),
            _api(ApiKey.METADATA, 0, 12, flexible=9),
            _api(ApiKey.OFFSET_COMMIT, 2, 10, flexible=8),
            _api(ApiKey.OFFSET_FETCH, 1, 10, flexible=6),
            _api(ApiKey.FIND_COORDINATOR, 0, 6, flexible=3),
            _api(ApiKey.JOIN_GROUP, 0, 9, flexible=6),
            _api(ApiKey.HEARTBEAT, 0, 4, flexible=4),
            _api(ApiKey.LEAVE_GROUP, 0, 5, flexible=4),
            _api(ApiKey.SYNC_GROUP, 0, 5, flexible=4),
            _api(ApiKey.DESCRIBE_GROUPS, 0, 6, flexible=5),
            _api(ApiKey.LIST_GROUPS, 0, 5, flexible=3),
            _api(ApiKey.API_VERSIONS, 0, 4, flexible=3),
            _api(ApiKey.CREATE_TOPICS, 2, 7, flexible=5),
            _api(ApiKey.DELETE_TOPICS, 1, 6, flexible=4),
            _api(ApiKey.DELETE_RECORDS, 0, 2, flexible=2),
            _api(ApiKey.INIT_PRODUCER_ID, 0, 4, flexible=2),
            _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, flexible=4),
            _api(ApiKey.DESCRIBE_CONFIGS, 1, 4, flexible=4),
            _api(ApiKey.ALTER_CONFIGS, 0, 2, flexible=2),
            _api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, flexible=2),
            _api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, flexible=2),
            _api(ApiKey.CREATE_PARTITIONS, 0, 3, flexible=2),
            _api(ApiKey.DELETE_GROUPS, 0, 2, flexible=2),
            _api(ApiKey.ELECT_LEADERS, 0, 2, flexible=2),
            _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, flexible=1),
            _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, flexible=0),
            _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, flexible=0),
            _api(ApiKey.OFFSET_DELETE, 0, 0, flexible=None),
            _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, flexible=1),
            _api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, flexible=1),
            _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, flexible=0),
            _api(ApiKey.DESCRIBE_QUORUM, 0, 2, flexible=0),
            _api(ApiKey.UPDATE_FEATURES, 0, 2, flexible=0),
            _api(ApiKey.DESCRIBE_CLUSTER, 0, 2, flexible=0),
            _api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, flexible=0),
            _api(ApiKey.UNREGISTER_BROKER, 0, 0, flexible=0),
            _api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, flexible=0),
            _api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, flexible=0),
            _api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, flexible=0),
            _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, flexible=0),
            _api(ApiKey.ADD_RAFT_VOTER, 0, 1, flexible=0),
            _api(ApiKey.REMOVE_RAFT_VOTER, 0, 0, flexible=0),
            _api(ApiKey.UPDATE_RAFT_VOTER, 0, 0, flexible=0),
            _own(ApiKey.REFETCH_REPLICA, RefetchReplicaRequest, RefetchReplicaResponse),
            _own(ApiKey.DESCRIBE_DAMAGE, DescribeDamageRequest, DescribeDamageResponse),
            _own(ApiKey.DESCRIBE_STATE_CHANGES, DescribeStateChangesRequest, DescribeStateChangesResponse),
            _own(ApiKey.DESCRIBE_STATES, DescribeStatesRequest, DescribeStatesResponse),
        )
    }
)
"""The APIs that we speak by key, in the order of the keys: the versions that a node serves, and that our own
clients send."""
API_VERSIONS: Final = APIS[ApiKey.API_VERSIONS]
