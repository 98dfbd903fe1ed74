"""The metadata quorum as brokers describe and change it."""

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft import QuorumDescription, ReplicaStatus
from quorate.runtime import Address, parse_uuid, uuid_text
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter

if TYPE_CHECKING:
    from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse
    from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, PartitionData, ReplicaState
    from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

METADATA_TOPIC: Final = "__cluster_metadata"


async def describe_quorum(admin: AdminClient) -> QuorumDescription:
    """Return the leader's view of the quorum."""
    partition, endpoints, _ = await _describe(admin)

    def status(replica: "ReplicaState") -> ReplicaStatus:
        directory = replica.replica_directory_id
        return ReplicaStatus(
            key=ReplicaKey(NodeId(replica.replica_id), None if directory is None else uuid_text(directory)),
            endpoint=endpoints.get(NodeId(replica.replica_id)),
            log_end_offset=None if replica.log_end_offset < 0 else Offset(replica.log_end_offset),
            last_fetch_ms=_known(replica.last_fetch_timestamp),
            last_caught_up_ms=_known(replica.last_caught_up_timestamp),
        )

    return QuorumDescription(
        leader=NodeId(partition.leader_id),
        epoch=Epoch(partition.leader_epoch),
        high_watermark=None if partition.high_watermark < 0 else Offset(partition.high_watermark),
        voters=tuple(map(status, partition.current_voters)),
        observers=tuple(map(status, partition.observers)),
    )


async def _describe(admin: AdminClient) -> "tuple[PartitionData, Mapping[NodeId, Endpoint], str]":
    """Return the quorum, its voters' endpoints, and their listener's name ("" if no endpoint is known)."""
    answer = cast(
        "DescribeQuorumResponse",
        await admin.call(
            ApiKey.DESCRIBE_QUORUM,
            topics=[{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}],
        ),
    )
    check(answer.error_code, answer.error_message or "the quorum can't be described")
    partition = answer.topics[0].partitions[0]
    check(
        partition.error_code,
        partition.error_message
        or f"the quorum can't be described: {partition.error_code.name.upper()}; try again in a moment",
    )
    listeners = {NodeId(node.node_id): listener for node in answer.nodes for listener in node.listeners[:1]}
    endpoints = {node: Endpoint(listener.host, listener.port) for node, listener in listeners.items()}
    return partition, endpoints, next((listener.name for listener in listeners.values()), "")


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


async def controllers_of(admin: AdminClient) -> list[Address]:
    """Return the voters' addresses."""
    _, endpoints, _ = await _describe(admin)
    return [Address(endpoint.host, endpoint.port) for endpoint in endpoints.values()]


async def add_voter(admin: AdminClient, voter: Voter, *, timeout_ms: int) -> None:
    """Add a voter, and return when it votes."""
    _, _, listener = await _describe(admin)
    answer = await admin.change(
        ApiKey.ADD_RAFT_VOTER,
        timeout_s=timeout_ms / 1000,
        cluster_id=None,
        timeout=timedelta(milliseconds=timeout_ms),
        voter_id=voter.key.id,
        voter_directory_id=_directory(voter.key),
        listeners=[{"name": listener, "host": voter.endpoint.host, "port": voter.endpoint.port}],
    )
    _check_changed(cast("AddRaftVoterResponse", answer))


async def remove_voter(admin: AdminClient, key: ReplicaKey, *, timeout_ms: int) -> None:
    """Remove a voter, and return when it no longer votes."""
    answer = await admin.change(
        ApiKey.REMOVE_RAFT_VOTER,
        timeout_s=timeout_ms / 1000,
        cluster_id=None,
        voter_id=key.id,
        voter_directory_id=_directory(key),
    )
    _check_changed(cast("RemoveRaftVoterResponse", answer))


def _directory(key: ReplicaKey) -> uuid.UUID | None:
    return None if key.directory_id is None else parse_uuid(key.directory_id)


def _check_changed(answer: "AddRaftVoterResponse | RemoveRaftVoterResponse") -> None:
    code = answer.error_code
    if code is not ErrorCode.none:
        reason = answer.error_message or "the leader gave no reason"
        raise KafkaError(code, f"{code.name.upper()}: {reason}")


def quorum_as_dict(quorum: QuorumDescription) -> dict[str, object]:
    """Return the quorum for programs. Offsets are exclusive ends; times are ms since the Unix epoch, and
    offsets and times -1 while unknown; the lag is behind the leader's log end, None while unknown."""
    leader_end = leader_end_offset(quorum)

    def replica_as_dict(replica: ReplicaStatus) -> dict[str, object]:
        endpoint, end = replica.endpoint, replica.log_end_offset
        return {
            "id": replica.key.id,
            "directoryId": replica.key.directory_id,
            "endpoint": None if endpoint is None else str(Address(endpoint.host, endpoint.port)),
            "logEndOffset": _or_minus_one(end),
            "lag": None if end is None else leader_end - end,
            "lastFetchTimestamp": _or_minus_one(replica.last_fetch_ms),
            "lastCaughtUpTimestamp": _or_minus_one(replica.last_caught_up_ms),
        }

    return {
        "leaderId": quorum.leader,
        "leaderEpoch": quorum.epoch,
        "highWatermark": _or_minus_one(quorum.high_watermark),
        "voters": [replica_as_dict(replica) for replica in quorum.voters],
        "observers": [replica_as_dict(replica) for replica in quorum.observers],
    }


def _or_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def leader_end_offset(quorum: QuorumDescription) -> int:
    """Return the leader's log end offset, the largest there is; -1 while unknown."""
    replicas = (*quorum.voters, *quorum.observers)
    return max((_or_minus_one(replica.log_end_offset) for replica in replicas), default=-1)
