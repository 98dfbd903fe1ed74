import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio_messages import SERVED, encoded, mutated, of_versions

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs import guard
from quorate.broker.wire.codecs.entities import decode_entity, encode_entity, request_type, response_type
from quorate.kafka_bytes.varints import MalformedError, uvarint

TYPES = st.deferred(lambda: st.sampled_from([each(*served) for each in HALVES for served in SERVED]))
HALVES = (request_type, response_type)


@pytest.mark.hypothesis
@of_versions(SERVED)
@pytest.mark.parametrize("half", HALVES)
def test_every_message_we_serve_passes_and_decodes_to_itself(half, key, version, entities):
    entity = half(key, version)

    @settings(max_examples=settings().max_examples // 5)
    @given(entities(entity))
    def check(message):
        data = encoded(message)
        view = memoryview(data)
        assert guard.check(entity, view) is view
        assert b"".join(encode_entity(message)) == data
        assert encoded(decode_entity(entity, view)) == data

    check()


@given(st.data())
def test_mutated_messages_are_decoded_or_refused_and_never_crash(entities, data):
    entity = data.draw(TYPES)
    raw = mutated(data, encoded(data.draw(entities(entity))))
    with contextlib.suppress(MalformedError):
        decode_entity(entity, raw)


@given(TYPES, st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused_and_never_crash(entity, raw):
    with contextlib.suppress(MalformedError):
        decode_entity(entity, memoryview(raw))


@given(st.data())
def test_every_cut_of_a_message_is_refused(entities, data):
    entity = data.draw(TYPES)
    raw = encoded(data.draw(entities(entity)))
    if raw:
        with pytest.raises(MalformedError):
            decode_entity(entity, memoryview(raw[: data.draw(st.integers(0, len(raw) - 1))]))


def test_bytes_after_a_message_are_refused():
    heartbeat = request_type(ApiKey.METADATA, 4)(topics=None, allow_auto_topic_creation=True)
    with pytest.raises(MalformedError, match="before the end"):
        decode_entity(type(heartbeat), memoryview(encoded(heartbeat) + b"\0"))


@pytest.mark.parametrize("version", [4, 9])
@pytest.mark.parametrize("count", [2**31 - 1, 2**32 - 2, 2**30, 100_000])
def test_an_impossible_array_count_is_refused_before_memory_is_reserved(version, count):
    head = uvarint(count + 1) if version >= 9 else (count & 0xFFFFFFFF).to_bytes(4, "big")

    def refuse():
        with pytest.raises(MalformedError, match=r"elements in|varint|array of -2"):
            decode_entity(request_type(ApiKey.METADATA, version), memoryview(head + bytes(50)))

    refuse()  # what is loaded for the first message stays
    tracemalloc.start()
    try:
        refuse()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_message_with_too_many_elements_is_refused():
    names = 300_000
    raw = uvarint(names + 1) + b"\x02a\0" * names + bytes(5)
    with pytest.raises(MalformedError, match="more array elements"):
        decode_entity(request_type(ApiKey.METADATA, 9), memoryview(raw))


def test_a_null_array_where_the_protocol_has_none_is_refused():
    with pytest.raises(MalformedError, match="array of -1"):
        decode_entity(request_type(ApiKey.METADATA, 0), memoryview(b"\xff\xff\xff\xff"))


def tag(number, value):
    return uvarint(number) + uvarint(len(value)) + value


def test_unknown_tagged_fields_are_skipped_at_every_level():
    entity = request_type(ApiKey.HEARTBEAT, 4)
    message = entity(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    raw = encoded(message)
    assert raw.endswith(b"\0")
    extended = raw[:-1] + b"\x02" + tag(7, b"future") + tag(300, b"")
    assert decode_entity(entity, memoryview(extended)) == message

    versions = response_type(ApiKey.API_VERSIONS, 3)
    one = b"\x02" + b"\0\x12\0\0\0\4" + b"\x01" + tag(9, b"abc")
    raw = b"\0\0" + one + bytes(4) + b"\x02" + tag(1, (5).to_bytes(8, "big")) + tag(50, b"x" * 200)
    decoded = decode_entity(versions, memoryview(raw))
    assert decoded.finalized_features_epoch == 5
    assert [(api.api_key, api.max_version) for api in decoded.api_keys] == [(18, 4)]


def test_an_unknown_tag_inside_a_known_tagged_struct_is_cut_out_and_the_sizes_follow():
    entity = request_type(ApiKey.FETCH, 15)
    state = (3).to_bytes(4, "big") + (9).to_bytes(8, "big") + b"\x01" + tag(1, b"new")
    body = bytes(13) + bytes(8) + b"\x01\x01\x01" + b"\x01" + tag(1, state)
    decoded = decode_entity(entity, memoryview(body))
    assert (decoded.replica_state.replica_id, decoded.replica_state.replica_epoch) == (3, 9)


@pytest.mark.parametrize(
    "section",
    [
        b"\x02" + tag(5, b"") + tag(5, b""),
        b"\x02" + tag(6, b"") + tag(5, b""),
        b"\x01\x05\x7f",
        b"\x7f" + tag(5, b""),
    ],
    ids=["twice", "out of order", "longer than the message", "more than there is room for"],
)
def test_a_broken_tag_section_is_refused(section):
    message = request_type(ApiKey.HEARTBEAT, 4)(
        group_id="", generation_id=1, member_id="", group_instance_id=None
    )
    with pytest.raises(MalformedError):
        decode_entity(type(message), memoryview(encoded(message)[:-1] + section))
