"""CreateTopics, DeleteTopics and ListPartitionReassignments wait for this broker's own metadata; and what is
large goes to the controller in portions, or not at all."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest
import trio
import trio.testing
from api_broker import broker_of, context
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import ROWS
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.context import Broker
from quorate.broker.controller.rpc import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Partition, PartitionChange, Record, RemoveTopic, Topic
from quorate.broker.metadata.record_codec import encode
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, decode_entity, request_type, response_type
from quorate.broker.wire.exchanges import Deferred, Refusal
from quorate.broker.wire.request_codec import encode_response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.error_code import ErrorCode as OurCode
from quorate.raft import NotLeaderError
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.runtime.token_bucket import QuotaWindows
from quorate.types import Epoch, Offset

ID = uuid.UUID(int=7)
CREATED: tuple[Record, ...] = (
    Topic(name="t", topic_id=ID),
    Partition(topic_id=ID, partition_id=0, replicas=(1,), isr=(1,), leader=1),
)


class Channel:
    """A controller that has committed already."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def ask(self, request: object, **options: object) -> object:
        return self._answer


class Leaders:
    """They serve the partitions that they lead."""

    async def wait(self, topics: object, *, deadline: float) -> None:
        pass


def apply(broker: Broker, *records: Record) -> None:
    broker.metadata.apply(
        CommittedBatch(
            base_offset=Offset(broker.metadata.offset + 1),
            epoch=Epoch(1),
            timestamp_ms=1,
            records=[encode(record) for record in records],
        )
    )


@dataclass(frozen=True)
class Asked:
    """A request to a broker, and its answer, which may not be there yet."""

    broker: Broker
    key: ApiKey
    version: int
    request: Any
    deferred: Deferred

    async def answer(self) -> Any:
        """The answer, or the refusal, as clients decode it."""
        try:
            answered = await self.deferred.result()
        except KafkaError as error:
            refusal = Refusal(self.version, error.code, error.message)
            answered = await ROWS[self.key].refusal(self.request, refusal)
        body = memoryview(b"".join(encode_response(answered)))
        return decode_entity(response_type(self.key, self.version), body)


@asynccontextmanager
async def asking(
    channel: object, key: ApiKey, version: int, *known: Record, quorum: object = None, **values: object
) -> AsyncIterator[Asked]:
    """Ask a broker whose metadata has the `known` records."""
    async with trio.open_nursery() as nursery:
        broker = broker_of(
            channel=channel,
            quorum=quorum,
            leaders=Leaders(),
            throttles=ClientThrottles(MetadataImage, QuotaWindows()),
            tasks=nursery,
        )
        if known:
            apply(broker, *known)
        request: Any = build(request_type(key, version), timeout=timedelta(seconds=5), **values)
        deferred = ROWS[key].answer_on_broker(broker, context(key, version), request)
        assert isinstance(deferred, Deferred)
        yield Asked(broker, key, version, request, deferred)


class LaggingQuorum:
    """A node that has not applied all that is committed."""

    def __init__(self) -> None:
        self.caught_up = trio.Event()

    async def wait_read_index(self, *, timeout_ms: int) -> None:
        with trio.move_on_after(timeout_ms / 1000):
            return await self.caught_up.wait()
        raise NotLeaderError(leader=None, epoch=Epoch(1))


async def answered(channel: object, key: ApiKey, version: int, **values: object) -> Any:
    async with asking(channel, key, version, **values) as asked:
        done = trio.Event()
        asked.deferred.notify(done.set)
        with trio.fail_after(20):
            await done.wait()
    return await asked.answer()


def named(topics: int, /, **values: object) -> list[dict[str, object]]:
    return [{"name": f"t{number}", **values} for number in range(topics)]


NEW = {"num_partitions": 1, "replication_factor": 1}
TOPIC = {"name": "t", **NEW}
CREATION = Channel(CreateTopicsResponse(topics=(CreatedTopic(name="t", topic_id=ID, num_partitions=1),)))


async def test_a_creation_is_answered_when_the_topic_is_in_this_brokers_metadata() -> None:
    async with asking(CREATION, ApiKey.CREATE_TOPICS, 7, topics=[TOPIC]) as asked:
        await trio.testing.wait_all_tasks_blocked()
        assert not asked.deferred.done
        apply(asked.broker, *CREATED)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.deferred.done
        assert (await asked.answer()).topics[0].topic_id == ID


async def test_a_deletion_is_answered_when_the_topic_is_gone_from_this_brokers_metadata() -> None:
    channel = Channel(DeleteTopicsResponse(topics=(DeletedTopic(name="t", topic_id=ID),)))
    topics = [{"name": "t", "topic_id": None}]
    async with asking(channel, ApiKey.DELETE_TOPICS, 6, *CREATED, topics=topics) as asked:
        await trio.testing.wait_all_tasks_blocked()
        assert not asked.deferred.done
        apply(asked.broker, RemoveTopic(topic_id=ID))
        await trio.testing.wait_all_tasks_blocked()
        assert asked.deferred.done


@pytest.mark.bug("KAFKA-12778")
async def test_a_creation_whose_metadata_does_not_come_is_answered_at_the_timeout(
    autojump_clock: object,
) -> None:
    async with asking(CREATION, ApiKey.CREATE_TOPICS, 7, topics=[TOPIC]) as asked:
        await trio.sleep(5.1)
        assert asked.deferred.done


async def test_a_broker_that_lags_lists_the_reassignments_that_another_one_was_asked_for() -> None:
    quorum = LaggingQuorum()
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    async with asking(None, key, 0, *CREATED, quorum=quorum, topics=None) as asked:
        await trio.testing.wait_all_tasks_blocked()
        assert not asked.deferred.done
        apply(
            asked.broker,
            PartitionChange(topic_id=ID, partition_id=0, replicas=(1, 2), adding_replicas=(2,)),
        )
        quorum.caught_up.set()
        await trio.testing.wait_all_tasks_blocked()
        (topic,) = (await asked.answer()).topics
        assert (topic.name, [each.adding_replicas for each in topic.partitions]) == ("t", [(2,)])


async def test_who_lists_reassignments_without_a_leader_is_told_to_look_for_the_controller(
    autojump_clock: object,
) -> None:
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    async with asking(None, key, 0, quorum=LaggingQuorum(), topics=None) as asked:
        await trio.sleep(5.1)
        with pytest.raises(NotLeaderError):
            await asked.deferred.result()


async def test_a_topic_that_is_only_validated_is_answered_with_the_settings_it_would_have() -> None:
    """kafka-python's and Java's clients show them (KIP-525)."""
    channel = Channel(CreateTopicsResponse(topics=(CreatedTopic(name="t", num_partitions=1),)))
    topics = [TOPIC | {"configs": [{"name": "retention.ms", "value": "1234"}]}]
    answer = await answered(channel, ApiKey.CREATE_TOPICS, 7, topics=topics, validate_only=True)
    configs = {each.name: (each.value, each.config_source) for each in answer.topics[0].configs}
    assert configs["retention.ms"] == ("1234", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)


class Portions:
    """A controller that has all topics, and answers so many requests."""

    def __init__(self, answers: int = 1000) -> None:
        self.asked: list[CreateTopicsRequest] = []
        self._answers = answers

    async def ask(self, request: CreateTopicsRequest, **_: object) -> CreateTopicsResponse:
        await trio.lowlevel.checkpoint()
        if len(self.asked) == self._answers:
            raise ControllerTimedOutError("no answer")
        self.asked.append(request)
        names = dict.fromkeys(topic.name for topic in request.topics)
        exists = OurCode.TOPIC_ALREADY_EXISTS
        return CreateTopicsResponse(topics=tuple(CreatedTopic(name=name, error=exists) for name in names))


async def test_many_topics_go_to_the_controller_in_portions_and_the_same_ones_together() -> None:
    channel = Portions()
    topics = [*named(2500, **NEW), {"name": "t3", **NEW}, {"name": "t3", **NEW}]
    answer = await answered(channel, ApiKey.CREATE_TOPICS, 7, topics=topics)
    assert [len(each.topics) for each in channel.asked] == [1000, 1000, 501]
    assert sum(topic.name == "t3" for topic in channel.asked[0].topics) == 2, "so it sees that they are two"
    assert [topic.name for topic in answer.topics] == [f"t{number}" for number in range(2500)]
    assert all(topic.error_code is ErrorCode.topic_already_exists for topic in answer.topics)


async def test_settings_and_assignments_make_a_portion_too() -> None:
    channel = Portions()
    settings = [{"name": "retention.ms", "value": "1"}] * 400
    assignments = [{"partition_index": number, "broker_ids": [1]} for number in range(700)]
    topics = named(3, num_partitions=-1, replication_factor=-1, configs=settings, assignments=assignments)
    await answered(channel, ApiKey.CREATE_TOPICS, 7, topics=topics)
    assert [len(each.topics) for each in channel.asked] == [1, 1, 1]


async def test_portions_answered_before_the_time_was_up_are_passed_on() -> None:
    channel = Portions(answers=2)
    answer = await answered(channel, ApiKey.CREATE_TOPICS, 7, topics=named(2500, **NEW))
    codes = [topic.error_code for topic in answer.topics]
    assert codes == [ErrorCode.topic_already_exists] * 2000 + [ErrorCode.request_timed_out] * 500
    with pytest.raises(ControllerTimedOutError):
        await answered(Portions(answers=0), ApiKey.CREATE_TOPICS, 7, topics=named(1, **NEW))


@pytest.mark.parametrize(
    "topics",
    [
        named(10_001, **NEW),
        named(2, **NEW | {"num_partitions": 5001}),
        named(1, **NEW, configs=[{"name": f"k{number}", "value": "v"} for number in range(10_001)]),
    ],
    ids=["topics", "partitions", "settings"],
)
async def test_more_than_the_controller_would_take_is_refused_without_it(
    topics: list[dict[str, object]],
) -> None:
    channel = Portions(answers=0)
    answer = await answered(channel, ApiKey.CREATE_TOPICS, 7, topics=topics)
    assert [topic.name for topic in answer.topics] == [each["name"] for each in topics]
    for topic in answer.topics:
        assert topic.error_code is ErrorCode.policy_violation
        assert "10000" in topic.error_message


@pytest.mark.costly
@pytest.mark.parametrize(
    ("key", "version", "values", "rows"),
    [
        (ApiKey.DELETE_TOPICS, 6, {"topics": named(10_001)}, "responses"),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            {"topics": named(10_001, count=2, assignments=None)},
            "results",
        ),
        (
            ApiKey.CREATE_PARTITIONS,
            3,
            {"topics": named(2, count=6000, assignments=[{"broker_ids": [1]}] * 5001)},
            "results",
        ),
    ],
    ids=["deleted", "extended", "assigned"],
)
async def test_too_many_topics_are_refused_without_the_controller(
    key: ApiKey, version: int, values: dict[str, object], rows: str
) -> None:
    answer = await answered(Portions(answers=0), key, version, **values)
    named_in = [each["name"] for each in cast(list[dict[str, object]], values["topics"])]
    assert [each.name for each in getattr(answer, rows)] == named_in
    for each in getattr(answer, rows):
        assert each.error_code is ErrorCode.policy_violation
        assert "10000" in each.error_message
