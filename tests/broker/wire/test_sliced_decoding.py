"""A request that is decoded in slices is the one that is decoded as a whole; bad ones are refused."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio_messages import SERVED, encoded, mutated, of_versions

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, decode_entity, request_type
from quorate.broker.wire.codecs.sliced_decoding import decode_entity_steps
from quorate.kafka_bytes.primitives import MAX_ELEMENTS
from quorate.kafka_bytes.varints import MalformedError, uvarint
from quorate.runtime.slices import at_once

TYPES = st.deferred(lambda: st.sampled_from([request_type(*each) for each in SERVED]))


def outcome(decode: Any, entity: Any, data: bytes) -> Any:
    try:
        return decode(entity, memoryview(data))
    except MalformedError:
        return MalformedError


def in_steps(entity: Any, body: memoryview) -> Any:
    return at_once(decode_entity_steps(entity, body))


@pytest.mark.hypothesis
@of_versions(SERVED)
def test_the_sliced_message_equals_the_whole_one(key, version, entities):
    entity = request_type(key, version)

    @settings(max_examples=settings().max_examples // 5)
    @given(entities(entity))
    def check(message):
        data = encoded(message)
        assert in_steps(entity, memoryview(data)) == decode_entity(entity, memoryview(data))

    check()


@given(st.data())
def test_mutated_requests_have_the_same_outcome(entities, data):
    entity = data.draw(TYPES)
    raw = bytes(mutated(data, encoded(data.draw(entities(entity)))))
    assert outcome(in_steps, entity, raw) == outcome(decode_entity, entity, raw)


def commit(partitions: int, *, tags: bytes = b"\0") -> bytes:
    """OffsetCommit 8 of two topics, with `tags` behind each partition, topic and the whole."""
    part = (3).to_bytes(4, "big") + (7).to_bytes(8, "big") + (1).to_bytes(4, "big") + b"\x02m" + tags
    topic = b"\x02t" + uvarint(partitions + 1) + part * partitions + tags
    return b"\x02g" + bytes(4) + b"\x02m" + b"\0" + b"\x03" + topic * 2 + tags


def test_unknown_tagged_fields_are_skipped_at_every_level():
    entity = request_type(ApiKey.OFFSET_COMMIT, 8)
    meant = decode_entity(entity, memoryview(commit(3)))
    future = b"\x02" + uvarint(7) + b"\x03new" + uvarint(300) + b"\x00"
    assert in_steps(entity, memoryview(commit(3, tags=future))) == meant
    assert [len(topic.partitions) for topic in meant.topics] == [3, 3]


def test_a_request_may_be_cut_off_anywhere():
    entity = request_type(ApiKey.OFFSET_COMMIT, 8)
    whole = commit(2)
    for size in range(len(whole)):
        with pytest.raises(MalformedError):
            in_steps(entity, memoryview(whole[:size]))
    with pytest.raises(MalformedError):
        in_steps(entity, memoryview(whole + b"\0"))


@pytest.mark.parametrize(
    ("key", "version", "values"),
    [
        (ApiKey.OFFSET_COMMIT, 8, {"topics": [{"name": "t", "partitions": [{}] * 1000}]}),
        (ApiKey.METADATA, 12, {"topics": [{"name": "t"}] * 1000}),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": ["g"] * 1000}),
        (ApiKey.DELETE_TOPICS, 1, {"topic_names": ["g"] * 1000}),
        (
            ApiKey.CREATE_TOPICS,
            7,
            {"topics": [{"name": f"t{n}", "assignments": [{"broker_ids": [1]}] * 4} for n in range(250)]},
        ),
    ],
)
def test_there_is_a_step_for_some_elements_each(key, version, values):
    entity = request_type(key, version)
    message = build(entity, **values)
    steps = decode_entity_steps(entity, memoryview(encoded(message)))
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as end:
        assert end.value == message
    assert count >= 7


@pytest.mark.slow
def test_elements_of_all_arrays_together_are_bounded():
    entity = request_type(ApiKey.OFFSET_COMMIT, 8)
    too_many = memoryview(commit(MAX_ELEMENTS // 2))
    with pytest.raises(MalformedError, match="more array elements"):
        in_steps(entity, too_many)


def test_no_request_has_a_large_tagged_field():
    """Tagged fields are decoded in one piece."""

    def arrays(entity: Any) -> list[str]:
        return [
            f"{entity.__name__}.{item.name}"
            for item in fields(entity)
            if "tag" in item.metadata and "tuple" in str(item.type)
        ]

    assert [each for served in SERVED for each in arrays(request_type(*served))] == []


def test_a_string_is_no_longer_than_kafka_takes():
    entity = request_type(ApiKey.FIND_COORDINATOR, 4)
    for size in (32_767, 32_768):
        raw = b"\0" + b"\x02" + uvarint(size + 1) + b"g" * size + b"\0"
        expected = build(entity, coordinator_keys=["g" * size]) if size < 32_768 else MalformedError
        assert outcome(decode_entity, entity, raw) == expected
        assert outcome(in_steps, entity, raw) == expected


def test_a_struct_has_no_more_tagged_fields_than_some():
    entity = request_type(ApiKey.HEARTBEAT, 4)
    raw = encoded(build(entity, group_id="g"))[:-1]

    def with_tags(count: int) -> bytes:
        return raw + uvarint(count) + b"".join(uvarint(number) + b"\0" for number in range(count))

    assert outcome(decode_entity, entity, with_tags(1000)) == build(entity, group_id="g")
    assert outcome(decode_entity, entity, with_tags(1001)) is MalformedError
