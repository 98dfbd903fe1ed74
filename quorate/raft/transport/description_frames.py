"""DESCRIBE_QUORUM: a node's knowledge of its quorum, for clients (KIP-836).

The request names the cluster, or leaves its id empty to learn it. The response's payload is a CBOR array, as
its fields would not fit a header: cluster id, leader, epoch, the leader's endpoint, whether the node that
answers is the leader, if so the high watermark, the voters and the observers, the key of the node that
answers, the digests of its states, and last what its code supports.
"""

from dataclasses import dataclass
from typing import Final

from quorate.cbor import dump, optional, sequence
from quorate.raft.quorum_description import CodeSupport, QuorumDescription, ReplicaStatus, StateAt
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.append_frames import decode_outcome, encode_outcome
from quorate.raft.transport.frame_fields import (
    ENDPOINT,
    EPOCH,
    FRAME,
    KEY,
    NODE,
    OFFSET,
    TEXT,
    FieldReader,
)
from quorate.raft.transport.frames import Frame, FrameKind, load
from quorate.runtime import Buffer
from quorate.types import MAX_VOTERS, Endpoint, Epoch, NodeId, ReplicaKey

STATES_MAX: Final = 8
_STATES: Final = sequence(FRAME.kind(StateAt), most=STATES_MAX)
_SUPPORT: Final = FRAME.kind(CodeSupport)
_STATUSES: Final = sequence(FRAME.kind(ReplicaStatus), most=MAX_VOTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """A quorum as one of its nodes sees it."""

    cluster_id: str
    leader: NodeId | None
    epoch: Epoch
    leader_endpoint: Endpoint | None
    description: QuorumDescription | None
    """None from a node that does not lead."""
    node: ReplicaKey | None = None
    """The node that answers. None: its version does not say."""
    states: tuple[StateAt, ...] = ()
    """The states of that node at its latest snapshots, `STATES_MAX` at most."""
    support: CodeSupport | None = None
    """What the code of that node supports. None: its version does not say."""


def encode_view(correlation: int, view: QuorumView) -> list[Buffer]:
    endpoint, description = view.leader_endpoint, view.description
    values = [
        view.cluster_id,
        view.leader,
        view.epoch,
        None if endpoint is None else ENDPOINT.encode(endpoint),
    ]
    values.append(description is not None)
    if description is not None:
        replicas = (description.voters, description.observers)
        values += [description.high_watermark, *map(_STATUSES.encode, replicas)]
    if view.node is not None:
        values += KEY.encode(view.node)
        if view.states or view.support is not None:
            values.append(_STATES.encode(view.states))
        if view.support is not None:
            values.append(_SUPPORT.encode(view.support))
    return encode_outcome(FrameKind.DESCRIBE_QUORUM, correlation, payload=[dump(values)])


def decode_view(frame: Frame) -> QuorumView:
    """Raises `PeerProtocolError`, or what was answered as a `QuorumError`."""
    decode_outcome(frame, FrameKind.DESCRIBE_QUORUM)
    values = load(bytes(frame.payload))
    if not isinstance(values, list):
        raise PeerProtocolError("a description is not an array")
    read = FieldReader(frame, values)
    cluster_id, leader, epoch = read.take(TEXT), read.take(optional(NODE)), read.take(EPOCH)
    endpoint, leads = read.take(optional(ENDPOINT)), read.take(FRAME.kind(bool))
    description = None
    if leads:
        if leader is None:
            raise PeerProtocolError("a node leads and has no id")
        description = QuorumDescription(
            leader=leader,
            epoch=epoch,
            high_watermark=read.take(optional(OFFSET)),
            voters=read.take(_STATUSES),
            observers=read.take(_STATUSES),
        )
    return QuorumView(
        cluster_id=cluster_id,
        leader=leader,
        epoch=epoch,
        leader_endpoint=endpoint,
        description=description,
        node=read.key() if read.has_more else None,
        states=read.take(_STATES) if read.has_more else (),
        support=read.take(_SUPPORT) if read.has_more else None,
    )
