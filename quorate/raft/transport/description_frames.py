"""DESCRIBE_QUORUM: what a node knows of its quorum, for those who ask from outside (KIP-836).

The request names the cluster, or leaves its id empty to learn it. The response's payload is a CBOR array, as
its fields would not fit a header: cluster id, leader, epoch, the leader's endpoint, whether the node that
answers is the leader, if it is, the high watermark, the voters and the observers, and last who it is that
answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cbor2

from quorate.raft.quorum_description import QuorumDescription, ReplicaStatus
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.append_frames import AppendError, decode_outcome
from quorate.raft.transport.fields import FieldReader
from quorate.raft.transport.frames import RESPONSE, Field, Frame, FrameKind, encode_frame, load
from quorate.runtime import Buffer
from quorate.types import Endpoint, Epoch, NodeId, ReplicaKey

_MAX_BYTES: Final = 1024 * 1024


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
    """Who answers; None from versions that did not say."""


def encode_view(correlation: int, view: QuorumView) -> list[Buffer]:
    endpoint, description = view.leader_endpoint, view.description
    values: list[Field] = [view.cluster_id, view.leader, view.epoch, _endpoint(endpoint)]
    values.append(description is not None)
    if description is not None:
        values += [
            description.high_watermark,
            [_status(status) for status in description.voters],
            [_status(status) for status in description.observers],
        ]
    if view.node is not None:
        values += [view.node.id, view.node.directory_id]
    fields: list[Field] = [AppendError.NONE.value, None, 0, None, None]
    return encode_frame(FrameKind.DESCRIBE_QUORUM + RESPONSE, correlation, fields, [cbor2.dumps(values)])


def decode_view(frame: Frame) -> QuorumView:
    """Raises `PeerProtocolError`, or what was answered as a `QuorumError`."""
    if frame.kind != FrameKind.DESCRIBE_QUORUM + RESPONSE:
        raise PeerProtocolError(f"a description was answered with a frame of kind {frame.kind}")
    decode_outcome(frame)
    if len(frame.payload) > _MAX_BYTES:
        raise PeerProtocolError(f"a description has {len(frame.payload)} bytes, more than {_MAX_BYTES}")
    values = load(bytes(frame.payload))
    if not isinstance(values, list):
        raise PeerProtocolError("a description is not an array")
    read = FieldReader(frame.kind, values)
    cluster_id, leader, epoch, endpoint, leads = (
        read.text(),
        read.optional_node(),
        read.epoch(),
        read.endpoint(),
        read.boolean(),
    )
    description = None
    if leads:
        if leader is None:
            raise PeerProtocolError("a node leads and has no id")
        description = QuorumDescription(
            leader=leader,
            epoch=epoch,
            high_watermark=read.optional_offset(),
            voters=_statuses(frame.kind, read.arrays()),
            observers=_statuses(frame.kind, read.arrays()),
        )
    return QuorumView(
        cluster_id=cluster_id,
        leader=leader,
        epoch=epoch,
        leader_endpoint=endpoint,
        description=description,
        node=read.key() if read.has_more else None,
    )


def _endpoint(endpoint: Endpoint | None) -> Field:
    return None if endpoint is None else [endpoint.host, endpoint.port]


def _status(status: ReplicaStatus) -> Field:
    return [
        status.key.id,
        status.key.directory_id,
        _endpoint(status.endpoint),
        status.log_end_offset,
        status.last_fetch_ms,
        status.last_caught_up_ms,
    ]


def _statuses(kind: int, arrays: Sequence[list[Field]]) -> tuple[ReplicaStatus, ...]:
    found = []
    for each in arrays:
        read = FieldReader(kind, each)
        key, endpoint = read.key(), read.endpoint()
        found.append(
            ReplicaStatus(
                key=key,
                endpoint=endpoint,
                log_end_offset=read.optional_offset(),
                last_fetch_ms=read.optional_integer(),
                last_caught_up_ms=read.optional_integer(),
            )
        )
    return tuple(found)
