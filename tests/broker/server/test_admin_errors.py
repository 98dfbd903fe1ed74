"""Everything that an administrator can get wrong, through the wire: Kafka's code, a sentence that names the
fault, and nothing half done."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.controller.rpc import RegisterBrokerRequest
from quorate.broker.metadata.difference import difference
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata.supported_features import SUPPORTED_FEATURES
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.kafka_client import WireClient
from tests.broker.server.client_requests import wait_coordinated
from tests.broker.server.conftest import MakeNodes

Fields = dict[str, Any]

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND = 0, 1, 2
FENCED, UNKNOWN = 2, 9
"""Broker ids; 1 is the one that is asked."""
SECONDS = timedelta(seconds=10)


class Mistake(NamedTuple):
    what: str
    api: ApiKey
    fields: Fields
    error: ErrorCode
    words: str
    """Of the message; "": the answer has no room for one."""


def new(name: str = "new", **values: object) -> Fields:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    return {"topics": [topic | values], "timeout": SECONDS}


def assigned(*replicas: tuple[int, ...], first: int = 0) -> Fields:
    return {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": number, "broker_ids": each} for number, each in enumerate(replicas, first)
        ],
    }


def config(name: str, value: str | None) -> Fields:
    return {"configs": [{"name": name, "value": value}]}


def more(name: str, count: int, *replicas: tuple[int, ...], some: bool = False) -> Fields:
    assignments = [{"broker_ids": each} for each in replicas] if replicas or some else None
    topic = {"name": name, "count": count, "assignments": assignments}
    return {"topics": [topic], "timeout": SECONDS, "validate_only": False}


def move(topic: str, replicas: tuple[int, ...] | None, *, partition: int = 0, resize: bool = True) -> Fields:
    part = {"partition_index": partition, "replicas": replicas}
    return {
        "topics": [{"name": topic, "partitions": [part]}],
        "timeout": SECONDS,
        "allow_replication_factor_change": resize,
    }


def elect(kind: int, topic: str, partition: int = 0) -> Fields:
    asked = [{"topic": topic, "partitions": (partition,)}]
    return {"election_type": kind, "topic_partitions": asked, "timeout": SECONDS}


def alter(of: int, name: str, *changes: tuple[str, int, str | None]) -> Fields:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resource = {"resource_type": of, "resource_name": name, "configs": configs}
    return {"resources": [resource], "validate_only": False}


def replace(of: int, name: str, *values: tuple[str, str | None]) -> Fields:
    configs = [{"name": key, "value": value} for key, value in values]
    resource = {"resource_type": of, "resource_name": name, "configs": configs}
    return {"resources": [resource], "validate_only": False}


def twice(request: Fields, items: str) -> Fields:
    return request | {items: [*request[items], *request[items]]}


def quota(*entity: tuple[str, str | None], key: str = "producer_byte_rate", value: float = 1.0) -> Fields:
    named = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    ops = [{"key": key, "value": value, "remove": False}]
    return {"entries": [{"entity": named, "ops": ops}], "validate_only": False}


def records(topic: str, offset: int, partition: int = 0) -> Fields:
    part = {"partition_index": partition, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [part]}], "timeout": SECONDS}


def offsets(group: str) -> Fields:
    return {"group_id": group, "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}


def feature(name: str, level: int, how: int = 1) -> Fields:
    update = {"feature": name, "max_version_level": level, "upgrade_type": how}
    return {"feature_updates": [update], "timeout": SECONDS}


CREATE, REMOVE, GROW = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS
MOVE, ELECT = ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ELECT_LEADERS
ALTER, REPLACE = ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS
QUOTAS, FEATURES = ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.UPDATE_FEATURES
ASSIGNMENT, REQUEST = ErrorCode.invalid_replica_assignment, ErrorCode.invalid_request
CONFIG, POLICY = ErrorCode.invalid_config, ErrorCode.policy_violation
BAD_NAME, NO_TOPIC = ErrorCode.invalid_topic_exception, ErrorCode.unknown_topic_or_partition
PARTITIONS, FACTOR = ErrorCode.invalid_partitions, ErrorCode.invalid_replication_factor
LOW, HIGH = "min.compaction.lag.ms", "max.compaction.lag.ms"

MISTAKES = [
    # CreateTopics
    Mistake("a topic that exists", CREATE, new("t"), ErrorCode.topic_already_exists, "'t' already exists"),
    Mistake("a name that collides", CREATE, new("a_b"), BAD_NAME, "collides with"),
    Mistake("a name that is too long", CREATE, new("x" * 250), BAD_NAME, "249"),
    Mistake("no name", CREATE, new(""), BAD_NAME, "name"),
    Mistake("a name with a slash", CREATE, new("../x"), BAD_NAME, "characters"),
    Mistake("the metadata log", CREATE, new("__cluster_metadata"), REQUEST, "__cluster_metadata"),
    Mistake("a topic named twice", CREATE, twice(new(), "topics"), REQUEST, "Duplicate topic name"),
    Mistake("no partitions", CREATE, new(num_partitions=0), PARTITIONS, "larger than 0"),
    Mistake("a million partitions", CREATE, new(num_partitions=1_000_000), POLICY, "excessively large"),
    Mistake("no replicas", CREATE, new(replication_factor=0), FACTOR, "larger than 0"),
    Mistake("too many replicas", CREATE, new(replication_factor=3), FACTOR, "2 broker(s) are registered"),
    Mistake("partitions and an assignment", CREATE, new(**assigned((1,)) | {"num_partitions": 1}),
        REQUEST, "-1"),
    Mistake("an unknown broker", CREATE, new(**assigned((1, UNKNOWN))), ASSIGNMENT, "broker 9"),
    Mistake("fenced brokers only", CREATE, new(**assigned((FENCED,))), ASSIGNMENT, "fenced"),
    Mistake("a replica twice", CREATE, new(**assigned((1, 1))), ASSIGNMENT, "more than once"),
    Mistake("an empty assignment", CREATE, new(**assigned(())), ASSIGNMENT, "empty"),
    Mistake("replicas of two numbers", CREATE, new(**assigned((1, 2), (1,))), ASSIGNMENT, "replica"),
    Mistake("a gap in the numbers", CREATE, new(**assigned((1,), first=1)), ASSIGNMENT, "partition"),
    Mistake("an unknown setting", CREATE, new(**config("no.such", "1")), CONFIG, "no.such"),
    Mistake("a setting that is no number", CREATE, new(**config("retention.ms", "a day")), CONFIG,
        "retention.ms: it must be a whole number"),
    Mistake("a setting without a value", CREATE, new(**config("retention.ms", None)), CONFIG, "retention.ms"),
    Mistake("settings that contradict", CREATE,
        new(configs=[{"name": LOW, "value": "9"}, {"name": HIGH, "value": "8"}]), CONFIG, "raise the second"),
    # DeleteTopics
    Mistake("an unknown name", REMOVE, {"topics": [{"name": "u", "topic_id": None}], "timeout": SECONDS},
        NO_TOPIC, "does not host"),
    Mistake("an unknown id", REMOVE,
        {"topics": [{"name": None, "topic_id": uuid.UUID(int=5)}], "timeout": SECONDS},
        ErrorCode.unknown_topic_id, "topic ID"),
    Mistake("neither name nor id", REMOVE, {"topics": [{"name": None, "topic_id": None}], "timeout": SECONDS},
        REQUEST, "name"),
    Mistake("the same name twice", REMOVE,
        {"topics": [{"name": "t", "topic_id": None}] * 2, "timeout": SECONDS}, REQUEST, "Duplicate"),
    # CreatePartitions
    Mistake("more of an unknown topic", GROW, more("u", 3), NO_TOPIC, "does not host"),
    Mistake("as many as there are", GROW, more("t", 2), PARTITIONS, "already has 2"),
    Mistake("fewer than there are", GROW, more("t", 1), PARTITIONS, "not be an increase"),
    Mistake("none at all", GROW, more("t", 0), PARTITIONS, "not be an increase"),
    Mistake("a million more", GROW, more("t", 1_000_000), POLICY, "excessively large"),
    Mistake("an unknown broker for more", GROW, more("t", 3, (UNKNOWN,)), ASSIGNMENT, "broker 9"),
    Mistake("a fenced broker alone for more", GROW, more("t", 3, (FENCED,)), ASSIGNMENT, "fenced"),
    Mistake("too few assignments", GROW, more("t", 4, (1,)), ASSIGNMENT, "2 additional partition"),
    Mistake("no assignments", GROW, more("t", 3, some=True), ASSIGNMENT, "0 assignment"),
    Mistake("another number of replicas", GROW, more("t", 3, (1, 2)), ASSIGNMENT, "replica"),
    Mistake("a replica twice for more", GROW, more("t", 3, (1, 1)), ASSIGNMENT, "once"),
    Mistake("more of the same twice", GROW, twice(more("t", 3), "topics"), REQUEST, "Duplicate topic name"),
    # AlterPartitionReassignments
    Mistake("a move of an unknown topic", MOVE, move("u", (1,)), NO_TOPIC, "partition 0 of topic u"),
    Mistake("a move of an unknown partition", MOVE, move("t", (1,), partition=7), NO_TOPIC,
        "partition 7 of topic t"),
    Mistake("a move to nobody", MOVE, move("t", ()), ASSIGNMENT, "empty"),
    Mistake("a move to one twice", MOVE, move("t", (1, 1)), ASSIGNMENT, "more than once"),
    Mistake("a move to an unknown broker", MOVE, move("t", (UNKNOWN,)), ASSIGNMENT, "broker 9"),
    Mistake("another factor where that is forbidden", MOVE, move("t", (1, FENCED), resize=False), FACTOR,
        "replication factor"),
    Mistake("a cancellation of nothing", MOVE, move("t", None), ErrorCode.no_reassignment_in_progress,
        "No partition reassignment"),
    # ElectLeaders
    Mistake("an unknown kind of election", ELECT, elect(7, "t"), REQUEST, ""),
    Mistake("an election in an unknown topic", ELECT, elect(0, "u"), NO_TOPIC, "No such topic"),
    Mistake("an election in an unknown partition", ELECT, elect(0, "t", 9), NO_TOPIC, "No such"),
    Mistake("an election without need", ELECT, elect(1, "t"), ErrorCode.election_not_needed, "leads t-0"),
    # IncrementalAlterConfigs and AlterConfigs
    *(
        mistake
        for api, one in ((ALTER, lambda *values: alter(*values[:2], *((k, SET, v) for k, v in values[2:]))),
                         (REPLACE, replace))
        for mistake in (
            Mistake("a setting of an unknown topic", api, one(TOPIC, "u", ("retention.ms", "1")), NO_TOPIC,
                "u"),
            Mistake("an unknown setting of a topic", api, one(TOPIC, "t", ("no.such", "1")), CONFIG,
                "no.such"),
            Mistake("a bad value", api, one(TOPIC, "t", ("retention.ms", "a day")), CONFIG, "whole number"),
            Mistake("a value out of bounds", api, one(TOPIC, "t", ("min.insync.replicas", "0")), CONFIG,
                "between 1 and"),
            Mistake("a setting that contradicts one that is held", api,
                one(TOPIC, "t", (LOW, "9"), (HIGH, "8")), CONFIG, "raise the second"),
            Mistake("no topic's name", api, one(TOPIC, "", ("retention.ms", "1")), REQUEST,
                "Default topic"),
            Mistake("no value", api, one(TOPIC, "t", ("retention.ms", None)), REQUEST, "ull value"),
            Mistake("another broker", api, one(BROKER, "2", ("log.retention.ms", "1")), REQUEST, "2"),
            Mistake("a broker that is no number", api, one(BROKER, "one", ("log.retention.ms", "1")), REQUEST,
                "one"),
            Mistake("a setting that needs a restart", api, one(BROKER, "1", ("broker.id", "7")), REQUEST,
                "broker.id"),
            Mistake("an unknown kind of resource", api, one(99, "t", ("retention.ms", "1")), REQUEST, "99"),
            Mistake("a resource twice", api, twice(one(TOPIC, "t", ("retention.ms", "1")), "resources"),
                REQUEST, "once"),
            Mistake("a key twice", api, one(TOPIC, "t", ("retention.ms", "1"), ("retention.ms", "2")),
                REQUEST, "retention.ms"),
        )
    ),
    Mistake("a number that is appended to", ALTER, alter(TOPIC, "t", ("retention.ms", APPEND, "1")), CONFIG,
        "not LIST"),
    Mistake("an unknown operation", ALTER, alter(BROKER, "1", ("log.retention.ms", 9, "1")), REQUEST, "9"),
    Mistake("the smallest ISR of one broker", ALTER, alter(BROKER, "1", ("min.insync.replicas", SET, "2")),
        CONFIG, "min.insync.replicas"),
    # Quotas
    Mistake("an unknown kind of client", QUOTAS, quota(("planet", "mars")), REQUEST, "planet"),
    Mistake("no client", QUOTAS, quota(), REQUEST, "entity"),
    Mistake("an empty name", QUOTAS, quota(("user", "")), REQUEST, "name"),
    Mistake("an unknown quota", QUOTAS, quota(("user", "u"), key="speed"), REQUEST, "speed"),
    Mistake("a quota of 0", QUOTAS, quota(("user", "u"), value=0.0), REQUEST, "0"),
    Mistake("an address and a user", QUOTAS,
        quota(("ip", "127.0.0.1"), ("user", "u"), key="connection_creation_rate"), REQUEST, "ip"),
    Mistake("a client twice", QUOTAS, twice(quota(("user", "u")), "entries"), REQUEST, "more than once"),
    # Records and groups: their answers have no messages
    Mistake("records of an unknown topic", ApiKey.DELETE_RECORDS, records("u", 0), NO_TOPIC, ""),
    Mistake("records that are not there", ApiKey.DELETE_RECORDS, records("t", 5),
        ErrorCode.offset_out_of_range, ""),
    Mistake("a negative offset", ApiKey.DELETE_RECORDS, records("t", -2), ErrorCode.offset_out_of_range, ""),
    Mistake("records of a compacted topic", ApiKey.DELETE_RECORDS, records("compacted", 0), POLICY, ""),
    Mistake("an unknown group", ApiKey.DELETE_GROUPS, {"groups_names": ("nobody",)},
        ErrorCode.group_id_not_found, ""),
    Mistake("offsets of an unknown group", ApiKey.OFFSET_DELETE, offsets("nobody"),
        ErrorCode.group_id_not_found, ""),
    Mistake("offsets of no group", ApiKey.OFFSET_DELETE, offsets(""), ErrorCode.invalid_group_id, ""),
    # The cluster
    Mistake("a broker that nobody knows", ApiKey.UNREGISTER_BROKER, {"broker_id": UNKNOWN},
        ErrorCode.broker_id_not_registered, "9"),
    Mistake("an unknown feature", FEATURES, feature("wings", 1), ErrorCode.invalid_update_version, "wings"),
    Mistake("a level that is too high", FEATURES, feature("metadata.version", 99),
        ErrorCode.invalid_update_version, "supports levels"),
    Mistake("a level below 0", FEATURES, feature("metadata.version", -1), ErrorCode.invalid_update_version,
        "metadata.version"),
    Mistake("a downgrade that is called an upgrade", FEATURES, feature("metadata.version", 0),
        ErrorCode.invalid_update_version, "metadata.version"),
    Mistake("a feature twice", FEATURES, twice(feature("metadata.version", 1), "feature_updates"), REQUEST,
        "twice"),
]  # fmt: skip


def outcomes(answer: Any) -> Iterator[tuple[ErrorCode, str | None]]:
    """Every error code in an answer, and the message beside it."""
    if isinstance(answer, tuple | list):
        for each in answer:
            yield from outcomes(each)
    elif is_dataclass(answer):
        if (error := getattr(answer, "error_code", None)) is not None:
            yield error, getattr(answer, "error_message", None)
        for field in fields(answer):
            yield from outcomes(getattr(answer, field.name))


@asynccontextmanager
async def administered(make_nodes: MakeNodes) -> AsyncIterator[tuple[Any, WireClient]]:
    """Broker 1, a fenced broker 2 that was registered, and the topics t, a.b and compacted."""
    nodes = await make_nodes(1)
    server = nodes.servers[1]
    registered = await server.controller.controller.answer(
        RegisterBrokerRequest(
            broker_id=FENCED,
            cluster_id="test-cluster",
            incarnation_id=uuid.UUID(int=2),
            listeners=(BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=1),),
            features=SUPPORTED_FEATURES,
            log_dirs=(uuid.UUID(int=2000),),
        )
    )
    assert not registered.error, registered.error_message
    async with nodes.client(1) as client:
        for made in (
            new("t", num_partitions=2),
            new("a.b"),
            new("compacted", **config("cleanup.policy", "compact")),
        ):
            answer = await client.call(CREATE, **made)
            assert {error for error, _ in outcomes(answer)} == {ErrorCode.none}
        await wait_coordinated(client, "nobody")
        yield server, client


@pytest.mark.slow
async def test_every_mistake_of_an_administrator_has_kafkas_code_and_a_sentence_and_changes_nothing(
    make_nodes: MakeNodes,
) -> None:
    wrong: list[str] = []
    async with administered(make_nodes) as (server, client):
        before = server.metadata.image.copy()
        for mistake in MISTAKES:
            answer = await client.call(mistake.api, **mistake.fields)
            seen = [(error, said) for error, said in outcomes(answer) if error is not ErrorCode.none]
            where = f"{mistake.api.name}, {mistake.what}"
            if {error for error, _ in seen} != {mistake.error}:
                wrong.append(f"{where}: not {mistake.error.name}, but {seen}")
            elif mistake.words and not any(said and mistake.words in said for _, said in seen):
                wrong.append(f"{where}: no {mistake.words!r} in {seen[0][1]!r}")
            if server.metadata.image != before:
                wrong.append(f"{where}: metadata have changed: {difference(before, server.metadata.image)}")
                before = server.metadata.image.copy()
    assert not wrong, "\n".join(wrong)


ELSEWHERE = {
    *("ADD_RAFT_VOTER", "REMOVE_RAFT_VOTER", "UPDATE_RAFT_VOTER", "ALTER_REPLICA_LOG_DIRS"),
    *("CREATE_ACLS", "DELETE_ACLS", "ALTER_USER_SCRAM_CREDENTIALS"),
}
"""These have tests of their own."""
_ALTERS = (
    *(
        "ADD_RAFT",
        "ALTER",
        "CREATE",
        "DELETE",
        "ELECT",
        "INCREMENTAL",
        "OFFSET_DELETE",
        "REMOVE",
        "UNREGISTER",
    ),
    "UPDATE",
)


def test_every_api_that_alters_something_has_its_mistakes() -> None:
    altering = {name for api in APIS if (name := ApiKey(api).name).startswith(_ALTERS)}
    assert len(altering) > 12
    assert altering - ELSEWHERE <= {mistake.api.name for mistake in MISTAKES}


@pytest.mark.slow
@pytest.mark.bug("KAFKA-12778")
async def test_without_a_controller_a_request_is_given_up_at_its_timeout(make_nodes: MakeNodes) -> None:
    asked: list[tuple[ApiKey, Fields]] = [
        (CREATE, new()),
        (GROW, more("t", 5)),
        (ELECT, elect(0, "t")),
        (MOVE, move("t", (1, 2))),
        (REMOVE, {"topics": [{"name": "t", "topic_id": None}]}),
    ]
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        made = await client.call(CREATE, **new("t", num_partitions=2, replication_factor=2))
        assert {error for error, _ in outcomes(made)} == {ErrorCode.none}
        for other in (2, 3):
            await nodes.crash(other)
        for api, request in asked:
            began = trio.current_time()
            answer = await client.call(api, **request | {"timeout": timedelta(seconds=1)})
            took = trio.current_time() - began
            seen = {error for error, _ in outcomes(answer)} - {ErrorCode.none}
            assert seen == {ErrorCode.request_timed_out}, f"{api.name}: {seen} after {took:.1f} s"
            assert 0.9 < took < 4, f"{api.name} took {took:.1f} s"
        assert (await client.call(ApiKey.METADATA, topics=None)).topics
