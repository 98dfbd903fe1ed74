"""DescribeQuorum between nodes: what the leader knows of its quorum, as bytes (KIP-836)."""

from dataclasses import dataclass

from quorate.broker.controller.schema import (
    SchemaError,
    Struct,
    boolean,
    dump,
    field,
    integer,
    load,
    optional,
    sequence,
    text,
)
from quorate.raft.core.types import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft.errors import PeerProtocolError
from quorate.raft.replicas import QuorumDescription, ReplicaStatus

_MAX_BYTES = 1 << 20
_MAX_REPLICAS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replica:
    node_id: int
    directory_id: str | None = None
    log_end_offset: int | None = None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Description:
    leads: bool = True
    """False: the node that was asked does not lead, and the rest means nothing."""
    leader: int = -1
    epoch: int = 0
    high_watermark: int | None = None
    voters: tuple[_Replica, ...] = ()
    observers: tuple[_Replica, ...] = ()


_LONG = integer(bits=64)
_REPLICA = Struct(
    _Replica,
    field(0, "node_id", integer(low=0)),
    field(1, "directory_id", optional(text(most=64))),
    field(2, "log_end_offset", optional(_LONG)),
    field(3, "last_fetch_ms", optional(_LONG)),
    field(4, "last_caught_up_ms", optional(_LONG)),
)
_DESCRIPTION = Struct(
    _Description,
    field(0, "leads", boolean),
    field(1, "leader", integer()),
    field(2, "epoch", integer(low=0)),
    field(3, "high_watermark", optional(_LONG)),
    field(4, "voters", sequence(_REPLICA.kind, most=_MAX_REPLICAS)),
    field(5, "observers", sequence(_REPLICA.kind, most=_MAX_REPLICAS)),
)


def encode_description(description: QuorumDescription) -> bytes:
    return dump(
        _DESCRIPTION.encode(
            _Description(
                leader=description.leader,
                epoch=description.epoch,
                high_watermark=description.high_watermark,
                voters=tuple(map(_as_replica, description.voters)),
                observers=tuple(map(_as_replica, description.observers)),
            )
        )
    )


def encode_not_leader() -> bytes:
    """The answer of a node that does not lead."""
    return dump(_DESCRIPTION.encode(_Description(leads=False)))


def decode_description(data: bytes) -> QuorumDescription | None:
    """None if the node that answered does not lead. Raises `PeerProtocolError`."""
    try:
        held = _DESCRIPTION.decode(load(data, max_bytes=_MAX_BYTES))
    except SchemaError as error:
        raise PeerProtocolError(f"not a description of a quorum: {error}") from error
    if not held.leads:
        return None
    return QuorumDescription(
        leader=NodeId(held.leader),
        epoch=Epoch(held.epoch),
        high_watermark=_offset(held.high_watermark),
        voters=tuple(map(_as_status, held.voters)),
        observers=tuple(map(_as_status, held.observers)),
    )


def _as_replica(status: ReplicaStatus) -> _Replica:
    return _Replica(
        node_id=status.key.id,
        directory_id=status.key.directory_id,
        log_end_offset=status.log_end_offset,
        last_fetch_ms=status.last_fetch_ms,
        last_caught_up_ms=status.last_caught_up_ms,
    )


def _as_status(replica: _Replica) -> ReplicaStatus:
    return ReplicaStatus(
        key=ReplicaKey(NodeId(replica.node_id), replica.directory_id),
        log_end_offset=_offset(replica.log_end_offset),
        last_fetch_ms=replica.last_fetch_ms,
        last_caught_up_ms=replica.last_caught_up_ms,
    )


def _offset(value: int | None) -> Offset | None:
    return None if value is None else Offset(value)
