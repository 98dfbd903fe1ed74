"""CreateTopics and DeleteTopics wait for this broker's own metadata, not only for the controller."""

import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

import pytest
import trio
import trio.testing

from quorate.broker.apis import create_topics, delete_topics
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.context import Broker
from quorate.broker.controller.rpc.rpc import (
    CreatedTopic,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Partition, Record, RemoveTopic, Topic
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.settings.server_config import ServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, decode_entity, request_type, response_type
from quorate.broker.wire.exchanges import ConnectionContext, Deferred, RequestContext
from quorate.broker.wire.request_codec import encode_response
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.runtime.token_bucket import QuotaWindows
from quorate.types import Epoch, Offset

CONFIG = (
    "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=C\n"
    "controller.quorum.voters=1@h:1\nlisteners=P://:2,C://h:1\nlog.dirs=/d"
)
ID = uuid.UUID(int=7)
CREATED: tuple[Record, ...] = (
    Topic(name="t", topic_id=ID),
    Partition(topic_id=ID, partition_id=0, replicas=(1,), isr=(1,), leader=1),
)


class Channel:
    """A controller that has committed already."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def ask(self, request: Callable[[Any], Awaitable[Any]], **options: object) -> object:
        return self._answer

    async def create_topics(self, request: object, **options: object) -> object:
        return self._answer


class Leaders:
    """Who serve what they lead."""

    async def wait(self, topics: object, *, deadline: float) -> None:
        pass


def broker_with(answer: object, nursery: trio.Nursery) -> Broker:
    unused = cast(Any, None)
    return Broker(
        config=ServerConfig.parse(CONFIG),
        cluster_id="c",
        metadata=MetadataCache(),
        quorum=unused,
        channel=cast(Any, Channel(answer)),
        replicas=unused,
        groups=unused,
        cluster_metadata=unused,
        topics=unused,
        producer_ids=unused,
        leaders=cast(Any, Leaders()),
        throttles=ClientThrottles(MetadataImage, QuotaWindows()),
        tasks=nursery,
    )


def apply(broker: Broker, *records: Record) -> None:
    broker.metadata.apply(
        CommittedBatch(
            base_offset=Offset(broker.metadata.offset + 1),
            epoch=Epoch(1),
            timestamp_ms=1,
            records=[encode(record) for record in records],
        )
    )


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(ConnectionContext(id=1, peer="p:1", listener="P"), key, version, 1, None)


async def test_a_creation_is_answered_when_the_topic_is_in_this_brokers_metadata() -> None:
    answer = CreateTopicsResponse(topics=(CreatedTopic(name="t", topic_id=ID, num_partitions=1),))
    async with trio.open_nursery() as nursery:
        broker = broker_with(answer, nursery)
        asked = build(
            request_type(ApiKey.CREATE_TOPICS, 7),
            topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}],
            timeout=timedelta(seconds=5),
        )
        deferred = create_topics.handle(broker, context(ApiKey.CREATE_TOPICS, 7), asked)
        assert isinstance(deferred, Deferred)
        await trio.testing.wait_all_tasks_blocked()
        assert not deferred.done
        apply(broker, *CREATED)
        await trio.testing.wait_all_tasks_blocked()
        assert deferred.done
        body = b"".join(encode_response(await deferred.result()))
        result: Any = decode_entity(response_type(ApiKey.CREATE_TOPICS, 7), memoryview(body))
        assert result.topics[0].topic_id == ID


async def test_a_deletion_is_answered_when_the_topic_is_gone_from_this_brokers_metadata() -> None:
    answer = DeleteTopicsResponse(topics=(DeletedTopic(name="t", topic_id=ID),))
    async with trio.open_nursery() as nursery:
        broker = broker_with(answer, nursery)
        apply(broker, *CREATED)
        asked = build(
            request_type(ApiKey.DELETE_TOPICS, 6),
            topics=[{"name": "t", "topic_id": None}],
            timeout=timedelta(seconds=5),
        )
        deferred = delete_topics.handle(broker, context(ApiKey.DELETE_TOPICS, 6), asked)
        assert isinstance(deferred, Deferred)
        await trio.testing.wait_all_tasks_blocked()
        assert not deferred.done
        apply(broker, RemoveTopic(topic_id=ID))
        await trio.testing.wait_all_tasks_blocked()
        assert deferred.done


@pytest.mark.bug("KAFKA-12778")
async def test_a_creation_whose_metadata_does_not_come_is_answered_at_the_timeout(
    autojump_clock: object,
) -> None:
    answer = CreateTopicsResponse(topics=(CreatedTopic(name="t", topic_id=ID, num_partitions=1),))
    async with trio.open_nursery() as nursery:
        broker = broker_with(answer, nursery)
        asked = build(
            request_type(ApiKey.CREATE_TOPICS, 7),
            topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}],
            timeout=timedelta(seconds=5),
        )
        deferred = create_topics.handle(broker, context(ApiKey.CREATE_TOPICS, 7), asked)
        assert isinstance(deferred, Deferred)
        await trio.sleep(5.1)
        assert deferred.done


async def test_a_topic_that_is_only_validated_is_answered_with_the_settings_it_would_have() -> None:
    """kafka-python's and Java's clients show them (KIP-525)."""
    answer = CreateTopicsResponse(topics=(CreatedTopic(name="t", num_partitions=1),))
    async with trio.open_nursery() as nursery:
        broker = broker_with(answer, nursery)
        asked = build(
            request_type(ApiKey.CREATE_TOPICS, 7),
            topics=[
                {
                    "name": "t",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [{"name": "retention.ms", "value": "1234"}],
                }
            ],
            timeout=timedelta(seconds=5),
            validate_only=True,
        )
        deferred = create_topics.handle(broker, context(ApiKey.CREATE_TOPICS, 7), asked)
        assert isinstance(deferred, Deferred)
        await trio.testing.wait_all_tasks_blocked()
        body = b"".join(encode_response(await deferred.result()))
        result: Any = decode_entity(response_type(ApiKey.CREATE_TOPICS, 7), memoryview(body))
    configs = {each.name: (each.value, each.config_source) for each in result.topics[0].configs}
    assert configs["retention.ms"] == ("1234", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)
