"""Voters of the metadata quorum: AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853), and
DescribeQuorum (KIP-595, KIP-836).

A change is answered when it is committed, also where version 1 of AddRaftVoter would let us answer as soon as
it is written.
"""

import uuid
from collections.abc import Awaitable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import in_the_name_of, whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code, refuse_with_message
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import ServingNode, answer_later, encoded_in_slices, respond
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode as OwnErrorCode
from quorate.raft import (
    InvalidArgumentError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumDescription,
    ReplicaStatus,
    RequestRefusedError,
)
from quorate.runtime import parse_uuid, uuid_text
from quorate.types import UNKNOWN_EPOCH, Endpoint, Epoch, NodeId, ReplicaKey, Voter

if TYPE_CHECKING:
    from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
    from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest

DEFAULT_TIMEOUT_MS: Final = 30_000
"""The time-out of requests without one."""
_KRAFT_VERSION: Final = 1
"""The kraft.version of a quorum with voters that can change."""
_TIMEOUT_SECONDS: Final = 5.0


class NamedListener(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def check_cluster(node: ServingNode, cluster_id: str | None) -> None:
    """Check the cluster id, which may be missing. Raises `KafkaError`."""
    if cluster_id is not None and cluster_id != node.cluster_id:
        raise KafkaError(
            ErrorCode.inconsistent_cluster_id,
            f"the request is for cluster {cluster_id}, this is {node.cluster_id}",
        )


def voter_key(voter_id: int, directory_id: uuid.UUID | None) -> ReplicaKey:
    """Return the voter's key. Raises `KafkaError` for a key without the directory, which says which disk is
    meant."""
    if voter_id < 0:
        raise KafkaError(ErrorCode.invalid_request, f"the voter's id is {voter_id}; it must be 0 or more")
    if directory_id is None:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"voter {voter_id} is named without its directory id; it is in the node's meta.properties",
        )
    return ReplicaKey(NodeId(voter_id), uuid_text(directory_id))


def default_endpoint(node: ServingNode, listeners: Iterable[NamedListener]) -> Endpoint:
    """Return the endpoint of the listener that the quorum uses. Raises `KafkaError` if it is missing."""
    wanted = node.config.controller_listener_name
    for listener in listeners:
        if listener.name == wanted:
            if not listener.host or not listener.port:
                raise KafkaError(
                    ErrorCode.invalid_request, f"listener {wanted} names no host and port to reach"
                )
            return Endpoint(listener.host, listener.port)
    raise KafkaError(
        ErrorCode.invalid_request,
        f"the endpoint of the default listener {wanted} is missing; the quorum's nodes use no other",
    )


async def wait_changed(node: ServingNode, context: RequestContext, change: Awaitable[None]) -> None:
    """Return when the change that a client asked for is committed. Raises `KafkaError` with the matching
    code."""
    try:
        await _committed(change)
    except KafkaError as error:
        node.tell_change(context, OwnErrorCode(int(error.code)))
        raise
    node.tell_change(context, OwnErrorCode.NONE)


async def _committed(change: Awaitable[None]) -> None:
    try:
        await change
    except InvalidArgumentError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from error
    except RequestRefusedError as error:
        raise KafkaError(wire_code(error.code), str(error)) from error
    except NotLeaderError as error:
        # Nothing happened, so a client may repeat it.
        raise KafkaError(ErrorCode.not_leader_or_follower, str(error)) from error
    except OutcomeUnknownError as error:
        raise KafkaError(
            ErrorCode.request_timed_out,
            f"it is not known whether the voters changed ({error}); describe the quorum before repeating it",
        ) from error


@answer_later
async def handle_add_raft_voter(
    node: ServingNode, context: RequestContext, request: "AddRaftVoterRequest"
) -> Response:
    """Add a voter. Any broker forwards the request to the quorum's leader."""
    check_cluster(node, request.cluster_id)
    voter = Voter(
        voter_key(request.voter_id, request.voter_directory_id),
        default_endpoint(node, request.listeners),
    )
    timeout_ms = max(0, request.timeout // timedelta(milliseconds=1))
    await wait_changed(node, context, node.quorum.add_voter(voter, timeout_ms=timeout_ms))
    return respond(context, answers.AddRaftVoterResponse(error_code=ErrorCode.none))


@answer_later
async def handle_remove_raft_voter(
    node: ServingNode, context: RequestContext, request: "RemoveRaftVoterRequest"
) -> Response:
    """Remove a voter. Any broker forwards the request to the quorum's leader."""
    check_cluster(node, request.cluster_id)
    key = voter_key(request.voter_id, request.voter_directory_id)
    await wait_changed(node, context, node.quorum.remove_voter(key, timeout_ms=DEFAULT_TIMEOUT_MS))
    return respond(context, answers.RemoveRaftVoterResponse(error_code=ErrorCode.none))


@answer_later
async def handle_update_raft_voter(
    node: ServingNode, context: RequestContext, request: "UpdateRaftVoterRequest"
) -> Response:
    """Update a voter. Any broker forwards the request to the quorum's leader. Every answer names the leader,
    if known."""
    try:
        voter = _checked_update(node, request)
        await wait_changed(node, context, node.quorum.update_voter(voter, timeout_ms=DEFAULT_TIMEOUT_MS))
    except KafkaError as error:
        return _updated(node, context, error.code)
    return _updated(node, context, ErrorCode.none)


def _checked_update(node: ServingNode, request: "UpdateRaftVoterRequest") -> Voter:
    check_cluster(node, request.cluster_id)
    asked, epoch = Epoch(request.current_leader_epoch), node.quorum.epoch
    if asked != UNKNOWN_EPOCH and asked != epoch:
        code = ErrorCode.fenced_leader_epoch if asked < epoch else ErrorCode.unknown_leader_epoch
        raise KafkaError(code, f"the request is for epoch {asked}, this is epoch {epoch}")
    voter = Voter(
        voter_key(request.voter_id, request.voter_directory_id),
        default_endpoint(node, request.listeners),
    )
    supported = request.k_raft_version_feature
    if not supported.min_supported_version <= _KRAFT_VERSION <= supported.max_supported_version:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"voter {voter.key.id} speaks kraft.version {supported.min_supported_version} to "
            f"{supported.max_supported_version}, and the quorum {_KRAFT_VERSION}",
        )
    return voter


def _updated(node: ServingNode, context: RequestContext, code: ErrorCode) -> Response:
    leader = node.quorum.leader
    address = None if leader is None else node.quorum.endpoint_of(leader)
    current: answers.CurrentLeader = {
        "leader_id": -1,
        "leader_epoch": node.quorum.epoch,
        "host": "",
        "port": -1,
    }
    if leader is not None and address is not None:
        current = {**current, "leader_id": leader, "host": address.host, "port": address.port}
    return respond(context, answers.UpdateRaftVoterResponse(error_code=code, current_leader=current))


@answer_later
async def handle_describe_quorum(
    node: ServingNode, context: RequestContext, request: "DescribeQuorumRequest"
) -> Response:
    """Describe the quorum. Any broker answers, after asking the leader."""
    description = await node.channel.describe_quorum(timeout_seconds=_TIMEOUT_SECONDS)
    return await encoded_in_slices(
        context,
        answers.DescribeQuorumResponse(
            error_code=ErrorCode.none,
            topics=(
                {
                    "topic_name": topic.topic_name,
                    "partitions": (
                        _partition(description, part.partition_index)
                        if topic.topic_name == CLUSTER_METADATA and part.partition_index == 0
                        else _unknown_partition(part.partition_index)
                        for part in topic.partitions
                    ),
                }
                for topic in request.topics
            ),
            nodes=[
                {
                    "node_id": voter.key.id,
                    "listeners": [
                        {
                            "name": node.config.controller_listener_name,
                            "host": voter.endpoint.host,
                            "port": voter.endpoint.port,
                        }
                    ],
                }
                for voter in description.voters
                if voter.endpoint is not None
            ],
        ),
    )


def _partition(description: QuorumDescription, index: int) -> answers.DescribeQuorumPartitionData:
    high_watermark = description.high_watermark
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "leader_id": description.leader,
        "leader_epoch": description.epoch,
        "high_watermark": -1 if high_watermark is None else high_watermark,
        "current_voters": [_replica(each) for each in description.voters],
        "observers": [_replica(each) for each in description.observers],
    }


def _unknown_partition(index: int) -> answers.DescribeQuorumPartitionData:
    return {
        "partition_index": index,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
    }


def _replica(status: ReplicaStatus) -> answers.DescribeQuorumReplicaState:
    directory = status.key.directory_id
    return {
        "replica_id": status.key.id,
        "replica_directory_id": None if directory is None else parse_uuid(directory),
        "log_end_offset": _or_unknown(status.log_end_offset),
        "last_fetch_timestamp": _or_unknown(status.last_fetch_ms),
        "last_caught_up_timestamp": _or_unknown(status.last_caught_up_ms),
    }


def _or_unknown(value: int | None) -> int:
    return -1 if value is None else value


ROWS: Final = (
    ApiRow["DescribeQuorumRequest"](
        ApiKey.DESCRIBE_QUORUM.api,
        refuse_with_message,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_quorum,
        controllers=handle_describe_quorum,
    ),
    ApiRow["AddRaftVoterRequest"](
        ApiKey.ADD_RAFT_VOTER.api,
        refuse_with_message,
        needs=(whole(AclOperation.ALTER),),
        brokers=handle_add_raft_voter,
        controllers=handle_add_raft_voter,
    ),
    ApiRow["RemoveRaftVoterRequest"](
        ApiKey.REMOVE_RAFT_VOTER.api,
        refuse_with_message,
        needs=(whole(AclOperation.ALTER),),
        brokers=handle_remove_raft_voter,
        controllers=handle_remove_raft_voter,
    ),
    ApiRow["UpdateRaftVoterRequest"](
        ApiKey.UPDATE_RAFT_VOTER.api,
        refuse_by_code,
        needs=(in_the_name_of(lambda request: request.voter_id),),
        brokers=handle_update_raft_voter,
        controllers=handle_update_raft_voter,
    ),
)
