"""Requests to the leader that append nothing of the user: the read index, a change of the voters, a transfer
of leadership.

Each names its cluster first. The responses have the fields of an append's (`append_frames`): a read
index stands where the base offset does.
"""

import enum

from quorate.raft.core import AddVoter, AdoptVoters, RemoveVoter, UpdateVoter, VoterChange
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.append_frames import decode_outcome, encode_outcome
from quorate.raft.transport.frame_fields import ENDPOINT, INT64, KEY, NODE, TEXT, FieldReader
from quorate.raft.transport.frames import Frame, FrameKind
from quorate.runtime import Buffer
from quorate.types import NodeId, Offset, SnapshotId, Voter


class _Change(enum.IntEnum):
    ADD = 0
    REMOVE = 1
    UPDATE = 2
    ADOPT = 3


def voter_change_fields(change: VoterChange) -> list[object]:
    """Return the fields after the cluster id of a CHANGE_VOTERS request."""
    match change:
        case AddVoter(voter):
            return [_Change.ADD.value, *_encode_voter(voter)]
        case UpdateVoter(voter):
            return [_Change.UPDATE.value, *_encode_voter(voter)]
        case RemoveVoter(key):
            return [_Change.REMOVE.value, *KEY.encode(key)]
        case AdoptVoters():
            return [_Change.ADOPT.value]


def _encode_voter(voter: Voter) -> list[object]:
    return [*KEY.encode(voter.key), ENDPOINT.encode(voter.endpoint)]


def decode_voter_change(frame: Frame) -> tuple[str, VoterChange]:
    """The cluster id and the change. Raises `PeerProtocolError`."""
    read = FieldReader(frame)
    cluster_id, kind = read.take(TEXT), read.take(INT64)
    match kind:
        case _Change.ADD:
            return cluster_id, AddVoter(_read_voter(read))
        case _Change.UPDATE:
            return cluster_id, UpdateVoter(_read_voter(read))
        case _Change.REMOVE:
            return cluster_id, RemoveVoter(read.key())
        case _Change.ADOPT:
            return cluster_id, AdoptVoters()
    raise PeerProtocolError(f"a change of the voters of kind {kind} is not known to this version")


def _read_voter(read: FieldReader) -> Voter:
    return Voter(read.key(), read.take(ENDPOINT))


def decode_transfer(frame: Frame) -> tuple[str, NodeId]:
    """The cluster id and the successor. Raises `PeerProtocolError`."""
    read = FieldReader(frame)
    return read.take(TEXT), read.take(NODE)


def describe_request(frame: Frame) -> str:
    """Describe an administrative request for the log. It was decoded before."""
    match frame.kind:
        case FrameKind.CHANGE_VOTERS:
            match decode_voter_change(frame)[1]:
                case AddVoter(voter):
                    return f"add voter {_show_voter(voter)}"
                case UpdateVoter(voter):
                    return f"update voter {_show_voter(voter)}"
                case RemoveVoter(key):
                    return f"remove voter {key.id} with directory {_shorten(key.directory_id)}"
                case AdoptVoters():
                    return "adopt the configured voters"
        case FrameKind.TRANSFER_LEADERSHIP:
            return f"transfer leadership to node {decode_transfer(frame)[1]}"
        case _:
            return "take a snapshot"


def _show_voter(voter: Voter) -> str:
    where = f"{_shorten(voter.endpoint.host)}:{voter.endpoint.port}"
    return f"{voter.key.id} with directory {_shorten(voter.key.directory_id)} at {where}"


def _shorten(text: str | None) -> str:
    """Text of an unauthenticated peer, fit for a log line."""
    shown = str(text)
    return shown if shown.isprintable() and len(shown) <= 60 else f"{shown!r:.60}"


def decode_cluster_id(frame: Frame) -> str:
    """Decode the cluster id, the first field of the request. Raises `PeerProtocolError`."""
    return FieldReader(frame).take(TEXT)


def decode_read_index(frame: Frame) -> Offset:
    """Raises what the leader answered as a `QuorumError`, or `PeerProtocolError`."""
    _, _, read_index = decode_outcome(frame, FrameKind.READ_INDEX)
    if read_index is None:
        raise PeerProtocolError("a read index has no offset")
    return read_index


def encode_snapshot(frame: Frame, snapshot: SnapshotId) -> list[Buffer]:
    """The answer to a TAKE_SNAPSHOT request."""
    return encode_outcome(frame.kind, frame.correlation, snapshot.epoch, snapshot.end_offset)


def decode_snapshot(frame: Frame) -> SnapshotId:
    """Raises as `decode_read_index`."""
    _, epoch, end_offset = decode_outcome(frame, FrameKind.TAKE_SNAPSHOT)
    if end_offset is None:
        raise PeerProtocolError("a snapshot that was taken has no end offset")
    return SnapshotId(end_offset, epoch)


def encode_done(frame: Frame) -> list[Buffer]:
    """Encode the success of the request `frame`."""
    return encode_outcome(frame.kind, frame.correlation)
