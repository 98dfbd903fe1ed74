"""No answer of a broker's API holds the event loop, by the processor's time of the loop's thread: from the
request's bytes to the answer's, in a cluster of 100,000 partitions.

Every API that the dispatcher serves has a scenario here, or says why there is none; a new one without
either fails. What replicas, groups and the controller do has tests of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest
import trio
from gaps import within_gap
from kio.serial import entity_reader
from large_metadata import PARTITIONS, TOPICS, large_image, no_full_collection, topic_id

from quorate.broker.apis.context import Broker
from quorate.broker.apis.dispatch import _HANDLERS, Dispatcher
from quorate.broker.config import ServerConfig
from quorate.broker.controller.rpc import (
    CreatedTopic,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
)
from quorate.broker.groups.messages import CommittedOffset
from quorate.broker.metadata import MetadataCache
from quorate.broker.replication.requests import EpochEndResult, OffsetResult
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codec import decode_request, encode_response
from quorate.broker.wire.entities import build, encode_entity, request_type, response_type
from quorate.broker.wire.messages import ConnectionContext, Deferred, RequestContext

pytestmark = pytest.mark.real_time

CONFIG = (
    "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n"
    "controller.quorum.voters=1@h:1\nlisteners=PLAINTEXT://:2,C://h:1\nlog.dirs=/d"
)
CONNECTION = ConnectionContext(id=1, peer="p:1", listener="PLAINTEXT")
ASKED = 100
"""Topics of 100 partitions each: 10,000 partitions."""


class Replicas:
    any_cut_off = False

    def is_cut_off(self, topic: object, partition: int) -> bool:
        return False

    async def list_offset(self, *asked: object, **rest: object) -> OffsetResult:
        return OffsetResult(offset=7)

    def offset_for_leader_epoch(self, *asked: object, **rest: object) -> EpochEndResult:
        return EpochEndResult(leader_epoch=1, end_offset=7)


class Groups:
    def check(self, group_id: str) -> Any:
        return build(response_type(ApiKey.HEARTBEAT, 0)).error_code  # type: ignore[attr-defined]

    def committed(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for number in range(ASKED):
            for index in range(PARTITIONS):
                yield f"t{number}", index, CommittedOffset(offset=7, leader_epoch=1, metadata="")

    def fetch_offset(self, group_id: str, topic: str, index: int) -> CommittedOffset:
        return CommittedOffset(offset=7, leader_epoch=1, metadata="")

    def commit(self, ref: object, offsets: Sequence[object], answer: Callable[[Any], None]) -> None:
        answer([self.check("g")] * len(offsets))


class Channel:
    async def create_topics(self, request: Any, *, timeout_seconds: float) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=tuple(
                CreatedTopic(name=each.name, topic_id=topic_id(number))
                for number, each in enumerate(request.topics)
            )
        )

    async def ask(self, request: object, **rest: object) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(
            topics=tuple(DeletedTopic(name=f"t{each}", topic_id=None) for each in range(TOPICS))
        )


class Leaders:
    async def wait(self, names: object, *, deadline: float) -> None:
        await trio.lowlevel.checkpoint()


@pytest.fixture(scope="module")
def metadata() -> MetadataCache:
    cache = MetadataCache()
    cache.image = large_image()
    return cache


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


def broker_of(metadata: MetadataCache, tasks: trio.Nursery) -> Broker:
    unused = cast(Any, None)
    return Broker(
        config=ServerConfig.parse(CONFIG),
        cluster_id="c",
        metadata=metadata,
        quorum=unused,
        channel=cast(Any, Channel()),
        replicas=cast(Any, Replicas()),
        groups=cast(Any, Groups()),
        cluster_metadata=unused,
        topics=unused,
        producer_ids=unused,
        leaders=cast(Any, Leaders()),
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

SCENARIOS: dict[str, tuple[ApiKey, int, dict[str, object], int]] = {
    "Metadata of all topics": (ApiKey.METADATA, 12, {"topics": None}, TOPICS),
    "Metadata of all topics, version 0": (ApiKey.METADATA, 0, {"topics": []}, TOPICS),
    "Metadata of every topic by name": (ApiKey.METADATA, 12, {"topics": NAMED}, TOPICS),
    "Metadata of every topic by id": (
        ApiKey.METADATA,
        12,
        {"topics": [{"name": None, "topic_id": topic_id(each)} for each in range(TOPICS)]},
        TOPICS,
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
    "OffsetFetch of 10,000 partitions": (
        ApiKey.OFFSET_FETCH,
        7,
        {"group_id": "g", "topics": INDEXES},
        ASKED,
    ),
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
    "a thousand topics are created": (ApiKey.CREATE_TOPICS, 7, {"topics": NAMED}, TOPICS),
    "a thousand topics are deleted": (ApiKey.DELETE_TOPICS, 6, {"topics": NAMED}, TOPICS),
}

NOT_MEASURED = {
    ApiKey.FIND_COORDINATOR: "not measured: grows with the keys that are asked for",
    ApiKey.JOIN_GROUP: "not measured: the leader is told the members of its group",
    ApiKey.HEARTBEAT: "one member",
    ApiKey.LEAVE_GROUP: "not measured: members of one group",
    ApiKey.SYNC_GROUP: "not measured: members of one group",
    ApiKey.INIT_PRODUCER_ID: "one producer",
    ApiKey.DESCRIBE_QUORUM: "the voters and observers",
    ApiKey.DESCRIBE_CLUSTER: "the brokers",
    ApiKey.ADD_RAFT_VOTER: "one voter",
    ApiKey.REMOVE_RAFT_VOTER: "one voter",
    ApiKey.UPDATE_RAFT_VOTER: "one voter",
}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_no_answer_of_an_api_holds_the_loop(scenario: str, metadata: MetadataCache) -> None:
    key, version, values, expected = SCENARIOS[scenario]
    body = memoryview(b"".join(encode_entity(build(request_type(key, version), **values))))
    context = RequestContext(CONNECTION, key, version, 1, None, trio.current_time())

    async def answered(dispatcher: Dispatcher) -> bytes:
        request = decode_request(key, version, body)
        await trio.lowlevel.checkpoint()
        answer: Any = await dispatcher.handle(context, request)
        if isinstance(answer, Deferred):
            done = trio.Event()
            answer.notify(done.set)
            await done.wait()
            answer = await answer.result()
        return b"".join(encode_response(answer))

    async with trio.open_nursery() as tasks:
        dispatcher = Dispatcher(broker_of(metadata, tasks))
        encoded = await within_gap(answered(dispatcher), what=scenario)
    # Without the guard, which bounds what a peer may send.
    read = entity_reader(response_type(key, version))
    response: Any = read(memoryview(encoded), 0)[0]
    elements = next(getattr(response, each) for each in _ARRAYS if hasattr(response, each))
    assert len(elements) == expected


_ARRAYS = ("topics", "results", "responses")


def test_every_api_that_is_served_has_a_scenario() -> None:
    large = {key for key, *_ in SCENARIOS.values()}
    assert not large & set(NOT_MEASURED)
    assert large | set(NOT_MEASURED) == set(_HANDLERS)
