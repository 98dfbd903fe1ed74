"""Requests to the leader that append nothing: which offset to wait for before a read, a change of the voters,
a transfer of leadership.

Each names its cluster first. The responses have the fields of an append's (`append_frames`): a read
index stands where the base offset does.
"""

import enum

from quorate.raft.core import AddVoter, AdoptVoters, RemoveVoter, UpdateVoter, VoterChange
from quorate.raft.quorum_errors import PeerProtocolError, QuorumError
from quorate.raft.transport.append_frames import AppendError, decode_outcome, encode_failure
from quorate.raft.transport.fields import FieldReader
from quorate.raft.transport.frames import RESPONSE, Field, Frame, FrameKind, encode_frame
from quorate.raft.transport.outbox import Outbox
from quorate.runtime import Buffer
from quorate.types import NodeId, Offset, SnapshotId, Voter


class _Change(enum.IntEnum):
    ADD = 0
    REMOVE = 1
    UPDATE = 2
    ADOPT = 3


def voter_change_fields(change: VoterChange) -> list[Field]:
    """What follows the cluster id in a CHANGE_VOTERS request."""
    match change:
        case AddVoter(voter):
            return [_Change.ADD.value, *_voter(voter)]
        case UpdateVoter(voter):
            return [_Change.UPDATE.value, *_voter(voter)]
        case RemoveVoter(key):
            return [_Change.REMOVE.value, key.id, key.directory_id]
        case AdoptVoters():
            return [_Change.ADOPT.value]


def _voter(voter: Voter) -> list[Field]:
    return [voter.key.id, voter.key.directory_id, [voter.endpoint.host, voter.endpoint.port]]


def decode_voter_change(frame: Frame) -> tuple[str, VoterChange]:
    """The cluster id and the change. Raises `PeerProtocolError`."""
    read = FieldReader(frame.kind, frame.fields)
    cluster_id, kind = read.text(), read.integer()
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
    key, endpoint = read.key(), read.endpoint()
    if endpoint is None:
        raise PeerProtocolError(f"node {key.id} is to be a voter, but where it listens is not said")
    return Voter(key, endpoint)


def decode_transfer(frame: Frame) -> tuple[str, NodeId]:
    """The cluster id and the successor. Raises `PeerProtocolError`."""
    read = FieldReader(frame.kind, frame.fields)
    return read.text(), read.node()


def described(frame: Frame) -> str:
    """What an administrative request asks for, for the log. It was decoded before."""
    match frame.kind:
        case FrameKind.CHANGE_VOTERS:
            match decode_voter_change(frame)[1]:
                case AddVoter(voter):
                    return f"add voter {_shown(voter)}"
                case UpdateVoter(voter):
                    return f"update voter {_shown(voter)}"
                case RemoveVoter(key):
                    return f"remove voter {key.id} with directory {_short(key.directory_id)}"
                case AdoptVoters():
                    return "adopt the configured voters"
        case FrameKind.TRANSFER_LEADERSHIP:
            return f"transfer leadership to node {decode_transfer(frame)[1]}"
        case _:
            return "take a snapshot"


def _shown(voter: Voter) -> str:
    where = f"{_short(voter.endpoint.host)}:{voter.endpoint.port}"
    return f"{voter.key.id} with directory {_short(voter.key.directory_id)} at {where}"


def _short(text: str | None) -> str:
    """A stranger's text, fit for a log line."""
    shown = str(text)
    return shown if shown.isprintable() and len(shown) <= 60 else f"{shown!r:.60}"


def decode_cluster_id(frame: Frame) -> str:
    """Of a request that has no more fields. Raises `PeerProtocolError`."""
    return FieldReader(frame.kind, frame.fields).text()


def decode_read_index(frame: Frame) -> Offset:
    """Raises what the leader answered as a `QuorumError`, or `PeerProtocolError`."""
    if frame.kind != FrameKind.READ_INDEX + RESPONSE:
        raise PeerProtocolError(f"a read index was answered with a frame of kind {frame.kind}")
    read_index, _ = decode_outcome(frame)
    if read_index is None:
        raise PeerProtocolError("a read index has no offset")
    return read_index


def decode_done(frame: Frame, kind: FrameKind) -> None:
    """The end of a change of the voters, or of a transfer. Raises as `decode_read_index`."""
    if frame.kind != kind + RESPONSE:
        raise PeerProtocolError(f"a request of kind {kind} was answered with a frame of kind {frame.kind}")
    decode_outcome(frame)


def encode_snapshot(frame: Frame, snapshot: SnapshotId) -> list[Buffer]:
    """The answer to a TAKE_SNAPSHOT request."""
    fields: list[Field] = [AppendError.NONE.value, None, snapshot.epoch, snapshot.end_offset, None]
    return encode_frame(frame.kind + RESPONSE, frame.correlation, fields)


def decode_snapshot(frame: Frame) -> SnapshotId:
    """Raises as `decode_read_index`."""
    if frame.kind != FrameKind.TAKE_SNAPSHOT + RESPONSE:
        raise PeerProtocolError(f"a request for a snapshot was answered with a frame of kind {frame.kind}")
    end_offset, epoch = decode_outcome(frame)
    if end_offset is None:
        raise PeerProtocolError("a snapshot that was taken has no end offset")
    return SnapshotId(end_offset, epoch)


def encode_done(frame: Frame) -> list[Buffer]:
    """The answer to `frame`: it is done."""
    return encode_frame(
        frame.kind + RESPONSE, frame.correlation, [AppendError.NONE.value, None, 0, None, None]
    )


class RemoteIndexWaiter:
    """`IndexWaiter` that answers over a connection."""

    __slots__ = ("_correlation", "_dirty", "_outbox")

    def __init__(self, outbox: Outbox, correlation: int, dirty: dict[Outbox, None]) -> None:
        self._outbox = outbox
        self._correlation = correlation
        self._dirty = dirty

    def passed(self, read_index: Offset) -> None:
        fields: list[Field] = [AppendError.NONE.value, None, 0, read_index, None]
        self._answer(encode_frame(FrameKind.READ_INDEX + RESPONSE, self._correlation, fields))

    def failed(self, error: QuorumError) -> None:
        self._answer(encode_failure(self._correlation, error, kind=FrameKind.READ_INDEX))

    def _answer(self, buffers: list[Buffer]) -> None:
        if not self._outbox.closed:
            self._outbox.push(buffers)
            self._dirty[self._outbox] = None
