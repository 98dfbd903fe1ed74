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
    """Ask for a vote with the durable part of our log, where the paper uses all of it.

    A voter repeats a vote in the same epoch (its answer may have been lost) without a second look at the log.
    A candidate that lost an unsynced tail, restarted and asked again would win with a log that no voter has
    judged. It may lack records that a majority holds.
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


def fetch(
    node: NodeState,
    peer: NodeId,
    *,
    max_wait_ms: int,
    max_bytes: int,
    read_round: int = 0,
    lease_time_ms: int = 0,
) -> None:
    """Ask for the records after our log. It acknowledges all of the log, which must be durable.

    `max_bytes` 0 asks only for the leader. `read_round` and `lease_time_ms`: those of the leader's last
    answer; the second only if it was promised something at that answer.
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
            lease_time_ms=lease_time_ms,
            promise_ms=node.config.read_lease_ms if lease_time_ms else 0,
        )
    )


def fetch_snapshot(
    node: NodeState, leader: NodeId, snapshot: SnapshotId, *, position: int, max_bytes: int
) -> None:
    """Ask for `snapshot` from byte `position` on. `max_bytes` 0 only shows that this node is alive."""
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
