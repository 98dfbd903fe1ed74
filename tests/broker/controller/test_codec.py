import dataclasses
import typing
import uuid

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.rpc import CONTROLLER_CODES, ControllerRequest, ControllerResponse
from quorate.broker.controller.rpc_codec import (
    ANSWERS,
    Refusal,
    RpcDecodeError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from quorate.broker.metadata.metadata_records import (
    LeaderRecoveryState,
    NoOp,
    Partition,
    Record,
    ShrinkTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import RecordDecodeError, RunEncoder, decode, encode
from quorate.error_code import ErrorCode
from quorate.types import (
    SecretBytes,
)

BROKER_IDS = st.integers(0, (1 << 31) - 1)
BY_NAME: dict[str, st.SearchStrategy[object]] = {
    "name": st.text(max_size=249),
    "resource_name": st.text(max_size=249),
    "host": st.text(max_size=255),
    "rack": st.none() | st.text(max_size=255),
    "port": st.integers(0, 65535),
    "min_level": st.integers(0, 32767),
    "max_level": st.integers(0, 32767),
    "level": st.integers(0, 32767),
    "num_partitions": st.integers(1, (1 << 31) - 1),
    "leader": st.integers(-1, 1 << 20),
    "iterations": st.integers(1, (1 << 31) - 1),
    "missing_key": st.text(max_size=16),
    "sealed_by": st.text(max_size=16),
}


def values_of(cls: type) -> st.SearchStrategy[object]:
    """Instances of a record or message, from its annotations."""
    hints = typing.get_type_hints(cls)
    fields = {}
    for each in dataclasses.fields(cls):
        hint = hints[each.name]
        hint = getattr(hint, "__supertype__", hint)  # of a NewType
        fields[each.name] = (
            BY_NAME[each.name] if each.name in BY_NAME and hint in (int, str, str | None) else of_hint(hint)
        )
        if each.name == "leader":
            fields[each.name] = st.integers(-1, 1 << 20) if hint is int else st.none() | st.integers(-1, 9)
    if cls is ShrinkTopic:
        fields["num_partitions"] = st.integers(1, 9)
    return st.builds(cls, **fields)


def of_hint(hint: object) -> st.SearchStrategy[object]:
    args = typing.get_args(hint)
    if type(None) in args:
        return st.none() | of_hint(next(arg for arg in args if arg is not type(None)))
    if typing.get_origin(hint) is tuple:
        return st.lists(of_hint(args[0]), max_size=4).map(tuple)
    if hint is int:
        return BROKER_IDS
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if hint is bool:
        return st.booleans()
    if hint is str:
        return st.text(max_size=200)
    if hint is SecretBytes:
        return st.binary(max_size=64).map(SecretBytes)
    if hint is uuid.UUID:
        return st.uuids()
    if hint is ErrorCode:
        return st.sampled_from(sorted(CONTROLLER_CODES))
    assert isinstance(hint, type)
    if dataclasses.is_dataclass(hint):
        return values_of(hint)
    return st.sampled_from(list(hint))  # type: ignore[call-overload]


RECORDS = st.one_of([values_of(each) for each in typing.get_args(Record)])
REQUESTS = st.one_of([values_of(each) for each in ANSWERS])
RESPONSES = st.one_of([values_of(each) for each in (*ANSWERS.values(), Refusal)])


@given(RECORDS)
def test_a_record_survives_its_encoding(record: Record) -> None:
    assert decode(encode(record)) == record


@given(REQUESTS)
def test_a_request_survives_its_encoding(request: ControllerRequest[ControllerResponse]) -> None:
    assert decode_request(encode_request(request)) == request


@given(RESPONSES)
def test_a_response_survives_its_encoding(response: ControllerResponse) -> None:
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize("number", [1, 9, 56, 75, 127, 40_000, None, True, "0"])
def test_an_answer_with_a_code_that_is_not_the_controllers_is_refused(number: object) -> None:
    """Whether Kafka, and a partition or the quorum, have such a code or not."""
    answer = Refusal(error=ErrorCode.INVALID_REQUEST)
    message = cbor2.loads(encode_response(answer))
    assert message[-1] == {0: 42}
    assert decode_response(cbor2.dumps(message)) == answer
    message[-1][0] = number
    with pytest.raises(RpcDecodeError, match=r"expected a ErrorCode"):
        decode_response(cbor2.dumps(message))


@given(st.binary(max_size=200))
def test_random_bytes_give_a_decode_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(RecordDecodeError):
        decode(data)
        raise RecordDecodeError  # the few that are records
    with pytest.raises(RpcDecodeError):
        decode_request(data)
        raise RpcDecodeError


@given(RECORDS, st.data())
def test_a_damaged_record_gives_a_decode_error_or_a_record(record: Record, data: st.DataObject) -> None:
    damaged = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = decode(bytes(damaged))
    except RecordDecodeError:
        return
    assert decode(encode(decoded)) == decoded


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 9), inner, max_size=4),
    max_leaves=12,
)


@given(st.integers(0, 12), st.dictionaries(st.integers(0, 10), JUNK, max_size=10))
def test_fields_of_the_wrong_type_give_a_decode_error(number: int, body: dict[int, object]) -> None:
    try:
        record = decode(cbor2.dumps([number, 0, body]))
    except RecordDecodeError:
        return
    assert decode(encode(record)) == record


TOPIC = Topic(name="t", topic_id=uuid.UUID(int=7))


def test_a_field_that_is_not_known_is_skipped() -> None:
    number, version, body = cbor2.loads(encode(TOPIC))
    assert decode(cbor2.dumps([number, version, {**body, 99: ["from", "the", {"future": 1}]}])) == TOPIC


@pytest.mark.bug("strimzi issue 10735")
@pytest.mark.parametrize("envelope", [[500, 0, {}], [4, 1, {}], [4, -1, {}]])
def test_a_type_or_version_that_is_not_known_says_to_upgrade(envelope: list[object]) -> None:
    with pytest.raises(RecordDecodeError, match="upgrade this node"):
        decode(cbor2.dumps(envelope))


@pytest.mark.parametrize("tag", [0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 99, 256, 258, 260, 55799])
def test_every_tag_is_refused(tag: int) -> None:
    inner = [1, 1] if tag in (4, 5, 30) else b"\x01" if tag in (2, 3) else 1
    data = cbor2.dumps([0, 0, cbor2.CBORTag(tag, inner)])
    with pytest.raises(RecordDecodeError, match="tag"):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("9bffffffffffffffff"),
        bytes.fromhex("bb00000000ffffffff"),
        bytes.fromhex("5b7fffffffffffffff"),
        b"\x81" * 100_000,
        b"\x9f\x00\x00\xbf\xff\xff",
        bytes.fromhex("830000a2186300186300"),
        b"\x83\x00\x00\xa1\x18\x63" + b"\x81" * 12 + b"\x00",
        b"",
    ],
    ids=["array", "map", "bytes", "deep", "indefinite", "duplicate keys", "nested", "empty"],
)
def test_hostile_counts_and_depths_are_refused(data: bytes) -> None:
    with pytest.raises(RecordDecodeError):
        decode(data)


def test_a_record_beyond_the_size_limit_is_refused() -> None:
    with pytest.raises(RecordDecodeError, match="more than"):
        decode(cbor2.dumps([0, 0, {5: b"x" * (1 << 20)}]))


def test_a_boolean_is_no_integer() -> None:
    number, version, body = cbor2.loads(
        encode(Partition(topic_id=uuid.UUID(int=1), partition_id=1, replicas=(1,), isr=(1,)))
    )
    for bad in ({**body, 1: True}, {**body, 2: [True]}, {**body, 2: [1 << 40]}, {**body, 1: -1}):
        with pytest.raises(RecordDecodeError, match=r"Partition\."):
            decode(cbor2.dumps([number, version, bad]))


def test_a_missing_field_is_named() -> None:
    with pytest.raises(RecordDecodeError, match="topic_id"):
        decode(cbor2.dumps([4, 0, {0: "t"}]))


def test_defaults_take_no_bytes() -> None:
    assert encode(NoOp()) == bytes.fromhex("830000a0")


def test_equal_ids_decode_to_one_object() -> None:
    first, second = decode(encode(TOPIC)), decode(encode(TOPIC))
    assert isinstance(first, Topic)
    assert isinstance(second, Topic)
    assert first.topic_id is second.topic_id


def test_records_in_a_run_have_the_bytes_that_each_has_alone() -> None:
    held = Partition(
        topic_id=uuid.UUID(int=1), partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1, directories=()
    )
    others: dict[str, object] = {
        "topic_id": uuid.UUID(int=2),
        "replicas": (2, 1),
        "leader_recovery_state": LeaderRecoveryState.RECOVERING,
        "directories": (uuid.UUID(int=8), uuid.UUID(int=9)),
    }
    encoder = RunEncoder()
    for field in dataclasses.fields(Partition):
        if field.name == "partition_id":
            continue
        before = getattr(held, field.name)
        if field.name in others:
            other = others[field.name]
        else:
            other = (3,) if isinstance(before, tuple) else before + 1
        changed = dataclasses.replace(held, **{field.name: other})
        for number in (0, 1, 23, 24, 255, 256, 9_999, 70_000):
            for record in (held, changed):
                numbered = dataclasses.replace(record, partition_id=number)
                assert encoder.encode(numbered) == encode(numbered), field.name
    assert encoder.encode(NoOp()) == encode(NoOp())
