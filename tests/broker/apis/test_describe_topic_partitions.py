"""DescribeTopicPartitions: every partition once, whatever the page size, with who may lead it."""

import uuid
from collections.abc import Iterable
from typing import Any, cast

import pytest
import trio
from api_broker import broker_of, context
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker
from quorate.broker.apis.metadata import handle_describe_topic_partitions
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerEndpoint,
    Partition,
    PartitionChange,
    Record,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.exchanges import Deferred
from quorate.broker.wire.request_codec import encode_response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.types import Epoch, Offset

KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
CONTEXT = context(KEY, 0)


class Replicas:
    @property
    def lookups(self) -> "Replicas":
        return self

    def sends_clients_away(self, topic_id: uuid.UUID, partition: int) -> bool:
        return False


def broker_knowing(records: Iterable[Record]) -> Broker:
    metadata = MetadataCache()
    alive = [
        RegisterBroker(
            broker_id=node,
            incarnation_id=uuid.UUID(int=node),
            broker_epoch=node - 1,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=node),),
            fenced=node == 3,
        )
        for node in (1, 2, 3)
    ]
    encoded = [encode(record) for record in (*alive, *records)]
    metadata.apply(CommittedBatch(base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1, records=encoded))
    return broker_of(metadata=metadata, replicas=Replicas())


def topics_of(counts: dict[str, int]) -> list[Record]:
    records: list[Record] = []
    for number, (name, count) in enumerate(counts.items()):
        topic_id = uuid.UUID(int=100 + number)
        records.append(Topic(name=name, topic_id=topic_id))
        records += [
            Partition(topic_id=topic_id, partition_id=index, replicas=(1, 2), isr=(1, 2), leader=1)
            for index in range(count)
        ]
    return records


def ask(broker: Broker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    """As it goes over the wire and back."""
    request = build(
        request_type(KEY, 0),
        topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    )
    request = decode_entity(type(request), memoryview(b"".join(encode_entity(request))))
    answer = cast(Any, trio.run(handle_describe_topic_partitions, broker, CONTEXT, request))
    if isinstance(answer, Deferred):
        answer = trio.run(answer.result)
    return decode_entity(response_type(KEY, 0), memoryview(b"".join(encode_response(answer))))


def test_a_partition_without_a_leader_lists_its_eligible_replicas() -> None:
    topic_id = uuid.UUID(int=9)
    broker = broker_knowing(
        [
            Topic(name="t", topic_id=topic_id),
            Partition(topic_id=topic_id, partition_id=0, replicas=(1, 2, 3), isr=(1, 2), leader=1),
            Partition(topic_id=topic_id, partition_id=1, replicas=(2, 3), isr=(2, 3), leader=2),
            PartitionChange(
                topic_id=topic_id,
                partition_id=0,
                isr=(),
                leader=NO_LEADER,
                eligible_leader_replicas=(2, 1),
                last_known_elr=(3,),
            ),
        ]
    )
    (topic,) = ask(broker).topics
    assert (topic.name, topic.topic_id, topic.error_code, topic.is_internal) == (
        "t",
        topic_id,
        ErrorCode.none,
        False,
    )
    leaderless, led = topic.partitions
    assert leaderless.error_code is ErrorCode.leader_not_available
    assert (leaderless.leader_id, leaderless.isr_nodes) == (NO_LEADER, ())
    assert (leaderless.eligible_leader_replicas, leaderless.last_known_elr) == ((2, 1), (3,))
    assert (led.partition_index, led.leader_id, led.leader_epoch, led.isr_nodes) == (1, 2, 0, (2, 3))
    assert (led.eligible_leader_replicas, led.last_known_elr, led.offline_replicas) == ((), (), (3,))


COUNTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 5), max_size=6)


@given(counts=COUNTS, limit=st.integers(-1, 7), named=st.booleans())
def test_pages_of_any_size_hold_every_partition_once_and_in_order(
    counts: dict[str, int], limit: int, named: bool
) -> None:
    broker = broker_knowing(topics_of(counts))
    found: dict[str, list[int]] = {}
    cursor: tuple[str, int] | None = None
    while True:
        page = ask(broker, *(counts if named else ()), limit=limit, cursor=cursor)
        assert sum(len(topic.partitions) for topic in page.topics) <= max(limit, 1)
        for topic in page.topics:
            found.setdefault(topic.name, []).extend(each.partition_index for each in topic.partitions)
        if page.next_cursor is None:
            break
        after = (page.next_cursor.topic_name, page.next_cursor.partition_index)
        assert cursor is None or after > cursor, "a page goes on"
        cursor = after
    assert found == {name: list(range(count)) for name, count in counts.items()}
    assert list(found) == sorted(counts)


def test_no_answer_has_more_partitions_than_kafkas_has() -> None:
    page = ask(broker_knowing(topics_of({"t": 2001})), limit=10**6)
    assert len(page.topics[0].partitions) == 2000
    assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("t", 2000)


def test_a_topic_that_is_not_there_is_told_by_name_beside_one_that_is() -> None:
    page = ask(broker_knowing(topics_of({"t": 1})), "u", "t", "no/name", "t")
    assert [(topic.name, topic.error_code) for topic in page.topics] == [
        ("no/name", ErrorCode.invalid_topic_exception),
        ("t", ErrorCode.none),
        ("u", ErrorCode.unknown_topic_or_partition),
    ]


def test_a_cursor_before_the_first_partition_is_refused() -> None:
    with pytest.raises(KafkaError, match="partition is -1") as refused:
        ask(broker_knowing([]), cursor=("t", -1))
    assert refused.value.code is ErrorCode.invalid_request
