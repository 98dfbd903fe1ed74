"""Every message there and back, and frames from unknown peers."""

import contextlib
import random
from dataclasses import replace

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.error_code import ErrorCode
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumStoppedError,
    RequestRefusedError,
)
from quorate.raft.transport.append_frames import (
    RemoteAppendWaiter,
    decode_application_response,
    decode_request,
    decode_response,
    encode_failure,
    encode_request,
    encode_success,
    size_of,
)
from quorate.raft.transport.frame_fields import QUORUM_CODES
from quorate.raft.transport.frames import MAX_HEADER_BYTES, RESPONSE, FrameKind, decode_frame, encode_frame
from quorate.raft.transport.raft_codec import decode, encode, kind_of
from quorate.types import Endpoint, EpochEnd, ReplicaKey

nodes = st.integers(0, 2**31 - 1)
epochs = st.integers(0, 2**31 - 1)
offsets = st.integers(0, 2**63 - 1)
texts = st.text(max_size=30)
keys = st.builds(ReplicaKey, nodes, st.none() | texts)
endpoints = st.none() | st.builds(Endpoint, texts, st.integers(1, 65535))
request = {
    "source": nodes,
    "destination": nodes,
    "correlation": st.integers(0, 2**63 - 1),
    "cluster_id": texts,
    "epoch": epochs,
}
response = {
    "source": nodes,
    "destination": nodes,
    "correlation": st.integers(0, 2**63 - 1),
    "error": st.sampled_from(sorted(QUORUM_CODES)),
    "epoch": epochs,
    "leader": st.none() | nodes,
    "leader_endpoint": endpoints,
}
messages = st.one_of(
    st.builds(
        VoteRequest, **request, voter=keys, candidate=keys, last_epoch=epochs, end_offset=offsets,
        pre_vote=st.booleans(),
    ),
    st.builds(VoteResponse, **response, granted=st.booleans(), pre_vote=st.booleans()),
    st.builds(BeginQuorumEpochRequest, **request, voter=keys, endpoint=endpoints),
    st.builds(BeginQuorumEpochResponse, **response),
    st.builds(
        EndQuorumEpochRequest, **request, preferred_successors=st.lists(nodes, max_size=5).map(tuple)
    ),
    st.builds(EndQuorumEpochResponse, **response),
    st.builds(
        FetchRequest, **request, replica=keys, offset=offsets, last_fetched_epoch=epochs,
        max_wait_ms=st.integers(0, 2**31 - 1), max_bytes=st.integers(0, 2**31 - 1),
        high_watermark=st.none() | offsets,
    ),
    st.builds(
        FetchResponse, **response, high_watermark=st.none() | offsets, log_start_offset=offsets,
        diverging=st.none() | st.builds(EpochEnd, epochs, offsets), records=st.binary(max_size=100),
    ),
)  # fmt: skip


def body_of(buffers):
    whole = b"".join(bytes(buffer) for buffer in buffers)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return memoryview(whole)[4:]


@given(message=messages)
def test_every_message_survives_the_wire(message):
    assert decode(decode_frame(body_of(encode(message)))) == message


@given(message=messages)
def test_a_newer_version_may_add_fields(message):
    frame = decode_frame(body_of(encode(message)))
    if isinstance(message, FetchRequest | FetchResponse):
        frame.fields.extend([0, 0])  # no lease: they are left out then
    frame.fields.extend([1, "new", [2]])
    assert decode(frame) == message


def test_lease_times_survive_the_wire_and_are_unknown_to_older_versions():
    asked = {"source": 1, "destination": 2, "correlation": 5, "cluster_id": "c"}
    fetch = FetchRequest(
        **asked, replica=ReplicaKey(1), epoch=3, offset=4, last_fetched_epoch=2, max_wait_ms=500,
        max_bytes=100, high_watermark=3,
    )  # fmt: skip
    answer = FetchResponse(source=2, destination=1, correlation=5, epoch=3)
    leased = replace(fetch, lease_time_ms=2**40, promise_ms=1500), replace(answer, lease_time_ms=2**40)
    for message, plain in zip(leased, (fetch, answer), strict=True):
        frame = decode_frame(body_of(encode(message)))
        assert decode(frame) == message
        del frame.fields[len(decode_frame(body_of(encode(plain))).fields) :]
        assert decode(frame) == plain
    frame = decode_frame(body_of(encode(leased[0])))
    frame.fields[-1] = -1
    with pytest.raises(PeerProtocolError):
        decode(frame)


@given(message=messages)
def test_a_message_with_a_field_too_few_is_refused(message):
    frame = decode_frame(body_of(encode(message)))
    frame.fields.pop()
    with pytest.raises(PeerProtocolError):
        decode(frame)


@given(message=messages, seed=st.integers(0, 2**32))
def test_a_mutated_frame_is_a_message_or_is_refused(message, seed):
    draw = random.Random(seed)
    body = bytearray(body_of(encode(message)))
    for _ in range(draw.randint(1, 4)):
        match draw.randrange(3):
            case 0:
                body[draw.randrange(len(body))] = draw.randrange(256)
            case 1:
                del body[draw.randrange(len(body)) :]
                body += b"\0" * max(0, 3 - len(body))
            case _:
                place = draw.randrange(len(body))
                body[place:place] = draw.randbytes(draw.randint(1, 6))
    _read_anything(memoryview(bytes(body)))


@given(body=st.binary(min_size=2, max_size=300))
def test_random_bytes_are_refused(body):
    _read_anything(memoryview(body))


def _read_anything(body):
    try:
        frame = decode_frame(body)
    except PeerProtocolError:
        return
    for reader in (decode, decode_request, decode_response, decode_application_response):
        with contextlib.suppress(PeerProtocolError, NotLeaderError, InvalidAppendError, OutcomeUnknownError):
            reader(frame)


def header_of(raw):
    return memoryview(len(raw).to_bytes(2, "big") + raw)


@pytest.mark.parametrize("tag", [0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 256, 258, 260, 43000, 9999])
def test_tags_are_refused_whatever_they_would_build(tag):
    raw = b"\x84\x02\x00\x01" + cbor2.dumps(cbor2.CBORTag(tag, b"abc"))
    with pytest.raises(PeerProtocolError, match="not CBOR"):
        decode_frame(header_of(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b"\x81" * 5000 + b"\x01",
        b"\x9f\x02\x00\x01\xff",
        b"\x9b\x00\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x5b\x00\x00\x7f\xff\xff\xff\xff\xff\x01",
        b"\xa1\x01\x02",
        b"\x83\x02\x00\xf5",
        b"\x82\x02\x00",
        b"\x84\x02\x00\x01\x61\xff",
        b"",
    ],
    ids=["deep", "indefinite", "huge array", "huge bytes", "map", "boolean", "short", "not utf-8", "empty"],
)
def test_a_header_with_tags_or_indefinite_lengths_is_refused(raw):
    with pytest.raises(PeerProtocolError):
        decode_frame(header_of(raw))


def test_a_number_too_large_for_its_field_is_refused_by_name():
    answer = BeginQuorumEpochResponse(source=2**31, destination=2, correlation=1, epoch=3)
    frame = decode_frame(body_of(encode(answer)))
    with pytest.raises(
        PeerProtocolError, match=r"BeginQuorumEpochResponse.source: 2147483648 is not within 0 and 2147483647"
    ):
        decode(frame)


@pytest.mark.parametrize(("count", "is_taken"), [(1000, True), (1001, False)])
def test_a_list_of_more_nodes_than_a_quorum_may_have_is_refused(count, is_taken):
    frame = decode_frame(
        header_of(cbor2.dumps([FrameKind.END_QUORUM_EPOCH, 0, 1, 2, 1, "c", 3, list(range(count))]))
    )
    if is_taken:
        assert len(decode(frame).preferred_successors) == count
    else:
        with pytest.raises(PeerProtocolError, match=r"preferred_successors: a list of 1001"):
            decode(frame)


@given(records=st.lists(st.binary(max_size=50), min_size=1, max_size=20), cluster=texts)
def test_an_append_survives_the_wire(records, cluster):
    assert decode_request(decode_frame(body_of(encode_request(7, cluster, records)))) == (cluster, records)


@given(payload=st.binary(max_size=40))
def test_an_appends_payload_of_any_bytes_is_records_or_is_refused(payload):
    frame = decode_frame(body_of(encode_frame(FrameKind.APPEND, 1, ["c"], [payload])))
    try:
        _, records = decode_request(frame)
    except PeerProtocolError:
        return
    assert sum(4 + len(record) for record in records) == len(payload)


def test_the_outcomes_of_an_append_survive_the_wire():
    assert decode_response(decode_frame(body_of(encode_success(1, 17, 3, 20)))) == (17, 3, 20)
    with pytest.raises(NotLeaderError) as not_leader:
        decode_response(decode_frame(body_of(encode_failure(1, NotLeaderError(leader=2, epoch=5)))))
    assert (not_leader.value.leader, not_leader.value.epoch) == (2, 5)
    with pytest.raises(InvalidAppendError, match="why"):
        decode_response(decode_frame(body_of(encode_failure(1, InvalidAppendError("why")))))
    with pytest.raises(OutcomeUnknownError, match="gone"):
        decode_response(decode_frame(body_of(encode_failure(1, OutcomeUnknownError("gone")))))
    # Nothing happened there, so that it may be tried elsewhere.
    with pytest.raises(NotLeaderError):
        decode_response(decode_frame(body_of(encode_failure(1, QuorumStoppedError("gone")))))


def test_a_failure_that_quotes_an_unknown_peer_still_fits_a_header():
    buffers = encode_failure(1, InvalidAppendError("x" * 100_000))
    assert sum(map(len, buffers)) < MAX_HEADER_BYTES


@pytest.mark.parametrize("number", [3, 9, 77, 100, 40_000])
def test_an_answer_with_a_code_that_is_not_the_quorums_is_refused(number):
    """Whether Kafka, and the broker, have such a code or not."""
    answer = VoteResponse(source=1, destination=2, correlation=1, epoch=3)
    frame = decode_frame(body_of(encode(answer)))
    assert frame.fields[2:4] == [ErrorCode.NONE, 3]
    frame.fields[2] = number
    with pytest.raises(PeerProtocolError, match=f"VoteResponse.error: expected a ErrorCode, not {number}"):
        decode(frame)


@pytest.mark.parametrize("number", [None, -1, 3, 9, 77, 100, 40_000])
def test_a_refusal_with_a_code_that_is_not_the_quorums_is_refused(number):
    frame = decode_frame(body_of(encode_failure(1, RequestRefusedError(ErrorCode.VOTER_NOT_FOUND, "no"))))
    with pytest.raises(RequestRefusedError) as refused:
        decode_response(frame)
    assert refused.value.code is ErrorCode.VOTER_NOT_FOUND
    frame.fields[3] = number
    with pytest.raises(PeerProtocolError):
        decode_response(frame)


def test_an_answer_of_another_kind_than_asked_is_refused():
    frame = decode_frame(body_of(encode_frame(FrameKind.VOTE + RESPONSE, 1, [])))
    with pytest.raises(PeerProtocolError):
        decode_response(frame)
    with pytest.raises(PeerProtocolError):
        decode_application_response(frame)


@given(lengths=st.lists(st.integers(0, 200_000), min_size=1, max_size=5), repeat=st.integers(1, 300))
@settings(max_examples=30)
def test_the_counted_size_is_no_less_than_the_batch_or_the_frame(lengths, repeat):
    from quorate.log.batches.records import build_batch

    records = [bytes(length) for length in lengths] + [b""] * repeat
    batch = build_batch(base_offset=0, epoch=1, timestamp_ms=0, values=records)
    assert len(batch) <= 61 + size_of(records)
    assert sum(map(len, encode_request(1, "", records))) <= 32 + size_of(records)


@given(message=messages)
def test_requests_have_a_kind_and_responses_none(message):
    frame = decode_frame(body_of(encode(message)))
    if frame.kind & RESPONSE:
        with pytest.raises(KeyError):
            kind_of(message)
    else:
        assert kind_of(message) == frame.kind


def test_a_remote_append_answers_where_it_was_asked():
    class Box:
        def __init__(self):
            self.pushed = []
            self.closed = False

        def push(self, buffers):
            self.pushed.append(buffers)

    box, dirty = Box(), {}
    RemoteAppendWaiter(box, 9, dirty).applied(4, 2, (), 6)
    assert decode_response(decode_frame(body_of(box.pushed[0]))) == (4, 2, 6)
    assert list(dirty) == [box]
