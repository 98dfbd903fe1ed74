"""The requests that roles send, filled in from the node."""

from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId, ReplicaKey, SnapshotId


def ask_vote(node: NodeState, voter: ReplicaKey, *, pre_vote: bool, leader_resigned: bool = False) -> None:
    """The log we stand with is the durable part of ours, where the paper says all of it.

    A voter that granted us its vote says so again when asked again in the same epoch (its answer may have
    been lost), without a second look at the log. A candidate that lost an unsynced tail in between,
    restarted, and asked again would win with a log nobody judged, and may lack what a majority holds.
    """
    node.send(
        VoteRequest(
            source=node.id,
            destination=voter.id,
            correlation=node.next_correlation(voter.id),
            cluster_id=node.cluster_id,
            voter=voter,
            candidate=node.key,
            epoch=node.epoch,
            last_epoch=node.log.durable_epoch,
            end_offset=node.log.durable_end_offset,
            pre_vote=pre_vote,
            leader_resigned=leader_resigned,
        )
    )


def begin_epoch(node: NodeState, voter: ReplicaKey) -> None:
    node.send(
        BeginQuorumEpochRequest(
            source=node.id,
            destination=voter.id,
            correlation=node.next_correlation(voter.id),
            cluster_id=node.cluster_id,
            voter=voter,
            epoch=node.epoch,
            endpoint=node.endpoint,
        )
    )


def end_epoch(node: NodeState, voter: NodeId, *, preferred_successors: tuple[NodeId, ...]) -> None:
    node.send(
        EndQuorumEpochRequest(
            source=node.id,
            destination=voter,
            correlation=node.next_correlation(voter),
            cluster_id=node.cluster_id,
            epoch=node.epoch,
            preferred_successors=preferred_successors,
        )
    )


def fetch(node: NodeState, peer: NodeId, *, max_wait_ms: int, max_bytes: int, read_round: int = 0) -> None:
    """Ask for what follows our log. This is the acknowledgement of all of it, so all of it must be durable.

    `max_bytes` 0 asks only who leads. `read_round` is that of the leader's last answer.
    """
    node.send(
        FetchRequest(
            source=node.id,
            destination=peer,
            correlation=node.next_correlation(peer),
            cluster_id=node.cluster_id,
            replica=node.key,
            epoch=node.election.epoch,
            offset=node.log.durable_end_offset,
            last_fetched_epoch=node.log.durable_epoch,
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes,
            high_watermark=node.high_watermark,
            read_round=read_round,
        )
    )


def fetch_snapshot(
    node: NodeState, leader: NodeId, snapshot: SnapshotId, *, position: int, max_bytes: int
) -> None:
    """Ask for `snapshot` from byte `position` on. `max_bytes` 0 only shows that we are still here."""
    node.send(
        FetchSnapshotRequest(
            source=node.id,
            destination=leader,
            correlation=node.next_correlation(leader),
            cluster_id=node.cluster_id,
            replica=node.key,
            epoch=node.election.epoch,
            snapshot=snapshot,
            position=position,
            max_bytes=max_bytes,
        )
    )
