"""What each API needs: the rows say it, the handlers check it, and a denial tells nothing of what there is.

Each need of each row is taken from a client that has everything else, and the answer must be the row's. The
parts of the broker that a refused request has no business with are not there.
"""

import dataclasses
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from api_broker import broker_of, context
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import Need, Permission, Refuses
from quorate.broker.apis.api_table import ROWS, ControllerDispatcher, Dispatcher
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.groups.group_administration import ListedGroup
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import BrokerEndpoint, Partition, RegisterBroker, Topic
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.hosting.state_changes import Cause, ChangeJournal, ChangeKind
from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.replication.serving.plain_fetch import FetchService
from quorate.broker.replication.serving.produce_service import ParkedProduce
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.fetch_codec import (
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    decode_fetch_response_steps,
    encode_fetch_request_steps,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    decode_produce_response,
    encode_produce_request,
)
from quorate.broker.wire.exchanges import CloseConnection, Deferred, Refusal, RequestContext
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.request_codec import decode_request, encode_response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import at_once
from quorate.runtime.token_bucket import QuotaWindows

SECRET = "secret"
SECRET_ID = uuid.UUID(int=77)
OFFSETS = "__consumer_offsets"


class Recording:
    """An authorizer that denies some permissions, and remembers what it was asked."""

    def __init__(self, *denied: Permission, everything: bool = False) -> None:
        self.denied = {(each.operation, each.resource) for each in denied}
        self.everything = everything
        self.asked: set[Permission] = set()
        self.version: object = 1

    def allows(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        **_: object,
    ) -> bool:
        self.asked.add(Permission(operation, resource))
        return not self.everything and (operation, resource) not in self.denied

    def allows_some(self, who: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        self.asked.add(Permission(operation, resource, some=True))
        return not self.everything and (operation, resource) not in self.denied


def image_of(*, with_secret: bool) -> MetadataImage:
    image = MetadataImage()
    records: list[Any] = [
        RegisterBroker(
            broker_id=1,
            incarnation_id=uuid.UUID(int=1),
            broker_epoch=0,
            fenced=False,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        )
    ]
    names = {OFFSETS: uuid.UUID(int=5)} | ({SECRET: SECRET_ID} if with_secret else {})
    for name, topic_id in names.items():
        records.append(Topic(name=name, topic_id=topic_id))
        records.append(Partition(topic_id=topic_id, partition_id=0, replicas=(1,), isr=(1,), leader=1))
    for offset, record in enumerate(records):
        image.apply(record, offset=offset, epoch=1)
    return image


class Groups:
    """Of what a client may do with a group, when the need that was taken from it is another."""

    def __init__(self) -> None:
        self.administration = self

    async def groups(self, wanted: object) -> list[ListedGroup]:
        return [ListedGroup(SECRET, "consumer", "Empty")]

    def check(self, group_id: str) -> WireErrorCode:
        return WireErrorCode.none

    def committed(self, group_id: str) -> Iterator[tuple[str, list[tuple[int, Any]]]]:
        yield SECRET, [(0, SimpleNamespace(offset=1, leader_epoch=1, metadata=""))]

    def commit(self, ref: object, offsets: list[object], answer: Any, **_: object) -> None:
        assert not offsets, "an offset that may not be committed"
        answer([])


async def no_produce(items: list[object], **_: object) -> ParkedProduce:
    assert not items, "records that may not be written"
    pending = ParkedProduce(lambda: None)
    pending.begin()
    return pending


class Channel:
    """The controller, which creates what a client may create, and is asked for nothing else."""

    async def ask(self, request: Any, **_: object) -> Any:
        from quorate.broker.controller.rpc import CreatedTopic, CreateTopicsRequest, CreateTopicsResponse

        assert isinstance(request, CreateTopicsRequest), "the controller was asked"
        return CreateTopicsResponse(topics=tuple(CreatedTopic(name=each.name) for each in request.topics))


def journal() -> ChangeJournal:
    found = ChangeJournal()
    found.begin(SECRET, SECRET_ID, 0, ChangeKind.LEAD, None, Cause(1, 0.0, 0))
    return found


def replicas() -> Any:
    reader = PartitionReader(
        cast(Any, None),
        cast(Any, None),
        cast(Any, None),
        cut_off=lambda partition: False,
        quotas=cast(Any, SimpleNamespace(leader=None)),
        stats=cast(Any, None),
        selects=False,
    )
    return SimpleNamespace(
        produces=SimpleNamespace(produce=no_produce),
        fetches=FetchService(reader, Purgatory(), max_bytes=1000),
        stats=SimpleNamespace(bytes_to_consumers=0),
        lost_leaders=SimpleNamespace(recent=lambda **_: ()),
        lookups=SimpleNamespace(any_cut_off=False, sends_clients_away=lambda *_: False),
        deletions=SimpleNamespace(delete=no_deletion),
        journal=journal(),
    )


async def no_deletion(items: list[object], **_: object) -> Any:
    assert not items, "records that may not be deleted"
    return SimpleNamespace(wait=trio.lowlevel.checkpoint, results=list)


def produce(**values: Any) -> bytes:
    topic = ProduceTopic(SECRET, [ProducePartition(0, memoryview(b"records"))])
    return b"".join(
        encode_produce_request(ProduceRequest(version=9, acks=-1, timeout_ms=1, topics=[topic], **values))
    )


def fetch(topic: str = SECRET, **values: Any) -> bytes:
    request = KafkaFetchRequest(
        version=12,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        topics=[FetchTopic(topic, None, [FetchPartition(0)])],
        **values,
    )
    return b"".join(at_once(encode_fetch_request_steps(request)))


PARTITIONS = {"topics": [{"name": SECRET, "partitions": [{"partition_index": 0}]}]}
INDEXES = [{"name": SECRET, "partition_indexes": [0]}]


def config(kind: int, name: str) -> dict[str, object]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


CONFIGS = [(config(2, SECRET), ResourceType.TOPIC), (config(32, SECRET), ResourceType.GROUP)]
CONFIGS += [(config(4, ""), ResourceType.CLUSTER), (config(8, "1"), ResourceType.CLUSTER)]
K = ApiKey
Case = tuple[int, "dict[str, Any] | bytes"]
CASES: dict[ApiKey, list[Case]] = {
    K.PRODUCE: [(9, produce()), (9, produce(transactional_id="t"))],
    K.FETCH: [(12, fetch()), (12, fetch(replica_id=1)), (12, fetch("__cluster_metadata"))],
    K.LIST_OFFSETS: [(7, PARTITIONS)],
    K.METADATA: [
        (12, {"topics": [{"name": SECRET}], "allow_auto_topic_creation": False}),
        (12, {"topics": [{"topic_id": SECRET_ID, "name": None}]}),
        (12, {"topics": None}),
        (12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}),
        (0, {"topics": []}),
    ],
    K.OFFSET_COMMIT: [
        (9, {"group_id": SECRET} | PARTITIONS),
        (10, {"group_id": "g", "topics": [{"topic_id": SECRET_ID, "partitions": [{"partition_index": 0}]}]}),
    ],
    K.OFFSET_FETCH: [
        (7, {"group_id": "g", "topics": INDEXES}),
        (9, {"groups": [{"group_id": SECRET, "topics": INDEXES}]}),
        (9, {"groups": [{"group_id": "g", "topics": None}]}),
    ],
    K.FIND_COORDINATOR: [
        (3, {"key": SECRET, "key_type": 0}),
        (4, {"coordinator_keys": [SECRET], "key_type": 0}),
        (4, {"coordinator_keys": [SECRET], "key_type": 1}),
    ],
    K.JOIN_GROUP: [(7, {"group_id": SECRET})],
    K.HEARTBEAT: [(4, {"group_id": SECRET})],
    K.LEAVE_GROUP: [(5, {"group_id": SECRET, "members": []})],
    K.SYNC_GROUP: [(5, {"group_id": SECRET})],
    K.DESCRIBE_GROUPS: [(6, {"groups": [SECRET]})],
    K.LIST_GROUPS: [(5, {})],
    K.CREATE_TOPICS: [
        (
            7,
            {
                "topics": [{"name": SECRET, "num_partitions": 1, "replication_factor": 1}],
                "validate_only": True,
            },
        )
    ],
    K.DELETE_TOPICS: [
        (6, {"topics": [{"name": SECRET, "topic_id": None}]}),
        (6, {"topics": [{"name": None, "topic_id": SECRET_ID}]}),
    ],
    K.DELETE_RECORDS: [(2, PARTITIONS)],
    K.INIT_PRODUCER_ID: [(4, {"transactional_id": SECRET}), (4, {"transactional_id": None})],
    K.OFFSET_FOR_LEADER_EPOCH: [(4, {"topics": [{"topic": SECRET, "partitions": [{"partition": 0}]}]})],
    K.DESCRIBE_CONFIGS: [(4, values) for values, _ in CONFIGS],
    K.ALTER_CONFIGS: [(2, values) for values, _ in CONFIGS],
    K.INCREMENTAL_ALTER_CONFIGS: [(1, values) for values, _ in CONFIGS],
    K.ALTER_REPLICA_LOG_DIRS: [
        (2, {"dirs": [{"path": "/d", "topics": [{"name": SECRET, "partitions": [0]}]}]})
    ],
    K.DESCRIBE_LOG_DIRS: [(1, {"topics": None}), (5, {"topics": None})],
    K.CREATE_PARTITIONS: [(3, {"topics": [{"name": SECRET, "count": 9}]})],
    K.DELETE_GROUPS: [(2, {"groups_names": [SECRET]})],
    K.ELECT_LEADERS: [
        (2, {"topic_partitions": None}),
        (2, {"topic_partitions": [{"topic": SECRET, "partitions": [0]}]}),
    ],
    K.ALTER_PARTITION_REASSIGNMENTS: [(1, PARTITIONS)],
    K.LIST_PARTITION_REASSIGNMENTS: [(0, {"topics": None})],
    K.OFFSET_DELETE: [(0, {"group_id": SECRET} | PARTITIONS)],
    K.DESCRIBE_CLIENT_QUOTAS: [(1, {"components": []})],
    K.ALTER_CLIENT_QUOTAS: [
        (1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}]})
    ],
    K.DESCRIBE_USER_SCRAM_CREDENTIALS: [(0, {"users": None})],
    K.DESCRIBE_QUORUM: [(2, {"topics": []})],
    K.UPDATE_FEATURES: [(2, {"feature_updates": []})],
    K.DESCRIBE_CLUSTER: [(2, {"endpoint_type": 2})],
    K.DESCRIBE_PRODUCERS: [(0, {"topics": INDEXES})],
    K.UNREGISTER_BROKER: [(0, {"broker_id": 1})],
    K.CONSUMER_GROUP_DESCRIBE: [(1, {"group_ids": [SECRET]})],
    K.ASSIGN_REPLICAS_TO_DIRS: [(0, {"broker_id": 1, "directories": []})],
    K.LIST_CONFIG_RESOURCES: [(1, {"resource_types": []})],
    K.DESCRIBE_TOPIC_PARTITIONS: [(0, {"topics": [{"name": SECRET}]}), (0, {"topics": []})],
    K.ADD_RAFT_VOTER: [(1, {"voter_id": 1})],
    K.REMOVE_RAFT_VOTER: [(0, {"voter_id": 1})],
    K.UPDATE_RAFT_VOTER: [(0, {"voter_id": 1})],
    K.REFETCH_REPLICA: [(0, {"topic_name": SECRET, "partition_index": 0})],
    K.DESCRIBE_DAMAGE: [(0, {})],
    K.DESCRIBE_STATE_CHANGES: [(0, {})],
    K.DESCRIBE_STATES: [(0, {"topic_name": SECRET})],
}
"""Requests of each API, each with something that it needs."""


async def ask(
    key: ApiKey,
    version: int,
    values: "dict[str, Any] | bytes",
    authorizer: Recording,
    *,
    with_secret: bool = True,
    on_controller: bool = False,
    principal: Principal | None = None,
    groups: Any = None,
) -> bytes:
    """Ask, and return the answer as it is on the wire."""
    body = values if isinstance(values, bytes) else encoded(key, version, values)
    metadata = MetadataCache(image_of(with_secret=with_secret))
    async with trio.open_nursery() as tasks:
        node = broker_of(
            metadata=metadata,
            authorizer=authorizer,
            tasks=tasks,
            groups=groups or Groups(),
            replicas=replicas(),
            channel=Channel(),
            throttles=ClientThrottles(lambda: metadata.image, QuotaWindows()),
        )
        dispatcher: Any = (ControllerDispatcher if on_controller else Dispatcher)(node)
        request = await decode_request(APIS[key], version, memoryview(body))
        asked = context(key, version)
        if principal is not None:
            connection = dataclasses.replace(asked.connection, principal=principal)
            asked = RequestContext(connection, asked.api, version, 1, None)
        try:
            answer = await dispatcher.handle(asked, request)
            if isinstance(answer, Deferred):
                done = trio.Event()
                answer.notify(done.set)
                await done.wait()
                answer = await answer.result()
        except KafkaError as error:
            refusal = Refusal(version, error.code, error.message)
            answer = await ROWS[key].refusal(request, refusal)
        assert not isinstance(answer, CloseConnection)
        tasks.cancel_scope.cancel()
        return b"".join(encode_response(answer))
    raise AssertionError


def encoded(key: ApiKey, version: int, values: dict[str, Any]) -> bytes:
    return b"".join(encode_entity(build(request_type(key, version), **values)))


def decoded(key: ApiKey, version: int, answer: bytes) -> Any:
    if key is K.PRODUCE:
        return decode_produce_response(memoryview(answer), version)
    if key is K.FETCH:
        return at_once(decode_fetch_response_steps(memoryview(answer), version))
    return decode_entity(response_type(key, version), memoryview(answer))


def codes(found: Any) -> set[WireErrorCode]:
    """All error codes in an answer."""
    if isinstance(found, WireErrorCode):
        return {found} - {WireErrorCode.none}
    if dataclasses.is_dataclass(found):
        parts: Any = [getattr(found, each.name) for each in dataclasses.fields(found)]
        return set().union(*map(codes, parts))
    return set().union(*map(codes, found)) if isinstance(found, (list, tuple)) else set()


def needs_of_rows() -> Iterator[Any]:
    for key, row in ROWS.items():
        for on_controller, needs in ((False, row.needs), (True, row.needed_of_controllers)):
            if (row.controllers if on_controller else row.brokers) is None:
                continue
            for number, need in enumerate(needs):
                where = "controllers" if on_controller else "brokers"
                yield pytest.param(
                    ApiKey(key), need, on_controller, id=f"{ApiKey(key).name}-{where}-{number}"
                )


@pytest.mark.parametrize(("key", "need", "on_controller"), needs_of_rows())
async def test_without_a_need_of_its_row_a_request_is_refused_as_the_row_says(
    key: ApiKey, need: Need[Any], on_controller: bool
) -> None:
    shown = 0
    for version, values in CASES[key]:
        authorizer = Recording(*need.any_of)
        answer = await ask(key, version, values, authorizer, on_controller=on_controller)
        if not authorizer.asked.issuperset(need.any_of):
            continue  # a case of another need
        shown += 1
        found = codes(decoded(key, version, answer))
        if need.refuses is Refuses.LEFT_OUT:
            assert SECRET.encode() not in answer or need.code in found
        else:
            assert found == {need.code} or Refuses.LEFT_OUT in kinds_of(key, need), found
    assert shown, "nothing asks for it"


def kinds_of(key: ApiKey, need: Need[Any]) -> set[Refuses]:
    """How else the same permissions are missed: what is named is refused, what is not is left out."""
    return {each.refuses for each in ROWS[key].needs if each is not need and each.any_of == need.any_of}
