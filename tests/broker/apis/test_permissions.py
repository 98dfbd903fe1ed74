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

from quorate.broker.access.authorizer import Sender
from quorate.broker.access.needs import Need, Permission, Refuses
from quorate.broker.apis.api_row import AnyRow
from quorate.broker.apis.api_table import BROKER_APIS, CONTROLLER_APIS, ROWS, ControllerDispatcher, Dispatcher
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.controller.rpc import CreatedTopic, CreateTopicsRequest, CreateTopicsResponse
from quorate.broker.controller_channel import ControllerTimedOutError
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
from quorate.broker.wire.api import APIS, CONNECTION_APIS, ApiKey
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
from quorate.broker.wire.principals import NODE, Principal
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
        self.denied = denied
        self.everything = everything
        self.asked: set[Permission] = set()
        self.version: object = 1

    def is_super_user(self, who: Principal) -> bool:
        return False

    def allows(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        **_: object,
    ) -> bool:
        return self._answer(Permission(operation, resource))

    def allows_some(self, who: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        return self._answer(Permission(operation, resource, some=True))

    def sender(self, who: Principal, host: str) -> Sender:
        return Sender(self, who, host)

    def _answer(self, asked: Permission) -> bool:
        self.asked.add(asked)
        return not self.everything and asked not in self.denied


def image_of(*, with_secret: bool, with_offsets: bool = True) -> MetadataImage:
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
    names = {OFFSETS: uuid.UUID(int=5)} if with_offsets else {}
    names |= {SECRET: SECRET_ID} if with_secret else {}
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


CONFIGS = [(config(2, SECRET), 0), (config(32, SECRET), 1), (config(4, ""), 2), (config(8, "1"), 2)]
CREATION = {
    "topics": [{"name": SECRET, "num_partitions": 1, "replication_factor": 1}],
    "validate_only": True,
}
CHANGES: dict[str, object] = {"topic_name": None, "partition_index": -1, "limit": 9, "pending_only": False}
K = ApiKey
Case = tuple[int, "dict[str, Any] | bytes", int]
CASES: dict[ApiKey, list[Case]] = {
    K.PRODUCE: [(9, produce(), 1), (9, produce(transactional_id="t"), 0)],
    K.FETCH: [(12, fetch(), 1), (12, fetch(replica_id=1), 0)],
    K.LIST_OFFSETS: [(7, PARTITIONS, 0)],
    K.METADATA: [
        (12, {"topics": [{"name": SECRET}], "allow_auto_topic_creation": True}, 0),
        (12, {"topics": [{"topic_id": SECRET_ID, "name": None}]}, 0),
        (12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}, 0),
        (12, {"topics": None}, 1),
        (0, {"topics": []}, 1),
        (12, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}, 2),
    ],
    K.OFFSET_COMMIT: [
        (9, {"group_id": SECRET} | PARTITIONS, 0),
        (9, {"group_id": "g"} | PARTITIONS, 1),
        (
            10,
            {"group_id": "g", "topics": [{"topic_id": SECRET_ID, "partitions": [{"partition_index": 0}]}]},
            1,
        ),
    ],
    K.OFFSET_FETCH: [
        (7, {"group_id": SECRET, "topics": INDEXES}, 0),
        (9, {"groups": [{"group_id": SECRET, "topics": INDEXES}]}, 0),
        (7, {"group_id": "g", "topics": INDEXES}, 1),
        (9, {"groups": [{"group_id": "g", "topics": INDEXES}]}, 1),
        (9, {"groups": [{"group_id": "g", "topics": None}]}, 2),
    ],
    K.FIND_COORDINATOR: [
        (3, {"key": SECRET, "key_type": 0}, 0),
        (4, {"coordinator_keys": [SECRET], "key_type": 0}, 0),
        (4, {"coordinator_keys": [SECRET], "key_type": 1}, 1),
    ],
    K.JOIN_GROUP: [(7, {"group_id": SECRET}, 0)],
    K.HEARTBEAT: [(4, {"group_id": SECRET}, 0)],
    K.LEAVE_GROUP: [(5, {"group_id": SECRET, "members": []}, 0)],
    K.SYNC_GROUP: [(5, {"group_id": SECRET}, 0)],
    K.DESCRIBE_GROUPS: [(6, {"groups": [SECRET]}, 0)],
    K.LIST_GROUPS: [(5, {}, 0)],
    K.CREATE_TOPICS: [(7, CREATION, 0), (7, CREATION, 1)],
    K.DELETE_TOPICS: [
        (6, {"topics": [{"name": SECRET, "topic_id": None}]}, 0),
        (6, {"topics": [{"name": None, "topic_id": SECRET_ID}]}, 0),
    ],
    K.DELETE_RECORDS: [(2, PARTITIONS, 0)],
    K.INIT_PRODUCER_ID: [(4, {"transactional_id": SECRET}, 0), (4, {"transactional_id": None}, 1)],
    K.OFFSET_FOR_LEADER_EPOCH: [(4, {"topics": [{"topic": SECRET, "partitions": [{"partition": 0}]}]}, 0)],
    K.DESCRIBE_CONFIGS: [(4, *each) for each in CONFIGS],
    K.ALTER_CONFIGS: [(2, *each) for each in CONFIGS],
    K.INCREMENTAL_ALTER_CONFIGS: [(1, *each) for each in CONFIGS],
    K.ALTER_REPLICA_LOG_DIRS: [
        (2, {"dirs": [{"path": "/d", "topics": [{"name": SECRET, "partitions": [0]}]}]}, 0)
    ],
    K.DESCRIBE_LOG_DIRS: [(5, {"topics": None}, 0)],
    K.CREATE_PARTITIONS: [(3, {"topics": [{"name": SECRET, "count": 9}]}, 0)],
    K.DELETE_GROUPS: [(2, {"groups_names": [SECRET]}, 0)],
    K.ELECT_LEADERS: [
        (2, {"topic_partitions": None}, 0),
        (2, {"topic_partitions": [{"topic": SECRET, "partitions": [0]}]}, 0),
    ],
    K.ALTER_PARTITION_REASSIGNMENTS: [(1, PARTITIONS, 0)],
    K.LIST_PARTITION_REASSIGNMENTS: [(0, {"topics": None}, 0)],
    K.OFFSET_DELETE: [
        (0, {"group_id": SECRET} | PARTITIONS, 0),
        (0, {"group_id": "g"} | PARTITIONS, 1),
    ],
    K.DESCRIBE_CLIENT_QUOTAS: [(1, {"components": []}, 0)],
    K.ALTER_CLIENT_QUOTAS: [
        (1, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}]}, 0)
    ],
    K.DESCRIBE_ACLS: [
        (
            2,
            {
                "resource_type_filter": 1,
                "resource_name_filter": None,
                "pattern_type_filter": 1,
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            },
            0,
        )
    ],
    K.CREATE_ACLS: [
        (
            2,
            {
                "creations": [
                    {
                        "resource_type": 2,
                        "resource_name": SECRET,
                        "resource_pattern_type": 3,
                        "principal": "User:ann",
                        "host": "*",
                        "operation": 3,
                        "permission_type": 3,
                    }
                ]
            },
            0,
        )
    ],
    K.DELETE_ACLS: [
        (
            2,
            {
                "filters": [
                    {
                        "resource_type_filter": 1,
                        "resource_name_filter": None,
                        "pattern_type_filter": 1,
                        "principal_filter": None,
                        "host_filter": None,
                        "operation": 1,
                        "permission_type": 1,
                    }
                ]
            },
            0,
        )
    ],
    K.DESCRIBE_USER_SCRAM_CREDENTIALS: [(0, {"users": None}, 0)],
    K.ALTER_USER_SCRAM_CREDENTIALS: [
        (0, {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []}, 0)
    ],
    K.SEAL_AGAIN: [(0, {}, 0)],
    K.DESCRIBE_QUORUM: [(2, {"topics": []}, 0)],
    K.UPDATE_FEATURES: [(2, {"feature_updates": []}, 0)],
    K.DESCRIBE_CLUSTER: [(2, {"endpoint_type": 2}, 0)],
    K.DESCRIBE_PRODUCERS: [(0, {"topics": INDEXES}, 0)],
    K.UNREGISTER_BROKER: [(0, {"broker_id": 1}, 0)],
    K.CONSUMER_GROUP_DESCRIBE: [(1, {"group_ids": [SECRET]}, 0)],
    K.ASSIGN_REPLICAS_TO_DIRS: [(0, {"broker_id": 1, "directories": []}, 0)],
    K.LIST_CONFIG_RESOURCES: [(1, {"resource_types": []}, 0)],
    K.DESCRIBE_TOPIC_PARTITIONS: [(0, {"topics": [{"name": SECRET}]}, 0), (0, {"topics": []}, 1)],
    K.ADD_RAFT_VOTER: [(1, {"voter_id": 1}, 0)],
    K.REMOVE_RAFT_VOTER: [(0, {"voter_id": 1}, 0)],
    K.UPDATE_RAFT_VOTER: [(0, {"voter_id": 1}, 0)],
    K.REFETCH_REPLICA: [(0, {"topic_name": SECRET, "partition_index": 0}, 0)],
    K.DESCRIBE_DAMAGE: [(0, {}, 0)],
    K.DESCRIBE_STATE_CHANGES: [(0, {}, 0), (0, CHANGES, 1)],
    K.DESCRIBE_UNUSED_ACLS: [(0, {}, 0)],
    K.DESCRIBE_STATES: [(0, {"topic_name": SECRET}, 0)],
}
"""Requests of each API: version, contents, and the number of the need in its row that it has."""


async def ask(
    key: ApiKey,
    version: int,
    values: "dict[str, Any] | bytes",
    authorizer: Recording,
    *,
    with_secret: bool = True,
    with_offsets: bool = True,
    on_controller: bool = False,
    principal: Principal | None = None,
    row: AnyRow | None = None,
    **parts: object,
) -> bytes:
    """Ask, and return the answer as it is on the wire."""
    body = values if isinstance(values, bytes) else encoded(key, version, values)
    metadata = MetadataCache(image_of(with_secret=with_secret, with_offsets=with_offsets))
    async with trio.open_nursery() as tasks:
        given: dict[str, Any] = {
            "metadata": metadata,
            "authorizer": authorizer,
            "tasks": tasks,
            "groups": Groups(),
            "replicas": replicas(),
            "channel": Channel(),
            "throttles": ClientThrottles(lambda: metadata.image, QuotaWindows()),
        }
        node = broker_of(**(given | parts))
        kind: Any = ControllerDispatcher if on_controller else Dispatcher
        dispatcher = kind(node, {key: row or ROWS[key]})
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
        # kio's class has this one as a number.
        configs = getattr(found, "topic_config_error_code", 0)
        return set().union(*map(codes, [*parts, WireErrorCode(configs)]))
    return set().union(*map(codes, found)) if isinstance(found, (list, tuple)) else set()


def needs_of_rows() -> list[Any]:
    found = []
    for key in CASES:
        row: Any = ROWS[key]
        for on_controller, needs in ((False, row.needs), (True, row.needed_of_controllers)):
            if (row.controllers if on_controller else row.brokers) is not None:
                where = "controllers" if on_controller else "brokers"
                found += [
                    pytest.param(key, at, on_controller, id=f"{APIS[key].name}-{where}-{at}")
                    for at in range(len(needs))
                ]
    return found


def need_of(key: ApiKey, at: int, *, on_controller: bool) -> Need[Any]:
    return needs_in(ROWS[key], on_controller)[at]


@pytest.mark.bug("CVE-2024-23944")
@pytest.mark.bug("CVE-2023-32082")
@pytest.mark.parametrize(("key", "at", "on_controller"), needs_of_rows())
async def test_without_a_need_of_its_row_a_request_is_refused_as_the_row_says(
    key: ApiKey, at: int, on_controller: bool
) -> None:
    await check_refusals(key, at, on_controller=on_controller, row=ROWS[key])


async def check_refusals(key: ApiKey, at: int, *, on_controller: bool, row: Any) -> None:
    """Check that who has not what the API needs is refused, and that nothing is asked that `row` lacks."""
    need = need_of(key, at, on_controller=on_controller)
    cases = [each for each in CASES[key] if each[2] == at]
    assert cases, "a need without a request that has it"
    for version, values, _ in cases:
        authorizer = Recording(*need.any_of)
        answer = await ask(key, version, values, authorizer, on_controller=on_controller, row=row)
        found = codes(decoded(key, version, answer))
        if need.refuses is Refuses.LEFT_OUT:
            assert not found and SECRET.encode() not in answer
        else:
            assert found == {need.code}
        assert authorizer.asked >= set(need.any_of)
        assert authorizer.asked <= permissions(row, on_controller=on_controller), "not in its row"
    assert (need.any_of, need.code) in {(each.any_of, each.code) for each in needs_in(row, on_controller)}


@pytest.mark.parametrize(("key", "at", "on_controller"), needs_of_rows())
async def test_a_row_from_which_a_need_is_taken_is_found(key: ApiKey, at: int, on_controller: bool) -> None:
    """What is left of the row lets a request through that the whole row refuses, or its handler asks for what
    is in no row. The needs that hold are those that this file has requests for."""
    row: Any = ROWS[key]
    needs = needs_in(row, on_controller)
    left = (*needs[:at], *needs[at + 1 :])
    changed = {"controllers_need": left} if on_controller else {"needs": left}
    with pytest.raises(Exception):  # noqa: B017
        await check_refusals(key, at, on_controller=on_controller, row=dataclasses.replace(row, **changed))


SHOWN = {K.DELETE_TOPICS: {Permission(AclOperation.DESCRIBE, ResourceType.TOPIC)}}
"""Asked for how much a refusal may say."""


def needs_in(row: Any, on_controller: bool) -> tuple[Need[Any], ...]:
    return cast("tuple[Need[Any], ...]", row.needed_of_controllers if on_controller else row.needs)


def permissions(row: Any, *, on_controller: bool) -> set[Permission]:
    return {each for need in needs_in(row, on_controller) for each in need.any_of} | SHOWN.get(
        row.api.key, set()
    )


@pytest.mark.bug("KAFKA-3396")
@pytest.mark.bug("KAFKA-19234")
@pytest.mark.parametrize("key", [each for each in CASES if BROKER_APIS.get(each) and ROWS[each].needs])
async def test_who_may_do_nothing_is_told_the_same_whether_it_is_there_or_not(key: ApiKey) -> None:
    for version, values, at in CASES[key]:
        if SECRET_ID.hex in str(values) or "topic_id" in str(values):
            continue  # who knows an id knows that there was such a topic
        need = need_of(key, at, on_controller=False)
        there, gone = [
            await ask(
                key,
                version,
                values,
                Recording(everything=True),
                with_secret=with_secret,
            )
            for with_secret in (True, False)
        ]
        assert there == gone
        if need.refuses is not Refuses.LEFT_OUT:
            assert codes(decoded(key, version, there)), "nothing was refused"


@pytest.mark.bug("Patroni issue 1734")
@pytest.mark.bug("CVE-2026-33413")
def test_every_api_that_is_served_has_a_row_with_its_needs_and_requests_for_them() -> None:
    assert set(CASES) == set(ROWS) == {*APIS} - {each.key for each in CONNECTION_APIS}
    assert set(BROKER_APIS) | set(CONTROLLER_APIS) == set(ROWS)
    free = {APIS[key].name for key, row in ROWS.items() if not row.needs}
    assert free == {"DESCRIBE_CLUSTER"}, "everybody may send it"


@pytest.mark.bug("etcd PR 21666")
async def test_everybody_may_ask_for_the_nodes_and_is_told_nothing_of_rights() -> None:
    nobody = Recording(everything=True)
    values = {"endpoint_type": 1, "include_cluster_authorized_operations": True}
    answer = await ask(K.DESCRIBE_CLUSTER, 2, values, nobody)
    found = decoded(K.DESCRIBE_CLUSTER, 2, answer)
    assert [each.broker_id for each in found.brokers] == [1]
    assert found.cluster_authorized_operations == 0


async def test_directories_are_not_shown_to_clients_of_versions_without_a_code() -> None:
    answer = await ask(K.DESCRIBE_LOG_DIRS, 1, {"topics": None}, Recording(everything=True))
    assert decoded(K.DESCRIBE_LOG_DIRS, 1, answer).results == ()


@pytest.mark.bug("CVE-2018-1288")
@pytest.mark.parametrize(
    ("key", "version", "values", "on_controller"),
    [
        (K.FETCH, 12, fetch(replica_id=1), False),
        (K.ASSIGN_REPLICAS_TO_DIRS, 0, {"broker_id": 1, "directories": []}, True),
        (K.UPDATE_RAFT_VOTER, 0, {"voter_id": 1}, True),
    ],
    ids=["Fetch", "AssignReplicasToDirs", "UpdateRaftVoter"],
)
async def test_a_node_can_not_speak_for_another(
    key: ApiKey, version: int, values: Any, on_controller: bool
) -> None:
    """A replica id moves the ISR and the high watermark. Nothing of a replica is there."""
    may_all = Recording()
    answer = await ask(
        key, version, values, may_all, on_controller=on_controller, principal=Principal(NODE, "2")
    )
    assert codes(decoded(key, version, answer)) == {need_of(key, 0, on_controller=on_controller).code}


class NoController:
    async def ask(self, request: object, **_: object) -> Any:
        raise ControllerTimedOutError("no controller answered")


class Loading(Groups):
    def check(self, group_id: str) -> WireErrorCode:
        return WireErrorCode.coordinator_load_in_progress


FAILURE_FIRST = {K.OFFSET_FETCH: 1, K.CREATE_TOPICS: 1}
"""Needs that are looked at once a group, or the controller, has answered: without its answer there is nothing
that they could show."""


@pytest.mark.bug("etcd PR 22386")
@pytest.mark.parametrize(("key", "at", "on_controller"), needs_of_rows())
async def test_what_is_refused_is_refused_too_while_much_of_the_broker_has_failed(
    key: ApiKey, at: int, on_controller: bool
) -> None:
    """No controller answers, and groups are being loaded. Where the request is refused as a whole, no part of
    the broker is there. What is left out needs all of it."""
    need = need_of(key, at, on_controller=on_controller)
    parts: dict[str, object] = {"channel": NoController(), "groups": Loading()}
    if need.refuses is Refuses.WHOLE:
        parts = dict.fromkeys((*parts, "replicas", "throttles"))
    for version, values, of in CASES[key]:
        if of != at or need.refuses is Refuses.LEFT_OUT or FAILURE_FIRST.get(key) == at:
            continue
        answer = await ask(
            key,
            version,
            values,
            Recording(*need.any_of),
            on_controller=on_controller,
            **parts,
        )
        assert codes(decoded(key, version, answer)) == {need.code}


class Supers(Recording):
    """Everybody may do everything that ACLs decide, and `root` is the super user."""

    def is_super_user(self, who: Principal) -> bool:
        return who == Principal("User", "root")


@pytest.mark.bug("redpanda PR 27615")
@pytest.mark.parametrize(
    ("key", "values"),
    [
        (K.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [{"name": "root", "mechanism": 1}], "upsertions": []}),
        (K.SEAL_AGAIN, {}),
    ],
    ids=["the password of a super user", "sealing again"],
)
async def test_what_super_users_do_is_not_even_passed_on_for_others(
    key: ApiKey, values: dict[str, Any]
) -> None:
    """The channel to the controller takes nothing here."""
    answer = await ask(key, 0, values, Supers())
    assert codes(decoded(key, 0, answer)) == {WireErrorCode.cluster_authorization_failed}


@pytest.mark.bug("CVE-2023-32082")
async def test_a_topic_that_is_not_yours_is_named_by_its_id_alone() -> None:
    by_id = {"topics": [{"name": None, "topic_id": SECRET_ID}]}
    for key, version in ((K.METADATA, 12), (K.DELETE_TOPICS, 6)):
        answer = await ask(key, version, by_id, Recording(everything=True))
        assert codes(decoded(key, version, answer)) == {WireErrorCode.topic_authorization_failed}
        assert SECRET.encode() not in answer and SECRET_ID.bytes in answer
    by_name = {"topics": [{"name": SECRET, "topic_id": None}]}
    for key, version in ((K.METADATA, 12), (K.DELETE_TOPICS, 6)):
        answer = await ask(key, version, by_name, Recording(everything=True))
        assert SECRET.encode() in answer and SECRET_ID.bytes not in answer


async def test_a_topic_that_may_be_described_and_not_deleted_has_its_name_in_the_answer() -> None:
    delete = Permission(AclOperation.DELETE, ResourceType.TOPIC)
    anywhere = Permission(AclOperation.DELETE, ResourceType.CLUSTER)
    by_id = {"topics": [{"name": None, "topic_id": SECRET_ID}]}
    answer = await ask(K.DELETE_TOPICS, 6, by_id, Recording(delete, anywhere))
    (only,) = decoded(K.DELETE_TOPICS, 6, answer).responses
    assert (only.name, only.topic_id) == (SECRET, SECRET_ID)


async def test_operations_are_those_that_the_client_may_do() -> None:
    write = Permission(AclOperation.WRITE, ResourceType.TOPIC)
    values = {"topics": [{"name": SECRET}], "include_topic_authorized_operations": True}
    answer = await ask(K.METADATA, 12, values, Recording(write))
    (topic,) = decoded(K.METADATA, 12, answer).topics
    assert topic.topic_authorized_operations == sum(1 << each for each in (3, 5, 6, 7, 8, 10, 11))


async def test_produce_without_an_answer_closes_the_connection() -> None:
    topic = ProduceTopic(SECRET, [ProducePartition(0, memoryview(b"records"))])
    request = ProduceRequest(version=9, acks=0, timeout_ms=1, topics=[topic])
    async with trio.open_nursery() as tasks:
        metadata = MetadataCache(image_of(with_secret=True))
        broker = broker_of(
            metadata=metadata,
            authorizer=Recording(everything=True),
            tasks=tasks,
            replicas=replicas(),
            throttles=ClientThrottles(lambda: metadata.image, QuotaWindows()),
        )
        answer = await Dispatcher(broker).handle(context(K.PRODUCE, 9), request)
    assert isinstance(answer, CloseConnection) and "TOPIC_AUTHORIZATION_FAILED" in answer.reason


async def test_who_may_not_describe_a_group_makes_no_topic_for_offsets() -> None:
    """Nothing that could create it is there."""
    values = {"coordinator_keys": [SECRET], "key_type": 0}
    answer = await ask(K.FIND_COORDINATOR, 4, values, Recording(everything=True), with_offsets=False)
    assert codes(decoded(K.FIND_COORDINATOR, 4, answer)) == {WireErrorCode.group_authorization_failed}
