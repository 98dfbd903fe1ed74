"""The bytes of every message between nodes, as the versions before wrote them: nodes of both run together."""

import typing
from pathlib import Path

import pytest

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AddVoter,
    AdoptVoters,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    RemoveVoter,
    UpdateVoter,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.quorum_description import CodeSupport, QuorumDescription, ReplicaStatus, StateAt
from quorate.raft.quorum_errors import (
    InvalidAppendError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumStoppedError,
    RequestRefusedError,
    SnapshotNotTakenError,
)
from quorate.raft.transport.append_frames import encode_failure, encode_request, encode_success
from quorate.raft.transport.description_frames import QuorumView, decode_view, encode_view
from quorate.raft.transport.frames import Frame, FrameKind, decode_frame, encode_frame
from quorate.raft.transport.leader_frames import encode_done, encode_snapshot, voter_change_fields
from quorate.raft.transport.raft_codec import decode, encode
from quorate.raft.transport.snapshot_frames import (
    ListedSnapshot,
    SnapshotRead,
    decode_chunk,
    decode_listed,
    decode_snapshot_read,
    encode_chunk,
    encode_listed,
    snapshot_read_fields,
)
from quorate.types import Endpoint, EpochEnd, ReplicaKey, SnapshotId, Voter

GOLDEN = Path(__file__).with_name("golden_frames.txt")
MAX32, MAX64 = 2**31 - 1, 2**63 - 1
KEY, NO_DIRECTORY = ReplicaKey(3, "AAAAAAAAAAAAAAAAAAAAAw"), ReplicaKey(MAX32)
SNAPSHOT = SnapshotId(MAX64, MAX32)
ASKED = {"source": 1, "destination": -2, "correlation": 5, "cluster_id": "c"}
ASKED_MOST = {"source": MAX32, "destination": MAX32, "correlation": MAX64, "cluster_id": "ü" * 40}
ANSWERED = {"source": 1, "destination": 2, "correlation": 5, "epoch": 3}
ANSWERED_MOST = {
    "source": MAX32, "destination": MAX32, "correlation": MAX64, "error": ErrorCode.VOTER_NOT_FOUND,
    "epoch": MAX32, "leader": MAX32, "leader_endpoint": Endpoint("é.example", 65535),
}  # fmt: skip
MESSAGES = {
    "vote": VoteRequest(**ASKED, voter=KEY, candidate=KEY, epoch=0, last_epoch=0, end_offset=0),
    "vote, most": VoteRequest(
        **ASKED_MOST, voter=NO_DIRECTORY, candidate=NO_DIRECTORY, epoch=MAX32, last_epoch=MAX32,
        end_offset=MAX64, pre_vote=True, leader_resigned=True,
    ),
    "voted": VoteResponse(**ANSWERED),
    "voted, most": VoteResponse(**ANSWERED_MOST, granted=True, pre_vote=True),
    "begin": BeginQuorumEpochRequest(**ASKED, voter=KEY, epoch=0),
    "begin, most": BeginQuorumEpochRequest(
        **ASKED_MOST, voter=NO_DIRECTORY, epoch=MAX32, endpoint=Endpoint("", 1)
    ),
    "begun": BeginQuorumEpochResponse(**ANSWERED),
    "begun, most": BeginQuorumEpochResponse(**ANSWERED_MOST),
    "end": EndQuorumEpochRequest(**ASKED, epoch=0, preferred_successors=()),
    "end, most": EndQuorumEpochRequest(**ASKED_MOST, epoch=MAX32, preferred_successors=(0, MAX32, 24, 256)),
    "ended": EndQuorumEpochResponse(**ANSWERED),
    "ended, most": EndQuorumEpochResponse(**ANSWERED_MOST),
    "fetch": FetchRequest(
        **ASKED, replica=KEY, epoch=0, offset=0, last_fetched_epoch=0, max_wait_ms=0, max_bytes=0,
        high_watermark=None,
    ),
    "fetch, usual": FetchRequest(
        **{**ASKED, "destination": 2}, replica=KEY, epoch=7, offset=1234, last_fetched_epoch=7,
        max_wait_ms=500, max_bytes=8 << 20, high_watermark=1233, read_round=2,
    ),
    "fetch, most": FetchRequest(
        **ASKED_MOST, replica=NO_DIRECTORY, epoch=MAX32, offset=MAX64, last_fetched_epoch=MAX32,
        max_wait_ms=MAX32, max_bytes=MAX32, high_watermark=MAX64, read_round=MAX64,
    ),
    "fetched": FetchResponse(**ANSWERED),
    "fetched, usual": FetchResponse(
        **ANSWERED, leader=1, high_watermark=9, log_start_offset=0, read_round=1, records=b"records"
    ),
    "fetched, most": FetchResponse(
        **ANSWERED_MOST, high_watermark=MAX64, log_start_offset=MAX64, diverging=EpochEnd(MAX32, MAX64),
        snapshot=SNAPSHOT, read_round=MAX64,
    ),
    "fetch snapshot": FetchSnapshotRequest(
        **ASKED, replica=KEY, epoch=0, snapshot=SnapshotId(1, 1), position=0, max_bytes=0
    ),
    "fetch snapshot, most": FetchSnapshotRequest(
        **ASKED_MOST, replica=NO_DIRECTORY, epoch=MAX32, snapshot=SNAPSHOT, position=MAX64, max_bytes=MAX32
    ),
    "fetched snapshot": FetchSnapshotResponse(**ANSWERED, snapshot=SnapshotId(1, 1)),
    "fetched snapshot, most": FetchSnapshotResponse(
        **ANSWERED_MOST, snapshot=SNAPSHOT, size=MAX64, position=MAX64, length=5, chunk=b"chunk"
    ),
}  # fmt: skip

ENDPOINT = Endpoint("host", 9093)
VOTER = Voter(KEY, ENDPOINT)
ASKED_FRAME = Frame(FrameKind.TAKE_SNAPSHOT, 0, 6, [], memoryview(b""))
STATUS = ReplicaStatus(
    key=KEY, endpoint=None, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None
)
STATUS_MOST = ReplicaStatus(
    key=NO_DIRECTORY, endpoint=ENDPOINT, log_end_offset=MAX64, last_fetch_ms=MAX64, last_caught_up_ms=MAX64
)
VIEWS = {
    "view": QuorumView(cluster_id="c", leader=None, epoch=0, leader_endpoint=None, description=None),
    "view, follower": QuorumView(
        cluster_id="c", leader=2, epoch=4, leader_endpoint=ENDPOINT, description=None, node=KEY
    ),
    "view, leader": QuorumView(
        cluster_id="c",
        leader=3,
        epoch=MAX32,
        leader_endpoint=ENDPOINT,
        description=QuorumDescription(
            leader=3, epoch=MAX32, high_watermark=MAX64, voters=(STATUS, STATUS_MOST), observers=(STATUS,)
        ),
        node=NO_DIRECTORY,
    ),
    "view, leader of none": QuorumView(
        cluster_id="", leader=3, epoch=1, leader_endpoint=None,
        description=QuorumDescription(leader=3, epoch=1, high_watermark=None, voters=(), observers=()),
    ),
    "view, states": QuorumView(
        cluster_id="c", leader=2, epoch=4, leader_endpoint=None, description=None, node=KEY,
        states=(StateAt(SNAPSHOT, "own 0", "ab12"),),
    ),
    "view, support": QuorumView(
        cluster_id="c", leader=2, epoch=4, leader_endpoint=None, description=None, node=KEY,
        support=CodeSupport(3, sessions=True),
    ),
}  # fmt: skip
OTHERS = {
    "append": encode_request(6, "c", [b"", b"value"]),
    "appended": encode_success(6, MAX64, MAX32, MAX64),
    "not the leader": encode_failure(6, NotLeaderError(leader=None, epoch=2)),
    "not the leader, most": encode_failure(6, NotLeaderError(leader=MAX32, epoch=MAX32)),
    "invalid": encode_failure(6, InvalidAppendError("why")),
    "stopped": encode_failure(6, QuorumStoppedError("why")),
    "unknown": encode_failure(6, OutcomeUnknownError("why"), kind=FrameKind.READ_INDEX),
    "refused": encode_failure(
        6, RequestRefusedError(ErrorCode.DUPLICATE_VOTER, "why"), kind=FrameKind.CHANGE_VOTERS
    ),
    "not taken": encode_failure(6, SnapshotNotTakenError("why"), kind=FrameKind.TAKE_SNAPSHOT),
    "add voter": encode_frame(FrameKind.CHANGE_VOTERS, 6, ["c", *voter_change_fields(AddVoter(VOTER))]),
    "update voter": encode_frame(FrameKind.CHANGE_VOTERS, 6, ["c", *voter_change_fields(UpdateVoter(VOTER))]),
    "remove voter": encode_frame(FrameKind.CHANGE_VOTERS, 6, ["c", *voter_change_fields(RemoveVoter(KEY))]),
    "adopt voters": encode_frame(FrameKind.CHANGE_VOTERS, 6, ["c", *voter_change_fields(AdoptVoters())]),
    "snapshot taken": encode_snapshot(ASKED_FRAME, SNAPSHOT),
    "done": encode_done(ASKED_FRAME),
    "read a snapshot": encode_frame(
        FrameKind.READ_SNAPSHOT, 6, ["c", *snapshot_read_fields(SNAPSHOT, MAX64, MAX32)]
    ),
    "a chunk of a snapshot": encode_chunk(6, b"chunk", MAX64),
    "listed snapshots, none": encode_listed(6, ()),
    "listed snapshots": encode_listed(
        6, (ListedSnapshot(SNAPSHOT, 7, 8), ListedSnapshot(SNAPSHOT, MAX64, MAX64))
    ),
}  # fmt: skip


def golden():
    return dict(line.rsplit(": ", 1) for line in GOLDEN.read_text().splitlines())


def hex_of(buffers):
    return b"".join(map(bytes, buffers)).hex()


def test_every_message_has_golden_bytes_with_its_defaults_and_with_its_most():
    assert {*map(type, MESSAGES.values())} == {*typing.get_args(Message)}
    assert [*golden()] == [*MESSAGES, *VIEWS, *OTHERS]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_bytes_that_it_always_had(name):
    assert hex_of(encode(MESSAGES[name])) == golden()[name]
    assert decode(decode_frame(memoryview(bytes.fromhex(golden()[name]))[4:])) == MESSAGES[name]


@pytest.mark.parametrize("name", MESSAGES)
def test_a_wrong_value_in_any_place_is_refused_by_the_fields_name(name):
    message = MESSAGES[name]
    body = memoryview(bytes.fromhex(golden()[name]))[4:]
    refused = []
    for place in range(len(decode_frame(body).fields)):
        frame = decode_frame(body)
        frame.fields[place] = 1.5
        with pytest.raises(PeerProtocolError, match=rf"{type(message).__name__}\.\w+") as refusal:
            decode(frame)
        refused.append(str(refusal.value).split(": ")[1])
    assert len({*refused}) == len(refused)


@pytest.mark.parametrize("name", [name for name in MESSAGES if "most" in name])
def test_a_number_above_the_most_is_refused(name):
    body = memoryview(bytes.fromhex(golden()[name]))[4:]
    for place, value in enumerate(decode_frame(body).fields):
        if type(value) is int:
            frame = decode_frame(body)
            frame.fields[place] = value + 1
            with pytest.raises(PeerProtocolError):
                decode(frame)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_the_quorum_has_the_bytes_that_it_always_had(name):
    assert hex_of(encode_view(6, VIEWS[name])) == golden()[name]
    assert decode_view(decode_frame(memoryview(bytes.fromhex(golden()[name]))[4:])) == VIEWS[name]


@pytest.mark.parametrize("name", OTHERS)
def test_a_request_to_the_leader_and_its_answer_have_the_bytes_that_they_always_had(name):
    assert hex_of(OTHERS[name]) == golden()[name]


def read_golden(name):
    return decode_frame(memoryview(bytes.fromhex(golden()[name]))[4:])


def test_snapshots_of_a_node_are_read_as_they_were_written():
    assert decode_snapshot_read(read_golden("read a snapshot")) == SnapshotRead("c", SNAPSHOT, MAX64, MAX32)
    assert decode_chunk(read_golden("a chunk of a snapshot")) == (b"chunk", MAX64)
    assert decode_listed(read_golden("listed snapshots, none")) == ()
    assert decode_listed(read_golden("listed snapshots")) == (
        ListedSnapshot(SNAPSHOT, 7, 8),
        ListedSnapshot(SNAPSHOT, MAX64, MAX64),
    )
