"""The APIs we serve, and in which versions.

The ranges are what stock clients were seen to work with. Produce is advertised from 0 although 0 to 2 are
refused: librdkafka 2.0.2 otherwise sends gzip, snappy and lz4 uncompressed without a word (KIP-896 does the
same).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import MappingProxyType
from typing import Final, Self

from kio.static.protocol import RequestPayload, ResponsePayload

from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    DescribeStateChangesRequest,
    DescribeStateChangesResponse,
    DescribeStatesRequest,
    DescribeStatesResponse,
    DescribeUnusedAclsRequest,
    DescribeUnusedAclsResponse,
    RefetchReplicaRequest,
    RefetchReplicaResponse,
    SealAgainRequest,
    SealAgainResponse,
)

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
    request_name: str = field(init=False)
    """As Kafka's audit lines name it: CreateTopics."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "request_name", self.name.title().replace("_", ""))

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def flexible(self, version: int) -> bool:
        """Return whether requests of this version have varint lengths and tagged fields (KIP-482)."""
        return self.first_flexible is not None and version >= self.first_flexible

    def flexible_response_header(self, version: int) -> bool:
        """Return whether the response header has tagged fields. Never for ApiVersions, because the client
        does not know our versions yet (KIP-511)."""
        return self.flexible(version) and self.key != ApiKey.API_VERSIONS


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


_Form = Callable[..., Api]
"""Makes the form of an API's messages from its `key` and its `name`."""


def _kafkas(
    min_version: int, max_version: int, *, flexible: int | None, advertised_from: int | None = None
) -> _Form:
    return partial(
        Api,
        advertised_from=min_version if advertised_from is None else advertised_from,
        min_version=min_version,
        max_version=max_version,
        first_flexible=flexible,
    )


def _ours(request: type[RequestPayload], response: type[ResponsePayload]) -> tuple[int, _Form]:
    return int(request.__api_key__), partial(own_api, request=request, response=response)


class ApiKey(IntEnum):
    """The APIs that we speak, by their keys, each with the versions that a node serves and that our own
    clients send. The handlers stand in `quorate.broker.apis`, beside the API's row."""

    def __new__(cls, key: int, form: _Form) -> Self:
        member = int.__new__(cls, key)
        member._value_ = key
        return member

    def __init__(self, key: int, form: _Form) -> None:
        self.api = form(key=self, name=self.name)

    PRODUCE = 0, _kafkas(3, 11, flexible=9, advertised_from=0)
    FETCH = 1, _kafkas(4, 18, flexible=12)
    LIST_OFFSETS = 2, _kafkas(1, 11, flexible=6)
    METADATA = 3, _kafkas(0, 12, flexible=9)
    OFFSET_COMMIT = 8, _kafkas(2, 10, flexible=8)
    OFFSET_FETCH = 9, _kafkas(1, 10, flexible=6)
    FIND_COORDINATOR = 10, _kafkas(0, 6, flexible=3)
    JOIN_GROUP = 11, _kafkas(0, 9, flexible=6)
    HEARTBEAT = 12, _kafkas(0, 4, flexible=4)
    LEAVE_GROUP = 13, _kafkas(0, 5, flexible=4)
    SYNC_GROUP = 14, _kafkas(0, 5, flexible=4)
    DESCRIBE_GROUPS = 15, _kafkas(0, 6, flexible=5)
    LIST_GROUPS = 16, _kafkas(0, 5, flexible=3)
    SASL_HANDSHAKE = 17, _kafkas(0, 1, flexible=None)
    API_VERSIONS = 18, _kafkas(0, 4, flexible=3)
    CREATE_TOPICS = 19, _kafkas(2, 7, flexible=5)
    DELETE_TOPICS = 20, _kafkas(1, 6, flexible=4)
    DELETE_RECORDS = 21, _kafkas(0, 2, flexible=2)
    INIT_PRODUCER_ID = 22, _kafkas(0, 4, flexible=2)
    OFFSET_FOR_LEADER_EPOCH = 23, _kafkas(2, 4, flexible=4)
    DESCRIBE_ACLS = 29, _kafkas(1, 3, flexible=2)
    CREATE_ACLS = 30, _kafkas(1, 3, flexible=2)
    DELETE_ACLS = 31, _kafkas(1, 3, flexible=2)
    DESCRIBE_CONFIGS = 32, _kafkas(1, 4, flexible=4)
    ALTER_CONFIGS = 33, _kafkas(0, 2, flexible=2)
    ALTER_REPLICA_LOG_DIRS = 34, _kafkas(1, 2, flexible=2)
    DESCRIBE_LOG_DIRS = 35, _kafkas(1, 5, flexible=2)
    SASL_AUTHENTICATE = 36, _kafkas(0, 2, flexible=2)
    CREATE_PARTITIONS = 37, _kafkas(0, 3, flexible=2)
    DELETE_GROUPS = 42, _kafkas(0, 2, flexible=2)
    ELECT_LEADERS = 43, _kafkas(0, 2, flexible=2)
    INCREMENTAL_ALTER_CONFIGS = 44, _kafkas(0, 1, flexible=1)
    ALTER_PARTITION_REASSIGNMENTS = 45, _kafkas(0, 1, flexible=0)
    LIST_PARTITION_REASSIGNMENTS = 46, _kafkas(0, 0, flexible=0)
    OFFSET_DELETE = 47, _kafkas(0, 0, flexible=None)
    DESCRIBE_CLIENT_QUOTAS = 48, _kafkas(0, 1, flexible=1)
    ALTER_CLIENT_QUOTAS = 49, _kafkas(0, 1, flexible=1)
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, _kafkas(0, 0, flexible=0)
    ALTER_USER_SCRAM_CREDENTIALS = 51, _kafkas(0, 0, flexible=0)
    DESCRIBE_QUORUM = 55, _kafkas(0, 2, flexible=0)
    UPDATE_FEATURES = 57, _kafkas(0, 2, flexible=0)
    DESCRIBE_CLUSTER = 60, _kafkas(0, 2, flexible=0)
    DESCRIBE_PRODUCERS = 61, _kafkas(0, 0, flexible=0)
    UNREGISTER_BROKER = 64, _kafkas(0, 0, flexible=0)
    CONSUMER_GROUP_DESCRIBE = 69, _kafkas(0, 1, flexible=0)
    ASSIGN_REPLICAS_TO_DIRS = 73, _kafkas(0, 0, flexible=0)
    LIST_CONFIG_RESOURCES = 74, _kafkas(0, 1, flexible=0)
    DESCRIBE_TOPIC_PARTITIONS = 75, _kafkas(0, 0, flexible=0)
    ADD_RAFT_VOTER = 80, _kafkas(0, 1, flexible=0)
    REMOVE_RAFT_VOTER = 81, _kafkas(0, 0, flexible=0)
    UPDATE_RAFT_VOTER = 82, _kafkas(0, 0, flexible=0)
    REFETCH_REPLICA = _ours(RefetchReplicaRequest, RefetchReplicaResponse)
    DESCRIBE_DAMAGE = _ours(DescribeDamageRequest, DescribeDamageResponse)
    DESCRIBE_STATE_CHANGES = _ours(DescribeStateChangesRequest, DescribeStateChangesResponse)
    DESCRIBE_STATES = _ours(DescribeStatesRequest, DescribeStatesResponse)
    SEAL_AGAIN = _ours(SealAgainRequest, SealAgainResponse)
    DESCRIBE_UNUSED_ACLS = _ours(DescribeUnusedAclsRequest, DescribeUnusedAclsResponse)


APIS: Final = MappingProxyType({int(key): key.api for key in ApiKey})
"""The APIs that we speak, in the order of their keys."""
API_VERSIONS: Final = ApiKey.API_VERSIONS.api
CONNECTION_APIS: Final = (API_VERSIONS, ApiKey.SASL_HANDSHAKE.api, ApiKey.SASL_AUTHENTICATE.api)
"""The APIs that connections answer themselves, on every listener, besides those of its handler."""
