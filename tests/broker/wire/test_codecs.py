import contextlib
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio_messages import encoded, mutated

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs import fetch_codec as fetch
from quorate.broker.wire.codecs import produce_codec as produce
from quorate.broker.wire.codecs.entities import request_type, response_type
from quorate.kafka_bytes.varints import MalformedError, uvarint
from quorate.runtime import at_once

PRODUCE = range(3, 13)
FETCH = range(4, 17)


def ms(delta):
    return delta // datetime.timedelta(milliseconds=1)


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("version", PRODUCE)
def test_produce_requests_are_read_and_written_as_kio_does(version, entities):
    @given(entities(request_type(ApiKey.PRODUCE, version)))
    def check(message):
        raw = encoded(message)
        ours = produce.decode_produce_request(memoryview(raw), version)
        assert (ours.transactional_id, ours.acks, ours.timeout_ms) == (
            message.transactional_id,
            message.acks,
            ms(message.timeout),
        )
        assert [
            (topic.name, [(part.index, part.records) for part in topic.partitions]) for topic in ours.topics
        ] == [
            (topic.name, [(part.index, part.records) for part in topic.partition_data])
            for topic in message.topic_data
        ]
        assert b"".join(produce.encode_produce_request(ours)) == raw

    check()


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("version", PRODUCE)
def test_produce_responses_are_written_and_read_as_kio_does(version, entities):
    entity = response_type(ApiKey.PRODUCE, version)
    epoch = datetime.datetime.fromtimestamp(0, datetime.UTC)

    @given(entities(entity))
    def check(message):
        raw = encoded(message)
        topics = [
            produce.ProducedTopic(
                topic.name,
                [
                    produce.ProducedPartition(
                        index=part.index,
                        error=part.error_code,
                        base_offset=part.base_offset,
                        log_append_time_ms=-1
                        if part.log_append_time is None
                        else ms(part.log_append_time - epoch),
                        log_start_offset=getattr(part, "log_start_offset", -1),
                        error_message=getattr(part, "error_message", None),
                        record_errors=[
                            (each.batch_index, each.batch_index_error_message)
                            for each in getattr(part, "record_errors", ())
                        ],
                        leader_id=part.current_leader.leader_id if version >= 10 else -1,
                        leader_epoch=part.current_leader.leader_epoch if version >= 10 else -1,
                    )
                    for part in topic.partition_responses
                ],
            )
            for topic in message.responses
        ]
        endpoints = [
            produce.NodeEndpoint(each.node_id, each.host, each.port, each.rack)
            for each in getattr(message, "node_endpoints", ())
        ]
        ours = at_once(
            produce.encode_produce_steps(
                topics,
                version=version,
                throttle_ms=ms(message.throttle_time),
                node_endpoints=lambda: endpoints,
            )
        )
        assert b"".join(ours) == raw
        assert produce.decode_produce_response(memoryview(raw), version) == topics

    check()


def fetch_request_of(message, version):
    def key(topic):
        return (topic.topic, None) if version < 13 else (None, topic.topic_id)

    state = getattr(message, "replica_state", None)
    return fetch.KafkaFetchRequest(
        version=version,
        replica_id=message.replica_id if state is None else state.replica_id,
        replica_epoch=-1 if state is None else state.replica_epoch,
        max_wait_ms=ms(message.max_wait),
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        isolation_level=message.isolation_level,
        session_id=getattr(message, "session_id", 0),
        session_epoch=getattr(message, "session_epoch", -1),
        topics=[
            fetch.FetchTopic(
                *key(topic),
                [
                    fetch.FetchPartition(
                        part.partition,
                        getattr(part, "current_leader_epoch", -1),
                        part.fetch_offset,
                        getattr(part, "last_fetched_epoch", -1),
                        getattr(part, "log_start_offset", -1),
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        forgotten=[
            fetch.ForgottenTopic(*key(topic), list(topic.partitions))
            for topic in getattr(message, "forgotten_topics_data", ())
        ],
        rack_id=getattr(message, "rack_id", ""),
        cluster_id=getattr(message, "cluster_id", None),
    )


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("version", FETCH)
def test_fetch_requests_are_read_and_written_as_kio_does(version, entities):
    @given(entities(request_type(ApiKey.FETCH, version)))
    def check(message):
        raw = encoded(message)
        expected = fetch_request_of(message, version)
        assert fetch.decode_fetch_request(memoryview(raw), version) == expected
        assert b"".join(at_once(fetch.encode_fetch_request_steps(expected))) == raw

    check()


@st.composite
def fetch_responses(draw, version):
    i32, i64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
    flexible = version >= 12
    parts = st.builds(
        fetch.FetchedPartition,
        index=i32,
        error=st.sampled_from(list(ErrorCode)),
        high_watermark=i64,
        last_stable_offset=i64,
        log_start_offset=i64 if version >= 5 else st.just(-1),
        aborted_transactions=st.none() | st.lists(st.tuples(i64, i64), max_size=3),
        diverging_epoch=st.none() | st.tuples(st.integers(0, 9), i64) if flexible else st.none(),
        leader=st.none() | st.tuples(st.integers(0, 9), i32) if flexible else st.none(),
        preferred_read_replica=i32 if version >= 11 else st.just(-1),
        records=st.just(()) | st.binary(min_size=1, max_size=5000).map(lambda raw: (raw,)),
    )
    topics = st.builds(
        fetch.FetchedTopic,
        st.text("ab", max_size=5) if version < 13 else st.none(),
        st.uuids(version=4) if version >= 13 else st.none(),
        st.lists(parts, max_size=3),
    )
    endpoints = st.builds(produce.NodeEndpoint, i32, st.text("ab"), i32, st.none() | st.text("ab"))
    return fetch.KafkaFetchResponse(
        version=version,
        throttle_ms=draw(i32),
        error=draw(st.sampled_from(list(ErrorCode))) if version >= 7 else ErrorCode.none,
        session_id=draw(i32) if version >= 7 else 0,
        topics=draw(st.lists(topics, max_size=3)),
        node_endpoints=draw(st.lists(endpoints, max_size=2)) if version >= 16 else [],
    )


@pytest.mark.costly
@pytest.mark.costly
@pytest.mark.parametrize("version", FETCH)
def test_fetch_responses_are_what_kio_reads_and_would_write(version):
    entity = response_type(ApiKey.FETCH, version)
    reader = entity_reader(entity)

    @given(fetch_responses(version))
    def check(ours):
        raw = b"".join(fetch.encode_fetch_response(ours))
        message, size = reader(raw, 0)
        assert size == len(raw)
        assert encoded(message) == raw
        assert decode_fetch_response(memoryview(raw), version) == ours
        for topic, theirs in zip(ours.topics, message.responses, strict=True):
            for part, other in zip(topic.partitions, theirs.partitions, strict=True):
                assert (part.index, part.error, part.high_watermark, part.last_stable_offset) == (
                    other.partition_index,
                    other.error_code,
                    other.high_watermark,
                    other.last_stable_offset,
                )
                assert b"".join(part.records) == other.records
                if part.diverging_epoch is not None:
                    assert part.diverging_epoch == (
                        other.diverging_epoch.epoch,
                        other.diverging_epoch.end_offset,
                    )
                if part.leader is not None:
                    assert part.leader == (other.current_leader.leader_id, other.current_leader.leader_epoch)

    check()


@pytest.mark.parametrize("version", FETCH)
def test_record_bytes_leave_a_fetch_by_identity(version):
    records = [b"h" * 16, memoryview(bytes(100_000)), b"x"]
    part = fetch.FetchedPartition(index=0, records=records)
    response = fetch.KafkaFetchResponse(version=version, topics=[fetch.FetchedTopic("t", None, [part])])
    pieces = fetch.encode_fetch_response(response)
    for each in records:
        assert any(piece is each for piece in pieces)


@pytest.mark.parametrize("version", PRODUCE)
def test_record_bytes_of_a_produce_are_views_of_the_frame(version):
    records = bytes(range(256)) * 20
    request = produce.ProduceRequest(
        version=version,
        acks=-1,
        timeout_ms=1,
        topics=[produce.ProduceTopic("t", [produce.ProducePartition(3, memoryview(records))])],
    )
    pieces = produce.encode_produce_request(request)
    assert any(piece is request.topics[0].partitions[0].records for piece in pieces)
    frame = b"".join(pieces)
    view = produce.decode_produce_request(memoryview(frame), version).topics[0].partitions[0].records
    assert view.obj is frame
    assert view == records


@pytest.mark.slow
@given(st.data())
def test_mutated_hot_requests_are_read_or_refused(entities, data):
    key, versions, decode = data.draw(
        st.sampled_from(
            [
                (ApiKey.PRODUCE, PRODUCE, produce.decode_produce_request),
                (ApiKey.FETCH, FETCH, fetch.decode_fetch_request),
            ]
        )
    )
    version = data.draw(st.sampled_from(versions))
    raw = mutated(data, encoded(data.draw(entities(request_type(key, version)))))
    with contextlib.suppress(MalformedError):
        decode(raw, version)


def decode_fetch_response(body, version):
    return at_once(fetch.decode_fetch_response_steps(body, version))


@pytest.mark.parametrize("decode", [produce.decode_produce_response, decode_fetch_response])
@given(raw=st.binary(max_size=150), version=st.sampled_from([4, 9, 11, 12, 16, 18]))
def test_random_hot_responses_are_read_or_refused(decode, raw, version):
    with contextlib.suppress(MalformedError):
        decode(memoryview(raw), version)


def test_a_produce_of_too_many_empty_partitions_is_refused():
    raw = b"\0" + bytes(6) + b"\x02\x02t" + uvarint(300_001) + bytes(6) * 300_000 + b"\0\0"
    with pytest.raises(MalformedError, match="more than"):
        produce.decode_produce_request(memoryview(raw), 9)


def test_tagged_fields_of_fetch_partitions_are_skipped():
    parts = [fetch.FetchPartition(index, fetch_offset=index * 10) for index in range(3)]
    request = fetch.KafkaFetchRequest(
        version=12,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=9,
        topics=[fetch.FetchTopic("t", None, parts)],
        forgotten=[],
    )
    raw = b"".join(at_once(fetch.encode_fetch_request_steps(request)))
    second = fetch._PARTITION_V12.pack(*parts[1])
    assert raw.count(second + b"\0") == 1
    tagged = raw.replace(second + b"\0", second + b"\x01\x09\x02hi")
    assert fetch.decode_fetch_request(memoryview(tagged), 12) == request
