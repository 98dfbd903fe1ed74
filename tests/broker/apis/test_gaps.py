"""No answer of a broker's API holds the event loop, by the processor's time of the loop's thread: from the
request's bytes to the answer's, in a cluster of 100,000 partitions.

Every API that is served has a scenario here, or says why there is none; a new one without either fails. What
replicas, groups and the controller do has tests of its own, and so has the taking in of bytes.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from api_broker import broker_of, context
from gaps import within_gap
from kio.schema.errors import ErrorCode as WireErrorCode
from kio.serial import entity_reader
from large_metadata import PARTITIONS, TOPICS, large_image, no_full_collection, topic_id
from large_requests import fetch_body, produce_body

from quorate.broker.apis.api_table import BROKER_APIS, CONTROLLER_APIS, Dispatcher
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.context import Broker
from quorate.broker.apis.topic_creation import Creation
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ControllerResponse,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResult,
    ReassignmentResult,
)
from quorate.broker.groups.group import Group
from quorate.broker.groups.group_administration import GroupAdministration
from quorate.broker.groups.group_messages import CommittedOffset, JoinedMember, JoinResult, SyncResult
from quorate.broker.groups.group_records import (
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    group_record,
    offset_record,
)
from quorate.broker.groups.shards import Shards
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication.following.lost_leaders import LostLeaders
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import (
    DeleteRecordsItem,
    DeleteRecordsResult,
    DescribedProducer,
    EpochEndResult,
    FetchOptions,
    FetchResult,
    OffsetResult,
    ProduceItem,
    ProduceResult,
)
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.hosting.state_changes import Cause, ChangeJournal, ChangeKind
from quorate.broker.replication.serving.produce_service import ParkedProduce
from quorate.broker.replication.storage.log_directory import DirectoryReport
from quorate.broker.settings.group_config import GroupLimits
from quorate.broker.wire.api import APIS, CONNECTION_APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, encode_entity, request_type, response_type
from quorate.broker.wire.codecs.fetch_codec import decode_fetch_response_steps
from quorate.broker.wire.codecs.produce_codec import decode_produce_response
from quorate.broker.wire.exchanges import Deferred
from quorate.broker.wire.request_codec import decode_request, encode_response
from quorate.error_code import ErrorCode
from quorate.log.batches.records import Record, RecordContent
from quorate.runtime import at_once
from quorate.runtime.disk import DiskSpace
from quorate.runtime.token_bucket import QuotaWindows
from quorate.types import Offset

pytestmark = pytest.mark.real_time

ASKED = 100
"""Topics of 100 partitions each: 10,000 partitions."""


CHANGES = 10_000


class Replicas:
    any_cut_off = False

    def __init__(self) -> None:
        self.lookups = self.produces = self.fetches = self.deletions = self
        self.queries = self.moves = self.directories = self
        self.stats = ReplicationStats()
        self.lost_leaders = LostLeaders()

    @cached_property
    def journal(self) -> ChangeJournal:
        journal, cause = ChangeJournal(), Cause(1, 0.0, 0)
        for number in range(CHANGES):
            journal.begin("t0", topic_id(0), number, ChangeKind.LEAD, None, cause)
            journal.completed(topic_id(0), number, now=1.0)
        for number in range(CHANGES):
            journal.begin("t1", topic_id(1), number, ChangeKind.FOLLOW, None, cause)
        return journal

    async def produce(self, items: Sequence[ProduceItem], **rest: object) -> ParkedProduce:
        pending = ParkedProduce(lambda: None)
        for item in items:
            pending.add(
                ProduceResult(
                    topic=item.topic,
                    partition_id=item.partition_id,
                    error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                )
            )
            await trio.lowlevel.checkpoint()
        trio.lowlevel.current_trio_token().run_sync_soon(pending.begin)
        return pending

    async def begin(self, options: FetchOptions, *, again: bool) -> list[FetchResult]:
        found = []
        for item in options.items:
            found.append(
                FetchResult(
                    topic=item.topic, partition_id=item.partition_id, high_watermark=7, records=(b"records",)
                )
            )
            await trio.lowlevel.checkpoint()
        return found

    def sends_clients_away(self, topic: object, partition: int) -> bool:
        return False

    async def list_offset(self, *asked: object, **rest: object) -> OffsetResult:
        return OffsetResult(offset=7)

    async def delete(self, items: Sequence[DeleteRecordsItem], *, timeout_ms: int) -> Any:
        results = [
            DeleteRecordsResult(topic=each.topic, partition_id=each.partition_id, low_watermark=Offset(7))
            for each in items
        ]
        return SimpleNamespace(wait=trio.lowlevel.checkpoint, results=lambda: results)

    async def move(self, topic: str, partition_id: int, path: str) -> None:
        if partition_id % 2:
            raise PartitionError(ErrorCode.REPLICA_NOT_AVAILABLE, "not here")

    def reports(self) -> list[DirectoryReport]:
        held = cast(Any, SimpleNamespace(size_bytes=7, high_watermark=7, end_offset=7))
        logs = {(f"t{number}", index): held for number in range(ASKED) for index in range(PARTITIONS)}
        return [DirectoryReport(path="/data", space=DiskSpace(total=7, usable=7), logs=logs)]

    def producers(self, *asked: object) -> Iterator[DescribedProducer]:
        for each in range(10):
            yield DescribedProducer(producer_id=each, producer_epoch=0, last_sequence=7, last_timestamp_ms=7)

    def offset_for_leader_epoch(self, *asked: object, **rest: object) -> EpochEndResult:
        return EpochEndResult(leader_epoch=1, end_offset=7)


class GroupsLog:
    """`GroupLog`: a partition with 20,000 groups that only commit, then 2 of 5,000 members each."""

    async def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        await trio.lowlevel.checkpoint()
        for number in range(MANY_GROUPS):
            yield [_record(offset_record(OffsetKey(f"g{number}", "t0", 0), COMMITTED))]
        yield [_record(offset_record(OffsetKey("g0", "t1", each), COMMITTED)) for each in range(PARTITIONS)]
        members = tuple(
            MemberValue(
                member_id=str(each),
                instance_id=None,
                client_id="c",
                client_host="h",
                rebalance_timeout_ms=1,
                session_timeout_ms=1,
                subscription=SUBSCRIPTION,
                assignment=b"a",
            )
            for each in range(5000)
        )
        value = GroupValue(protocol_type="consumer", generation=1, protocol="p", leader=None, members=members)
        for name in ("large", "larger"):
            yield [_record(group_record(GroupKey(name), value))]

    def append(
        self, partition: int, records: Sequence[RecordContent], done: Callable[[Any, Offset], None]
    ) -> None:
        done(WireErrorCode.none, Offset(MANY_GROUPS * 2))


MANY_GROUPS = 20_000
COMMITTED = OffsetValue(offset=Offset(1), commit_timestamp_ms=1)
SUBSCRIPTION = b"\0\0" + (20).to_bytes(4, "big") + b"".join(b"\0\4s%03d" % each for each in range(20))


def _record(each: RecordContent) -> Record:
    return Record(1, 0, each.key, each.value)


class GroupOwner:
    """`GroupHost`: nothing times out."""

    def arm(self, *rest: object) -> None:
        pass

    def cancel(self, *rest: object) -> None:
        pass

    def now_ms(self) -> int:
        return 1


@asynccontextmanager
async def loaded_groups() -> AsyncIterator[GroupAdministration]:
    limits = GroupLimits()
    shards = Shards(
        GroupsLog(),
        partition_count=lambda: 1,
        new_group=lambda name: Group(name, cast(Any, GroupOwner()), limits),
        loaded=lambda shard: None,
    )
    shards.elect(0, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shards.run)
        while shards.of("g") is WireErrorCode.coordinator_load_in_progress:
            await trio.lowlevel.checkpoint()
        yield GroupAdministration(shards)
        nursery.cancel_scope.cancel()


class Groups:
    def __init__(self, administration: GroupAdministration | None) -> None:
        self.administration = administration

    def check(self, group_id: str) -> Any:
        return build(response_type(ApiKey.HEARTBEAT, 0)).error_code  # type: ignore[attr-defined]

    def committed(self, group_id: str) -> Iterator[tuple[str, list[tuple[int, CommittedOffset]]]]:
        held = CommittedOffset(offset=7, leader_epoch=1, metadata="")
        for number in range(ASKED):
            yield f"t{number}", [(index, held) for index in range(PARTITIONS)]

    def join(self, request: object, reply: Callable[[JoinResult], None]) -> None:
        members = tuple(
            JoinedMember(member_id=str(each), instance_id=None, metadata=b"m") for each in range(5000)
        )
        reply(JoinResult(member_id="m", members=members))

    def sync(self, request: object, reply: Callable[[SyncResult], None]) -> None:
        reply(SyncResult(protocol_type="p", protocol="p"))

    def leave(self, group_id: str, member_id: str, instance_id: str | None, reason: str) -> Any:
        return self.check(group_id)

    def heartbeat(self, ref: object) -> Any:
        return self.check("g")

    def fetch_offset(self, group_id: str, topic: str, index: int) -> CommittedOffset:
        return CommittedOffset(offset=7, leader_epoch=1, metadata="")

    def commit(
        self, ref: object, offsets: Sequence[object], answer: Callable[[Any], None], **rest: object
    ) -> None:
        answer([self.check("g")] * len(offsets))


class Channel:
    async def describe_quorum(self, **rest: object) -> Any:
        return SimpleNamespace(voters=(), observers=())

    async def ask(self, request: object, **rest: object) -> ControllerResponse:
        if isinstance(request, AlterPartitionReassignmentsRequest):
            return AlterPartitionReassignmentsResponse(
                partitions=tuple(
                    ReassignmentResult(topic=each.topic, partition_id=each.partition_id)
                    for each in request.partitions
                )
            )
        if isinstance(request, ElectLeadersRequest):
            return ElectLeadersResponse(
                results=tuple(
                    ElectLeadersResult(topic=each.topic, partition_id=each.partition_id)
                    for each in request.partitions
                )
            )
        if isinstance(request, CreateTopicsRequest):
            return CreateTopicsResponse(
                topics=tuple(
                    CreatedTopic(name=each.name, topic_id=topic_id(number))
                    for number, each in enumerate(request.topics)
                )
            )
        return DeleteTopicsResponse(
            topics=tuple(DeletedTopic(name=f"t{each}", topic_id=None) for each in range(TOPICS))
        )


class Topics:
    async def create(self, name: str, **_: object) -> Creation:
        await trio.lowlevel.checkpoint()
        return Creation(error=ErrorCode.NONE)

    async def create_offsets_topic(self) -> ErrorCode:
        await trio.lowlevel.checkpoint()
        return ErrorCode.NONE


class Leaders:
    async def wait(self, names: object, *, deadline: float) -> None:
        await trio.lowlevel.checkpoint()


class Quorum:
    async def wait_read_index(self, *, timeout_ms: int) -> None:
        await trio.lowlevel.checkpoint()


@pytest.fixture(scope="module")
def metadata() -> MetadataCache:
    return MetadataCache(large_image())


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


def loaded_broker(
    metadata: MetadataCache, tasks: trio.Nursery, administration: GroupAdministration | None
) -> Broker:
    return broker_of(
        metadata=metadata,
        quorum=Quorum(),
        channel=Channel(),
        replicas=Replicas(),
        groups=Groups(administration),
        topics=Topics(),
        leaders=Leaders(),
        throttles=ClientThrottles(lambda: metadata.image, QuotaWindows()),
        tasks=tasks,
    )


def of_partitions(topic_field: str = "name", **partition: object) -> list[dict[str, object]]:
    (index_field, *_) = partition
    return [
        {
            topic_field: f"t{number}",
            "partitions": [partition | {index_field: index} for index in range(PARTITIONS)],
        }
        for number in range(ASKED)
    ]


NAMED = [{"name": f"t{number}"} for number in range(TOPICS)]
INDEXES = [{"name": each["name"], "partition_indexes": range(PARTITIONS)} for each in NAMED[:ASKED]]


SCENARIOS: dict[str, tuple[ApiKey, int, dict[str, object] | Callable[[], bytes], int]] = {
    "Metadata of all topics": (ApiKey.METADATA, 12, {"topics": None}, TOPICS),
    "Metadata of all topics, version 0": (ApiKey.METADATA, 0, {"topics": []}, TOPICS),
    "Metadata of every topic by name": (ApiKey.METADATA, 12, {"topics": NAMED}, TOPICS),
    "Metadata of every topic by id": (
        ApiKey.METADATA,
        12,
        {"topics": [{"name": None, "topic_id": topic_id(each)} for each in range(TOPICS)]},
        TOPICS,
    ),
    "Produce to 100,000 partitions that another broker leads": (
        ApiKey.PRODUCE,
        9,
        partial(produce_body, TOPICS, PARTITIONS),
        TOPICS,
    ),
    "Produce to 100,000 topics": (ApiKey.PRODUCE, 9, partial(produce_body, 100_000, 1), 100_000),
    "Fetch of 100,000 partitions": (ApiKey.FETCH, 12, partial(fetch_body, 12, TOPICS, PARTITIONS), TOPICS),
    "Fetch of 100,000 topics": (ApiKey.FETCH, 12, partial(fetch_body, 12, 100_000, 1), 100_000),
    "Fetch of 50,000 partitions twice": (
        ApiKey.FETCH,
        12,
        partial(fetch_body, 12, 100_000, 1, distinct=50_000),
        50_000,
    ),
    "FindCoordinator of 20,000 groups": (
        ApiKey.FIND_COORDINATOR,
        4,
        {"coordinator_keys": [f"g{each}" for each in range(20_000)]},
        20_000,
    ),
    "JoinGroup of the leader of 5000 members": (
        ApiKey.JOIN_GROUP,
        7,
        {"group_id": "g", "protocols": [{"name": "p", "metadata": b""}]},
        5000,
    ),
    "SyncGroup with 100,000 assignments": (
        ApiKey.SYNC_GROUP,
        5,
        {"group_id": "g", "assignments": [{"member_id": "m", "assignment": b"a"}] * 100_000},
        0,
    ),
    "LeaveGroup of 50,000 members": (
        ApiKey.LEAVE_GROUP,
        4,
        {"group_id": "g", "members": [{"member_id": "m"}] * 50_000},
        50_000,
    ),
    "DescribeQuorum of 20,000 partitions": (
        ApiKey.DESCRIBE_QUORUM,
        2,
        {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}] * 20_000}]},
        1,
    ),
    "DescribeConfigs of 200,000 keys": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": 2, "resource_name": "t0", "configuration_keys": ["k"] * 200_000}]},
        1,
    ),
    "a page of 100,000 topics that are not there": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [{"name": f"no{each}"} for each in range(100_000)], "response_partition_limit": 2000},
        100_000,
    ),
    "Metadata of 50,000 topics to create": (
        ApiKey.METADATA,
        12,
        {"topics": [{"name": f"no{each % 10}"} for each in range(50_000)], "allow_auto_topic_creation": True},
        50_000,
    ),
    "Metadata of 20,000 topics that are not there": (
        ApiKey.METADATA,
        12,
        {"topics": [{"name": f"no{each}"} for each in range(20_000)], "allow_auto_topic_creation": False},
        20_000,
    ),
    "a page of 2000 partitions": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [], "response_partition_limit": 2000},
        20,
    ),
    "ListOffsets of 10,000 partitions": (
        ApiKey.LIST_OFFSETS,
        7,
        {"topics": of_partitions(partition_index=0)},
        ASKED,
    ),
    "OffsetForLeaderEpoch of 10,000 partitions": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        {"topics": of_partitions("topic", partition=0)},
        ASKED,
    ),
    "OffsetFetch of 10,000 partitions": (ApiKey.OFFSET_FETCH, 7, {"group_id": "g", "topics": INDEXES}, ASKED),
    "OffsetFetch of all that was committed": (
        ApiKey.OFFSET_FETCH,
        7,
        {"group_id": "g", "topics": None},
        ASKED,
    ),
    "OffsetCommit of 10,000 partitions": (
        ApiKey.OFFSET_COMMIT,
        8,
        {"group_id": "g", "topics": of_partitions(partition_index=0, committed_offset=7)},
        ASKED,
    ),
    "DeleteRecords of 10,000 partitions": (
        ApiKey.DELETE_RECORDS,
        2,
        {"topics": of_partitions(partition_index=0, offset=-1)},
        ASKED,
    ),
    "AlterReplicaLogDirs of 10,000 replicas": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {
            "dirs": [
                {
                    "path": "/data",
                    "topics": [
                        {"name": f"t{number}", "partitions": list(range(PARTITIONS))}
                        for number in range(ASKED)
                    ],
                }
            ]
        },
        ASKED,
    ),
    "DescribeLogDirs of 10,000 replicas": (ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}, 1),
    "DescribeStateChanges of 20,000 changes": (ApiKey.DESCRIBE_STATE_CHANGES, 0, {}, 2 * CHANGES),
    "DescribeStateChanges of one of 10,000 partitions": (
        ApiKey.DESCRIBE_STATE_CHANGES,
        0,
        {"topic_name": "t1", "partition_index": CHANGES - 1},
        1,
    ),
    "DescribeStates of a topic": (ApiKey.DESCRIBE_STATES, 0, {"topic_name": "t0"}, PARTITIONS),
    "DescribeProducers of 10,000 partitions": (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": INDEXES}, ASKED),
    "DescribeConfigs of a thousand topics": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": each["name"]} for each in NAMED],
            "include_synonyms": True,
            "include_documentation": True,
        },
        TOPICS,
    ),
    "20,000 groups and two large ones are listed": (ApiKey.LIST_GROUPS, 5, {}, MANY_GROUPS + 2),
    "none of 20,000 groups is wanted": (ApiKey.LIST_GROUPS, 5, {"states_filter": ["Dead"]}, 0),
    "many groups and a large one are described": (
        ApiKey.DESCRIBE_GROUPS,
        6,
        {"groups": ["large", *(f"g{each}" for each in range(5000))]},
        5001,
    ),
    "5,000 groups are described in the new form": (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        {"group_ids": [f"g{each}" for each in range(5000)]},
        5000,
    ),
    "5,000 groups are deleted": (
        ApiKey.DELETE_GROUPS,
        2,
        {"groups_names": [f"g{each}" for each in range(5000)]},
        5000,
    ),
    "10,000 offsets of a large group are deleted": (
        ApiKey.OFFSET_DELETE,
        0,
        {"group_id": "large", "topics": of_partitions(partition_index=0)},
        ASKED,
    ),
    "10,000 reassignments, in two requests to the controller": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"topics": of_partitions(partition_index=0, replicas=(1, 2))},
        ASKED,
    ),
    "a list of the reassignments of 10,000 partitions": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"topics": INDEXES},
        0,
    ),
    "a thousand topics are created": (ApiKey.CREATE_TOPICS, 7, {"topics": NAMED}, TOPICS),
    "10,000 leaders are asked for": (
        ApiKey.ELECT_LEADERS,
        2,
        {
            "topic_partitions": [
                {"topic": f"t{number}", "partitions": list(range(10))} for number in range(1000)
            ]
        },
        1000,
    ),
    "a thousand topics get more partitions": (
        ApiKey.CREATE_PARTITIONS,
        3,
        {"topics": [each | {"count": 2, "assignments": None} for each in NAMED]},
        TOPICS,
    ),
    "a thousand topics are deleted": (ApiKey.DELETE_TOPICS, 6, {"topics": NAMED}, TOPICS),
}

OF_LOADED_GROUPS = {
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
}

NOT_MEASURED = {
    ApiKey.API_VERSIONS: "what is served: the connection answers it",
    ApiKey.SASL_HANDSHAKE: "the mechanisms: the connection answers it",
    ApiKey.SASL_AUTHENTICATE: "a token: the connection answers it",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "2,250 replicas at most, asked of the controller",
    ApiKey.HEARTBEAT: "one member",
    ApiKey.INIT_PRODUCER_ID: "one producer",
    ApiKey.DESCRIBE_CLUSTER: "the brokers",
    ApiKey.REFETCH_REPLICA: "one replica",
    ApiKey.DESCRIBE_DAMAGE: "what is damaged, found and made in slices",
    ApiKey.ADD_RAFT_VOTER: "one voter",
    ApiKey.REMOVE_RAFT_VOTER: "one voter",
    ApiKey.UPDATE_RAFT_VOTER: "one voter",
    ApiKey.UNREGISTER_BROKER: "one broker",
    ApiKey.ALTER_CONFIGS: "ten thousand resources at most, in portions",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "as AlterConfigs",
    ApiKey.LIST_CONFIG_RESOURCES: "made in slices of an iterator",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "made in slices of an iterator",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "five hundred users at most",
    ApiKey.SEAL_AGAIN: "two numbers, asked of the controller",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "made in slices of an iterator",
    ApiKey.ALTER_CLIENT_QUOTAS: "ten thousand entities at most",
    ApiKey.DESCRIBE_ACLS: "compared and made in slices",
    ApiKey.DESCRIBE_UNUSED_ACLS: "as DescribeAcls",
    ApiKey.CREATE_ACLS: "ten thousand ACLs at most, in portions",
    ApiKey.DELETE_ACLS: "ten thousand ACLs at most, found in slices",
    ApiKey.UPDATE_FEATURES: "a thousand updates at most, each refused or of one of a few features",
}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_no_answer_of_an_api_holds_the_loop(scenario: str, metadata: MetadataCache) -> None:
    key, version, values, expected = SCENARIOS[scenario]
    if callable(values):
        body = memoryview(values())
    else:
        body = memoryview(b"".join(encode_entity(build(request_type(key, version), **values))))

    async def answered(dispatcher: Dispatcher) -> bytes:
        request = await decode_request(APIS[key], version, body)
        answer: Any = await dispatcher.handle(context(key, version), request)
        if isinstance(answer, Deferred):
            done = trio.Event()
            answer.notify(done.set)
            await done.wait()
            answer = await answer.result()
        return b"".join(encode_response(answer))

    groups = loaded_groups() if key in OF_LOADED_GROUPS else nullcontext()
    async with trio.open_nursery() as tasks, groups as administration:
        broker = loaded_broker(metadata, tasks, administration)
        # Made beforehand: it would count otherwise.
        assert broker.replicas.journal
        dispatcher = Dispatcher(broker)
        encoded = await within_gap(answered(dispatcher), what=scenario)
    # Without the guard, which bounds what a peer may send.
    if key is ApiKey.FETCH:
        assert len(at_once(decode_fetch_response_steps(memoryview(encoded), version)).topics) == expected
        return
    if key is ApiKey.PRODUCE:
        assert len(decode_produce_response(memoryview(encoded), version)) == expected
        return
    read = entity_reader(response_type(key, version))
    response: Any = read(memoryview(encoded), 0)[0]
    elements = next((getattr(response, each) for each in _ARRAYS if hasattr(response, each)), ())
    assert len(elements) == expected


_ARRAYS = (
    "changes",
    "partitions",
    "replica_election_results",
    "topics",
    "results",
    "responses",
    "coordinators",
    "members",
    "groups",
)


def test_every_api_that_is_served_has_a_scenario() -> None:
    large = {key for key, *_ in SCENARIOS.values()}
    assert not large & set(NOT_MEASURED)
    assert large | set(NOT_MEASURED) == set(APIS)
    # Nothing else is dispatched.
    assert {*(api.key for api in CONNECTION_APIS), *BROKER_APIS, *CONTROLLER_APIS} == set(APIS)
